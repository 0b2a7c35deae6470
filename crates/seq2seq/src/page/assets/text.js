"use strict";

// Elements, texts and numbers. Texts of the data become text nodes and nothing else: markup in them stays text.

/** A new element. Attributes that are null or false are left out, and children that are null. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** A text of the data, whose direction does not reach beyond it. */
function isolated(text) {
  return make("bdi", { dir: "auto" }, text);
}

/** A text for readers of the screen alone. */
function spoken(text) {
  return make("span", { class: "spoken" }, text);
}

// Line ends, controls, and marks that turn the direction of what follows.
const INVISIBLE = /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f\ufff9-\ufffb]/gu;

function codePoint(character) {
  return "U+" + character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
}

/** A token that can be seen: of spaces, of a combining mark, of controls. */
function visible(token) {
  if (token === "") return "∅";
  if (/^[\p{Z}\p{Cf}]+$/u.test(token)) {
    return token.replace(/[^ ]/gu, codePoint).replaceAll(" ", "␣");
  }
  const base = /^\p{M}/u.test(token) ? "◌" : "";
  return base + token.replace(INVISIBLE, codePoint).replaceAll(" ", "␣");
}

/** A whole text that can be seen. */
function visibleText(text) {
  return text.replace(INVISIBLE, codePoint);
}

/** Whether a text reads from right to left, by its first letter. */
function isRightToLeft(text) {
  const letter = text.match(/\p{L}/u);
  const scripts = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;
  return letter !== null && scripts.test(letter[0]);
}

/** A number with so many decimals, with a true minus sign. What is not finite came as null. */
function number(value, decimals) {
  if (value === null) return "−∞";
  const text = value.toFixed(decimals);
  return Number(text) === 0 ? (0).toFixed(decimals) : text.replace("-", "−");
}

/** A change, whose sign always shows. */
function change(value, decimals) {
  const text = number(value, decimals);
  return value !== null && Number(value.toFixed(decimals)) > 0 ? "+" + text : text;
}

/** A probability in percent, without the sign. */
function share(probability) {
  if (probability < 0.001) return "<0.1";
  if (probability < 1 && probability > 0.999) return ">99.9";
  return number(100 * probability, 1);
}

/** A probability in percent. */
function percent(probability) {
  return share(probability) + " %";
}

/** The probability of a log-probability. */
function probabilityOf(logProbability) {
  return logProbability === null ? 0 : Math.exp(logProbability);
}

/** A count and its noun. */
function counted(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}
