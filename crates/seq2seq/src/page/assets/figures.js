// The head of the page: its title, its models and their figures.

function head(data) {
  const models = data.models.map((model) =>
    make("li", {}, isolated(model.name), " ", make("small", {}, model.description)));
  const children = [make("h1", {}, visibleText(data.title)), make("ul", { class: "models" }, ...models)];
  if (data.models.some((model) => model.figures.length > 0)) children.push(figures(data));
  if (data.evaluated !== null) children.push(make("p", { class: "note" }, listed(data)));
  return children;
}

/** Which sources are listed, of all. */
function listed(data) {
  const all = counted(data.evaluated, "source");
  if (data.items.length === data.evaluated) return `All ${all} are listed, those with the worst outputs first.`;
  const both = data.models.length > 1 ? ", of both models together" : "";
  return `Of ${all} the ${data.items.length.toLocaleString("en")} with the worst outputs are listed: `
    + `the most edits${both}, then the least probable. The figures are of all.`;
}

/** The figures of each model, side by side. */
function figures(data) {
  const names = [...new Set(data.models.flatMap((model) => model.figures.map((figure) => figure.name)))];
  const rows = names.map((name) => make("tr", {},
    make("th", { scope: "row" }, name),
    ...data.models.flatMap((model) => figureCells(model.figures.find((figure) => figure.name === name)))));
  const heads = data.models.map((model) => make("th", { scope: "col", colspan: 2 }, isolated(model.name)));
  return make("div", { class: "scroll" }, make("table", { class: "figures" },
    make("caption", { class: "spoken" }, "Figures, with confidence intervals of 95 %"),
    data.models.length > 1 ? make("thead", {}, make("tr", {}, make("td", {}), ...heads)) : null,
    make("tbody", {}, ...rows)));
}

function figureCells(figure) {
  if (figure === undefined) return [make("td", {}, "–"), make("td", {})];
  const decimals = Number.isInteger(figure.value) && figure.unit === "" ? 0 : 2;
  const unit = figure.unit === "" ? "" : " " + figure.unit;
  const interval = figure.interval === null ? "" : figure.interval.map((bound) => number(bound, 2)).join(" to ");
  return [
    make("td", {}, number(figure.value, decimals) + unit),
    make("td", { class: "interval" }, interval),
  ];
}
