// Accuracy: predictions against actual values, if the page was written with rows and their actual values.

const MEASURED = "If the model was fitted on these rows, it looks better here than on new rows.";
const CALIBRATION = "Each dot is a group of rows with similar predictions, with two standard errors. "
  + "On the dashed line, predictions match what was observed.";
const RESIDUALS = "Each dot is a row: how far its actual value is above or below its prediction. "
  + "Good predictions scatter evenly around zero.";

// A measure beside that of the best constant prediction; accuracy grows, all others shrink.
function compareToConstant(value, constant, name = "") {
  if (constant === undefined || constant === null) return null;
  const rival = !model.classes ? (name === "mean absolute error" ? "the median" : "the mean")
    : name === "accuracy" ? "the most frequent class" : "the base rate";
  const text = `${writeNumber(constant)} for ${rival}`;
  if (name === "accuracy" ? value <= constant : value >= constant) return `no better than ${text}`;
  return name === "accuracy" ? text : `${writeDigits(100 * (1 - value / constant), { maximumFractionDigits: 0 })} % lower than ${text}`;
}

// The share of each class, of the second of two classes alone.
function describeRates() {
  const { rates } = model.accuracy, { classes } = model;
  if (!rates) return "";
  const parts = classes.map((name, k) => `${writeShare(rates[k])} are ${shorten(name, 24)}`);
  if (classes.length === 2) return `Base rate: ${parts[1]}. `;
  return classes.length <= 6 ? `Base rates: ${parts.join(", ")}. ` : "";
}

function fillAccuracy() {
  const { accuracy, classes, link, target } = model;
  if (!accuracy) return;
  const choice = () => (link === "mlogit" ? state.output : 0);
  const label = () => shorten(classes[link === "logit" ? 1 : state.output], 24);
  const predicted = () => (classes ? `predicted probability of ${label()}` : "prediction");
  find("check-note").textContent = `Measured on the ${plural(accuracy.n, "row")} given to this page. ${describeRates()}${MEASURED}`;
  fillFacts(find("measures"), accuracy.measures.map(([name, value]) => (
    [name, writeNumber(value), compareToConstant(value, accuracy.constants[name], name)])));
  find("calibration-note").textContent = CALIBRATION;
  find("errors-title").textContent = classes ? "Separation" : "Residuals";
  addChart(find("calibration"), (box) => {
    const bins = accuracy.bins[choice()];
    plotCalibration(box, bins, [predicted(), classes ? "observed share of rows" : "observed mean"], Boolean(classes));
    const words = bins.map((bin) => `predicted ${writeNumber(bin[0])}, observed ${writeNumber(bin[1])}`);
    box.setAttribute("aria-label", `Calibration: ${words.join("; ")}`);
  });
  addChart(find("errors"), (box) => {
    const error = `${shorten(target || "actual value", 20)} − prediction`;
    if (accuracy.points) plotResiduals(box, accuracy.points, ["prediction", error]);
    else plotSeparation(box, accuracy.bars[choice()], [predicted(), "rows"]);
    const note = accuracy.points ? RESIDUALS
      : `Above the line: rows of ${label()}. Below: all other rows. The further apart the two groups are, the better.`;
    find("errors-note").textContent = note;
    box.setAttribute("aria-label", note);
  });
}

// Short text of a tick: 400K instead of 400,000.
function writeShort(value, text) {
  return Math.abs(value) >= 10000 ? writeDigits(value, { notation: "compact", maximumSignificantDigits: 4 }) : text;
}

// Mean prediction against the observed mean, a dot for each bin; shares of rows stay between 0 and 1.
function plotCalibration(box, bins, names, areShares) {
  const clip = (value) => (areShares ? Math.min(Math.max(value, 0), 1) : value);
  const ends = bins.flatMap(([predicted, actual, error]) => [predicted, clip(actual - 2 * error), clip(actual + 2 * error)]);
  const widened = widen(Math.min(...ends), Math.max(...ends));
  const limits = areShares ? [Math.max(widened[0], -0.01), Math.min(widened[1], 1.01)] : widened, [first, last] = limits.map(clip);
  const { picture, x, y } = openFrame(box, limits, limits, names, writeShort);
  picture.append(drawLine(x(first), y(first), x(last), y(last), "ideal"));
  picture.append(drawPath(bins.map(([predicted, actual]) => [x(predicted), y(actual)]), "thin"));
  for (const [predicted, actual, error, rows] of bins) {
    const at = x(predicted), dot = drawDot(at, y(actual), 4.5, "dot");
    dot.append(svg("title", {}, `predicted ${writeNumber(predicted)}, observed ${writeNumber(actual)} (${plural(rows, "row")})`));
    picture.append(drawLine(at, y(clip(actual - 2 * error)), at, y(clip(actual + 2 * error)), "whisker"), dot);
  }
}

function plotResiduals(box, points, names) {
  const predicted = points.map((point) => point[0]), reach = Math.max(...points.map((point) => Math.abs(point[1])));
  const limits = widen(Math.min(...predicted), Math.max(...predicted));
  const { picture, x, y } = openFrame(box, limits, widen(-reach, reach), names, writeShort);
  for (const [prediction, residual] of points) picture.append(drawDot(x(prediction), y(residual), 2.5, "speck"));
}

// Rows by predicted probability: rows of the class above the line, the others below it, each side as high as it needs.
function plotSeparation(box, [inside, outside], names) {
  const limits = widen(-Math.max(...outside), Math.max(...inside));
  const { picture, x, y } = openFrame(box, [0, 1], limits, names, (value, text) => writeShort(Math.abs(value), text.replace("−", "")));
  inside.forEach((count, i) => {
    const left = x(i / inside.length) + 1, width = x((i + 1) / inside.length) - 1 - left;
    picture.append(drawRect(left, y(count), width, y(0) - y(count), "positive"));
    picture.append(drawRect(left, y(0), width, y(-outside[i]) - y(0), "negative"));
  });
}
