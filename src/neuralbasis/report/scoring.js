// Scoring a file: its columns as the model reads them, the scores of all rows, and the measures against known values.

const CHUNK = 5000; // rows between two updates of the progress

// A page with all terms of a model that reads dense tables can score any file.
function canScore() {
  return !model.hidden && !model.wide && model.terms.length > 0;
}

// The names of columns that terms use, and the place of each in the file, or -1.
function matchColumns(names) {
  const plain = (name) => name.trim().toLowerCase(), byPlain = new Map(names.map((name, i) => [plain(name), i]));
  const used = [...new Set(model.terms.flatMap((term) => term.columns))].sort((a, b) => a - b);
  return used.map((c) => {
    const { name } = model.columns[c], exact = names.indexOf(name), place = exact >= 0 ? exact : byPlain.get(plain(name)) ?? -1;
    return { c, column: model.columns[c], place, isExact: exact >= 0 };
  });
}

// Values of one column: numbers, indices of levels (-1: unseen), null for missing, and what could not be read.
function encodeColumn(column, texts, delimiter) {
  if (column.levels) {
    const indexOf = new Map(column.levels.map((level, i) => [level, i])), unseen = new Map();
    const values = texts.map((text) => {
      const found = parseLevel(text, indexOf);
      if (found === -1) unseen.set(text, (unseen.get(text) || 0) + 1);
      return found;
    });
    return { values, unseen, unread: [], decimal: "." };
  }
  // A semicolon between values suggests a comma in numbers: "1,5" is not a number otherwise.
  const isComma = delimiter === ";" && texts.some((text) => /^\s*[+-]?\d+,\d+\s*%?\s*$/.test(text) && parseNumber(text) === undefined)
    && !texts.some((text) => /\d\.\d/.test(text) && !/\d\.\d{3}(\D|$)/.test(text));
  const decimal = isComma ? "," : ".", unread = [];
  const values = texts.map((text) => {
    const number = parseNumber(text, decimal);
    if (number === undefined) unread.push(text);
    return number ?? null;
  });
  return { values, unseen: new Map(), unread, decimal };
}

// Scores (row · K) of encoded columns, by index of the column; absent columns count as missing.
async function scoreRows(encoded, n, report) {
  const nOutputs = model.intercept.length, scores = new Float64Array(n * nOutputs), positions = new Map();
  for (const axis of new Set(model.terms.flatMap((term) => term.axes))) positions.set(axis, placeRows(axis, encoded.get(axis.column), n));
  for (let first = 0; first < n; first += CHUNK) {
    const last = Math.min(first + CHUNK, n);
    for (let row = first; row < last; row++) scores.set(model.intercept, row * nOutputs);
    for (const term of model.terms) addTerm(term, term.axes.map((axis) => positions.get(axis)), first, last, scores, nOutputs);
    report(last);
    await new Promise((done) => { setTimeout(done); });
  }
  return scores;
}

function placeRows(axis, values, n) {
  const found = new Float64Array(n);
  if (!values) return found;
  const known = new Map();
  for (let row = 0; row < n; row++) {
    const value = values[row];
    if (!known.has(value)) known.set(value, findPosition(axis, value));
    found[row] = known.get(value);
  }
  return found;
}

function addTerm(term, positions, first, last, scores, nOutputs) {
  const own = new Array(positions.length);
  for (let row = first; row < last; row++) {
    for (let d = 0; d < own.length; d++) own[d] = positions[d][row];
    const corners = findCorners(term, own);
    for (let k = 0; k < nOutputs; k++) scores[row * nOutputs + k] += lookUp(term.score, corners, k);
  }
}

// Predictions of all rows: the class or value, and the probabilities.
function predictRows(scores, n) {
  const nOutputs = model.intercept.length;
  return Array.from({ length: n }, (_, row) => {
    const own = Array.from(scores.subarray(row * nOutputs, (row + 1) * nOutputs));
    if (!model.classes) return { values: own.map((score) => toTarget(model, score)) };
    return { winner: findWinner(model, own), probabilities: findProbabilities(model, own) };
  });
}

// Measures on the rows whose actual value is known: [name, value, value of the best constant].
function measureFile(predictions, texts, delimiter) {
  if (!model.classes) {
    const { values } = encodeColumn({ levels: null }, texts, delimiter);
    const rows = values.map((value, i) => [value, predictions[i].values[0]]).filter(([value]) => value !== null);
    return { n: rows.length, unknown: 0, measures: rows.length ? measureValues(rows) : [] };
  }
  const indexOf = new Map(model.classes.map((name, k) => [name, k]));
  const codes = texts.map((text) => parseLevel(text, indexOf));
  const rows = codes.map((code, i) => [code, predictions[i]]).filter(([code]) => code !== null && code >= 0);
  const unknown = codes.filter((code) => code === -1).length;
  return { n: rows.length, unknown, measures: rows.length ? measureClasses(rows) : [], rates: findRates(rows) };
}

function findMean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function measureValues(rows) {
  const actual = rows.map((row) => row[0]), mean = findMean(actual), sorted = [...actual].sort((a, b) => a - b);
  const half = sorted.length / 2, median = (sorted[Math.ceil(half) - 1] + sorted[Math.floor(half)]) / 2;
  const squares = findMean(rows.map(([y, p]) => (y - p) ** 2)), variance = findMean(actual.map((y) => (y - mean) ** 2));
  return [
    ...(variance > 0 ? [["R²", 1 - squares / variance]] : []),
    ["RMSE", Math.sqrt(squares), Math.sqrt(variance)],
    ["mean absolute error", findMean(rows.map(([y, p]) => Math.abs(y - p))), findMean(actual.map((y) => Math.abs(y - median)))],
  ];
}

function findRates(rows) {
  return model.classes.map((_, k) => rows.filter(([code]) => code === k).length / rows.length);
}

function measureClasses(rows) {
  const rates = findRates(rows), present = rates.filter(Boolean);
  const areas = rates.every(Boolean) ? rates.map((_, k) => measureArea(rows.map(([code, own]) => [own.probabilities[k], code === k]))) : [];
  return [
    ["accuracy", findMean(rows.map(([code, own]) => Number(own.winner === code))), Math.max(...rates)],
    ["log loss", findMean(rows.map(([code, own]) => -Math.log(Math.max(own.probabilities[code], 2.220446049250313e-16)))),
      -present.reduce((sum, rate) => sum + rate * Math.log(rate), 0)],
    ...(areas.length ? [["AUROC", findMean(areas)]] : []),
  ];
}

// Area under the ROC curve: the share of pairs in the right order; ties count half.
function measureArea(rows) {
  const sorted = [...rows].sort((a, b) => a[0] - b[0]);
  let below = 0, sum = 0, at = 0;
  while (at < sorted.length) {
    let positives = 0, negatives = 0;
    const [value] = sorted[at];
    for (; at < sorted.length && sorted[at][0] === value; at++) sorted[at][1] ? positives++ : negatives++;
    sum += positives * (below + negatives / 2);
    below += negatives;
  }
  return sum / (below * (sorted.length - below));
}
