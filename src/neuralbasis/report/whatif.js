// Rows: how single rows get their predictions, and the what-if panel that edits their values.

const N_BARS = 12; // contributions with their own bar; the others share one
const N_FIELDS = 30; // inputs shown before the user requests the others

const FACTORS = { log: Math.exp, log2: (change) => 2 ** change, log10: (change) => 10 ** change };

const fields = new Map(); // column -> function that shows its value
let places = null; // [terms with their own bar, other terms]

function predictRow({ values, rest }) {
  const contributions = contribute(model, values), scores = sumScores(model, contributions, rest);
  // The probability and its band are those of the second of two classes, whose log odds the terms add up to.
  const winner = findWinner(model, scores), shown = model.link === "logit" ? 1 : winner;
  const output = model.classes ? shown : state.output;
  const band = findBand(model, scores, measureBands(model, values), output);
  return { contributions, scores, probabilities: findProbabilities(model, scores), winner, shown, band, values };
}

// The strongest contributions and the sum of the others: [name, values, contribution, link].
function listContributions([shown, others], contributions, { values, rest, unseen = {} }, output = state.output) {
  const size = (term) => contributions[term.index][output];
  const note = (term) => writeValues(term, values, unseen) + (isEmpty(term, values) ? " · no training rows here" : "");
  const list = shown.map((term) => [term.name, note(term), size(term), `#term-${term.index}`]);
  const count = others.length + model.hidden, start = rest ? rest[output] : 0;
  if (!count) return list;
  return [...list, [plural(count, "other term"), "", others.reduce((sum, term) => sum + size(term), start), null]];
}

function splitTerms(contributions, output = state.output) {
  const size = (term) => Math.abs(contributions[term.index][output]);
  const order = [...model.terms].sort((a, b) => size(b) - size(a) || a.index - b.index);
  return [order.slice(0, N_BARS), order.slice(N_BARS)];
}

function writeValues(term, values, unseen) {
  return term.columns.map((c) => shorten(writeCell(model.columns[c], values[c], unseen[c]), 30)).join(", ");
}

function writeCell(column, value, unseen) {
  if (value === null) return "missing";
  if (!column.levels) return writeValue(value);
  if (value !== -1) return column.levels[value];
  return unseen === undefined ? "any other" : `${unseen} (new level)`;
}

// The prediction with its band and interval, and values outside the training data.
function describeVerdict({ scores, probabilities, winner, shown, band, values }, output = state.output) {
  const score = scores[output], soft = (...parts) => html("span", { class: "soft" }, ...parts);
  const outside = describeValues(values).map((text) => html("span", { class: "line warning" }, text));
  if (!probabilities) {
    const value = toTarget(model, score), own = model.transform ? [soft(`${model.transform} `, writeFigure(score, writeNumber(score, 4)))] : [];
    return [soft(nameScore()), writeFigure(value, writeNumber(value, 5), "answer"), ...own,
      html("span", { class: "line" }, ...join(describeBand(band, (bound) => writeNumber(bound, 4)), describeBounds(score))),
      ...outside];
  }
  const chance = writeFigure(probabilities[shown], writeShare(probabilities[shown])), rate = model.rates?.[shown];
  const whose = shorten(model.classes[shown], 24);
  return [
    soft("most probable"), html("span", { class: "answer name" }, model.classes[winner]),
    html("span", { class: "line" }, soft(`probability of ${whose} `), ...join([chance], describeBand(band, writeShare))),
    soft(...join(describeBounds(score), rate === undefined ? [] : [`${writeShare(rate)} of all rows are ${whose}`],
      [`${shorten(nameScore(output), 60)} `, writeFigure(score, writeNumber(score, 4))])),
    ...outside,
  ];
}

function describeValues(values) {
  const found = values.map((value, c) => [model.columns[c], value, describeOutside(model.columns[c], value)]);
  return found.filter(([{ weights }, , text]) => text && weights).map(([column, value, text]) => {
    const shown = value === null || value === -1 ? "" : ` ${writeValue(value)}`;
    return `${shorten(column.name, 40)}${shown}: ${text}`;
  });
}

function describeBand(band, write) {
  if (!band) return [];
  const [lower, upper] = band.map((bound) => writeFigure(bound, write(bound), "band-end"));
  return [html("span", { class: "soft" }, `${nameBand()} `), lower, " to ", upper];
}

// Parts of a line, separated by points.
function join(...parts) {
  return parts.filter((part) => part.length).flatMap((part, i) => (i ? [" · ", ...part] : part));
}

function nameBand() {
  return model.terms.some((term) => term.isTested) ? `${model.words.level} band` : "± 1 standard deviation";
}

function describeBounds(score) {
  const bounds = findBounds(model, score);
  if (!bounds) return [];
  const write = model.classes ? writeShare : (bound) => writeNumber(bound, 4);
  const [lower, upper] = bounds.map((bound) => writeFigure(bound, write(bound), "bound"));
  return [html("span", { class: "soft" }, `${nameCoverage()} interval`), " ", lower, " to ", upper];
}

function nameCoverage() {
  return model.interval ? `${writeDigits(100 * model.interval.coverage, { maximumFractionDigits: 1 })} %` : "";
}

function writeShare(share) {
  if (share > 0.999 || share < 0.001) return share > 0.5 ? "> 99.9 %" : "< 0.1 %";
  return `${writeDigits(100 * share, { maximumFractionDigits: 1 })} %`;
}

// The score that the bars of a row add up to: of the predicted class, unless another one is chosen.
function findRowOutput({ winner }) {
  if (!model.classes || model.outputs.length === 1) return state.output;
  return state.rowClass === "" ? winner : Number(state.rowClass);
}

function fillRow() {
  const row = model.rows[state.row], found = predictRow(row), output = findRowOutput(found), start = model.intercept[output];
  const actual = row.actual === null ? [] : ["actual", writeActual(row)];
  find("row").value = state.row;
  find("row-score").textContent = nameScore(output);
  find("row-verdict").replaceChildren(...describeVerdict(found, output),
    ...actual.map((text, i) => html("span", { class: i ? "actual name" : "soft" }, text)));
  find("row-reason").textContent = `Row ${row.index}${row.reason ? `, shown because: ${row.reason}` : ""}.`;
  let at = start;
  const steps = listContributions(splitTerms(found.contributions, output), found.contributions, row, output);
  const items = steps.map(([name, note, value, link]) => {
    at += value;
    return makeBar(name, note, value, link, at - value, at);
  });
  items.unshift(makeMark(nameStart(), start));
  items.push(makeMark(nameScore(output), found.scores[output]));
  const ends = items.flatMap((item) => [item.from, item.to]);
  fillBars(find("waterfall"), items, ...widen(Math.min(...ends), Math.max(...ends)));
}

function writeActual({ actual }) {
  return model.classes ? actual : writeValue(actual);
}

// The intercept or the score of a waterfall: a mark without a bar.
function makeMark(name, value) {
  return { name, from: value, to: value, value, text: writeScore(value), look: "plain" };
}

// A contribution; to the log of a target it is a factor of the target.
function writeChange(value) {
  return model.transform in FACTORS ? `× ${writeNumber(FACTORS[model.transform](value))}` : writeSigned(value);
}

// The intercept or a score, in the unit of the target.
function writeScore(score) {
  return model.transform ? writeNumber(toTarget(model, score), 4) : writeNumber(score, 4);
}

function makeBar(name, note, value, link, from, to) {
  const text = Math.abs(value) < 1e-10 * findReach() ? "0" : writeChange(value);
  return { name, note, link, from, to, value, text, look: value > 0 ? "positive" : "negative" };
}

function listenToRows() {
  if (!model.rows) return;
  const actual = (row) => (row.actual === null ? "" : ` (actual ${shorten(writeActual(row), 24)})`);
  const reason = (row) => (row.reason ? `: ${shorten(row.reason, 60)}` : "");
  const options = model.rows.map((row, i) => html("option", { value: i }, `${row.index}${reason(row)}${actual(row)}`));
  const choose = (row) => {
    state.row = (row + model.rows.length) % model.rows.length;
    fillRow();
  };
  find("row").replaceChildren(...options);
  const classes = model.outputs.map((name, k) => html("option", { value: k }, shorten(name, 60)));
  find("row-class").replaceChildren(html("option", { value: "" }, "the predicted class"), ...classes);
  find("row-class").addEventListener("change", ({ target }) => {
    state.rowClass = target.value;
    fillRow();
  });
  find("row").addEventListener("change", () => choose(Number(find("row").value)));
  find("previous").addEventListener("click", () => choose(state.row - 1));
  find("next").addEventListener("click", () => choose(state.row + 1));
  find("take").addEventListener("click", () => {
    startFrom(state.row);
    fillWhatIf(true);
    find("whatif").scrollIntoView();
    find("whatif").focus({ preventScroll: true });
  });
}

function listenToWhatIf() {
  const starts = (model.rows || []).map((row, i) => html("option", { value: i }, `row ${row.index}`));
  find("start").replaceChildren(html("option", { value: -1 }, "a typical row"), ...starts);
  find("start").value = model.rows ? 0 : -1;
  const restart = () => {
    startFrom(Number(find("start").value));
    fillWhatIf(true);
  };
  find("start").addEventListener("change", restart);
  find("reset").addEventListener("click", restart);
  find("all-fields").addEventListener("click", () => openFields(Infinity));
  find("inputs").addEventListener("submit", (event) => event.preventDefault());
}

function startFrom(row) {
  state.values = row < 0 ? model.columns.map((column) => column.typical) : [...model.rows[row].values];
  state.rest = row < 0 ? null : model.rows[row].rest;
  find("start").value = row;
  for (const show of fields.values()) show();
}

// Inputs for the most important columns, at most `limit` of them.
function openFields(limit) {
  const weight = model.columns.map(() => 0);
  for (const term of model.terms) for (const c of term.columns) weight[c] += term.importance;
  const used = [...new Set(model.terms.flatMap((term) => term.columns))].sort((a, b) => weight[b] - weight[a] || a - b);
  for (const c of used.slice(0, limit)) if (!fields.has(c)) find("fields").append(openField(model.columns[c], c));
  const hidden = Math.max(0, used.length - limit);
  find("all-fields").hidden = !hidden;
  find("all-fields").textContent = `Show ${plural(hidden, "weaker column")}`;
}

function openField(column, c) {
  const id = `field-${c}`, input = column.levels ? openSelect(column, c, id) : openNumber(column, c, id);
  const missing = html("input", { type: "checkbox", "aria-label": `${column.name} is missing` });
  let last = column.typical;
  missing.addEventListener("change", () => {
    if (missing.checked) last = state.values[c];
    changeValue(c, missing.checked ? null : last, true);
  });
  const note = html("span", { class: "warning", id: `note-${c}` });
  input.nodes.at(-1).setAttribute("aria-describedby", note.id);
  fields.set(c, (source) => {
    const value = state.values[c], isBlank = source && source.value === "";
    missing.checked = value === null;
    input.show(value, source);
    note.textContent = isBlank ? `not a number: the prediction uses ${writeValue(value)}` : describeOutside(column, value);
  });
  fields.get(c)();
  return html("div", { class: "field", "data-column": c },
    html("label", { for: id, class: "name", title: column.name }, column.name), ...input.nodes,
    html("label", { class: "option" }, missing, " missing"), note);
}

function openSelect(column, c, id) {
  const options = column.levels.map((level, i) => html("option", { value: i }, shorten(level, 80)));
  const select = html("select", { id }, ...options, html("option", { value: -1 }, "any other"));
  select.addEventListener("change", () => changeValue(c, Number(select.value), true));
  const show = (value) => {
    select.disabled = value === null;
    if (value !== null) select.value = value;
  };
  return { nodes: [select], show };
}

function openNumber(column, c, id) {
  const { low, high, whole } = column, step = whole && high - low <= 1000 ? 1 : "any";
  const slider = html("input", { type: "range", min: low, max: high, step, "aria-label": `${column.name}, slider` });
  const number = html("input", { type: "number", id, step: "any" });
  // Rounded: the page computes with the number that it shows.
  const read = () => Math.min(Math.max(Number(Number(slider.value).toPrecision(5)), low), high);
  slider.addEventListener("input", () => changeValue(c, read()));
  slider.addEventListener("change", () => changeValue(c, read(), true));
  number.addEventListener("input", () => {
    if (Number.isFinite(number.valueAsNumber)) changeValue(c, number.valueAsNumber, true, number);
    else fields.get(c)(number);
  });
  const show = (value, source) => {
    slider.disabled = number.disabled = value === null;
    if (value === null) return;
    slider.value = value;
    if (source !== number) number.value = value;
  };
  return { nodes: [slider, number], show };
}

// Bars keep their order while a slider moves, and are sorted when it is released.
function changeValue(c, value, isDone = false, source = null) {
  state.values[c] = value;
  fields.get(c)(source);
  fillWhatIf(isDone);
}

function fillWhatIf(isDone) {
  const found = predictRow(state), { contributions, scores, probabilities } = found;
  if (isDone) places = splitTerms(contributions);
  find("verdict").replaceChildren(...describeVerdict(found));
  const list = listContributions(places, contributions, state);
  const reach = Math.max(findReach(), ...list.map((line) => Math.abs(line[2])));
  const bars = list.map(([name, note, value, link]) => makeBar(name, note, value, link, 0, value));
  fillBars(find("contributions"), bars, -reach, reach);
  const chances = (probabilities || []).map((share, k) => (
    { name: model.classes[k], from: 0, to: share, value: share, text: writeShare(share), look: "plain" }));
  fillBars(find("probabilities"), chances, 0, 1);
  const score = scores[state.output];
  find("band-note").hidden = !found.band;
  find("sum").replaceChildren(`${nameStart()} ${writeNumber(model.intercept[state.output], 4)} + contributions = `,
    `${model.transform ? `${model.transform} of the ` : ""}${shorten(nameScore(), 60)} `, writeFigure(score, writeNumber(score, 4)));
}

// The longest bar that a training row can have: it keeps the scale fixed while values change.
function findReach() {
  const key = `all ${state.output}`;
  if (!extents.has(key)) extents.set(key, Math.max(...model.terms.flatMap(findExtent).map(Math.abs)) || 1);
  return extents.get(key);
}
