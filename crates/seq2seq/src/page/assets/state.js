// What is chosen and selected, and the address that keeps it: everything after `#`.

/**
 * The state of the page:
 * - item: the index of the source
 * - outputs: the index of the output of each model; null for that of greedy search
 * - layer, head: numbers from 1; 0 for the last layer, and for the mean over heads
 * - panel, step, key: the selection: a model, a token of its output, a source token; a token may be null
 * - sort, query, only: the order of the list, and what it is filtered by
 */
function firstState(data) {
  return {
    item: 0,
    outputs: data.models.map(() => null),
    layer: data.head.layer ?? 0,
    head: data.head.head ?? 0,
    panel: 0,
    step: null,
    key: null,
    sort: "",
    query: "",
    only: "",
  };
}

/** The index that a text names; null if it names none. */
function index(text) {
  return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : null;
}

/** The state of an address. Whatever is not in it, or makes no sense, is as at first. */
function readState(data, hash) {
  const state = firstState(data);
  const values = new URLSearchParams(hash.replace(/^#/, ""));
  const item = index(values.get("item"));
  if (item !== null && item >= 1 && item <= data.items.length) state.item = item - 1;
  (values.get("output") ?? "").split(",").forEach((text, model) => {
    const output = index(text);
    if (model < state.outputs.length && output !== null) state.outputs[model] = output;
  });
  for (const name of ["layer", "head", "panel", "step", "key"]) {
    state[name] = index(values.get(name)) ?? state[name];
  }
  for (const name of ["sort", "query", "only"]) state[name] = values.get(name) ?? "";
  return state;
}

/** The address of a state: what differs from the first, after what a live page keeps there, `data.address`. */
function hashOf(data, state) {
  const first = firstState(data);
  const values = new URLSearchParams(data.address ?? "");
  if (state.item !== 0) values.set("item", state.item + 1);
  if (state.outputs.some((output) => output !== null)) {
    values.set("output", state.outputs.map((output) => output ?? "").join(","));
  }
  for (const name of ["layer", "head", "panel", "step", "key", "sort", "query", "only"]) {
    if (state[name] !== first[name] && state[name] !== null) values.set(name, state[name]);
  }
  return values.toString();
}

/** The URL of this page with this hash; without `#` if it is empty. */
function urlOf(hash) {
  return hash === "" ? location.pathname + location.search : "#" + hash;
}

/** Keeps a state in the address, without another entry in the history. */
function writeState(data, state) {
  history.replaceState(null, "", urlOf(hashOf(data, state)));
}
