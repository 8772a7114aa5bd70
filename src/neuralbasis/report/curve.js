// The curve of a continuous column, with its bands, the training rows below it, and a mark for each point mass.

const FEW_KNOTS = 30; // up to this many knots, each one has a dot
const N_DENSITY = 48;
const SHARES_HEIGHT = 15;
const SHARE_WIDTH = 32; // of the text of a share, in pixels
const MIN_REACH = 0.01; // share of the range over which the rows of a knot are spread at most, to each side

// A main effect of a continuous column.
function drawCurve(box, term, output, limits) {
  const { picture, width, height } = openChart(box), [axis] = term.axes, [masses] = term.masses;
  const area = placeArea(width, height, listLabels(limits), measureShares(masses, term.weights)), y = scaleUp(area, limits);
  const scale = new AxisScale(axis, term.weights, area.left, area.right, { masses });
  const inside = clipChart(picture, scale, height, `clip-${term.index}`);
  drawDensity(picture, scale, term.weights, masses, area);
  drawHeights(picture, area, limits, y);
  picture.append(inside);
  for (const cells of splitCells(scale, masses)) drawSegment(inside, scale, term, output, y, cells);
  for (const { cell } of masses.filter((mass) => !mass.isApart)) {
    inside.append(drawDot(scale.pixel(cell), y(term.score(cell, output)), 4, "dot"));
  }
  for (const strip of scale.strips) drawStrip(picture, strip, term, output, y, area);
  drawTicks(picture, scale, area.bottom + 18);
  const cursor = openCursor(picture);
  const read = (position) => y(lookUp(term.score, findCorners(term, [position]), output));
  const move = ([position], range) => {
    const x = scale.pixel(position), stretch = range ? drawStretch(scale, range, read, area) : [];
    cursor.replaceChildren(...stretch, drawLine(x, area.top, x, area.bottom, "cursor"), drawDot(x, read(position), 4.5, "mark"));
  };
  return { scales: [scale], isCut: scale.isCut, move };
}

// A group that shows only what is between the strips.
function clipChart(picture, scale, height, name) {
  picture.append(svg("clipPath", { id: name }, drawRect(scale.from, 0, scale.to - scale.from, height, "")));
  return svg("g", { "clip-path": `url(#${name})` });
}

// Runs of cells that a curve connects: a point mass that is not joined stands alone.
function splitCells(scale, masses) {
  const alone = new Set(masses.filter((mass) => !mass.isJoined).map((mass) => mass.cell)), runs = [[]];
  for (let cell = scale.start + 1; cell <= scale.end + 1; cell++) {
    if (alone.has(cell)) runs.push([cell], []);
    else runs[runs.length - 1].push(cell);
  }
  return runs.filter((run) => run.length);
}

function drawSegment(parent, scale, term, output, y, cells) {
  const xs = cells.map((cell) => scale.pixel(cell)), points = (read) => cells.map((cell, i) => [xs[i], y(read(cell))]);
  const edge = (sign, width) => points((cell) => term.score(cell, output) + sign * width(cell, output));
  const drawBand = (width, look) => drawPath([...edge(1, width), ...edge(-1, width).reverse()], look, "Z");
  const mean = points((cell) => term.score(cell, output));
  if (cells.length === 1 && scale.end > scale.start) {
    const draw = (low, high, look) => drawLine(xs[0], y(low), xs[0], y(high), look);
    parent.append(...drawWhiskers(term, cells[0], output, draw));
    return;
  }
  if (term.isTested) parent.append(drawBand(term.whole, "band whole"));
  parent.append(drawBand(term.each, "band each"));
  for (let m = 0; m < term.nMembers; m++) {
    parent.append(drawPath(points((cell) => term.member(m, cell, output)), "member"));
  }
  parent.append(drawPath(extendCurve(scale, mean, cells), "curve"));
  if (scale.end - scale.start < FEW_KNOTS) parent.append(...mean.map(([x, height]) => drawDot(x, height, 3, "dot")));
}

// Outside the outermost knots a shape is constant; beside a strip it is not.
function extendCurve(scale, points, cells) {
  const last = points.length - 1, found = [...points];
  if (cells[0] === 1) found.unshift([scale.from, points[0][1]]);
  if (cells[last] === scale.axis.count) found.push([scale.to, points[last][1]]);
  return found;
}

// Training weight as bars below the curve; the highest bar always has the same height. Point masses have their own
// bars, as high as the highest bar if they are heavier, with their share of the rows.
function drawDensity(parent, scale, weights, masses, area) {
  const height = 0.2 * (area.bottom - area.top), heavy = new Set(masses.map((mass) => mass.cell));
  const others = scale.cells.filter((cell) => !heavy.has(cell));
  const bars = scale.end - scale.start < FEW_KNOTS
    ? others.map((cell) => [scale.pixel(cell) - 5, 10, weights[cell]])
    : binWeights(scale, weights, others);
  const largest = Math.max(...bars.map((bar) => bar[2]), 0) || 1;
  const draw = (x, width, weight, look) => {
    if (!(weight > 0)) return;
    const tall = Math.max(1, height * Math.min(1, weight / largest));
    parent.append(drawRect(x, area.bottom - tall, width, tall, look));
  };
  for (const [x, width, weight] of bars) draw(x, width, weight, "density");
  const placed = [], total = weights.reduce((sum, weight) => sum + weight, 0);
  const strips = scale.strips.map(({ cell }) => cell), inner = scale.cells.filter((cell) => heavy.has(cell));
  for (const cell of [...strips, ...inner]) {
    const x = scale.pixel(cell), tall = Math.max(1, height * Math.min(1, weights[cell] / largest));
    draw(x - 4, 8, weights[cell], "density mass");
    const y = strips.includes(cell) ? area.bottom + 18 + SHARES_HEIGHT : area.bottom - tall - 4;
    if (placed.some((other) => Math.abs(other - x) < SHARE_WIDTH)) continue;
    placed.push(x);
    parent.append(drawText(x, y, writeRows(weights[cell] / total), "tick middle share"));
  }
}

// Height of the line below the axis that has the shares of missing values and special codes.
function measureShares(masses, weights) {
  return weights[0] > 0 || masses.some((mass) => mass.isApart) ? SHARES_HEIGHT : 0;
}

// Even bins of the drawn range. The weight of a knot is spread half way to its neighbours, not over empty stretches.
function binWeights(scale, weights, cells) {
  const { knots } = scale.axis;
  const low = Math.max(scale.low, knots[scale.start]), high = Math.min(scale.high, knots[scale.end]);
  const reach = findSpan(scale.axis, scale.start, scale.end), sums = new Float64Array(N_DENSITY);
  const bin = (value) => Math.min(Math.max(shareOf(value, low, high), 0), 1) * N_DENSITY;
  for (const cell of cells) {
    const at = knots[cell - 1], left = cell - 2 < scale.start ? at : Math.max(at - reach, knots[cell - 2] / 2 + at / 2);
    const right = cell > scale.end ? at : Math.min(at + reach, knots[cell] / 2 + at / 2);
    const from = bin(left), to = bin(right);
    if (!(to > from)) {
      sums[Math.min(Math.floor(bin(at)), N_DENSITY - 1)] += weights[cell];
      continue;
    }
    for (let i = Math.floor(from); i < Math.min(Math.ceil(to), N_DENSITY); i++) {
      sums[i] += (weights[cell] * (Math.min(to, i + 1) - Math.max(from, i))) / (to - from);
    }
  }
  const start = scale.place(low), step = (scale.place(high) - start) / N_DENSITY;
  return Array.from(sums, (sum, i) => [start + i * step, step - 0.5, sum]);
}

// How far from a knot its training rows can be: a column with more values than knots has one knot for about so much of
// its range.
function findSpan({ knots, count }, start = 0, end = count - 1) {
  const range = knots[end] / 2 - knots[start] / 2; // half: the range of huge knots must not overflow
  return 2 * Math.max(MIN_REACH, 1.5 / count) * range;
}

// Missing values and special codes, beside the curve.
function drawStrip(picture, { cell, from, to }, term, output, y, area) {
  const x = (from + to) / 2, at = y(term.score(cell, output));
  const inside = (value) => Math.min(Math.max(y(value), area.top), area.bottom);
  const mark = cell === 0
    ? drawPath([[x, at - 5], [x + 5, at], [x, at + 5], [x - 5, at]], "diamond", "Z") : drawDot(x, at, 4.5, "dot");
  picture.append(
    drawLine(to, area.top, to, area.bottom, "grid"),
    ...drawWhiskers(term, cell, output, (low, high, look) => drawLine(x, inside(low), x, inside(high), look)), mark);
}

// Error bars of one cell: thick for each value, thin for all values together.
function drawWhiskers(term, cell, output, draw) {
  const score = term.score(cell, output);
  const pairs = term.isTested ? [[term.whole, "whisker"], [term.each, "whisker thick"]] : [[term.each, "whisker"]];
  return pairs.map(([width, look]) => draw(score - width(cell, output), score + width(cell, output), look));
}
