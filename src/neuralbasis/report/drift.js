// Drift: how the columns of a file differ from the training data.
//
//   population stability index = Σ_bins (share in the file − share in training) · ln(share in the file / share in training)
//
// Bins of numbers hold about a tenth of the training rows each; levels, missing values and unseen levels have their own.

const N_BINS = 10;
const SOME_DRIFT = 0.1, STRONG_DRIFT = 0.25; // of the index, as is usual in credit scoring
const HALF_ROW = 0.5; // added to each count: a bin may be empty
const RARE = 0.01; // levels below this share of the training rows form one bin

// The bin of each cell of an axis, and the number of bins.
function chooseBins({ levels, axis, weights }) {
  const total = weights.reduce((sum, weight) => sum + weight, 0), bins = new Int32Array(axis.cells);
  let bin = 0, sum = 0;
  for (let cell = 1; cell <= axis.count; cell++) {
    if (levels) {
      bins[cell] = weights[cell] < RARE * total ? 0 : ++bin;
      continue;
    }
    bins[cell] = bin + 1;
    sum += weights[cell];
    if (sum >= total / N_BINS && cell < axis.count) {
      bin++;
      sum = 0;
    }
  }
  if (!levels) bin++;
  return { bins: bins.map((own, cell) => (cell === 0 ? bin + 1 : cell === axis.count + 1 ? bin + 2 : own)), count: bin + 3 };
}

// Rows of a file in each cell: a value between two knots counts for both, as in the training weights.
function countRows(axis, values) {
  const counts = new Float64Array(axis.cells);
  for (const position of placeRows(axis, values, values.length)) {
    const cell = Math.floor(position), part = position - cell;
    counts[cell] += 1 - part;
    if (part) counts[cell + 1] += part;
  }
  return counts;
}

// The index, and what chance alone would exceed in one of twenty files of this size.
function measureStability(column, values) {
  if (!column.weights?.some(Boolean)) return null;
  const { bins, count } = chooseBins(column), counts = countRows(column.axis, values);
  const before = new Float64Array(count), after = new Float64Array(count);
  bins.forEach((bin, cell) => {
    before[bin] += column.weights[cell];
    after[bin] += counts[cell];
  });
  const used = [...before.keys()].filter((bin) => before[bin] > 0 || after[bin] > 0);
  const sum = (all) => used.reduce((total, bin) => total + all[bin] + HALF_ROW, 0), whole = [sum(before), sum(after)];
  const index = used.reduce((total, bin) => {
    const old = (before[bin] + HALF_ROW) / whole[0], own = (after[bin] + HALF_ROW) / whole[1];
    return total + (own - old) * Math.log(own / old);
  }, 0);
  return { index, chance: (1 / values.length + 1 / whole[0]) * findQuantile(used.length - 1) };
}

// The 95 % quantile of the chi-squared distribution, by Wilson and Hilferty.
function findQuantile(freedom) {
  if (freedom < 1) return 0;
  const part = 2 / (9 * freedom);
  return freedom * (1 - part + 1.6449 * Math.sqrt(part)) ** 3;
}

function nameDrift({ index, chance }) {
  if (index < SOME_DRIFT) return "stable";
  if (index < chance) return "no more than chance";
  return index < STRONG_DRIFT ? "some drift" : "strong drift";
}

// Facts of one column: outside the range, unseen levels, missing values and the stability index.
function measureDrift({ c, column, place, isExact }, { values, unseen, unread, decimal }) {
  const present = values.filter((value) => value !== null), { low, high, margins, levels, weights } = column;
  const isOutside = (value) => (levels ? value === -1 : value < low - margins[0] || value > high + margins[1]);
  const total = weights ? weights.reduce((sum, weight) => sum + weight, 0) : 0;
  return {
    c, column, place, isExact, unseen, unread, decimal,
    outside: present.length ? present.filter(isOutside).length / values.length : 0,
    range: levels || !present.length ? null : present.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, -Infinity]),
    missing: 1 - present.length / values.length,
    missingBefore: total ? weights[0] / total : null,
    stability: measureStability(column, values),
  };
}

// The known level that is most similar to an unseen one, whatever the case of letters; null if none is.
function findNearestLevel(text, levels) {
  const plain = (level) => level.trim().toLowerCase(), own = plain(text);
  const same = levels.find((level) => plain(level) === own);
  if (same !== undefined) return same;
  let best = null, least = Infinity;
  for (const level of levels) {
    const steps = countEdits(own, plain(level));
    if (steps < least) [best, least] = [level, steps];
  }
  return least <= 0.5 * Math.max(own.length, plain(best ?? "").length) ? best : null;
}

// Letters to insert, delete or replace between two texts of at most 60 letters.
function countEdits(a, b) {
  const [from, to] = [a.slice(0, 60), b.slice(0, 60)];
  let row = Array.from({ length: to.length + 1 }, (_, i) => i);
  for (let i = 1; i <= from.length; i++) {
    const next = [i];
    for (let j = 1; j <= to.length; j++) {
      next.push(Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + Number(from[i - 1] !== to[j - 1])));
    }
    row = next;
  }
  return row[to.length];
}
