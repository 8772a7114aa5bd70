// Accuracy: predictions against actual values, if the page was written with rows and their actual values.

const MEASURED = "If the model was fitted on these rows, it looks better here than on new rows.";
const CALIBRATION = "Each dot is a group of rows with similar predictions, with two standard errors. "
  + "On the dashed line, predictions match what was observed.";
const RESIDUALS = "Each dot is a row: how far its actual value is above or below its prediction. "
  + "Good predictions scatter evenly around zero.";

function fillAccuracy() {
  const { accuracy, classes, link, target } = model;
  if (!accuracy) return;
  const choice = () => (link === "mlogit" ? state.output : 0);
  const label = () => shorten(classes[link === "logit" ? 1 : state.output], 24);
  const predicted = () => (classes ? `predicted probability of ${label()}` : "prediction");
  find("check-note").textContent = `Measured on the ${plural(accuracy.n, "row")} given to this page. ${MEASURED}`;
  fillFacts(find("measures"), accuracy.measures.map(([name, value]) => [name, writeNumber(value)]));
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
