// Drawing: elements, numbers as text, ticks, and scales that convert positions on an axis to pixels and back.
//
// Names and labels are inserted as text only, never as markup.

const MAX_LEVELS = 12;
const TAIL = 0.005; // share of the rows that is cut at each end of a long-tailed column
const MIN_MISSING = 0.02; // share of the rows from which on the band of missing values is always inside a chart
const STRIP = 40; // smallest width of the strip for missing values or for a special code, in pixels
const STRIP_HEIGHT = 20; // of a strip on a vertical axis
const MAX_STRIPS = 0.6; // share of an axis that strips may fill
const MAX_COMPARED = 1000; // letters of a name that are compared with other names

function html(tag, attributes, ...children) {
  return build(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return build(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function drawLine(x1, y1, x2, y2, look) {
  return svg("line", { x1, y1, x2, y2, class: look });
}

// A text; the whole name, if it was shortened, appears on hover.
function drawText(x, y, text, look, name = text) {
  const node = svg("text", { x, y, class: look }, text);
  if (name !== text) node.append(svg("title", {}, name));
  return node;
}

const ruler = document.createElement("canvas").getContext("2d");

// Width of a text of a chart, in pixels.
function measureText(text) {
  ruler.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  return ruler.measureText(text).width;
}

function drawRect(x, y, width, height, look) {
  return svg("rect", { x, y, width: Math.max(0, width), height: Math.max(0, height), class: look });
}

function drawDot(cx, cy, r, look) {
  return svg("circle", { cx, cy, r, class: look });
}

function drawPath(points, look, end = "") {
  const line = points.map(([x, y]) => `${x.toFixed(2)} ${y.toFixed(2)}`).join("L");
  return svg("path", { d: `M${line}${end}`, class: look });
}

const formats = new Map();

function writeDigits(value, options) {
  const key = JSON.stringify(options);
  if (!formats.has(key)) formats.set(key, new Intl.NumberFormat("en", { useGrouping: "min2", ...options }));
  return formats.get(key).format(value).replace("-", "−");
}

function writePower(value, places) {
  return value.toExponential(places).replace(/\.?0*e\+?/, "e").replaceAll("-", "−");
}

// A score or an importance in few digits; digits before the point are never dropped.
function writeNumber(value, digits = 3) {
  const size = Math.abs(value);
  if (size >= 1e7 || (size < 1e-4 && size > 0)) return writePower(value, digits - 1);
  return writeDigits(value, size >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: digits });
}

function writeSigned(value) {
  return (value > 0 ? "+" : "") + writeNumber(value);
}

// A raw value, with more digits.
function writeValue(value) {
  const size = Math.abs(value);
  if (size >= 1e9 || (size < 1e-4 && size > 0)) return writePower(value, 4);
  return writeDigits(value, { maximumSignificantDigits: size >= 1e5 ? 9 : 6 });
}

// A value and its error with the same decimals: two digits of the error.
function writeWithError(value, error) {
  const places = 1 - Math.floor(Math.log10(error));
  if (!(error > 0) || places > 5 || places < 0) return `${writeNumber(value)} ± ${writeNumber(error, 2)}`;
  const write = (number) => writeDigits(number, { minimumFractionDigits: places, maximumFractionDigits: places });
  return `${write(value)} ± ${write(error)}`;
}

// A share of the rows; a share that is neither none nor all is never written as such.
function writeRows(share) {
  if (share < 0.01) return "< 1 %";
  return share > 0.99 && share < 1 ? "> 99 %" : `${Math.round(100 * share)} %`;
}

// A name in which a line may end after a joining mark.
function breakName(name) {
  return name.split(/(?<=[_./-])/).flatMap((part, i) => (i ? [html("wbr"), part] : [part]));
}

// A number shown in few digits; the element keeps the exact value.
function writeFigure(value, text, look = "") {
  return html("data", { value, title: value, class: look }, text);
}

function shorten(text, length) {
  const letters = Array.from(text.slice(0, 2 * length + 2).replace(/\s+/g, " "));
  if (letters.length <= length) return letters.join("");
  return `${letters.slice(0, Math.max(1, length - 1)).join("")}…`;
}

// Names shortened to a number of letters; different names stay different, also if they begin alike.
function shortenAll(names, length) {
  const found = names.map((name) => shorten(name, length)), groups = new Map();
  found.forEach((text, i) => groups.set(text, [...(groups.get(text) || []), i]));
  for (const own of groups.values()) {
    const letters = own.map((i) => Array.from(names[i].slice(0, MAX_COMPARED).replace(/\s+/g, " ")));
    const differs = (place) => letters.some((each) => each[place] !== letters[0][place]);
    const first = letters[0].findIndex((_, place) => differs(place));
    if (own.length === 1 || first < 0) continue;
    // The beginning, then the part from the first difference on: from the start of its word if there is room.
    const head = Math.max(1, Math.floor(length / 3)), room = Math.max(2, length - head - 1);
    const word = letters[0].slice(0, first).findLastIndex((letter) => " -_./,".includes(letter)) + 1;
    const start = first - word <= room / 3 ? word : first;
    const rest = shortenAll(letters.map((each) => each.slice(start).join("")), room);
    own.forEach((i, k) => { found[i] = `${letters[k].slice(0, head).join("").trimEnd()}…${rest[k]}`; });
  }
  return found;
}

function nameCell(axis, position) {
  if (position === 0) return "missing";
  if (!axis.levels) return writeNumber(findValue(axis, position), 4);
  return position === axis.count + 1 ? "any other" : axis.levels[axis.knots[position - 1]];
}

// About `count` round values between two ends, each with its text.
function chooseTicks(low, high, count) {
  const raw = high / count - low / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((times) => times * power >= raw * 0.999);
  const first = Math.ceil(low / step), length = Math.floor(high / step) - first + 1;
  if (!(length > 0 && length < 100)) return [];
  return Array.from({ length }, (_, i) => [(first + i) * step, writeTick((first + i) * step, step)]);
}

function writeTick(value, step) {
  const places = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  if (value !== 0 && (Math.abs(value) >= 1e6 || places > 5)) return writePower(value, 1);
  return writeDigits(value, { minimumFractionDigits: places, maximumFractionDigits: places });
}

function widen(low, high) {
  const margin = (high - low) * 0.06 || Math.max(0.5, Math.abs(low) * 0.01);
  return [low - margin, high + margin];
}

// Training weight along one axis of a term.
function sumAlong(term, d) {
  const { cells } = term.axes[d], found = new Float64Array(cells), stride = term.strides[d];
  for (let cell = 0; cell < term.size; cell++) found[Math.floor(cell / stride) % cells] += term.weights[cell];
  return found;
}

// The first and the last drawn knot of some neighbouring ones: the outer quantiles if the tails would fill a third of
// the axis, else all.
function chooseRange(knots, weights, start = 0, end = knots.length - 1) {
  const inner = weights.slice(start + 1, end + 2), total = inner.reduce((sum, one) => sum + one, 0);
  const reach = (share) => {
    let sum = 0;
    const found = inner.findIndex((weight) => (sum += weight) >= share * total);
    return found < 0 ? end : start + found;
  };
  const first = reach(TAIL), last = reach(1 - TAIL), half = (a, b) => knots[b] / 2 - knots[a] / 2;
  return half(first, last) > 0 && half(first, last) <= (2 / 3) * half(start, end) ? [first, last] : [start, end];
}

// The levels of a nominal column with the strongest effects, from highest to lowest; of other columns, the most
// frequent levels in the order of the axis. The unseen cell follows if training rows are on it.
function chooseLevels(axis, weights, maxLevels, score) {
  const all = Array.from(axis.knots, (_, i) => i + 1), isSorted = score && !axis.ordinal;
  const isUsed = (cell) => Number(weights[cell] > 0), size = (cell) => Math.abs(score(cell));
  const compare = isSorted ? (a, b) => isUsed(b) - isUsed(a) || size(b) - size(a) : (a, b) => weights[b] - weights[a];
  const kept = all.sort((a, b) => compare(a, b) || a - b).slice(0, maxLevels);
  kept.sort((a, b) => (isSorted ? score(b) - score(a) : 0) || a - b);
  return weights[axis.count + 1] > 0 ? [...kept, axis.count + 1] : kept;
}

// One axis between two pixels. `cells` are the drawn cells, `strips` are missing values and special codes beside them,
// `stops` are the positions of the arrow keys. Options: point masses, number of levels, score of a level to sort by.
class AxisScale {
  constructor(axis, weights, from, to, { masses = [], maxLevels = MAX_LEVELS, score = null, isVertical = false } = {}) {
    this.axis = axis;
    this.isCut = false;
    [this.start, this.end] = findInner(axis, masses);
    const apart = masses.filter((mass) => mass.isApart).map((mass) => mass.cell);
    const before = [...(weights[0] > 0 ? [0] : []), ...apart.filter((cell) => cell <= this.start)];
    const after = apart.filter((cell) => cell > this.end + 1);
    const widths = [...before, ...after].map((cell) => this.measureStrip(cell, isVertical));
    const total = widths.reduce((sum, width) => sum + width, 0), sign = Math.sign(to - from);
    const shrink = Math.min(1, (MAX_STRIPS * Math.abs(to - from)) / (total || 1));
    let low = from, high = to;
    this.strips = before.map((cell, i) => ({ cell, from: low, to: (low += sign * shrink * widths[i]) }));
    for (let i = after.length - 1; i >= 0; i--) {
      this.strips.push({ cell: after[i], from: high, to: (high -= sign * shrink * widths[before.length + i]) });
    }
    this.from = low;
    this.to = high;
    this.cells = axis.levels ? chooseLevels(axis, weights, maxLevels, score) : this.placeKnots(weights);
    this.stops = [...before, ...this.cells, ...after];
  }

  measureStrip(cell, isVertical) {
    if (isVertical) return this.axis.levels ? STRIP : STRIP_HEIGHT;
    return Math.min(64, Math.max(STRIP, (nameCell(this.axis, cell).length + 1) * LETTER));
  }

  placeKnots(weights) {
    const { knots } = this.axis, [first, last] = chooseRange(knots, weights, this.start, this.end);
    const margin = (knots[last] / 2 - knots[first] / 2) * 0.05 || Math.max(0.5, Math.abs(knots[first]) * 0.01);
    this.low = Math.max(knots[first] - margin, -Number.MAX_VALUE);
    this.high = Math.min(knots[last] + margin, Number.MAX_VALUE);
    this.isCut = first > this.start || last < this.end;
    return Array.from({ length: last - first + 1 }, (_, i) => first + i + 1);
  }

  place(value) {
    return this.from + shareOf(value, this.low, this.high) * (this.to - this.from);
  }

  pixel(position) {
    const strip = this.strips.find(({ cell }) => cell === position);
    if (strip) return (strip.from + strip.to) / 2;
    if (!this.axis.levels) return this.place(findValue(this.axis, position));
    return this.from + ((this.cells.indexOf(position) + 0.5) / this.cells.length) * (this.to - this.from);
  }

  position(pixel) {
    const share = (pixel - this.from) / (this.to - this.from), inside = Math.min(Math.max(share, 0), 1);
    const strip = this.strips.find(({ from, to }) => (pixel - from) * (pixel - to) <= 0);
    if (strip) return strip.cell;
    if (!this.axis.levels) {
      const found = findPosition(this.axis, this.low * (1 - inside) + this.high * inside);
      return Math.min(Math.max(found, this.start + 1), this.end + 1);
    }
    return this.cells[Math.min(Math.floor(inside * this.cells.length), this.cells.length - 1)];
  }

  // Pixels, texts and whole names, strips first; names of levels are shortened to some letters.
  ticks(count, letters) {
    const own = this.strips.map(({ cell, from, to }) => {
      const name = nameCell(this.axis, cell), room = Math.max(3, Math.floor(Math.abs(to - from) / LETTER));
      return [(from + to) / 2, shorten(name, Math.max(room, letters)), name];
    });
    if (!this.axis.levels) {
      const found = chooseTicks(this.low, this.high, count);
      return [...own, ...found.map(([value, text]) => [this.place(value), text, text])];
    }
    const names = this.cells.map((cell) => nameCell(this.axis, cell)), texts = shortenAll(names, letters);
    return [...own, ...this.cells.map((cell, i) => [this.pixel(cell), texts[i], names[i]])];
  }
}

// The first and the last knot that are not apart.
function findInner(axis, masses) {
  const isApart = new Set(masses.filter((mass) => mass.isApart).map((mass) => mass.cell));
  let start = 0, end = axis.count - 1;
  while (isApart.has(start + 1)) start++;
  while (isApart.has(end + 1)) end--;
  return [start, end];
}
