// The live page: a source is typed, the server explains its outputs, and tokens of them are forced. Source and forced
// beginning are kept in the address, before what the page itself keeps there.

/** The pause after which what is typed is asked for, in milliseconds. */
const PAUSE = 250;

/** What an address asks for: a source, and the tokens with which outputs begin. */
function readAsked(hash) {
  const values = new URLSearchParams(hash.replace(/^#/, ""));
  return { source: values.get("source") ?? "", prefix: values.getAll("prefix") };
}

/** The part of an address that asks for it. */
function addressOf({ source, prefix }) {
  const values = new URLSearchParams();
  if (source !== "") values.set("source", source);
  for (const token of prefix) values.append("prefix", token);
  return values.toString();
}

/** The answer of the server; an error whose message is a line to show. */
async function explained(asked, signal) {
  const body = JSON.stringify(asked);
  const headers = { "Content-Type": "application/json" };
  let response;
  try {
    response = await fetch("v1/explain", { method: "POST", headers, body, signal });
  } catch {
    throw new Error("The server cannot be reached.");
  }
  const answer = await response.json().catch(() => ({}));
  if (response.ok && Array.isArray(answer.items)) return answer;
  throw new Error(typeof answer.error === "string" ? answer.error : `The server answers with ${response.status}.`);
}

/** Starts the page. `empty` is its data as long as nothing is asked for. */
function live(empty) {
  const [form, box, forced, prefixRow, undo, clear, statusLine, item] =
    ["ask", "source", "forced", "prefix", "undo", "clear", "status", "item"].map((id) => document.getElementById(id));
  let asked = readAsked("");
  // The data that is shown, and what was asked for it.
  let shown = empty;
  let answered = asked;
  // The address with which it was asked for.
  let address = "";
  // The prefixes before each choice that was made here.
  let before = [];
  let pause = 0;
  let request = new AbortController();

  /** The URL with this hash, and with the layer and the head that are chosen now. */
  const withHead = (hash) => {
    const values = new URLSearchParams(hash);
    const now = new URLSearchParams(location.hash.slice(1));
    for (const name of ["layer", "head"]) {
      if (now.has(name)) values.set(name, now.get(name));
      else values.delete(name);
    }
    return urlOf(values.toString());
  };

  const show = (data) => {
    // A selection that was made while this was under way is of what was shown before.
    if (addressOf(answered) !== addressOf(asked)) history.replaceState(null, "", withHead(address));
    shown = data;
    answered = asked;
    shown.address = addressOf(asked);
    item.classList.remove("stale");
    render(data, force);
  };

  /** Asks the server. What was asked before is not answered any more. */
  const ask = async (next) => {
    clearTimeout(pause);
    request.abort();
    request = new AbortController();
    const { signal } = request;
    asked = next;
    // What was typed within the pause gives way to a choice.
    if (box.value !== asked.source) box.value = asked.source;
    shown.address = addressOf(asked);
    const tokens = asked.prefix.map((token) => make("span", { class: "token" }, isolated(visible(token))));
    prefixRow.replaceChildren(...tokens);
    if (asked.prefix.length === 0 && forced.contains(document.activeElement)) box.focus();
    forced.hidden = asked.prefix.length === 0;
    item.removeAttribute("aria-busy");
    if (asked.source.trim() === "") {
      statusLine.replaceChildren();
      show(empty);
      return;
    }
    item.setAttribute("aria-busy", "true");
    try {
      const data = await explained(asked, signal);
      if (signal.aborted) return;
      show(data);
      const { outputs, greedy } = data.items[0].explanations[0];
      statusLine.replaceChildren(spoken(`Output: ${visibleText(outputs[greedy].text) || "∅"}`));
    } catch (error) {
      if (signal.aborted) return;
      item.classList.add("stale");
      statusLine.replaceChildren(visibleText(error.message));
    }
    item.removeAttribute("aria-busy");
  };

  /** Asks for something else than the address says. A choice is an entry in the history, what is typed is none. */
  const turnTo = (next, isChoice) => {
    address = addressOf(next);
    if (isChoice) history.pushState(null, "", withHead(address));
    else history.replaceState(null, "", withHead(address));
    ask(next);
  };

  /** Forces a token at a step of an output that is shown: all before it stays. */
  const force = (output, at, token) => {
    const { source, prefix } = answered;
    before.push(prefix);
    turnTo({ source, prefix: [...output.steps.slice(0, at).map((step) => step.token), token] }, true);
  };

  const typed = () => {
    if (box.value === asked.source) return;
    before = [];
    turnTo({ source: box.value, prefix: [] }, false);
  };
  const typing = (event) => {
    clearTimeout(pause);
    // What is composed is no text yet.
    if (!event.isComposing) pause = setTimeout(typed, PAUSE);
  };
  box.addEventListener("input", typing);
  box.addEventListener("compositionend", typing);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (box.value === asked.source) ask(asked);
    else typed();
  });
  undo.addEventListener("click", () => {
    turnTo({ source: asked.source, prefix: before.pop() ?? asked.prefix.slice(0, -1) }, true);
  });
  clear.addEventListener("click", () => {
    before = [];
    turnTo({ source: asked.source, prefix: [] }, true);
  });
  const follow = () => {
    const next = readAsked(location.hash);
    address = location.hash.slice(1);
    if (addressOf(next) === addressOf(asked)) return;
    before = [];
    ask(next);
  };
  window.addEventListener("hashchange", follow);

  show(empty);
  follow();
  if (asked.source === "") box.focus();
}

live(JSON.parse(document.getElementById("data").textContent));
