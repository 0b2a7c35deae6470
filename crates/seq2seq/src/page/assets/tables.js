// The tables of an output: attention weights with the occlusion below them, steps, and the difference to a reference.
// Their cells carry `data-step` and `data-key`, the tokens of output and source that they belong to.

/** The weights of an output, `[steps][keys]`, of one head or the mean over all of a layer; null without attention. */
function weightsOf(output, keys, state) {
  if (output.attention === null) return null;
  const { layers, heads, weights } = output.attention;
  const layer = (state.layer === 0 ? layers : Math.min(state.layer, layers)) - 1;
  const chosen = state.head === 0 ? [...Array(heads).keys()] : [Math.min(state.head, heads) - 1];
  const steps = output.steps.length;
  const weight = (head, step, key) => weights[((layer * heads + head) * steps + step) * keys + key];
  const mean = (step, key) => sum(chosen.map((head) => weight(head, step, key))) / chosen.length;
  return output.steps.map((_, step) => Array.from({ length: keys }, (_, key) => mean(step, key)));
}

/** Whether a step is of low confidence. */
function isLow(data, step) {
  return probabilityOf(step.log_probability) < data.low_confidence;
}

/** The cell of a token in the margin of a table. */
function tokenHead(token, attributes) {
  return make("th", attributes, make("span", { class: "label" }, isolated(visible(token))));
}

/**
 * The weights, a row for each output token and a column for each key, and below them the occlusion. The first `tokens`
 * keys are source tokens, one more is the end. Returns the table, its cells `[steps][keys]`, and those of the occlusion
 * `[keys]`.
 */
function matrix(output, keys, tokens, weights) {
  const isTall = keys.slice(0, tokens).some((key) => [...visible(key)].length > 2);
  const heads = keys.map((key, at) =>
    tokenHead(key, { scope: "col", "data-key": at, class: at < tokens || isTall ? null : "end" }));
  const cells = (weights ?? []).map((row, step) => row.map((weight, key) => {
    const cell = make("td", { "data-step": step, "data-key": key, tabindex: -1 }, String(Math.round(100 * weight)));
    cell.style.setProperty("--w", Math.min(Math.max(weight, 0), 1));
    cell.classList.toggle("strong", weight > 0.6);
    return cell;
  }));
  const rows = cells.map((row, step) => make("tr", { "data-step": step },
    tokenHead(output.steps[step].token, { scope: "row", "data-step": step }), ...row));
  const dropped = keys.map((_, key) => make("td", { "data-key": key }));
  const foot = output.occlusion === null ? null : make("tfoot", {}, make("tr", { class: "occlusion" },
    make("th", { scope: "row" }, "dropped"), ...dropped));
  const table = make("table", { class: isTall ? "matrix tall" : "matrix", "data-group": "matrix", dir: "ltr" },
    make("caption", { class: "spoken" },
      weights === null ? "Occlusion of the source tokens, in columns"
        : "Attention weights in percent, output tokens in rows and source tokens in columns; last the occlusion"),
    make("thead", {}, make("tr", {}, make("td", {}), ...heads)),
    make("tbody", {}, ...rows), foot);
  return { table, cells, dropped };
}

/** Shows the change of the output's log-probability where each source token is dropped, or of one step's. */
function showOcclusion(dropped, occlusion, steps, step) {
  if (occlusion === null) return;
  const ofStep = (_, key) => occlusion.steps[key * steps + step];
  const values = step === null ? occlusion.output : occlusion.output.map(ofStep);
  const most = Math.max(0.1, ...values.map((value) => Math.abs(value ?? 0)));
  dropped.forEach((cell, key) => {
    if (key >= values.length) return; // the end of the source is never dropped
    const value = values[key];
    const text = change(value, value !== null && Math.abs(value) < 9.95 ? 1 : 0);
    cell.textContent = text === "0.0" ? "0" : text;
    cell.style.setProperty("--w", value === null ? 1 : Math.abs(value) / most);
    cell.classList.toggle("gain", value !== null && value > 0);
  });
}

/**
 * The steps: probability of each token, entropy, and the most likely tokens, which are buttons where they can be
 * forced. Returns the table, its rows, and the elements of each row that arrow keys lead to.
 */
function stepsTable(data, output, model, force) {
  const most = Math.max(0, ...output.steps.map((step) => step.alternatives.length));
  const rows = output.steps.map((step, at) => {
    const probability = probabilityOf(step.log_probability);
    const bar = make("td", { class: "share" }, percent(probability));
    bar.style.setProperty("--w", probability);
    const low = isLow(data, step);
    return make("tr", { "data-step": at, class: low ? "low" : null },
      make("th", { scope: "row", "data-step": at, tabindex: -1 }, isolated(visible(step.token)),
        low ? spoken(", low confidence") : null),
      bar,
      make("td", { class: "entropy" }, number(step.entropy, 2)),
      ...Array.from({ length: most }, (_, rank) => alternative(output, at, rank, model, force)));
  });
  const heads = [
    make("th", { scope: "col" }, "Token"),
    make("th", { scope: "col" }, "Probability"),
    make("th", { scope: "col", title: "in nats: 0 where one token is certain" }, "Entropy"),
    most === 0 ? null : make("th", { scope: "col", colspan: most }, "Most likely, in %"),
  ];
  const table = make("table", { class: "steps", "data-group": "steps" },
    make("caption", { class: "spoken" }, "Steps of the output, with their alternatives"),
    make("thead", {}, make("tr", {}, ...heads.filter((it) => it !== null))), make("tbody", {}, ...rows));
  const stops = rows.map((row) => [row.firstChild, ...row.querySelectorAll("button")]);
  return { table, rows, stops };
}

/** One of the most likely tokens of a step. */
function alternative(output, at, rank, model, force) {
  const step = output.steps[at];
  if (rank >= step.alternatives.length) return make("td", {});
  const [token, probability] = step.alternatives[rank];
  const content = [isolated(visible(token)), make("small", {}, share(probability))];
  const cell = make("td", { class: token === step.token ? "alternative chosen" : "alternative" });
  if (force === null) {
    cell.append(...content);
    return cell;
  }
  const button = make("button", { type: "button", id: `force-${model}-${at}-${rank}`, "data-step": at, tabindex: -1,
    title: "begin the outputs so" }, ...content);
  button.addEventListener("click", (event) => {
    // It leads away from what would be selected.
    event.stopPropagation();
    force(output, at, token);
  });
  cell.append(button);
  return cell;
}

const LETTERS = { match: "", substitution: "S", insertion: "I", deletion: "D" };

/** The output above its closest reference, as it is aligned with the fewest edits. */
function differenceTable(difference) {
  if (difference.edits === 0) return make("p", { class: "equal" }, "✓ The output equals a reference.");
  const side = (name) => difference.steps.map((step) =>
    make("td", { class: step.edit }, step[name] === undefined ? "·" : isolated(visible(step[name]))));
  const letters = difference.steps.map((step) => make("td", { class: step.edit, title: step.edit },
    LETTERS[step.edit], step.edit === "match" ? null : spoken(" " + step.edit)));
  const row = (name, cells) => make("tr", {}, make("th", { scope: "row" }, name), ...cells);
  return make("div", { class: "scroll" }, make("table", { class: "difference", dir: "ltr" },
    make("caption", {}, `${counted(difference.edits, "edit")} from the closest reference`),
    make("tbody", {}, row("output", side("output")), row("reference", side("reference")), row("edit", letters))));
}
