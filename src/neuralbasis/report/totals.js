// The whole effect of two columns, as curves of one column at a few values of the other:
//
//   total = main effect of the one + main effect of the other + interaction

const SHARES = [0.1, 0.5, 0.9]; // of the rows below the values of the other column
const MAX_LINES = 5;
const MIN_SPECIAL = 0.1; // share of the rows at a special code that has a curve
const NEAR = 2; // cells on each side in which there must be training rows

const totals = new Map(); // term -> its lines

// The axis to draw along, and the cells of the other axis; null if both columns have levels.
function openTotal(term) {
  if (!totals.has(term)) totals.set(term, chooseTotal(term));
  return totals.get(term);
}

function chooseTotal(term) {
  if (term.axes.length !== 2 || term.axes.every((axis) => axis.levels)) return null;
  const [first, second] = term.axes;
  const along = second.levels || (!first.levels && first.count >= second.count) ? 0 : 1, other = 1 - along;
  const mains = term.columns.map((column) => model.mains.get(column) || null);
  const main = mains[along], axis = main ? main.axes[0] : term.axes[along];
  const masses = main ? main.masses[0] : term.masses[along], weights = main ? main.weights : sumAlong(term, along);
  const cells = chooseLines(term, other);
  return { along, other, mains, axis, masses, weights, cells };
}

function chooseLines(term, other) {
  const axis = term.axes[other], weights = sumAlong(term, other);
  if (axis.levels) return chooseLevels(axis, weights, MAX_LINES);
  const [start, end] = findInner(axis, term.masses[other]), inner = weights.slice(start + 1, end + 2);
  const total = inner.reduce((sum, one) => sum + one, 0), all = weights.reduce((sum, one) => sum + one, 0);
  const reach = (share) => {
    let sum = 0;
    return start + 1 + Math.max(0, inner.findIndex((weight) => (sum += weight) >= share * total));
  };
  const special = term.masses[other].filter((mass) => mass.isApart && weights[mass.cell] >= MIN_SPECIAL * all);
  const heavy = special.map((mass) => mass.cell).sort((a, b) => weights[b] - weights[a]);
  return [...new Set([...SHARES.map(reach), ...heavy])].slice(0, MAX_LINES).sort((a, b) => a - b);
}

// The total at a position of the drawn axis and a cell of the other one, and whether training rows are near.
function readTotal(term, { along, other, mains, axis }, position, cell, output) {
  const find = (from, at) => (from.levels ? from.knots[at - 1] : findValue(from, at));
  const carry = (to, from, at) => (at === 0 ? 0 : at > from.count ? to.count + 1 : findPosition(to, find(from, at)));
  const positions = [];
  positions[along] = carry(term.axes[along], axis, position);
  positions[other] = cell;
  let score = lookUp(term.score, findCorners(term, positions), output);
  if (mains[along]) score += lookUp(mains[along].score, findCorners(mains[along], [position]), output);
  if (mains[other]) {
    const at = carry(mains[other].axes[0], term.axes[other], cell);
    score += lookUp(mains[other].score, findCorners(mains[other], [at]), output);
  }
  return score;
}

function hasRowsNear(term, { along, other }, place, cell) {
  const around = (axis, at) => {
    const reach = axis.levels || at < 1 ? 0 : NEAR, from = Math.max(Math.min(at, 1), Math.floor(at) - reach);
    const to = Math.min(Math.max(axis.count, at), Math.ceil(at) + reach);
    return Array.from({ length: to - from + 1 }, (_, i) => from + i);
  };
  return around(term.axes[along], place).some((a) => around(term.axes[other], cell)
    .some((b) => term.weights[a * term.strides[along] + b * term.strides[other]] > 0));
}

// Lowest and highest drawn total; always includes 0.
function measureTotal(term, output) {
  const total = openTotal(term), { axis, cells, masses, weights } = total;
  const [start, end] = findInner(axis, masses), [first, last] = chooseRange(axis.knots, weights, start, end);
  const apart = masses.filter((mass) => mass.isApart).map((mass) => mass.cell);
  const places = [...(weights[0] > 0 ? [0] : []), ...apart];
  for (let cell = first + 1; cell <= last + 1; cell++) places.push(cell);
  const found = places.flatMap((place) => cells.map((cell) => readTotal(term, total, place, cell, output)));
  return [Math.min(0, ...found), Math.max(0, ...found)];
}

function drawTotal(box, term, output, limits) {
  const { picture, width, height } = openChart(box), total = openTotal(term), { axis, masses, weights, cells } = total;
  const area = placeArea(width, height, listLabels(limits), 18 + measureShares(masses, weights)), y = scaleUp(area, limits);
  const scale = new AxisScale(axis, weights, area.left, area.right, { masses });
  const inside = clipChart(picture, scale, height, `clip-total-${term.index}`), runs = splitCells(scale, masses);
  const read = (place, cell) => y(readTotal(term, total, place, cell, output));
  drawDensity(picture, scale, weights, masses, area);
  drawHeights(picture, area, limits, y);
  picture.append(inside);
  cells.forEach((cell, i) => {
    for (const run of runs) {
      const points = run.map((place) => [scale.pixel(place), read(place, cell)]);
      if (run.length === 1 && scale.end > scale.start) inside.append(drawDot(...points[0], 3.5, `dot tint-${i}`));
      else {
        inside.append(drawPath(extendCurve(scale, points, run), `total faint tint-${i}`));
        for (const part of splitNear(term, total, run, cell, points)) inside.append(drawPath(part, `total tint-${i}`));
      }
    }
    for (const strip of scale.strips) {
      picture.append(drawDot((strip.from + strip.to) / 2, read(strip.cell, cell), 3.5, `dot tint-${i}`));
    }
  });
  for (const { to } of scale.strips) picture.append(drawLine(to, area.top, to, area.bottom, "grid"));
  drawTicks(picture, scale, area.bottom + 18);
  const wide = Math.floor((area.right - area.left) / LETTER), name = term.axes[total.along].name;
  picture.append(drawText((area.left + area.right) / 2, height - 6, shorten(name, wide), "tick middle strong", name));
  const cursor = openCursor(picture);
  const move = ([place]) => {
    const x = scale.pixel(place), dots = cells.map((cell, i) => drawDot(x, read(place, cell), 4, `dot tint-${i}`));
    cursor.replaceChildren(drawLine(x, area.top, x, area.bottom, "cursor"), ...dots);
  };
  return { scales: [scale], isCut: scale.isCut, move };
}

// The parts of a curve with training rows near.
function splitNear(term, total, run, cell, points) {
  const to = term.axes[total.along], parts = [[]];
  run.forEach((place, i) => {
    const at = Math.round(findPosition(to, total.axis.knots[place - 1]));
    if (hasRowsNear(term, total, at, cell)) parts[parts.length - 1].push(points[i]);
    else parts.push([]);
  });
  return parts.filter((part) => part.length > 1);
}

// The totals at one position, as text.
function describeTotal(term, [place], output) {
  const total = openTotal(term), along = term.axes[total.along], other = term.axes[total.other];
  const figures = total.cells.flatMap((cell, i) => {
    const score = readTotal(term, total, place, cell, output), figure = writeFigure(score, writeSigned(score));
    return [`${i ? "; " : ""}${shorten(nameCell(other, cell), 24)}: `, figure];
  });
  const at = `${shorten(along.name, 30)} ${shorten(nameCell(total.axis, place), 30)}`;
  return [`${at}, by ${shorten(other.name, 30)}: `, ...figures];
}

// The colours of the curves.
function listTints(term) {
  const { other, cells } = openTotal(term), axis = term.axes[other], names = cells.map((cell) => nameCell(axis, cell));
  const texts = shortenAll(names, 22);
  const tint = (i) => html("i", { class: `tint-${i}`, "aria-hidden": "true" });
  const items = cells.map((_, i) => html("span", { title: names[i] }, tint(i), texts[i]));
  return html("span", { class: "tints" }, `${shorten(axis.name, 30)} `, ...items);
}
