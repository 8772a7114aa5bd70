// Terms: the list, and a card with a chart for each term.

const STEPS = {
  ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowUp: [1, 1], ArrowDown: [1, -1], Home: [0, -Infinity], End: [0, Infinity],
};

// What a chart shows, in one or two sentences.
function writeCaption(kind, { isTested }) {
  const { each, whole, members, unclear } = model.words;
  const pale = isTested ? ` Pale: ${unclear} there.` : "";
  return {
    curve: "Line: effect of this column. "
      + (isTested ? `Dark: ${each}. Light: ${whole}.` : `Band: ${members}. Faint lines: members.`)
      + " Grey bars: training rows.",
    levels: "Bars: effect of each level. "
      + (isTested ? `Thick line: ${each}. Thin line: ${whole}.` : `Error bars: ${members}.`)
      + " Right: number of training rows.",
    map: `Colour: effect of the two columns together, beyond their single effects.${pale} Grey: no training rows.`,
    slices: `Effect at one value of the third column: move the slider to change it.${pale} Grey: no training rows.`,
  }[kind];
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
  find("gallery").replaceChildren(...order.map((term) => lines.get(term).card));
  filterTerms();
}

function filterTerms() {
  const wanted = state.query.trim().toLowerCase(), all = plural(model.terms.length, "term");
  let count = 0;
  for (const { line, card, text } of lines.values()) {
    line.hidden = card.hidden = !text.includes(wanted);
    count += text.includes(wanted);
  }
  find("count").textContent = wanted ? `${count} of ${all}` : all;
}

// Lowest and highest drawn score of a term, for a main effect with its band; always includes 0.
function findExtent(term) {
  const key = `${term.index} ${state.output}`;
  if (!extents.has(key)) extents.set(key, measureExtent(term, state.output));
  return extents.get(key);
}

function measureExtent(term, output) {
  const isMain = term.axes.length === 1, { count, levels, knots } = term.axes[0];
  const [first, last] = isMain && !levels ? chooseRange(knots, term.weights) : [0, count - 1];
  const isKnot = (cell) => isMain && cell > first && cell <= last + 1;
  const total = term.weights.reduce((sum, weight) => sum + weight, 0);
  let low = 0, high = 0;
  for (let cell = 0; cell < (isMain && !levels ? count + 1 : term.size); cell++) {
    const isOutside = isMain && !levels && cell > 0; // in a tail that is not drawn
    if (!isKnot(cell) && (isOutside || !(term.weights[cell] > 0))) continue;
    // Few rows with missing values have a wide band, which would flatten all curves.
    const hasBand = isMain && (levels || cell > 0 || term.weights[0] >= MIN_MISSING * total);
    const score = term.score(cell, output), width = hasBand ? term.whole(cell, output) : 0;
    low = Math.min(low, score - width);
    high = Math.max(high, score + width);
  }
  return [low, high];
}

// Range of the y axis of a main effect; for maps, the score with the full colour.
function chooseLimits(term) {
  const isMain = term.axes.length === 1;
  const alike = state.sameScale ? model.terms.filter((other) => (other.axes.length === 1) === isMain) : [term];
  const ends = alike.map(findExtent).reduce((all, own) => [Math.min(all[0], own[0]), Math.max(all[1], own[1])], [0, 0]);
  if (!isMain) return Math.max(-ends[0], ends[1]) || 1;
  return ends[0] === ends[1] ? [-1, 1] : widen(...ends);
}

function findKind(term) {
  if (term.axes.length > 1) return term.axes.length === 2 ? "map" : "slices";
  return term.axes[0].levels ? "levels" : "curve";
}

function drawCard(term, card) {
  if (!card.firstChild) openCard(term, card);
  card.redraw();
}

function openCard(term, card) {
  const kind = findKind(term), view = { term, kind, chart: null, at: null, slice: 1, maxLevels: MAX_LEVELS };
  const figure = html("span", { class: "importance" });
  const label = `${term.name}: values along the chart`;
  const box = html("div", { class: "chart", tabindex: "0", role: "slider", "aria-label": label, "aria-valuenow": 0 });
  const readout = html("p", { class: "readout" }), extra = html("div", { class: "extra" });
  const effect = html("p", { class: "effect" }), warning = html("p", { class: "warning" }, term.warning);
  card.append(html("header", {}, html("h3", { title: term.name }, term.name), figure), effect, warning);
  card.append(box, readout, extra);
  const legend = term.axes.length > 1 ? addLegend(extra) : null;
  card.redraw = () => {
    const limits = chooseLimits(term);
    figure.textContent = `importance ${writeImportance(term)}`;
    effect.textContent = findEffect(term);
    if (legend) legend(limits); // before the chart, which fills the remaining height
    view.chart = drawTerm(box, view, limits);
    readout.textContent = writeCaption(kind, term) + (view.chart.isCut ? " Shown: the central 99 % of the rows." : "");
    box.setAttribute("aria-valuemin", 0);
    box.setAttribute("aria-valuemax", view.chart.scales[0].stops.length - 1);
  };
  listenToChart(box, view, (positions) => {
    view.chart.move(positions);
    readout.replaceChildren(...describePoint(term, kind === "slices" ? [...positions, view.slice] : positions));
    box.setAttribute("aria-valuenow", view.at[0]);
    box.setAttribute("aria-valuetext", readout.textContent);
  });
  if (kind === "slices") addSlices(card, extra, view);
  if (kind === "levels" && term.axes[0].count > MAX_LEVELS) addLevelSwitch(card, box, extra, view);
}

function drawTerm(box, { kind, term, maxLevels, slice }, limits, output = state.output) {
  if (kind === "curve") return drawCurve(box, term, output, limits);
  if (kind === "levels") return drawLevels(box, term, output, limits, maxLevels);
  return drawMap(box, term, output, limits, slice);
}

// The contribution of a term at one position, as text.
function describePoint(term, positions) {
  const corners = findCorners(term, positions), nearest = findCorners(term, positions.map(Math.round))[0][0];
  const score = lookUp(term.score, corners, state.output), width = lookUp(term.each, corners, state.output);
  const name = ({ axes }, d) => `${shorten(axes[d].name, 40)} ${shorten(nameCell(axes[d], positions[d]), 40)}`;
  const weight = term.weights[nearest];
  const odds = model.link === "logit" ? ` (odds × ${writeNumber(Math.exp(score))})` : "";
  const rows = weight > 0 ? `${plural(Number(weight.toPrecision(3)), "training row")} nearby` : "no training rows here";
  return [
    `${positions.map((_, d) => name(term, d)).join(", ")}: `,
    writeFigure(score, writeSigned(score)),
    `${writeWidth(term, score, width)}${odds} · ${rows}`,
  ];
}

function writeWidth({ isTested }, score, width) {
  if (!(width > 0)) return "";
  if (!isTested) return ` ± ${writeNumber(width, 2)}`;
  return `, ${model.words.level}: ${writeSigned(score - width)} to ${writeSigned(score + width)}`;
}

// Mouse, touch and arrow keys.
function listenToChart(box, view, show) {
  const point = (event) => {
    const { left, top } = box.getBoundingClientRect(), pixels = [event.clientX - left, event.clientY - top];
    if (view.chart.isVertical) pixels.reverse();
    const positions = view.chart.scales.map((scale, d) => scale.position(pixels[d]));
    view.at = view.chart.scales.map((scale, d) => findNearest(scale.stops, positions[d]));
    show(positions);
  };
  box.addEventListener("pointermove", point);
  box.addEventListener("pointerdown", point);
  box.addEventListener("keydown", (event) => {
    if (!(event.key in STEPS)) return;
    event.preventDefault();
    const { scales, isVertical } = view.chart, [requested, step] = STEPS[event.key];
    const d = Math.min(requested, scales.length - 1), sign = isVertical && requested === 1 ? -1 : 1;
    const at = view.at || scales.map(({ stops }) => Math.floor((stops.length - 1) / 2));
    at[d] += sign * step;
    view.at = at.map((stop, i) => Math.min(Math.max(stop, 0), scales[i].stops.length - 1));
    show(view.at.map((stop, i) => scales[i].stops[stop]));
  });
}

function findNearest(stops, position) {
  return stops.reduce((best, stop, i) => (Math.abs(stop - position) < Math.abs(stops[best] - position) ? i : best), 0);
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
    card.style.height = isLong ? "auto" : "";
    box.style.height = isLong ? `${60 + 20 * count}px` : "";
    button.textContent = isLong ? `the ${MAX_LEVELS} most frequent levels` : `all ${plural(count, "level")}`;
    card.redraw();
  });
  extra.append(button);
}

function addLegend(extra) {
  const low = html("span"), high = html("span");
  extra.append(html("span", { class: "legend" }, low, html("i", { "aria-hidden": "true" }), high));
  return (limit) => {
    low.textContent = writeNumber(-limit);
    high.textContent = writeSigned(limit);
  };
}
