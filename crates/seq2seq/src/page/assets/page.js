// The page: the state, what changes it, and what shows it.

/** Stops the listeners of the data before. */
let listening = new AbortController();

/**
 * Shows data, in the place of what was shown before: an object in the form of the one in this page. A live page calls
 * it again for each answer, with `force(output, step, token)`, which is called for an alternative that is chosen;
 * without it alternatives are no buttons.
 */
function render(data, force = null) {
  listening.abort();
  listening = new AbortController();
  const { signal } = listening;
  const [headElement, listElement, itemElement] = ["top", "list", "item"].map((id) => document.getElementById(id));
  let state = readState(data, location.hash);
  let panels = [];
  let hovered = null;
  let pointer = "";

  const paintAll = () => {
    const { panel: selected, step, key } = hovered ?? state;
    panels.forEach((view, model) => {
      // A source token is selected in both, if they read the same.
      const keys = [selected, model].map((it) => keysOf(data.items[state.item].explanations[it] ?? { tokens: [] }));
      const isShared = key !== null && keys[0][key] === keys[1][key];
      view.paint(model === selected ? step : null, model === selected || isShared ? key : null);
    });
  };
  const roveAll = () => panels.forEach((view, model) => {
    const isSelected = model === state.panel;
    view.rove(isSelected ? state.step : null, isSelected ? state.key : null);
  });
  const select = (selection) => {
    Object.assign(state, selection);
    hovered = null;
    writeState(data, state);
    paintAll();
    roveAll();
  };
  const showItem = () => {
    const focused = document.activeElement?.id ?? "";
    const item = data.items[state.item];
    const choose = (model) => (output) => {
      state.outputs[model] = output;
      Object.assign(state, { step: null, key: null });
      writeState(data, state);
      showItem();
    };
    panels = data.models.map((_, model) => panel(data, item, model, state, choose(model), force));
    itemElement.replaceChildren(...itemHead(item), headPickers(item),
      make("div", { class: "panels" }, ...panels.map((view) => view.element)));
    paintAll();
    roveAll();
    if (focused !== "") document.getElementById(focused)?.focus();
  };
  const headPickers = (item) => {
    const all = item.explanations.flatMap((explanation) => explanation.outputs)
      .map((output) => output.attention).filter((attention) => attention !== null);
    const layers = Math.max(1, ...all.map((attention) => attention.layers));
    const heads = Math.max(1, ...all.map((attention) => attention.heads));
    // `unset` is what a state of 0 stands for.
    const choice = (id, label, count, first, unset) => {
      const options = [...first, ...Array.from({ length: count }, (_, at) => [String(at + 1), at + 1])];
      const element = make("select", { id }, ...options.map(([text, value]) => make("option", { value }, text)));
      element.value = String(Math.min(state[id] === 0 ? unset : state[id], count));
      element.addEventListener("change", () => {
        state[id] = Number(element.value);
        writeState(data, state);
        showItem();
      });
      return make("label", {}, make("span", {}, label), element);
    };
    return layers * heads === 1 ? make("div", {}) : make("div", { class: "controls" },
      layers === 1 ? null : choice("layer", "Layer", layers, [], layers),
      heads === 1 ? null : choice("head", "Head", heads, [["mean", 0]], 0));
  };
  const choose = (item) => {
    if (item === state.item) return;
    const others = { outputs: data.models.map(() => null), panel: 0, step: null, key: null };
    Object.assign(state, others, { item });
    writeState(data, state);
    listView.update();
    showItem();
  };
  const changed = () => {
    writeState(data, state);
    listView.update();
  };
  let listView = null;
  const showAll = () => {
    listView = list(data, state, choose, changed);
    listElement.replaceChildren(...listView.elements);
    listElement.hidden = data.items.length < 2;
    listView.update();
    if (data.items.length > 0) showItem();
    else itemElement.replaceChildren(make("p", { class: "note" }, force === null ? "There is no source to show."
      : "Type a text: its outputs are shown here, and what they attend to."));
  };

  const on = (element, name, listener) => element.addEventListener(name, listener, { signal });
  on(itemElement, "pointerover", (event) => {
    // What scrolls under a pointer at rest is not pointed at.
    const place = `${event.screenX} ${event.screenY}`;
    if (place === pointer) return;
    pointer = place;
    hovered = selectionOf(event.target);
    paintAll();
  });
  on(itemElement, "pointerleave", () => {
    hovered = null;
    paintAll();
  });
  on(itemElement, "focusin", (event) => {
    const selection = selectionOf(event.target);
    if (selection !== null) select(selection);
  });
  on(itemElement, "click", (event) => {
    const selection = selectionOf(event.target);
    if (selection !== null) select(selection);
  });
  on(itemElement, "keydown", (event) => {
    if (event.key === "Escape") {
      select({ step: null, key: null });
      return;
    }
    const isMove = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key);
    const from = selectionOf(event.target);
    if (!isMove || from === null || event.ctrlKey || event.altKey || event.metaKey) return;
    const next = panels[from.panel].neighbour(event.target.closest("[data-step], [data-key]"), event.key);
    event.preventDefault();
    next?.focus();
  });
  on(window, "hashchange", () => {
    state = readState(data, location.hash);
    showAll();
  });

  document.title = data.title;
  headElement.replaceChildren(...head(data));
  showAll();
}

/** The source with its references. */
function itemHead(item) {
  const source = item.explanations[0].source;
  const references = item.references.flatMap((reference) => [" ", isolated(visibleText(reference) || "∅")]);
  const label = item.references.length === 1 ? "reference" : "references";
  return [
    make("h2", {}, isolated(visibleText(source))),
    item.references.length === 0 ? make("div", {})
      : make("p", { class: "references" }, make("span", { class: "side" }, label), ...references),
  ];
}

/** The selection that an element stands for; null if it stands for none. */
function selectionOf(element) {
  const marked = element.closest("[data-step], [data-key]");
  const owner = element.closest("[data-panel]");
  if (marked === null || owner === null) return null;
  const [step, key] = [marked.dataset.step, marked.dataset.key].map((it) => (it === undefined ? null : Number(it)));
  return { panel: Number(owner.dataset.panel), step, key };
}
