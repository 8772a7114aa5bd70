// The page: its state, the overview, and the controls for search, sort order, class and colours.

const N_DRIVERS = 8; // bars in the overview
const MAX_PRINTED = 200; // charts

const model = readModel();
model.rates = model.accuracy?.rates;
const state = { output: 0, query: "", sort: "importance", sameScale: false, order: [], row: 0, rowClass: "", values: [], rest: null };

function find(id) {
  return document.getElementById(id);
}

function strength(term) {
  return term.importances[state.output];
}

// Says that a term has no clear effect on the chosen score; empty if it has one.
function findEffect(term) {
  return term.effects[state.output];
}

function writeImportance(term) {
  const errors = term.importanceErrors || (model.outputs.length === 1 ? [term.importanceSpread] : []);
  const error = errors[state.output] ?? null;
  return error === null ? writeNumber(strength(term)) : writeWithError(strength(term), error);
}

function plural(count, noun) {
  return `${writeDigits(count, {})} ${noun}${count === 1 ? "" : "s"}`;
}

function nameScore(output = state.output) {
  if (model.link === "logit") return `log odds of ${model.classes[1]}`;
  if (model.classes) return `score of ${model.outputs[output]}`;
  return model.outputs.length > 1 ? `prediction ${model.outputs[output]}` : "prediction";
}

// The row whose score is the intercept: in a wide model, terms are 0 where a value is absent; otherwise, on average.
function nameStart() {
  return model.wide ? "row without values" : "average row";
}

function fillTexts() {
  const texts = {
    score: nameScore(),
    start: nameStart(),
    interval: model.classes
      ? `Among rows with a similar prediction, the share of this class lies in this interval with ${nameCoverage()} confidence.`
      : `About ${nameCoverage()} of new rows that resemble the training rows and get a similar prediction have their actual value in this interval.`,
    band: explainBand(),
    zero: model.wide ? "the effect of an absent value" : "the average over the training rows",
    certainty: explainCertainty(),
    errors: model.terms.some((term) => term.isTested) ? model.words.intervals : model.words.members,
    else: model.hidden
      ? `${plural(model.hidden, "more term")} ${model.hidden === 1 ? "has" : "have"} no chart on this page.`
      : "There is nothing else.",
  };
  for (const node of document.querySelectorAll("[data-text]")) node.textContent = texts[node.dataset.text];
}

// Charts are drawn when they come near the window, and drawn again after a change.
const charts = new Map();
const watcher = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    const chart = charts.get(target);
    chart.isNear = isIntersecting;
    if (isIntersecting) paint(target, chart);
  }
}, { rootMargin: "400px" });

function addChart(box, draw) {
  charts.set(box, { draw, isNear: false, isStale: true });
  watcher.observe(box);
}

function removeChart(box) {
  watcher.unobserve(box);
  charts.delete(box);
}

function paint(box, chart) {
  if (!chart.isStale) return;
  chart.isStale = false;
  chart.draw(box);
}

function repaintChart(box) {
  const chart = charts.get(box);
  chart.isStale = true;
  if (chart.isNear) paint(box, chart);
}

function repaint() {
  for (const [box, chart] of charts) {
    chart.isStale = true;
    if (chart.isNear) paint(box, chart);
  }
}

// Before printing, the page gets the width of the paper, and all charts outside folds are drawn for it.
function printCharts(isPrinting) {
  document.documentElement.classList.toggle("printing", isPrinting);
  for (const [box, chart] of charts) {
    chart.isStale = true;
    const isPrinted = isPrinting && charts.size <= MAX_PRINTED && !box.closest("details:not([open])");
    if (isPrinted || chart.isNear) paint(box, chart);
  }
}

// A link to a term that is folded away opens the fold.
function openFold() {
  const card = find(location.hash.slice(1)), fold = card && card.closest("details:not([open])");
  if (!fold) return;
  fold.open = true;
  card.scrollIntoView();
}

function fillOverview() {
  const { summary, columns, terms, classes, target, loss, transform } = model;
  const used = new Set(terms.flatMap((term) => term.columns)).size;
  const what = (target || (classes ? "a class" : "a number")) + (classes ? ` (one of ${classes.length} classes)` : "");
  find("title").textContent = model.title;
  const isPart = model.hidden > 0, all = isPart ? model.allColumns : used;
  find("lead").textContent = `This model predicts ${what} from ${plural(all, "column")}. It adds up `
    + `${plural(terms.length + model.hidden, "number")}, one for each term. `
    + `${isPart ? describePart() : "Each number is read from a chart on this page."} ${explainSum()}`;
  find("unit").textContent = explainUnit();
  const versions = Object.entries(summary ? summary.versions : {}).map((pair) => pair.join(" "));
  fillFacts(find("facts"), [
    summary && ["training rows", writeDigits(summary.rows, {})],
    ["columns", isPart || used === columns.length ? writeDigits(all, {}) : `${used} of ${columns.length} used`],
    ["terms", isPart ? writeDigits(terms.length + model.hidden, {}) : countKinds(), isPart && `${countKinds()} shown`],
    loss && [`${loss.name}${transform ? ` of the ${transform}` : ""} on held-out rows`, writeNumber(loss.value),
      compareToConstant(loss.value, loss.constant)],
    summary && ["fitted", summary.date.slice(0, 10)],
  ]);
  find("footer").textContent = summary
    ? `${summary.estimator}, fitted ${summary.date}. ${versions.join(", ")}.`
    : "This model was not fitted by this package: there is no training summary.";
}

function describePart() {
  const count = writeDigits(model.terms.length, {});
  if (!model.rows) return `This page has charts of the ${count} strongest terms.`;
  return `This page has charts of ${count} terms: the strongest, and those that matter in the rows below.`;
}

function explainSum() {
  if (model.transform) return `The sum is the ${model.transform} of the prediction.`;
  if (!model.classes) return "The sum is the prediction.";
  if (model.link === "logit") return `The sum is the log odds of “${model.classes[1]}” and gives its probability.`;
  return "Each class has its own sum, its score. The probabilities follow from the scores.";
}

function explainUnit() {
  if (model.transform in FACTORS) {
    const rise = writeShare(FACTORS[model.transform](0.1) - 1);
    return `Heights are in the ${model.transform} of the target: +0.1 raises the prediction by ${rise}.`;
  }
  if (model.transform) return `Heights are in the ${model.transform} of the target.`;
  if (!model.classes) return "Heights are in the unit of the predicted value.";
  if (model.link === "logit") return "Heights are in log odds: +0.7 doubles the odds, −0.7 halves them.";
  return "Heights are in log odds: a difference of 0.7 between two classes doubles the odds.";
}

function explainCertainty() {
  const { each, whole, unclear } = model.words;
  if (!model.terms.some((term) => term.isTested)) {
    return "The model is the average of several members, each trained on a different part of the data. A wide band or a "
      + "long error bar means that the members disagree.";
  }
  return `A narrow band is certain, a wide band is not. Dark: ${each}. Light: ${whole}. The words “${unclear}” mean that `
    + "the data do not show an effect of this term beside all others. Columns that measure nearly the same thing share "
    + `one effect: each of them alone may have ${unclear}, although together they matter.`;
}

function explainBand() {
  const parts = "The errors of the terms are added as if they were independent. Where columns measure nearly the same thing, "
    + "their errors mostly cancel, and the band is too wide.";
  if (!model.terms.some((term) => term.isTested)) return `± 1 standard deviation: how far the members disagree. ${parts}`;
  return `${model.words.level} band: how far the prediction could move if the model were fitted on other rows. ${parts}`;
}

function countKinds() {
  const kinds = ["single column", "pair", "triple"];
  const counts = kinds.map((_, i) => model.terms.filter((term) => term.axes.length === i + 1).length);
  return kinds.flatMap((kind, i) => (counts[i] ? [plural(counts[i], kind)] : [])).join(", ");
}

// Names above figures, each with an optional note below.
function fillFacts(list, facts) {
  list.replaceChildren(...facts.filter(Boolean).map(([name, value, note]) => {
    const fact = html("div", {}, html("dt", {}, name), html("dd", {}, value));
    if (note) fact.append(html("dd", { class: "soft" }, note));
    return fact;
  }));
}

function fillDrivers() {
  const order = [...model.terms].sort((a, b) => compareTerms(a, b) || a.index - b.index).slice(0, N_DRIVERS);
  const items = order.map((term) => {
    const value = strength(term), note = findEffect(term), look = note ? "faint" : "plain";
    const text = writeImportance(term);
    return { name: term.name, note, link: `#term-${term.index}`, from: 0, to: value, look, value, text };
  });
  fillBars(find("drivers"), items, 0, Math.max(0, ...order.map(strength)));
  const hidden = model.terms.length - order.length;
  const unseen = model.hidden ? ` ${plural(model.hidden, "more term")} not on this page.` : "";
  find("more-drivers").textContent = hidden ? `${plural(hidden, "more term")} below.${unseen}` : "";
}

function chooseOutput(output) {
  state.output = output;
  fillTexts();
  fillDrivers();
  sortTerms();
  repaint();
  if (model.rows) fillRow();
  fillWhatIf(true);
}

function hideEmptySections() {
  const has = {
    accuracy: Boolean(model.accuracy), cells: Boolean(model.accuracy?.cells), files: canScore(), rows: Boolean(model.rows), outputs: model.outputs.length > 1,
    scores: Boolean(model.classes) && model.outputs.length > 1,
    interval: Boolean(model.interval),
    classes: Boolean(model.evidence?.classes.length), pictures: Boolean(model.evidence?.pictures.length),
  };
  for (const node of document.querySelectorAll("[data-needs]")) node.hidden = !has[node.dataset.needs];
}

function listen() {
  const on = (id, event, act) => find(id).addEventListener(event, ({ target }) => act(target));
  find("output").replaceChildren(...model.outputs.map((name, k) => html("option", { value: k }, shorten(name, 60))));
  on("output", "change", (select) => {
    find("row-class").value = state.rowClass = select.value;
    chooseOutput(Number(select.value));
  });
  on("search", "input", (input) => {
    state.query = input.value;
    filterTerms();
    const { top, bottom } = find("terms").getBoundingClientRect();
    if (top > innerHeight / 2 || bottom < innerHeight / 2) find("terms").scrollIntoView();
  });
  on("sort", "change", (select) => { state.sort = select.value; sortTerms(); });
  on("same", "change", (box) => { state.sameScale = box.checked; repaint(); });
  let width = innerWidth; // the address bar of a phone changes only the height
  addEventListener("resize", () => {
    if (innerWidth !== width) repaint();
    width = innerWidth;
  });
  addEventListener("beforeprint", () => printCharts(true));
  addEventListener("afterprint", () => printCharts(false));
  addEventListener("hashchange", openFold);
  listenToTheme();
  listenToRows();
  listenToWhatIf();
  listenToThreshold();
  listenToFiles();
  listenToEvidence();
}

function listenToTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)"), root = document.documentElement, button = find("theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const show = () => {
    button.setAttribute("aria-pressed", isDark());
    repaint(); // maps are painted with the colours of the theme
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    show();
  });
  system.addEventListener("change", show);
  show();
}

document.body.classList.remove("empty"); // first: an error later in the script must hide nothing
hideEmptySections();
fillOverview();
fillTerms();
fillAccuracy();
startFrom(model.rows ? 0 : -1);
openFields(N_FIELDS);
listen();
chooseOutput(0);
