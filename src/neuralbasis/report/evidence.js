// Classes with examples and the terms that raise or lower their scores, and pictures with the concepts found in them.

const MAX_OPACITY = 0.8; // opacity of the colour where a concept is strongest

const shown = { class: 0, picture: 0 };

// A select with buttons for the previous and the next entry.
function listenToChoice(id, names, fill) {
  const choose = (place) => {
    shown[id] = (place + names.length) % names.length;
    find(id).value = shown[id];
    fill();
  };
  find(id).replaceChildren(...names.map((name, i) => html("option", { value: i }, shorten(name, 60))));
  find(id).addEventListener("change", () => choose(Number(find(id).value)));
  find(`previous-${id}`).addEventListener("click", () => choose(shown[id] - 1));
  find(`next-${id}`).addEventListener("click", () => choose(shown[id] + 1));
  choose(0);
}

function listenToEvidence() {
  const { classes = [], pictures = [] } = model.evidence || {};
  if (classes.length) listenToChoice("class", classes.map((one) => one.label), fillClass);
  const name = ({ actual, prediction }, i) => `${i + 1}: ${actual === null ? prediction : actual}`;
  if (pictures.length) listenToChoice("picture", pictures.map(name), fillPicture);
}

function fillClass() {
  const { label, rows, rival, apart, examples, for: raising, against } = model.evidence.classes[shown.class];
  const whose = rows ? `the ${plural(rows, "row")} of the class given to this page`
    : "training rows that the term makes more likely to be of the class";
  find("class-note").textContent = "The number on a chart is what the term adds to the score of the class on average. "
    + `Positive numbers are averages over ${whose}. `
    + "Negative numbers are averages over training rows that the term makes less likely to be of the class.";
  find("examples").replaceChildren(...examples.map((src) => html("img", { src, alt: `An example of ${label}` })));
  const ends = [...raising, ...against].map((term) => measureExtent(term, 0)).flat();
  const low = Math.min(0, ...ends), high = Math.max(0, ...ends);
  for (const [id, terms] of [["raised-by", raising], ["lowered-by", against]]) {
    for (const card of find(id).children) removeChart(card);
    find(id).replaceChildren(...terms.map((term) => openSketch(term, low, high)));
  }
  const names = apart.map(([term, size]) => `${term} ${writeSigned(size)}`).join(", ");
  find("apart").textContent = names
    ? `What separates it from ${rival}, the class with the next highest score on these rows: ${names}.` : "";
}

function openSketch(term, low, high) {
  const name = term.link === null ? term.name : html("a", { href: `#term-${term.link}` }, term.name);
  const figure = writeFigure(term.gain, writeSigned(term.gain), `side ${term.gain > 0 ? "positive" : "negative"}`);
  const box = html("div", { class: "chart", role: "img", "aria-label": `${term.name}: ${writeSigned(term.gain)}` });
  const header = html("header", {}, html("h3", { title: term.name }, name), figure), [effect] = term.effects;
  const card = html("article", { class: effect ? "card unclear" : "card" }, header, html("p", { class: "effect" }, effect), box);
  const limits = term.axes.length > 1 ? Math.max(-low, high) || 1 : low === high ? [-1, 1] : widen(low, high);
  const kind = term.axes.length === 2 ? "map" : findKind(term), view = { term, kind, maxLevels: MAX_LEVELS,
    slice: Math.ceil((term.axes[2]?.count ?? 1) / 2) };
  addChart(card, () => drawTerm(box, view, limits, 0));
  return card;
}

function fillPicture() {
  const picture = model.evidence.pictures[shown.picture], { address, label, terms, actual, prediction, score } = picture;
  const soft = (text) => html("span", { class: "soft" }, text);
  const chance = picture.probability === null ? [] : [soft(`probability of ${label} ${writeShare(picture.probability)}`)];
  const observed = actual === null ? [] : [soft("actual"), html("span", { class: "actual name" }, actual)];
  const answer = picture.probability === null ? writeNumber(prediction) : prediction;
  find("picture-verdict").replaceChildren(html("span", { class: "answer name" }, answer), ...chance, ...observed);
  find("photo").replaceChildren(showPhoto(address, picture.size));
  let at = picture.intercept;
  const steps = terms.map(({ name, link, values, contribution }) => {
    at += contribution;
    const note = values.map(writeConceptValue).join(", "), place = link === null ? null : `#term-${link}`;
    return makeBar(name, note, contribution, place, at - contribution, at);
  });
  if (picture.others) steps.push(makeBar(plural(picture.others, "other term"), "", score - at, null, at, score));
  steps.unshift(makeMark(nameStart(), picture.intercept));
  steps.push(makeMark(model.classes ? `score of ${label}` : "prediction", score));
  const ends = steps.flatMap((step) => [step.from, step.to]);
  fillBars(find("picture-bars"), steps, ...widen(Math.min(...ends), Math.max(...ends)));
  find("heat-maps").replaceChildren(...terms.filter((term) => term.heat).map((term) => openHeatMap(picture, term)));
}

function writeConceptValue(value) {
  if (value === null) return "missing";
  return typeof value === "number" ? writeNumber(value) : shorten(value, 30);
}

function showPhoto(src, [width, height], alt = "The picture") {
  return html("img", { src, alt, width, height });
}

// The grid as a canvas with one pixel per cell, scaled over the picture: the browser interpolates.
function openHeatMap({ address, size, grid }, { name, contribution, values, heat }) {
  const [height, width] = grid, canvas = html("canvas", { width, height, class: "heat", "aria-hidden": "true" });
  const context = canvas.getContext("2d"), image = context.createImageData(width, height);
  const colour = findColour(contribution > 0 ? "positive" : "negative");
  heat.forEach((strength, i) => image.data.set([...colour, 255 * MAX_OPACITY * strength], 4 * i));
  context.putImageData(image, 0, 0);
  const caption = html("figcaption", {}, html("span", { class: "name" }, name), ` ${values.map(writeConceptValue).join(", ")} → `,
    writeFigure(contribution, writeSigned(contribution), `side ${contribution > 0 ? "positive" : "negative"}`));
  const photo = showPhoto(address, size, `Where ${name} was found`);
  return html("figure", { class: "heat-map" }, html("div", { class: "layers" }, photo, canvas), caption);
}
