// Threshold: what happens when rows above a probability count as positive, and what the two errors cost.
//
// `cells.above` has, for each class and threshold, the number of rows whose probability is above the threshold.

const decision = { place: 0, falsePositive: 1, falseNegative: 1 };

// Counts of the four cells at one threshold.
function countCells({ above: [negatives, positives] }, place) {
  const truePositive = positives[place], falsePositive = negatives[place];
  return { truePositive, falsePositive, falseNegative: positives[0] - truePositive, trueNegative: negatives[0] - falsePositive };
}

function findCost({ falsePositive, falseNegative }, costs, n) {
  return (falsePositive * costs.falsePositive + falseNegative * costs.falseNegative) / n;
}

// The threshold that calibrated probabilities would need: the expected costs of both decisions are equal there.
function findIdeal({ falsePositive, falseNegative }) {
  return falsePositive / (falsePositive + falseNegative || 1);
}

// The threshold with the lowest cost on these rows; of several, the one nearest to the ideal.
function findBest(cells, costs, n) {
  const ideal = findIdeal(costs), found = cells.thresholds.map((_, place) => findCost(countCells(cells, place), costs, n));
  const far = (place) => Math.abs(cells.thresholds[place] - ideal);
  return found.reduce((best, cost, place) => {
    const gain = found[best] - cost;
    return gain > 1e-12 || (gain > -1e-12 && far(place) < far(best)) ? place : best;
  }, 0);
}

function writeRatio(part, whole) {
  return whole ? writeShare(part / whole) : "none";
}

function writeThreshold(threshold) {
  return `${writeDigits(100 * threshold, { maximumFractionDigits: 2 })} %`;
}

function listenToThreshold() {
  const cells = model.accuracy?.cells;
  if (!cells) return;
  decision.place = cells.thresholds.indexOf(0.5);
  find("threshold").max = cells.thresholds.length - 1;
  find("threshold").addEventListener("input", ({ target }) => {
    decision.place = Number(target.value);
    fillThreshold();
  });
  for (const [id, name] of [["cost-positive", "falsePositive"], ["cost-negative", "falseNegative"]]) {
    find(id).addEventListener("input", ({ target }) => {
      const cost = target.valueAsNumber, isCost = Number.isFinite(cost) && cost >= 0;
      target.setAttribute("aria-invalid", !isCost);
      if (isCost) decision[name] = cost;
      fillThreshold();
    });
  }
  find("best").addEventListener("click", () => {
    decision.place = findBest(cells, decision, model.accuracy.n);
    fillThreshold();
  });
  addChart(find("costs"), drawCosts);
  fillThreshold();
}

function fillThreshold() {
  const { cells, n } = model.accuracy, { place } = decision, [negative, positive] = model.classes.map((name) => shorten(name, 24));
  const { truePositive, falsePositive, falseNegative, trueNegative } = countCells(cells, place);
  find("threshold").value = place;
  find("threshold").setAttribute("aria-valuetext", writeThreshold(cells.thresholds[place]));
  find("threshold-value").textContent = writeThreshold(cells.thresholds[place]);
  find("threshold-note").textContent = `A row counts as ${positive} if its probability of ${positive} is above the threshold; `
    + "predict uses 50 %.";
  const cell = (count, text, look) => html("td", { class: look }, writeFigure(count, writeDigits(count, {})), html("span", { class: "soft" }, text));
  find("cells").replaceChildren(
    html("thead", {}, html("tr", {}, html("td"), ...[positive, negative].map((name) => (
      html("th", { scope: "col" }, `counted as ${name}`))))),
    html("tbody", {},
      html("tr", {}, html("th", { scope: "row" }, `actually ${positive}`), cell(truePositive, "right", "right"),
        cell(falseNegative, "missed", "wrong")),
      html("tr", {}, html("th", { scope: "row" }, `actually ${negative}`), cell(falsePositive, "false alarm", "wrong"),
        cell(trueNegative, "right", "right"))));
  const best = findBest(cells, decision, n), write = (costed) => writeNumber(findCost(countCells(cells, costed), decision, n));
  fillFacts(find("rates"), [
    ["sensitivity", writeRatio(truePositive, truePositive + falseNegative), `of ${positive} rows are found`],
    ["specificity", writeRatio(trueNegative, trueNegative + falsePositive), `of ${negative} rows are left alone`],
    ["positive predictive value", writeRatio(truePositive, truePositive + falsePositive), `of alarms are ${positive}`],
    ["expected cost per row", write(place), `lowest ${write(best)}, at ${writeThreshold(cells.thresholds[best])}`],
  ]);
  find("best").disabled = best === place;
  find("best").textContent = `Use the best threshold, ${writeThreshold(cells.thresholds[best])}`;
  find("best-note").textContent = "The best threshold is the one with the lowest cost on these rows. For calibrated "
    + `probabilities and these costs it is ${writeThreshold(findIdeal(decision))}.`;
  repaintChart(find("costs"));
}

// Expected cost per row at every threshold, and a mark at the chosen one.
function drawCosts(box) {
  const { cells, n } = model.accuracy, found = cells.thresholds.map((_, place) => findCost(countCells(cells, place), decision, n));
  const { picture, x, y } = openFrame(box, [0, 1], widen(0, Math.max(...found)), ["threshold", "expected cost per row"], writeShort);
  picture.append(drawPath(found.map((cost, place) => [x(cells.thresholds[place]), y(cost)]), "curve"));
  picture.append(drawDot(x(cells.thresholds[decision.place]), y(found[decision.place]), 5, "mark"));
  box.setAttribute("aria-label", `Expected cost per row against the threshold: lowest ${writeNumber(Math.min(...found))}`);
}
