// The model stored in the page, and the computation of a prediction.
//
//   score = intercept + Σ_terms table_term(position of the row)          prediction = link⁻¹(score)
//
// A row has one entry per column: a number, the index of a level (-1: unseen), or null for missing. Along each axis, a
// table has cells for missing, knots and unseen: a position is 0, 1 … G with a fraction between knots, or G + 1.

function readModel() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const exact = new Float64Array(readBytes("exact"));
  const steps = new Uint16Array(readBytes("steps"));
  for (const axis of data.axes) openAxis(Object.assign(axis, data.columns[axis.column]));
  const nOutputs = data.intercept.length;
  data.terms.forEach((term, index) => openTerm(term, index, nOutputs, data.axes));
  data.mains = new Map(data.terms.filter((term) => term.axes.length === 1).map((term) => [term.columns[0], term]));
  for (const [index, start] of Object.entries(data.outcomes || {})) openOutcomes(data.terms[index], start, nOutputs);
  weighColumns(data);
  if (data.evidence) openEvidence(data.evidence);
  return data;

  function openAxis(axis) {
    axis.knots = exact.subarray(axis.knots, axis.knots + axis.count);
    axis.cells = axis.count + 2;
  }

  // Rows of the page in each cell of a main effect, and the sums of their outcomes and predictions.
  function openOutcomes(term, start, n) {
    const actual = start + term.size, predicted = actual + term.size * n;
    term.outcomes = {
      count: (cell) => exact[start + cell],
      actual: (cell, k) => exact[actual + cell * n + k],
      predicted: (cell, k) => exact[predicted + cell * n + k],
    };
  }

  // Terms of single classes have one score and their own axes; heat maps are numbers from 0 to 1.
  function openEvidence({ axes, classes, pictures }) {
    axes.forEach(openAxis);
    const terms = classes.flatMap((one) => [...one.for, ...one.against]);
    terms.forEach((term, index) => openTerm(term, `class-${index}`, 1, axes));
    for (const { grid, terms } of pictures) {
      for (const term of terms) if (term.heat) term.heat = readSteps(term.heat, grid[0] * grid[1]);
    }
  }

  function openTerm(term, index, n, axes) {
    const { scores, mix, spread, weights, members, each, whole } = term;
    term.index = index;
    term.axes = term.axes.map((axis) => axes[axis]);
    term.strides = term.axes.map((_, d) => term.axes.slice(d + 1).reduce((size, axis) => size * axis.cells, 1));
    term.size = term.strides[0] * term.axes[0].cells;
    term.weights = readSteps(weights, term.size).map((root) => root ** 2);
    term.hasRows = term.weights.some(Boolean);
    const error = (cell, k) => spread[1] + spread[2] * steps[spread[0] + cell * n + k];
    term.masses = (term.masses || term.axes.map(() => [])).map((own) => own.map(
      ([cell, isApart, isJoined]) => ({ cell, isApart: Boolean(isApart), isJoined: Boolean(isJoined) })));
    term.isTested = whole !== null; // whether standard errors and p-values are known
    term.each = (cell, k) => each * error(cell, k); // half width of the band for each value
    term.whole = whole ? (cell, k) => whole[k] * error(cell, k) : term.each; // of the band for the whole curve
    term.isClear = (cell, k) => !whole || (error(cell, k) > 0 && Math.abs(term.score(cell, k)) > term.whole(cell, k));
    term.nMembers = members ? members[0] : 0;
    term.member = (m, cell, k) => members[2] + members[3] * steps[members[1] + (m * term.size + cell) * n + k];
    term.score = mix ? tiedScore(scores, mix[0], mix[1], n) : (cell, k) => exact[scores + cell * n + k];
  }

  function readSteps([start, low, step], size) {
    return Float64Array.from({ length: size }, (_, i) => low + step * steps[start + i]);
  }

  // Classes share a few shapes, each with its own weights.
  function tiedScore(values, count, mix, n) {
    return (cell, k) => {
      let total = 0;
      for (let c = 0; c < count; c++) total += exact[values + cell * count + c] * exact[mix + c * n + k];
      return total;
    };
  }
}

function readBytes(id) {
  const text = atob(document.getElementById(id).textContent);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes.buffer;
}

function findPosition(axis, value) {
  const { knots, count } = axis;
  if (value === null) return 0;
  if (axis.levels) return (knots.indexOf(value) + 1 || count + 1);
  if (value <= knots[0]) return 1;
  if (value >= knots[count - 1]) return count;
  let low = 0, high = count - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (knots[middle] <= value) low = middle;
    else high = middle;
  }
  return 1 + low + shareOf(value, knots[low], knots[high]);
}

// Position of a value between two others, 0 … 1; computed in halves, because the range of huge knots would overflow.
function shareOf(value, low, high) {
  const unit = Math.max(-low, high) > 1 ? 0.5 : 1;
  return (value * unit - low * unit) / (high * unit - low * unit);
}

// The raw value at a position between the first and the last knot.
function findValue(axis, position) {
  const whole = Math.floor(position), part = position - whole;
  return part === 0 ? axis.knots[whole - 1] : axis.knots[whole - 1] * (1 - part) + axis.knots[whole] * part;
}

// The cells around the positions, each with its interpolation weight.
function findCorners(term, positions) {
  let corners = [[0, 1]];
  positions.forEach((position, d) => {
    const whole = Math.floor(position), part = position - whole;
    corners = corners.flatMap(([cell, share]) => {
      const at = cell + whole * term.strides[d];
      return part === 0 ? [[at, share]] : [[at, share * (1 - part)], [at + term.strides[d], share * part]];
    });
  });
  return corners;
}

function lookUp(read, corners, output) {
  return corners.reduce((total, [cell, share]) => total + share * read(cell, output), 0);
}

// Contributions [term][output] of a row.
function contribute(model, row) {
  return model.terms.map((term) => {
    const corners = findCorners(term, term.axes.map((axis) => findPosition(axis, row[axis.column])));
    return model.intercept.map((_, output) => lookUp(term.score, corners, output));
  });
}

// Half widths of the bands around the scores, with the errors of the terms taken as independent, as
// `predict_with_uncertainty` does; null if terms are not on the page.
function measureBands(model, row) {
  if (model.hidden) return null;
  const squares = model.intercept.map(() => 0);
  for (const term of model.terms) {
    const corners = findCorners(term, term.axes.map((axis) => findPosition(axis, row[axis.column])));
    squares.forEach((_, output) => {
      squares[output] += lookUp((cell, k) => term.each(cell, k) ** 2, corners, output);
    });
  }
  return squares.map(Math.sqrt);
}

// Band of the prediction of one output, or of the probability of a class; null if it is unknown. With three classes or
// more, the errors of the other scores count by their share of the other classes.
function findBand(model, scores, widths, output) {
  if (!widths || widths.every((width) => width === 0)) return null;
  if (!model.classes) return [-1, 1].map((side) => toTarget(model, scores[output] + side * widths[output]));
  let [odds] = scores, [width] = widths; // of the second of two classes
  if (model.link !== "logit") {
    const others = scores.map((score, k) => (k === output ? -Infinity : score)), top = Math.max(...others);
    const shares = others.map((score) => Math.exp(score - top)), total = shares.reduce((sum, one) => sum + one, 0);
    odds = scores[output] - top - Math.log(total);
    width = Math.hypot(widths[output], ...shares.map((share, k) => (share / total) * widths[k]));
  }
  return [-1, 1].map((side) => 1 / (1 + Math.exp(-(odds + side * width))));
}

// The inverse of each transformation of the target that `report.write` accepts.
const INVERSES = {
  log: Math.exp, log1p: Math.expm1, log2: (score) => 2 ** score, log10: (score) => 10 ** score,
  sqrt: (score) => Math.max(score, 0) ** 2,
};

// A score in the unit of the target.
function toTarget(model, score) {
  return model.transform ? INVERSES[model.transform](score) : score;
}

// Training weights of the cells of every column, on the axis of its main effect or of another term that has it.
function weighColumns({ columns, terms }) {
  const found = new Map();
  for (const term of terms) {
    term.axes.forEach(({ column }, d) => {
      if (term.axes.length < (found.get(column)?.term.axes.length ?? Infinity)) found.set(column, { term, d });
    });
  }
  for (const [column, { term, d }] of found) {
    Object.assign(columns[column], { axis: term.axes[d], weights: sumAlong(term, d) });
  }
}

// Why a value is outside the training data; empty if it is inside.
function describeOutside(column, value) {
  const { levels, low, high, margins, weights } = column;
  if (value === null) return weights && !weights[0] && weights.some(Boolean) ? "never missing in the training data" : "";
  if (levels) return value === -1 ? "a level that no training row has" : "";
  const isInside = value >= low - margins[0] && value <= high + margins[1];
  return isInside ? "" : `outside the data: ${writeValue(low)} to ${writeValue(high)}`;
}

// Whether no training row is near the values of a term.
function isEmpty(term, row) {
  const corners = findCorners(term, term.axes.map((axis) => findPosition(axis, row[axis.column])));
  return term.hasRows && corners.every(([cell]) => term.weights[cell] === 0);
}

// `rest` is the contribution of terms that are not on the page, or null.
function sumScores(model, contributions, rest) {
  return model.intercept.map((start, output) => (
    contributions.reduce((total, found) => total + found[output], start) + (rest ? rest[output] : 0)));
}

// Lower and upper bound of the actual value, or null: the score plus a quantile of the residuals, linear between the
// centres of the regions and constant outside. With two classes, bounds of the probability of class `winner`.
function findBounds(model, score) {
  if (!model.interval) return null;
  const { centres, quantiles } = model.interval, last = centres.length - 1;
  const position = findPosition({ knots: centres, count: centres.length }, score) - 1;
  const left = Math.floor(position), share = position - left, right = Math.min(left + 1, last);
  const bounds = quantiles.map((own) => score + (1 - share) * own[left] + share * own[right]);
  if (!model.classes) return bounds.map((bound) => toTarget(model, bound));
  return bounds.map((bound) => findProbabilities(model, [bound])[1]);
}

// Probabilities of all classes, or null for a regression.
function findProbabilities(model, scores) {
  if (!model.classes) return null;
  if (model.link === "logit") {
    const tail = Math.exp(-Math.abs(scores[0])), positive = (scores[0] >= 0 ? 1 : tail) / (1 + tail);
    return [1 - positive, positive];
  }
  const largest = Math.max(...scores), odds = scores.map((score) => Math.exp(score - largest));
  const total = odds.reduce((sum, one) => sum + one, 0);
  return odds.map((one) => one / total);
}

function findWinner(model, scores) {
  return model.link === "logit" ? Number(scores[0] > 0) : scores.indexOf(Math.max(...scores));
}
