// Drawing: elements, numbers as text, ticks, and scales that convert positions on an axis to pixels and back.
//
// Names and labels are inserted as text only, never as markup.

const MAX_LEVELS = 12;
const TAIL = 0.005; // share of the rows that is cut at each end of a long-tailed column
const MIN_MISSING = 0.02; // share of the rows from which on the band of missing values is always inside a chart
const STRIP = 30; // width of the strip for missing values, in pixels

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

function drawText(x, y, text, look) {
  return svg("text", { x, y, class: look }, text);
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

// A number shown in few digits; the element keeps the exact value.
function writeFigure(value, text, look = "") {
  return html("data", { value, title: value, class: look }, text);
}

function shorten(text, length) {
  const letters = Array.from(text.slice(0, 2 * length + 2).replace(/\s+/g, " "));
  if (letters.length <= length) return letters.join("");
  return `${letters.slice(0, Math.max(1, length - 1)).join("")}…`;
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

// The first and the last drawn knot: the outer quantiles if the tails would fill a third of the axis, else all.
function chooseRange(knots, weights) {
  const end = knots.length - 1, inner = weights.slice(1, end + 2), total = inner.reduce((sum, one) => sum + one, 0);
  const reach = (share) => {
    let sum = 0;
    const found = inner.findIndex((weight) => (sum += weight) >= share * total);
    return found < 0 ? end : found;
  };
  const first = reach(TAIL), last = reach(1 - TAIL), half = (a, b) => knots[b] / 2 - knots[a] / 2;
  return half(first, last) > 0 && half(first, last) <= (2 / 3) * half(0, end) ? [first, last] : [0, end];
}

// The most frequent levels, in the order of the axis, and the unseen cell if training rows are on it.
function chooseLevels(axis, weights, maxLevels) {
  const cells = Array.from(axis.knots, (_, i) => i + 1).sort((a, b) => weights[b] - weights[a] || a - b);
  const kept = cells.slice(0, maxLevels).sort((a, b) => a - b);
  return weights[axis.count + 1] > 0 ? [...kept, axis.count + 1] : kept;
}

// One axis between two pixels: `cells` are the drawn cells, `stops` are the positions of the arrow keys.
class AxisScale {
  constructor(axis, weights, from, to, maxLevels = MAX_LEVELS) {
    this.axis = axis;
    this.strip = weights[0] > 0 ? [from, from + Math.sign(to - from) * STRIP] : null;
    this.from = this.strip ? this.strip[1] : from;
    this.to = to;
    this.isCut = false;
    this.cells = axis.levels ? chooseLevels(axis, weights, maxLevels) : this.placeKnots(weights);
    this.stops = this.strip ? [0, ...this.cells] : this.cells;
  }

  placeKnots(weights) {
    const { knots } = this.axis, [first, last] = chooseRange(knots, weights);
    const margin = (knots[last] / 2 - knots[first] / 2) * 0.05 || Math.max(0.5, Math.abs(knots[first]) * 0.01);
    this.low = Math.max(knots[first] - margin, -Number.MAX_VALUE);
    this.high = Math.min(knots[last] + margin, Number.MAX_VALUE);
    this.isCut = first > 0 || last < knots.length - 1;
    return Array.from({ length: last - first + 1 }, (_, i) => first + i + 1);
  }

  place(value) {
    return this.from + shareOf(value, this.low, this.high) * (this.to - this.from);
  }

  pixel(position) {
    if (position === 0) return (this.strip[0] + this.strip[1]) / 2;
    if (!this.axis.levels) return this.place(findValue(this.axis, position));
    return this.from + ((this.cells.indexOf(position) + 0.5) / this.cells.length) * (this.to - this.from);
  }

  position(pixel) {
    const share = (pixel - this.from) / (this.to - this.from), inside = Math.min(Math.max(share, 0), 1);
    if (this.strip && share < 0) return 0;
    if (!this.axis.levels) return findPosition(this.axis, this.low * (1 - inside) + this.high * inside);
    return this.cells[Math.min(Math.floor(inside * this.cells.length), this.cells.length - 1)];
  }

  // Pixels and texts; the text of a level is shortened to its share of the axis.
  ticks(count, letters) {
    const found = this.axis.levels
      ? this.cells.map((cell) => [this.pixel(cell), shorten(nameCell(this.axis, cell), letters)])
      : chooseTicks(this.low, this.high, count).map(([value, text]) => [this.place(value), text]);
    return this.strip ? [[this.pixel(0), "missing"], ...found] : found;
  }
}
