// Check: how well predictions meet what came, where the page was given rows with answers.

const MEASURED = "If the model was fitted on the same rows, it looks better here than on new ones.";
const CALIBRATION = "Rows with similar predictions in one dot, with two standard errors. "
  + "On the dashed line the model means what it says.";
const RESIDUALS = "Each dot is a row: how far above or below its prediction it came. "
  + "Good predictions scatter evenly around zero.";

function fillAccuracy() {
  const { accuracy, classes, link, target } = model;
  if (!accuracy) return;
  const choice = () => (link === "mlogit" ? state.output : 0);
  const label = () => shorten(classes[link === "logit" ? 1 : state.output], 24);
  const said = () => (classes ? `said: probability of ${label()}` : "said: prediction");
  find("check-note").textContent = `Measured on the ${plural(accuracy.n, "row")} given to this page. ${MEASURED}`;
  fillFacts(find("measures"), accuracy.measures.map(([name, value]) => [name, writeNumber(value)]));
  find("calibration-note").textContent = CALIBRATION;
  find("errors-title").textContent = classes ? "Separation" : "Residuals";
  addChart(find("calibration"), (box) => {
    const bins = accuracy.bins[choice()];
    drawCalibration(box, bins, [said(), classes ? "came: share of rows" : "came: mean"]);
    const words = bins.map((bin) => `said ${writeNumber(bin[0])}, came ${writeNumber(bin[1])}`);
    box.setAttribute("aria-label", `Calibration: ${words.join("; ")}`);
  });
  addChart(find("errors"), (box) => {
    const error = `${shorten(target || "came", 20)} − prediction`;
    if (accuracy.points) drawResiduals(box, accuracy.points, ["prediction", error]);
    else drawSeparation(box, accuracy.bars[choice()], [said(), "rows"]);
    const note = accuracy.points ? RESIDUALS
      : `Above the line: rows of ${label()}. Below: all others. The further apart, the better.`;
    find("errors-note").textContent = note;
    box.setAttribute("aria-label", note);
  });
}
