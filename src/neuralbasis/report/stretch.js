// The rows behind a stretch of a curve: drag across the curve, or hold Shift with the arrow keys. Escape ends it.

const MIN_DRAG = 6; // pixels

function listenToStretch(box, view, locate, show) {
  let start = null;
  box.addEventListener("pointerdown", (event) => {
    view.range = null;
    const isStart = view.kind === "curve" && event.button === 0;
    start = isStart ? { x: event.clientX, at: keepInside(view, locate(event)[0]) } : null;
  });
  box.addEventListener("pointermove", (event) => {
    if (!start || !(event.buttons & 1) || Math.abs(event.clientX - start.x) < MIN_DRAG) return;
    view.range = sortRange(start.at, keepInside(view, locate(event)[0]));
  });
  for (const end of ["pointerup", "pointercancel", "pointerleave"]) box.addEventListener(end, () => { start = null; });
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !view.range) return;
    view.range = null;
    show(view.at.map((stop, i) => view.chart.scales[i].stops[stop]));
  });
}

// Extends the stretch to the new position of the arrow keys, or ends it.
function extendStretch(isExtended, view, before, after) {
  if (!isExtended || view.kind !== "curve") {
    view.range = null;
    return;
  }
  const [low, high] = view.range || [before, before], fixed = before === low && view.range ? high : low;
  view.range = sortRange(keepInside(view, fixed), keepInside(view, after));
}

function sortRange(a, b) {
  return [Math.min(a, b), Math.max(a, b)];
}

// The nearest value of the curve itself: special codes are no part of a stretch.
function keepInside({ chart }, position) {
  const { cells } = chart.scales[0];
  return Math.min(Math.max(Math.round(position), cells[0]), cells[cells.length - 1]);
}

// The stretch, and the line between the values beside it, which would remain of the curve without its rows.
function drawStretch(scale, [low, high], read, area) {
  const [from, to] = [scale.pixel(low), scale.pixel(high)], { cells } = scale, last = cells[cells.length - 1];
  const ground = drawRect(from, area.top, to - from, area.bottom - area.top, "row");
  const before = low > cells[0] ? low - 1 : null, after = high < last ? high + 1 : null;
  if (before === null && after === null) return [ground];
  const [left, right] = [before ?? low, after ?? high].map((cell) => scale.pixel(cell));
  return [ground, drawLine(left, read(before ?? after), right, read(after ?? before), "without")];
}

// The rows of a stretch, their outcomes, and the curve with its band, as text.
function describeStretch(term, [low, high], output) {
  const [axis] = term.axes, cells = Array.from({ length: high - low + 1 }, (_, i) => low + i);
  const rows = cells.reduce((sum, cell) => sum + term.weights[cell], 0);
  const read = (position) => lookUp(term.score, findCorners(term, [position]), output);
  const scores = cells.map(read), width = Math.max(...cells.map((position) => (
    lookUp(term.each, findCorners(term, [position]), output))));
  const ends = [Math.min(...scores), Math.max(...scores)].map((score) => writeFigure(score, writeSigned(score)));
  const level = term.isTested ? `${model.words.level} ` : "";
  const band = width > 0 ? `, ${level}band up to ± ${writeNumber(width, 2)}` : "";
  return [
    `${shorten(axis.name, 30)} ${nameCell(axis, low)} to ${nameCell(axis, high)}: `,
    `${plural(Number(rows.toPrecision(4)), "training row")}${describeOutcomes(term, cells, output)}. Curve from `, ends[0], " to ", ends[1],
    `${band}. Dashed: between the values beside them, as if these rows were absent.`,
  ];
}

// The mean outcome of the rows given to the page in some cells of a main effect, beside their mean prediction.
function describeOutcomes(term, cells, output) {
  if (!term.outcomes) return "";
  let [count, actual, predicted] = [0, 0, 0];
  for (const cell of cells) {
    count += term.outcomes.count(cell);
    actual += term.outcomes.actual(cell, output);
    predicted += term.outcomes.predicted(cell, output);
  }
  if (!(count > 0)) return "; none of the rows given to this page";
  const write = (sum) => (model.classes ? `${writeNumber((100 * sum) / count, 3)} %` : writeNumber(sum / count, 4));
  const name = model.classes ? shorten(model.link === "logit" ? model.classes[1] : model.outputs[output], 24) : "mean";
  const whose = count === rows(term, cells) ? "outcome" : `outcome of ${plural(count, "row")} given to this page`;
  return `; ${whose}: ${name} ${write(actual)}, predicted ${write(predicted)}`;

  function rows({ weights }, own) {
    return Math.round(own.reduce((sum, cell) => sum + weights[cell], 0));
  }
}
