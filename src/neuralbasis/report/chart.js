// Charts, drawn at the size of their box: SVG for lines and bars, a canvas for maps.
//
// A chart of a term returns its scales and `move(positions)`, which moves the cursor.

const MARGIN = { top: 10, right: 14, bottom: 26, left: 50 };
const LETTER = 7; // usual width in pixels
const MAX_LEVEL_HEIGHT = 44;
const MAX_MAP_LEVELS = 24;
const SIDE_LETTERS = 12; // of a name beside a map
const MIN_LETTERS = 6; // of a shortened name below an axis
const PALE = 0.35; // strength of the colour where the band contains 0

function openChart(box) {
  const width = Math.max(box.clientWidth, 200), height = box.clientHeight;
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  box.replaceChildren(picture);
  return { picture, width, height };
}

// A group in front of everything else, for the cursor.
function openCursor(picture) {
  const group = svg("g", { class: "pointer" });
  picture.append(group);
  return group;
}

// The area of a chart: `foot` is for the title of the x axis, `side` for that of the y axis beside its tick labels.
function placeArea(width, height, labels, foot = 0, side = 0) {
  const { top, right, bottom, left } = MARGIN, widest = Math.max(0, ...labels.map(measureText));
  const room = Math.min(width / 2, Math.max(left, widest + 14) + side);
  return { left: room, right: width - right, top, bottom: height - bottom - foot };
}

function listLabels(limits, write = (value, text) => text) {
  return chooseTicks(...limits, 5).map(([value, text]) => write(value, text));
}

function scaleUp(area, [low, high]) {
  return (score) => area.bottom - ((score - low) / (high - low)) * (area.bottom - area.top);
}

function scaleAcross(area, [low, high]) {
  return (score) => area.left + ((score - low) / (high - low)) * (area.right - area.left);
}

function drawHeights(picture, area, limits, y, write = (value, text) => text) {
  for (const [value, text] of chooseTicks(...limits, 5)) {
    picture.append(drawLine(area.left, y(value), area.right, y(value), value === 0 ? "zero" : "grid"));
    picture.append(drawText(area.left - 8, y(value) + 4, write(value, text), "tick end"));
  }
}

// Labels below an axis; those that would touch another are left out, strips come first.
function drawTicks(picture, scale, y) {
  const reach = Math.abs(scale.to - scale.from), share = Math.floor(reach / scale.cells.length / LETTER);
  const ticks = scale.ticks(Math.max(3, Math.floor(reach / 70)), Math.max(MIN_LETTERS, share - 1)), placed = [];
  for (const [x, text, name] of ticks) {
    const half = measureText(text) / 2 + 4;
    if (placed.some(([other, width]) => Math.abs(other - x) < half + width - 4)) continue;
    placed.push([x, half]);
    picture.append(drawText(x, y, text, "tick middle", name));
  }
}

function drawNames(picture, area, height, across, up) {
  const wide = Math.floor((area.right - area.left) / LETTER), tall = Math.floor((area.bottom - area.top) / LETTER);
  const title = drawText(0, 0, shorten(up, tall), "tick middle strong");
  title.setAttribute("transform", `translate(12 ${(area.top + area.bottom) / 2}) rotate(-90)`);
  const middle = (area.left + area.right) / 2;
  picture.append(title, drawText(middle, height - 6, shorten(across, wide), "tick middle strong"));
}

// A main effect of levels, as bars.
function drawLevels(box, term, output, limits, maxLevels) {
  const { picture, width, height } = openChart(box), axis = term.axes[0];
  const place = (area) => {
    const room = Math.max(0, area.bottom - area.top - MAX_LEVEL_HEIGHT * (axis.count + 1)) / 2;
    const options = { maxLevels, score: (cell) => term.score(cell, output), isVertical: true };
    return new AxisScale(axis, term.weights, area.top + room, area.bottom - room, options);
  };
  const area = { top: MARGIN.top, bottom: height - MARGIN.bottom, right: width - 58 }, scale = place(area);
  const names = scale.stops.map((cell) => nameCell(axis, cell));
  const room = Math.min(width * (width < 420 ? 0.36 : 0.42), 230);
  const texts = shortenAll(names, Math.floor(room / LETTER)), label = Math.max(...texts.map(measureText)) + 2;
  const x = scaleAcross({ left: label + 8, right: area.right }, limits);
  const band = Math.min(18, ((scale.to - scale.from) / scale.cells.length) * 0.7);
  for (const [value, text] of chooseTicks(...limits, Math.max(3, (area.right - label) / 60))) {
    picture.append(drawLine(x(value), area.top, x(value), area.bottom, value === 0 ? "zero" : "grid"));
    picture.append(drawText(x(value), height - 8, text, "tick middle"));
  }
  scale.stops.forEach((cell, i) => {
    picture.append(drawText(label, scale.pixel(cell) + 4, texts[i], cell ? "end" : "end soft", names[i]));
    drawLevel(picture, term, output, cell, { x, y: scale.pixel(cell), band, width });
  });
  const cursor = openCursor(picture);
  const frame = (cell) => drawRect(0, scale.pixel(cell) - band / 2 - 3, width, band + 6, "row");
  const move = ([cell]) => cursor.replaceChildren(frame(cell));
  return { scales: [scale], isVertical: true, move };
}

function drawLevel(picture, term, output, cell, { x, y, band, width }) {
  const score = term.score(cell, output), left = Math.min(x(0), x(score)), right = Math.max(x(0), x(score));
  picture.append(
    drawRect(left, y - band / 2, right - left, band, score > 0 ? "positive" : "negative"),
    ...drawWhiskers(term, cell, output, (low, high, look) => drawLine(x(low), y, x(high), y, look)),
    drawText(width - 6, y + 4, writeNumber(term.weights[cell]), "tick end"));
}

// A pair, or a triple at one cell of its third axis.
function drawMap(box, term, output, limit, slice) {
  const { picture, width, height } = openChart(box), [first, second] = term.masses;
  const place = (area) => new AxisScale(term.axes[1], sumAlong(term, 1), area.bottom, area.top,
    { maxLevels: MAX_MAP_LEVELS, masses: second, isVertical: true });
  const sides = place(placeArea(width, height, [], 18)).ticks(4, SIDE_LETTERS).map(([, text]) => text);
  const area = placeArea(width, height, sides, 18, 16), up = place(area);
  const across = new AxisScale(term.axes[0], sumAlong(term, 0), area.left, area.right,
    { maxLevels: MAX_MAP_LEVELS, masses: first });
  const canvas = html("canvas", { class: "map", "aria-hidden": "true" });
  box.prepend(canvas);
  paintMap(canvas, term, output, limit, term.axes.length > 2 ? slice : 0, across, up, area);
  picture.append(drawRect(area.left, area.top, area.right - area.left, area.bottom - area.top, "frame"));
  for (const { to } of across.strips) picture.append(drawLine(to, area.top, to, area.bottom, "frame"));
  for (const { to } of up.strips) picture.append(drawLine(area.left, to, area.right, to, "frame"));
  drawTicks(picture, across, area.bottom + 16);
  drawSideTicks(picture, up, area);
  drawNames(picture, area, height, term.axes[0].name, term.axes[1].name);
  const cursor = openCursor(picture);
  const move = ([first, second]) => {
    const x = across.pixel(first), y = up.pixel(second);
    cursor.replaceChildren(drawLine(x, area.top, x, area.bottom, "cursor"),
      drawLine(area.left, y, area.right, y, "cursor"), drawDot(x, y, 4.5, "mark"));
  };
  return { scales: [across, up], isCut: across.isCut || up.isCut, move };
}

function drawSideTicks(picture, scale, area) {
  const placed = [];
  for (const [y, text, name] of scale.ticks(4, SIDE_LETTERS)) {
    if (placed.some((other) => Math.abs(other - y) < 14)) continue;
    placed.push(y);
    picture.append(drawText(area.left - 6, y + 4, text, "tick end", name));
  }
}

// Each pixel interpolates the table. The map is pale where the band contains 0, and grey where there are no training rows.
function paintMap(canvas, term, output, limit, slice, across, up, area) {
  const width = Math.max(1, Math.round(area.right - area.left));
  const height = Math.max(1, Math.round(area.bottom - area.top));
  const pixels = { left: area.left, top: area.top, width, height };
  for (const [side, value] of Object.entries(pixels)) canvas.style[side] = `${value}px`;
  Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d"), image = context.createImageData(width, height);
  const [negative, zero, positive, unknown] = ["negative", "surface", "positive", "density"].map(findColour);
  const xs = Array.from({ length: width }, (_, i) => across.position(area.left + i + 0.5));
  const ys = Array.from({ length: height }, (_, i) => up.position(area.top + i + 0.5));
  const scores = takePlane(term, slice, (cell) => term.score(cell, output)), rows = term.axes[1].cells;
  const hasRows = takePlane(term, slice, (cell) => Number(term.weights[cell] > 0));
  const isClear = takePlane(term, slice, (cell) => Number(term.isClear(cell, output)));
  let at = 0;
  for (const y of ys) {
    for (const x of xs) {
      const score = blend(scores, rows, x, y), end = score > 0 ? positive : negative, near = blend(hasRows, rows, x, y);
      const clear = PALE + (1 - PALE) * blend(isClear, rows, x, y);
      const strength = Math.min(1, Math.abs(score) / limit) * (0.15 + 0.85 * near) * clear;
      for (let c = 0; c < 3; c++) {
        const ground = unknown[c] + near * (zero[c] - unknown[c]);
        image.data[at++] = ground + strength * (end[c] - ground);
      }
      image.data[at++] = 255;
    }
  }
  context.putImageData(image, 0, 0);
}

// The cells of the first two axes, at one cell of the third.
function takePlane(term, slice, read) {
  const [down, step] = term.strides, rows = term.axes[1].cells, found = new Float64Array(term.axes[0].cells * rows);
  for (let i = 0; i < found.length; i++) found[i] = read(Math.floor(i / rows) * down + (i % rows) * step + slice);
  return found;
}

function blend(plane, rows, x, y) {
  const column = Math.floor(x), row = Math.floor(y), right = x - column, above = y - row;
  const at = column * rows + row, next = right > 0 ? rows : 0, up = above > 0 ? 1 : 0;
  return (1 - above) * ((1 - right) * plane[at] + right * plane[at + next])
    + above * ((1 - right) * plane[at + up] + right * plane[at + next + up]);
}

// A colour of the style sheet as three numbers.
function findColour(name) {
  const swatch = document.getElementById("swatch");
  swatch.className = `swatch-${name}`;
  return getComputedStyle(swatch).color.match(/[\d.]+/g).slice(0, 3).map(Number);
}

function openFrame(box, across, up, names, write) {
  const { picture, width, height } = openChart(box);
  const area = placeArea(width, height, listLabels(up, write), 18, 16);
  const x = scaleAcross(area, across), y = scaleUp(area, up);
  drawHeights(picture, area, up, y, write);
  for (const [value, text] of chooseTicks(...across, Math.max(2, Math.floor(width / 100)))) {
    picture.append(drawText(x(value), area.bottom + 16, text, "tick middle"));
  }
  drawNames(picture, area, height, ...names);
  return { picture, x, y };
}

// Bars beside names, all on one scale; existing lines are reused, which animates their bars.
function fillBars(list, items, low, high) {
  const share = (width) => `${((100 * width) / (high - low || 1)).toFixed(3)}%`;
  while (list.children.length > items.length) list.lastChild.remove();
  while (list.children.length < items.length) list.append(openBar());
  items.forEach((item, i) => {
    const [label, track, figure] = list.children[i].children, [bar, mark] = track.children;
    const name = html(item.link ? "a" : "span", { class: "name", title: item.name }, item.name);
    if (item.link) name.setAttribute("href", item.link);
    label.replaceChildren(name);
    if (item.note) label.append(html("span", { class: "note" }, item.note));
    bar.className = item.look;
    bar.style.left = share(Math.min(item.from, item.to) - low);
    bar.style.width = share(Math.abs(item.to - item.from));
    mark.style.left = share(item.from - low);
    figure.replaceWith(writeFigure(item.value, item.text));
  });
}

function openBar() {
  const track = html("span", { class: "track", "aria-hidden": "true" }, html("i"), html("b"));
  return html("li", {}, html("span", { class: "label" }), track, html("data"));
}
