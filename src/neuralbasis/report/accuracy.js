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
    drawCalibration(box, bins, [predicted(), classes ? "observed share of rows" : "observed mean"]);
    const words = bins.map((bin) => `predicted ${writeNumber(bin[0])}, observed ${writeNumber(bin[1])}`);
    box.setAttribute("aria-label", `Calibration: ${words.join("; ")}`);
  });
  addChart(find("errors"), (box) => {
    const error = `${shorten(target || "actual value", 20)} − prediction`;
    if (accuracy.points) drawResiduals(box, accuracy.points, ["prediction", error]);
    else drawSeparation(box, accuracy.bars[choice()], [predicted(), "rows"]);
    const note = accuracy.points ? RESIDUALS
      : `Above the line: rows of ${label()}. Below: all other rows. The further apart the two groups are, the better.`;
    find("errors-note").textContent = note;
    box.setAttribute("aria-label", note);
  });
}
