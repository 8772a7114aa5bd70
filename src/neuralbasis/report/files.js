// The section that scores a CSV file: choosing or dropping it, its results, and the scored file to download.

const N_DRIFT = 12; // columns listed before the user requests the others
const N_NAMED = 5; // examples in a note

const file = { scored: null, count: 0, drifts: [] };

function listenToFiles() {
  if (!canScore()) return;
  const names = matchColumns([]).map(({ column }) => column.name);
  find("file-columns").textContent = `${shorten(names.slice(0, 40).join(", "), 600)}${names.length > 40 ? ` and ${names.length - 40} more` : ""}`
    + (model.target ? `; with ${model.target}, also how well it is predicted.` : ".");
  find("file").addEventListener("change", ({ target }) => { if (target.files.length) openFile(target.files[0]); });
  const holdsFile = ({ dataTransfer }) => dataTransfer && [...dataTransfer.types].includes("Files");
  addEventListener("dragover", (event) => {
    if (!holdsFile(event)) return;
    event.preventDefault();
    document.body.classList.add("dropping");
  });
  addEventListener("dragleave", ({ relatedTarget }) => { if (!relatedTarget) document.body.classList.remove("dropping"); });
  addEventListener("drop", (event) => {
    if (!holdsFile(event)) return;
    event.preventDefault();
    document.body.classList.remove("dropping");
    find("files").scrollIntoView();
    openFile(event.dataTransfer.files[0]);
  });
  find("download").addEventListener("click", downloadFile);
  find("all-drift").addEventListener("click", () => fillDrift(Infinity));
}

async function openFile(source) {
  const count = ++file.count, say = (text) => { find("file-status").textContent = text; };
  file.scored = null;
  find("file-result").hidden = find("download").hidden = true;
  find("file-status").classList.remove("warning");
  say(`Reading ${source.name} …`);
  try {
    const { text, encoding } = decodeText(await source.arrayBuffer()), table = readTable(text), n = table.rows.length;
    const columns = matchColumns(table.names), present = columns.filter(({ place }) => place >= 0);
    if (!present.length) {
      const known = columns.slice(0, N_NAMED).map(({ column }) => column.name).join(", ");
      throw new Error(`no column of the model is in the file. Expected ${known} …; the header has ${shorten(table.names.join(", "), 200)}`);
    }
    const encoded = new Map(present.map((own) => [own.c, encodeColumn(own.column, table.column(own.place), table.delimiter)]));
    const values = new Map([...encoded].map(([c, own]) => [c, own.values]));
    const scores = await scoreRows(values, n, (done) => {
      if (count === file.count) say(`Scoring ${source.name}: ${writeDigits(done, {})} of ${plural(n, "row")}`);
    });
    if (count !== file.count) return; // another file was chosen meanwhile
    const predictions = predictRows(scores, n), drifts = present.map((own) => measureDrift(own, encoded.get(own.c)));
    Object.assign(file, { drifts, scored: { name: source.name, table, predictions } });
    fillFile(table, predictions, columns.filter(({ place }) => place < 0), encoding);
    say(`${source.name}: ${plural(n, "row")} scored.`);
  } catch (error) {
    if (count !== file.count) return;
    find("file-status").classList.add("warning");
    say(`${source.name} was not scored: ${error.message}.`);
  }
}

function fillFile(table, predictions, missing, encoding) {
  const n = predictions.length, target = model.target === null ? -1 : table.names.indexOf(model.target);
  const facts = [["rows", writeDigits(n, {})]], notes = [];
  if (!model.classes) {
    const first = predictions.map(({ values }) => values[0]);
    facts.push(["mean prediction", writeNumber(findMean(first), 4)]);
  } else {
    const shown = model.classes.length === 2 ? [1] : [...model.classes.keys()].slice(0, 6);
    for (const k of shown) {
      facts.push([`mean probability of ${shorten(model.classes[k], 24)}`, writeShare(findMean(predictions.map((own) => own.probabilities[k])))]);
    }
  }
  if (target >= 0 && model.intercept.length === (model.classes && model.link !== "logit" ? model.classes.length : 1)) {
    const { n: known, unknown, measures, rates } = measureFile(predictions, table.column(target), table.delimiter);
    const base = rates && model.classes.length === 2 ? `; ${writeShare(rates[1])} are ${shorten(model.classes[1], 24)}` : "";
    notes.push(`${model.target} is known for ${plural(known, "row")}${base}.${unknown ? ` ${plural(unknown, "row")} have a value that is not a class of the model.` : ""}`);
    for (const [name, value, constant] of measures) facts.push([name, writeNumber(value), compareToConstant(value, constant, name)]);
  }
  fillFacts(find("file-facts"), facts);
  if (encoding !== "utf-8") notes.push(`The file is not UTF-8; it was read as ${encoding}.`);
  notes.push(...missing.map((own) => noteMissing(own, table.names)), ...file.drifts.flatMap((own) => noteColumn(own, table.names, n)));
  find("file-notes").replaceChildren(...notes.map((text) => html("li", {}, text)));
  fillDrift(N_DRIFT);
  find("file-result").hidden = find("download").hidden = false;
}

function noteMissing({ column }, names) {
  const near = findNearestLevel(column.name, names);
  return `There is no column “${column.name}”: it counts as missing in all rows.${near ? ` Is it “${near}”?` : ""}`;
}

function noteColumn({ column, place, isExact, unread, decimal, unseen }, names, n) {
  const { name } = column, notes = [];
  if (!isExact) notes.push(`“${names[place]}” is read as ${name}.`);
  if (decimal === ",") notes.push(`${name}: the comma is read as a decimal mark.`);
  if (unread.length) {
    notes.push(`${name}: ${writeDigits(unread.length, {})} of ${plural(n, "value")} are not numbers, such as “${shorten(unread[0], 40)}”, and count as missing.`);
  }
  if (unseen.size) {
    const listed = [...unseen].sort((a, b) => b[1] - a[1]).slice(0, N_NAMED).map(([text, count]) => {
      const near = findNearestLevel(text, column.levels);
      return `“${shorten(text, 40)}” (${plural(count, "row")}${near === null ? "" : `; nearest known: “${shorten(near, 40)}”`})`;
    });
    const more = unseen.size > N_NAMED ? ` and ${unseen.size - N_NAMED} more` : "";
    notes.push(`${name}: ${unseen.size === 1 ? "a level that" : `${unseen.size} levels that`} no training row has: ${listed.join(", ")}${more}.`);
  }
  return notes;
}

// Columns with the most drift first.
function fillDrift(limit) {
  const size = ({ outside, stability }) => Math.max(outside, stability && stability.index > stability.chance ? stability.index : 0);
  const order = [...file.drifts].sort((a, b) => size(b) - size(a) || (b.stability?.index ?? 0) - (a.stability?.index ?? 0));
  const n = file.scored.predictions.length;
  const share = (part) => (part ? writeShare(part) : "0");
  const rows = order.slice(0, limit).map((own) => {
    const word = own.stability ? nameDrift(own.stability) : "unknown";
    const index = own.stability ? writeDigits(own.stability.index, { minimumFractionDigits: 2, maximumFractionDigits: 2 }) : "–";
    const before = own.missingBefore === null || own.missing + own.missingBefore === 0 ? "" : ` (${share(own.missingBefore)} in training)`;
    const { low, high, levels } = own.column, range = own.range && own.outside
      ? `${writeValue(own.range[0])} to ${writeValue(own.range[1])}; training ${writeValue(low)} to ${writeValue(high)}` : "";
    return html("tr", { "data-column": own.c }, html("th", { scope: "row" }, shorten(own.column.name, 40)),
      html("td", { class: own.outside ? "strong" : "" }, writeFigure(own.outside, share(own.outside))),
      html("td", {}, writeFigure(own.missing, share(own.missing)), html("span", { class: "soft" }, before)),
      html("td", {}, own.stability ? writeFigure(own.stability.index, index) : index),
      html("td", {}, html("span", { class: word === "strong drift" ? "strong" : "" }, word),
        ...(range ? [html("span", { class: "soft" }, ` · ${range}`)] : []),
        ...(levels && own.unseen.size ? [html("span", { class: "soft" }, ` · ${plural(own.unseen.size, "unseen level")}`)] : [])));
  });
  const heads = ["column", "outside the data", "missing", "stability index", "verdict"].map((name) => html("th", { scope: "col" }, name));
  find("drift").replaceChildren(html("thead", {}, html("tr", {}, ...heads)), html("tbody", {}, ...rows));
  find("all-drift").hidden = rows.length === order.length;
  find("all-drift").textContent = `Show all ${order.length} columns`;
  find("drift-note").textContent = "Outside the data: beyond the range of the training rows, or a level that none of them has. Population stability "
    + `index: below ${SOME_DRIFT} stable, above ${STRONG_DRIFT} strong drift. “No more than chance” means that a file of ${plural(n, "row")} `
    + "without any drift often has such an index.";
}

// The file with its predictions: the class or value, and the probability of each class.
function downloadFile() {
  const { name, table, predictions } = file.scored, { names, rows, delimiter } = table;
  const added = model.classes ? ["prediction", ...model.classes.map((label) => `probability of ${label}`)]
    : model.outputs.length > 1 ? model.outputs.map((output) => `prediction ${output}`) : ["prediction"];
  const free = added.map((own) => (names.includes(own) ? `${own} of the model` : own));
  const records = rows.map((row, i) => {
    const { winner, probabilities, values } = predictions[i];
    return [...row, ...(model.classes ? [model.classes[winner], ...probabilities] : values)];
  });
  const blob = new Blob(["\ufeff", writeCsv([[...names, ...free], ...records], delimiter)], { type: "text/csv" });
  const link = html("a", { href: URL.createObjectURL(blob), download: `${name.replace(/\.[^.]*$/, "")}_scored.csv` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
