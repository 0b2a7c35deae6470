// The list of sources: sorted, filtered, each a button.

/** What the list needs to know of an item, for each model. */
function resultsOf(data, item) {
  return item.explanations.map((explanation) => {
    const output = explanation.outputs[explanation.greedy];
    return {
      text: output.text,
      edits: output.difference?.edits ?? null,
      probability: probabilityOf(output.log_probability),
      isLow: output.steps.some((step) => probabilityOf(step.log_probability) < data.low_confidence),
    };
  });
}

const isReport = (data) => data.evaluated !== null;
const sum = (values) => values.reduce((all, value) => all + value, 0);
const editsOf = (results) => sum(results.map((result) => result.edits ?? 0));
const leastProbability = (results) => Math.min(...results.map((result) => result.probability));
const byDoubt = (a, b) => leastProbability(a) - leastProbability(b);

/** The orders of the list, by their names in the address. */
const SORTS = {
  "": { label: "as listed", isFor: () => true, compare: null },
  error: { label: "most edits", isFor: isReport, compare: (a, b) => editsOf(b) - editsOf(a) },
  right: { label: "fewest edits", isFor: isReport, compare: (a, b) => editsOf(a) - editsOf(b) },
  doubt: { label: "least confident", isFor: () => true, compare: byDoubt },
  confidence: { label: "most confident", isFor: () => true, compare: (a, b) => byDoubt(b, a) },
};

/** The filters of the list, by their names in the address. */
const FILTERS = {
  "": { label: "all", isFor: () => true, keeps: () => true },
  wrong: { label: "wrong", isFor: isReport, keeps: (results) => editsOf(results) > 0 },
  right: { label: "right", isFor: isReport, keeps: (results) => editsOf(results) === 0 },
  low: { label: "low confidence", isFor: () => true, keeps: (results) => results.some((result) => result.isLow) },
  differ: {
    label: "outputs differ",
    isFor: (data) => data.models.length > 1,
    keeps: (results) => new Set(results.map((result) => result.text)).size > 1,
  },
};

/** The indices of the items that the list shows, in its order. */
function listedItems(data, results, state) {
  const keeps = (FILTERS[state.only] ?? FILTERS[""]).keeps;
  const query = state.query.normalize("NFC").toLowerCase();
  const has = (text) => text.normalize("NFC").toLowerCase().includes(query);
  const indices = [...data.items.keys()].filter((at) => {
    const item = data.items[at];
    const texts = [item.explanations[0].source, ...item.references, ...results[at].map((result) => result.text)];
    return keeps(results[at]) && (query === "" || texts.some(has));
  });
  const compare = SORTS[state.sort]?.compare ?? null;
  return compare === null ? indices : indices.sort((a, b) => compare(results[a], results[b]) || a - b);
}

/**
 * The list. `choose(item)` is called for the item that is clicked; `changed()` after the state has another order or
 * filter. Returns its elements, and `update()`, which shows the state.
 */
function list(data, state, choose, changed) {
  const results = data.items.map((item) => resultsOf(data, item));
  const buttons = data.items.map((item, at) => itemButton(data, item, results[at], at));
  const rows = make("div", { class: "items" });
  const count = make("p", { class: "note", "aria-live": "polite" });
  const query = make("input", { type: "search", id: "query", placeholder: "Filter", "aria-label": "Filter by text" });
  const sort = picker("Order", SORTS, data);
  const only = picker("Show", FILTERS, data);
  const update = () => {
    const shown = listedItems(data, results, state);
    rows.replaceChildren(...shown.map((at) => buttons[at]));
    buttons.forEach((button, at) => {
      if (at === state.item) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    });
    count.textContent = shown.length === data.items.length
      ? counted(shown.length, "source") : `${shown.length} of ${counted(data.items.length, "source")}`;
    query.value = state.query;
    sort.value = state.sort in SORTS ? state.sort : "";
    only.value = state.only in FILTERS ? state.only : "";
  };
  query.addEventListener("input", () => { state.query = query.value; changed(); });
  sort.addEventListener("change", () => { state.sort = sort.value; changed(); });
  only.addEventListener("change", () => { state.only = only.value; changed(); });
  rows.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-item]");
    if (button !== null) choose(Number(button.dataset.item));
  });
  rows.addEventListener("keydown", (event) => {
    const next = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    const button = next === undefined ? null : document.activeElement[next];
    if (!button) return;
    event.preventDefault();
    button.focus();
    choose(Number(button.dataset.item));
  });
  const controls = make("div", { class: "controls" }, query, labelled("Order", sort), labelled("Show", only));
  return { elements: [controls, count, rows], update };
}

function labelled(text, element) {
  return make("label", {}, make("span", {}, text), element);
}

/** A choice among those that make sense for the data. */
function picker(label, choices, data) {
  const possible = Object.entries(choices).filter(([, choice]) => choice.isFor(data));
  return make("select", { "aria-label": label }, ...possible.map(([value, choice]) =>
    make("option", { value }, choice.label)));
}

function itemButton(data, item, results, at) {
  const outputs = results.map((result) => make("span", { class: "row" },
    make("span", { class: "text" }, isolated(visibleText(result.text) || "∅")),
    result.edits === null ? null : editsBadge(result.edits),
    make("span", { class: "share", title: "probability of the output" }, percent(result.probability))));
  return make("button", { type: "button", "data-item": at },
    make("span", { class: "source" }, isolated(visibleText(item.explanations[0].source))), ...outputs);
}

/** The number of edits; a tick for none. */
function editsBadge(edits) {
  const isRight = edits === 0;
  const attributes = { class: isRight ? "edits right" : "edits wrong", title: counted(edits, "edit") };
  return make("span", attributes, isRight ? "✓" : String(edits), spoken(isRight ? " right" : " edits"));
}
