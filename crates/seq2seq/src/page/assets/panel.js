// A model's panel: its outputs, the tokens of source and output, and their tables, which share one selection.

const OCCLUSION = "The row “dropped” is the change of the log-probability of the output, or of its selected token, "
  + "where a source token is left out and the same output is decoded: it tells what the output depends on, attention "
  + "weights only where the model reads.";

const FORCING = "Click one of the most likely tokens, or press Enter on it: outputs then begin with the tokens before "
  + "it and with it.";

/** The source tokens, and the end where the model attends to it. */
function keysOf(explanation) {
  return explanation.attends_to_end ? [...explanation.tokens, "<eos>"] : explanation.tokens;
}

/** The index of the output that is shown of a model. */
function shownOutput(explanation, state, model) {
  const chosen = state.outputs[model] ?? explanation.greedy;
  return chosen < explanation.outputs.length ? chosen : explanation.greedy;
}

/** A row of tokens, each a button. `name` is `step` or `key`. */
function tokenRow(label, tokens, name, classes) {
  const isTurned = isRightToLeft(tokens.join(""));
  const buttons = tokens.map((token, at) => make("button", {
    type: "button", class: ["token", ...classes(at)].join(" "), tabindex: -1, ["data-" + name]: at,
  }, isolated(visible(token))));
  const group = name === "key" ? "source" : "output";
  const row = make("div", { class: "tokens", role: "group", "aria-label": label, "data-group": group,
    dir: isTurned ? "rtl" : "ltr" }, ...buttons);
  return { row, buttons, isTurned };
}

/** The outputs to choose from. `choose(output)` is called with the index of one. */
function outputPicker(explanation, model, shown, choose) {
  const options = explanation.outputs.map((output, at) => {
    const radio = make("input", { type: "radio", name: `output-${model}`, id: `output-${model}-${at}`, value: at,
      checked: at === shown });
    radio.addEventListener("change", () => choose(at));
    const notes = [at === explanation.greedy ? "greedy" : null, output.ended ? null : "cut off",
      output.difference?.edits === 0 ? "right" : null].filter((note) => note !== null);
    return make("label", {}, radio,
      make("span", { class: "text" }, isolated(visibleText(output.text) || "∅"),
        ...notes.map((note) => make("small", { class: "tag " + note.replace(" ", "-") }, note))),
      make("span", { class: "share" }, percent(probabilityOf(output.log_probability))),
      make("span", { class: "log" }, number(output.log_probability, 3)));
  });
  return make("fieldset", { class: "outputs" },
    make("legend", { class: "spoken" }, "Outputs, with their probability and its logarithm"),
    make("div", { class: "names", "aria-hidden": "true" },
      make("span", {}, "outputs"), make("span", {}, "probability"), make("span", {}, "log")), ...options);
}

/** The panel of a model. `choose(output)` is called for another output, `force` as `render` says. */
function panel(data, item, model, state, choose, force) {
  const explanation = item.explanations[model];
  const shown = shownOutput(explanation, state, model);
  const output = explanation.outputs[shown];
  const keys = keysOf(explanation);
  const weights = weightsOf(output, keys.length, state);
  const children = [data.models.length > 1 ? make("h3", {}, isolated(data.models[model].name)) : null,
    outputPicker(explanation, model, shown, choose)];
  const element = make("section", { class: "panel", "data-panel": model, "aria-label": data.models[model].name });
  const readout = make("p", { class: "readout", "aria-live": "polite" });
  if (keys.length === 0) {
    children.push(make("p", { class: "note" }, "Nothing is left of the source: the model knows none of its tokens."));
    if (output.difference !== null) children.push(differenceTable(output.difference));
    element.append(...children.filter((child) => child !== null));
    return { element, paint: () => {}, rove: () => {}, neighbour: () => null };
  }
  const source = tokenRow("Source tokens", keys, "key", (at) => at < explanation.tokens.length
    ? (explanation.is_known[at] ? [] : ["unknown"]) : ["end"]);
  const target = tokenRow("Output tokens", output.steps.map((step) => step.token), "step", (at) => [
    ...(isLow(data, output.steps[at]) ? ["low"] : []),
    ...(output.ended && at === output.steps.length - 1 ? ["end"] : [])]);
  const { table, cells, dropped } = matrix(output, keys, explanation.tokens.length, weights);
  const steps = stepsTable(data, output, model, force);
  const hasMatrix = weights !== null || output.occlusion !== null;
  children.push(
    make("div", { class: "pair" }, make("span", { class: "side" }, "source"), source.row,
      make("span", { class: "side" }, "output"), target.row),
    readout,
    output.difference === null ? null : differenceTable(output.difference),
    make("div", { class: "tables" }, hasMatrix ? make("div", { class: "scroll" }, table) : null,
      make("div", { class: "scroll" }, steps.table)),
    force === null ? null : make("p", { class: "note" }, FORCING),
    weights === null ? make("p", { class: "note" }, "An ensemble has no attention of its own.") : null,
    output.occlusion === null ? null : make("p", { class: "note" }, OCCLUSION));
  element.append(...children.filter((child) => child !== null));
  const view = { data, output, keys, weights, source, target, table, cells, dropped, steps, readout, roving: [] };
  return {
    element,
    paint: (step, key) => paint(view, inRange(step, output.steps.length), inRange(key, keys.length)),
    rove: (step, key) => {
      const selection = [inRange(step, output.steps.length), inRange(key, keys.length)];
      rove(view, ...selection);
      reveal(view, ...selection);
    },
    neighbour: (from, direction) => neighbour(view, from, direction),
  };
}

function inRange(at, count) {
  return at !== null && at < count ? at : null;
}

/** Shows a selection: a token of the output, a token of the source, both or none. */
function paint(view, step, key) {
  const { output, weights, source, target, table, cells, dropped, steps, readout } = view;
  shade(source.buttons, key, (at) => (step === null || weights === null ? 0 : weights[step][at]));
  shade(target.buttons, step, (at) => (key === null || weights === null ? 0 : weights[at][key]));
  for (const element of table.querySelectorAll(".on")) element.classList.remove("on", "at");
  const at = (name, value) => (value === null ? [] : table.querySelectorAll(`[data-${name}="${value}"]`));
  for (const element of [...at("step", step), ...at("key", key)]) element.classList.add("on");
  if (step !== null && key !== null) cells[step]?.[key].classList.add("at");
  steps.rows.forEach((row, index) => row.classList.toggle("on", index === step));
  showOcclusion(dropped, output.occlusion, output.steps.length, step);
  readout.textContent = described(view, step, key);
}

/** Shades tokens by weight, and marks the one that is selected. */
function shade(buttons, selected, weight) {
  buttons.forEach((button, at) => {
    button.style.setProperty("--w", Math.min(Math.max(weight(at), 0), 1));
    button.classList.toggle("on", at === selected);
    button.setAttribute("aria-pressed", String(at === selected));
  });
}

/** The Tab key goes to one element of each group: the selected one, or the first. */
function rove({ source, target, cells, steps, roving }, step, key) {
  for (const element of roving.splice(0)) element.tabIndex = -1;
  const groups = [source.buttons[key ?? 0], target.buttons[step ?? 0], cells[step ?? 0]?.[key ?? 0],
    steps.rows[step ?? 0]?.firstChild];
  roving.push(...groups.filter((element) => element !== undefined));
  for (const element of roving) element.tabIndex = 0;
}

/** Scrolls the matrix to what is selected: the column of the source token, or of the one with the largest weight. */
function reveal({ table, weights }, step, key) {
  const column = key ?? (step === null || weights === null ? null : peak(weights[step]));
  const box = table.parentElement;
  if (column === null || box === null) return;
  const { offsetLeft: left, offsetWidth: width } = table.tHead.rows[0].cells[column + 1];
  const margin = table.tHead.rows[0].cells[0].offsetWidth;
  if (left < box.scrollLeft + margin) box.scrollLeft = left - margin;
  else if (left + width > box.scrollLeft + box.clientWidth) box.scrollLeft = left + 2 * width - box.clientWidth;
}

/** The place of the largest of some weights. */
function peak(weights) {
  return weights.indexOf(Math.max(...weights));
}

/** The largest of some weights, at most four that matter, with their tokens. */
function largest(tokens, weights) {
  const order = [...weights.keys()].sort((a, b) => weights[b] - weights[a] || a - b);
  const shown = order.slice(0, 4).filter((at, rank) => rank === 0 || weights[at] >= 0.05);
  return shown.map((at) => `“${visible(tokens[at])}” ${Math.round(100 * weights[at])} %`).join(", ");
}

/** A selection in words. */
function described({ output, keys, weights, data }, step, key) {
  const token = (at) => `“${visible(output.steps[at].token)}”`;
  if (step !== null && key !== null && weights !== null) {
    return `${token(step)} attends to “${visible(keys[key])}” with a weight of ${number(weights[step][key], 3)}.`;
  }
  if (step !== null) {
    const { log_probability: logProbability, entropy } = output.steps[step];
    const low = isLow(data, output.steps[step]) ? ", low confidence" : "";
    const reads = weights === null ? "" : ` It attends to ${largest(keys, weights[step])}.`;
    return `${token(step)}: ${percent(probabilityOf(logProbability))}${low}, entropy ${number(entropy, 2)}.${reads}`;
  }
  if (key !== null) {
    const column = weights === null ? [] : weights.map((row) => row[key]);
    const tokens = output.steps.map((it) => it.token);
    const readers = column.length === 0 ? "" : ` Attended to by ${largest(tokens, column)}.`;
    return `Source “${visible(keys[key])}”.${readers}`;
  }
  return "Point at a token, or select one: Tab, then the arrow keys; Esc clears.";
}

/** The element that an arrow key leads to from another of the panel; null if there is none. */
function neighbour({ source, target, cells, steps, weights }, from, direction) {
  const group = from.closest("[data-group]")?.dataset.group;
  const [step, key] = [from.dataset.step, from.dataset.key].map((it) => (it === undefined ? null : Number(it)));
  const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], Home: [-1e9, 0],
    End: [1e9, 0] }[direction];
  const stop = (stops, at) => stops[clamp(at, stops.length)];
  const along = ({ buttons, isTurned }, at) => {
    const by = isTurned && Math.abs(dx) === 1 ? -dx : dx;
    return buttons[clamp(at + by, buttons.length)];
  };
  switch (group) {
    case "source":
      if (dy > 0) return target.buttons[weights === null ? 0 : peak(weights.map((row) => row[key]))] ?? null;
      return dy < 0 ? null : along(source, key);
    case "output":
      if (dy < 0) return source.buttons[weights === null ? 0 : peak(weights[step])] ?? null;
      return dy > 0 ? null : along(target, step);
    case "matrix":
      return cells[clamp(step + dy, cells.length)]?.[clamp(key + dx, cells[0].length)] ?? null;
    case "steps":
      return stop(steps.stops[clamp(step + dy, steps.stops.length)], steps.stops[step].indexOf(from) + dx);
    default:
      return null;
  }
}

function clamp(at, count) {
  return Math.min(Math.max(at, 0), count - 1);
}
