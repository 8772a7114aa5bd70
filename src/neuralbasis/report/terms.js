// Terms: the list, and a card with a chart for each term.

const STEPS = {
  ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowUp: [1, 1], ArrowDown: [1, -1], Home: [0, -Infinity], End: [0, Infinity],
};

const MIN_STRONG = 6, MAX_STRONG = 24; // terms that are not folded away
const MIN_WEAK = 3; // terms that are worth a fold
const STRONG_SHARE = 0.95; // of the sum of all importances

// What the charts show, once for each kind of chart.
function fillLegend() {
  const { each, whole, members, unclear } = model.words, isTested = model.terms.some((term) => term.isTested);
  const pale = isTested ? ` Pale: ${unclear} there.` : "";
  const texts = {
    curve: ["Curves", "the line is the effect of the column. "
      + (isTested ? `Dark: ${each}. Light: ${whole}.` : `Band: ${members}. Faint lines: members.`)
      + " Grey bars: training rows. Dots: values that many rows share, and codes far from the other values. "
      + "Drag across a curve, or hold Shift with the arrow keys, to see the rows behind a stretch."],
    levels: ["Bars", "the effect of each level. "
      + (isTested ? `Thick line: ${each}. Thin line: ${whole}.` : `Error bars: ${members}.`)
      + " Right: number of training rows."],
    total: ["Two columns", "the whole effect of both: each curve is for one value of the other column. "
      + "Dashed: no training rows near."],
    map: ["Maps", `the effect of the columns together, beyond their single effects.${pale} Grey: no training rows.`],
    slices: ["Three columns", "the effect at one value of the third column: move the slider to change it."
      + `${pale} Grey: no training rows.`],
  };
  const kinds = new Set(model.terms.map(findKind));
  if (kinds.has("total")) kinds.add("map"); // on request
  find("legend").replaceChildren(...Object.keys(texts).filter((kind) => kinds.has(kind)).map((kind) => (
    html("li", {}, html("b", {}, `${texts[kind][0]}: `), texts[kind][1]))));
}

const lines = new Map(); // term -> its line in the list, the bar there, and its card
const extents = new Map(); // term and output -> lowest and highest score

function fillTerms() {
  for (const term of model.terms) {
    const bar = html("i"), name = html("span", { class: "name" }, term.name), link = `term-${term.index}`;
    const track = html("span", { class: "track", "aria-hidden": "true" }, bar);
    const effect = html("span", { class: "effect" });
    const line = html("li", {}, html("a", { href: `#${link}`, title: term.name }, name, effect, track));
    const card = html("article", { id: link, class: "card", tabindex: "-1", "aria-label": term.name });
    lines.set(term, { line, bar, effect, card, text: term.name.toLowerCase() });
    addChart(card, () => drawCard(term, card));
  }
  fillLegend();
  find("gallery").classList.toggle("tall", model.terms.some((term) => term.warning));
}

// Most important first; terms without a clear effect come last.
function compareTerms(a, b) {
  return Number(Boolean(findEffect(a))) - Number(Boolean(findEffect(b))) || strength(b) - strength(a);
}

function sortTerms() {
  const byName = (a, b) => a.name.localeCompare(b.name, "en", { numeric: true });
  const compare = state.sort === "name" ? byName : compareTerms;
  const order = [...model.terms].sort((a, b) => compare(a, b) || a.index - b.index);
  const largest = Math.max(...model.terms.map(strength)) || 1;
  for (const term of order) {
    const { bar, effect, line, card } = lines.get(term);
    bar.style.width = `${(100 * strength(term)) / largest}%`;
    effect.textContent = findEffect(term);
    for (const node of [line, card]) node.classList.toggle("unclear", Boolean(findEffect(term)));
  }
  find("list").replaceChildren(...order.map((term) => lines.get(term).line));
  state.order = order;
  filterTerms();
}

// The number of strong terms, the first of the sorted ones: clear effects that make up nearly all of the importance.
function countStrong(order) {
  const total = order.reduce((sum, term) => sum + strength(term), 0);
  let sum = 0, count = 0;
  while (count < order.length && count < MAX_STRONG && !findEffect(order[count]) && sum < STRONG_SHARE * total) {
    sum += strength(order[count++]);
  }
  return Math.max(count, Math.min(MIN_STRONG, order.length));
}

// Strong terms first; weak ones are folded away, unless they are searched for or sorted by name.
function foldTerms() {
  const { order } = state, isWhole = state.query.trim() !== "" || state.sort !== "importance";
  const strong = isWhole ? order.length : countStrong(order);
  const count = order.length - strong < MIN_WEAK ? order.length : strong, weak = order.slice(count);
  const cards = (terms) => terms.map((term) => lines.get(term).card);
  find("strong").replaceChildren(...cards(order.slice(0, count)));
  find("weak-terms").replaceChildren(...cards(weak));
  find("weak").hidden = weak.length === 0;
  const total = order.reduce((sum, term) => sum + strength(term), 0) || 1;
  const share = writeNumber((100 * weak.reduce((sum, term) => sum + strength(term), 0)) / total, 2);
  find("weak-title").textContent = `${plural(weak.length, "weaker term")}, together ${share} % of all effects`;
}

function filterTerms() {
  const wanted = state.query.trim().toLowerCase(), all = plural(model.terms.length, "term");
  let count = 0;
  for (const { line, card, text } of lines.values()) {
    line.hidden = card.hidden = !text.includes(wanted);
    count += text.includes(wanted);
  }
  find("count").textContent = wanted ? `${count} of ${all}` : all;
  foldTerms();
}

// Lowest and highest drawn score of a term, for a main effect with its band; always includes 0.
function findExtent(term, kind) {
  const key = `${term.index} ${state.output} ${kind}`;
  if (!extents.has(key)) extents.set(key, (kind === "total" ? measureTotal : measureExtent)(term, state.output));
  return extents.get(key);
}

function measureExtent(term, output) {
  const isMain = term.axes.length === 1, [axis] = term.axes, isCurve = isMain && !axis.levels;
  const [start, end] = findInner(axis, isMain ? term.masses[0] : []);
  const [first, last] = isCurve ? chooseRange(axis.knots, term.weights, start, end) : [0, axis.count - 1];
  const isKnot = (cell) => isMain && cell > first && cell <= last + 1;
  const total = term.weights.reduce((sum, weight) => sum + weight, 0);
  let low = 0, high = 0;
  for (let cell = 0; cell < (isCurve ? axis.count + 1 : term.size); cell++) {
    const isTail = isCurve && cell > start && cell <= end + 1; // not drawn, unless it is a knot of the drawn range
    if (!isKnot(cell) && (isTail || !(term.weights[cell] > 0))) continue;
    // Few rows with missing values or a special code have a wide band, which would flatten all curves.
    const hasBand = isMain && (axis.levels || isTail || term.weights[cell] >= MIN_MISSING * total);
    const score = term.score(cell, output), width = hasBand ? term.whole(cell, output) : 0;
    low = Math.min(low, score - width);
    high = Math.max(high, score + width);
  }
  return [low, high];
}

// Range of the y axis of curves and bars; for maps, the score with the full colour.
function chooseLimits(term, kind) {
  const isMap = kind === "map" || kind === "slices";
  const isLike = (other) => ["map", "slices"].includes(findKind(other)) === isMap;
  const alike = state.sameScale && isLike(term) ? model.terms.filter(isLike) : [term];
  const ends = alike.map((other) => findExtent(other, other === term ? kind : findKind(other)))
    .reduce((all, own) => [Math.min(all[0], own[0]), Math.max(all[1], own[1])], [0, 0]);
  if (isMap) return Math.max(-ends[0], ends[1]) || 1;
  return ends[0] === ends[1] ? [-1, 1] : widen(...ends);
}

function findKind(term) {
  if (term.axes.length === 3) return "slices";
  if (term.axes.length === 2) return openTotal(term) ? "total" : "map";
  return term.axes[0].levels ? "levels" : "curve";
}

function drawCard(term, card) {
  if (!card.firstChild) openCard(term, card);
  card.redraw();
}

function openCard(term, card) {
  const kind = findKind(term);
  const view = { term, kind, chart: null, at: null, range: null, slice: 1, maxLevels: MAX_LEVELS };
  const figure = html("span", { class: "importance" });
  const label = `${term.name}: values along the chart`;
  const box = html("div", { class: "chart", tabindex: "0", role: "slider", "aria-label": label, "aria-valuenow": 0 });
  const sentence = html("p", { class: "sentence" }), readout = html("p", { class: "readout" });
  const extra = html("div", { class: "extra" });
  const effect = html("p", { class: "effect" }), warning = html("p", { class: "warning" }, term.warning);
  card.append(html("header", {}, html("h3", { title: term.name }, ...breakName(term.name)), figure), effect, warning);
  card.append(box, sentence, readout, extra);
  view.legend = term.axes.length > 1 ? addLegend(extra, view) : () => {};
  card.redraw = () => {
    const limits = chooseLimits(term, view.kind);
    figure.textContent = `importance ${writeImportance(term)}`;
    effect.textContent = findEffect(term);
    sentence.textContent = term.sentences ? term.sentences[state.output] : "";
    view.legend(limits);
    view.chart = drawTerm(box, view, limits);
    view.range = null;
    readout.textContent = view.chart.isCut ? "Shown: the central 99 % of the rows." : "";
    box.setAttribute("aria-valuemin", 0);
    box.setAttribute("aria-valuemax", view.chart.scales[0].stops.length - 1);
    box.setAttribute("aria-valuetext", sentence.textContent);
  };
  listenToChart(box, view, (positions) => {
    view.chart.move(positions, view.range);
    readout.replaceChildren(...describeView(view, positions));
    box.setAttribute("aria-valuenow", view.at[0]);
    box.setAttribute("aria-valuetext", readout.textContent);
  });
  if (kind === "slices") addSlices(card, extra, view);
  if (kind === "total") addSwitch(card, extra, view);
  if (kind === "levels" && term.axes[0].count > MAX_LEVELS) addLevelSwitch(card, box, extra, view);
}

function describeView(view, positions) {
  const { term, kind, range } = view;
  if (range) return describeStretch(term, range, state.output);
  if (kind === "total") return describeTotal(term, positions, state.output);
  return describePoint(term, kind === "slices" ? [...positions, view.slice] : positions);
}

function drawTerm(box, { kind, term, maxLevels, slice }, limits, output = state.output) {
  if (kind === "curve") return drawCurve(box, term, output, limits);
  if (kind === "levels") return drawLevels(box, term, output, limits, maxLevels);
  if (kind === "total") return drawTotal(box, term, output, limits);
  return drawMap(box, term, output, limits, slice);
}

// The contribution of a term at one position, as text.
function describePoint(term, positions) {
  const corners = findCorners(term, positions);
  const score = lookUp(term.score, corners, state.output), width = lookUp(term.each, corners, state.output);
  const name = ({ axes }, d) => `${shorten(axes[d].name, 30)} ${shorten(nameCell(axes[d], positions[d]), 40)}`;
  const odds = model.link === "logit" ? ` (odds × ${writeNumber(Math.exp(score))})` : "";
  return [
    `${positions.map((_, d) => name(term, d)).join(", ")}: `,
    writeFigure(score, writeSigned(score)),
    `${writeWidth(term, score, width)}${odds} · ${describeRows(term, positions)}`,
  ];
}

// How many training rows there are at or near a position.
function describeRows(term, positions) {
  const nearest = findCorners(term, positions.map(Math.round))[0][0], weight = term.weights[nearest];
  const rows = (count) => plural(Number(count.toPrecision(3)), "training row");
  const [axis] = term.axes, [position] = positions, isMain = term.axes.length === 1;
  const outcomes = () => describeOutcomes(term, [position], state.output);
  if (isMain && !axis.levels && position > 0) {
    const left = Math.floor(position), value = findValue(axis, position), reach = findSpan(axis);
    const isFar = (cell) => Math.abs(value / 2 - axis.knots[cell - 1] / 2) > reach / 2;
    if (left !== position && isFar(left) && isFar(left + 1)) {
      return `no training rows between ${nameCell(axis, left)} and ${nameCell(axis, left + 1)}`;
    }
    if (term.masses[0].some(({ cell }) => cell === position)) {
      const total = term.weights.reduce((sum, one) => sum + one, 0);
      return `${rows(weight)} with this value (${writeRows(weight / total)})${outcomes()}`;
    }
  }
  if (!(weight > 0)) return "no training rows here";
  if (isMain && (axis.levels || position === 0)) return `${rows(weight)}${outcomes()}`;
  return `${rows(weight)} nearby`;
}

function writeWidth({ isTested }, score, width) {
  if (!(width > 0)) return "";
  if (!isTested) return ` ± ${writeNumber(width, 2)}`;
  return `, ${model.words.level}: ${writeSigned(score - width)} to ${writeSigned(score + width)}`;
}

// Mouse, touch and arrow keys.
function listenToChart(box, view, show) {
  const locate = (event) => {
    const { left, top } = box.getBoundingClientRect(), pixels = [event.clientX - left, event.clientY - top];
    if (view.chart.isVertical) pixels.reverse();
    return view.chart.scales.map((scale, d) => scale.position(pixels[d]));
  };
  const point = (event) => {
    const positions = locate(event);
    view.at = view.chart.scales.map((scale, d) => findNearest(scale.stops, positions[d]));
    show(positions);
  };
  listenToStretch(box, view, locate, show);
  box.addEventListener("pointermove", point);
  box.addEventListener("pointerdown", point);
  box.addEventListener("keydown", (event) => {
    if (!(event.key in STEPS)) return;
    event.preventDefault();
    const { scales, isVertical } = view.chart, [requested, step] = STEPS[event.key];
    const d = Math.min(requested, scales.length - 1), sign = isVertical && requested === 1 ? -1 : 1;
    const before = view.at || scales.map(({ stops }) => Math.floor((stops.length - 1) / 2)), at = [...before];
    at[d] += sign * step;
    view.at = at.map((stop, i) => Math.min(Math.max(stop, 0), scales[i].stops.length - 1));
    extendStretch(event.shiftKey, view, scales[0].stops[before[0]], scales[0].stops[view.at[0]]);
    show(view.at.map((stop, i) => scales[i].stops[stop]));
  });
}

// The stop at a position; the strips of special codes may lie on either side of the curve.
function findNearest(stops, position) {
  return stops.reduce((best, stop, i) => (Math.abs(stop - position) < Math.abs(stops[best] - position) ? i : best), 0);
}

// A pair as curves of the whole effect, or as a map of the interaction alone.
function addSwitch(card, extra, view) {
  const button = html("button", { type: "button", class: "switch" });
  const name = () => {
    button.textContent = view.kind === "total" ? "map of the interaction alone" : "curves of the whole effect";
  };
  button.addEventListener("click", () => {
    view.kind = view.kind === "total" ? "map" : "total";
    view.at = null;
    name();
    card.redraw();
  });
  name();
  extra.append(button);
}

function addSlices(card, extra, view) {
  const axis = view.term.axes[2], weights = sumAlong(view.term, 2);
  const isThere = (cell) => (cell > 0 && cell <= axis.count) || weights[cell] > 0;
  const cells = Array.from({ length: axis.cells }, (_, cell) => cell).filter(isThere);
  const label = html("span", { class: "soft" });
  const slider = html("input", { type: "range", min: 0, max: cells.length - 1, step: 1, "aria-label": axis.name });
  const choose = () => {
    view.slice = cells[slider.value];
    label.textContent = `${shorten(axis.name, 40)} ${shorten(nameCell(axis, view.slice), 30)}`;
    slider.setAttribute("aria-valuetext", label.textContent);
  };
  slider.value = Math.floor((cells.length - 1) / 2);
  choose();
  slider.addEventListener("input", () => {
    choose();
    card.redraw();
  });
  extra.prepend(html("label", { class: "slice" }, label, slider));
}

function addLevelSwitch(card, box, extra, view) {
  const { count } = view.term.axes[0], button = html("button", { type: "button" }, `all ${plural(count, "level")}`);
  button.addEventListener("click", () => {
    const isLong = view.maxLevels === MAX_LEVELS;
    view.maxLevels = isLong ? count : MAX_LEVELS;
    box.style.height = isLong ? `${60 + 20 * count}px` : "";
    const few = `the ${MAX_LEVELS} ${view.term.axes[0].ordinal ? "most frequent" : "strongest"} levels`;
    button.textContent = isLong ? few : `all ${plural(count, "level")}`;
    card.redraw();
  });
  extra.append(button);
}

// The colour scale of a map, or the colours of the curves.
function addLegend(extra, view) {
  const low = html("span"), high = html("span");
  const scale = html("span", { class: "legend" }, low, html("i", { "aria-hidden": "true" }), high);
  const tints = view.kind === "total" ? listTints(view.term) : html("span");
  extra.append(scale, tints);
  return (limit) => {
    const isTotal = view.kind === "total";
    scale.hidden = isTotal;
    tints.hidden = !isTotal;
    if (isTotal) return;
    low.textContent = writeNumber(-limit);
    high.textContent = writeSigned(limit);
  };
}
