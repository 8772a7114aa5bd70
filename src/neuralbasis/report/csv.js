// CSV files: bytes to text, text to records, texts to numbers, and back to a file.
//
// Texts mean the same numbers and missing values as in `predict`: see text_numbers.py.

const DELIMITERS = [",", ";", "\t", "|"];
const MISSING_TEXTS = new Set(["", "NA", "N/A", "n/a", "#N/A", "<NA>", "nan", "NaN", "-nan", "-NaN", "null", "NULL"]);
const MISSING_NUMBERS = new Set([...[...MISSING_TEXTS].map((text) => text.toLowerCase()), "none", "?", "-", "."]);
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const THOUSANDS = /^[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?$/;
const LEADING_ZERO = /^\s*[+-]?0\d+\s*$/; // an identifier such as a ZIP code

// The text of a file: UTF-8 or UTF-16 with a mark, otherwise UTF-8 or, if it is not valid UTF-8, Windows-1252.
function decodeText(buffer) {
  const [first, second] = new Uint8Array(buffer, 0, Math.min(2, buffer.byteLength));
  const wide = { "255,254": "utf-16le", "254,255": "utf-16be" }[`${first},${second}`];
  if (wide) return { text: new TextDecoder(wide).decode(buffer), encoding: wide };
  try {
    return { text: new TextDecoder("utf-8", { fatal: true }).decode(buffer), encoding: "utf-8" };
  } catch {
    return { text: new TextDecoder("windows-1252").decode(buffer), encoding: "windows-1252" };
  }
}

// The delimiter that occurs most often in the first line, outside quotes.
function findDelimiter(text) {
  const counts = new Map(DELIMITERS.map((delimiter) => [delimiter, 0]));
  let isQuoted = false;
  for (const letter of text) {
    if (letter === "\"") isQuoted = !isQuoted;
    else if (!isQuoted && (letter === "\n" || letter === "\r")) break;
    else if (!isQuoted && counts.has(letter)) counts.set(letter, counts.get(letter) + 1);
  }
  return DELIMITERS.reduce((best, own) => (counts.get(own) > counts.get(best) ? own : best));
}

// Records of a CSV text, each a list of texts: quotes, doubled quotes, line breaks inside quotes, and any line ends.
function parseCsv(text, delimiter = findDelimiter(text)) {
  const records = [], lines = [];
  let record = [], at = 0, line = 1, startLine = 1;
  const close = () => {
    if (record.length > 1 || record[0] !== "") { // blank lines are skipped
      records.push(record);
      lines.push(startLine);
    }
    record = [];
  };
  while (at < text.length) {
    if (!record.length) startLine = line;
    let value = "";
    if (text[at] === "\"") {
      let end = at + 1;
      for (;;) {
        const quote = text.indexOf("\"", end);
        if (quote < 0) throw new Error(`line ${startLine}: a quote is opened but never closed`);
        value += text.slice(end, quote);
        end = quote + 1;
        if (text[end] !== "\"") break;
        value += "\"";
        end++;
      }
      for (const letter of value) if (letter === "\n") line++;
      at = end;
    }
    let end = at;
    while (end < text.length && text[end] !== delimiter && text[end] !== "\n" && text[end] !== "\r") end++;
    record.push(value + text.slice(at, end));
    if (text[end] === delimiter) {
      at = end + 1;
      if (at < text.length) continue;
      record.push(""); // the file ends after a delimiter
    }
    close();
    at = text[end] === "\r" && text[end + 1] === "\n" ? end + 2 : end + 1;
    line++;
  }
  return { records, lines, delimiter };
}

// Header and columns of texts. Lines with another number of values are an error that names the line.
function readTable(text) {
  const { records, lines, delimiter } = parseCsv(text);
  if (records.length < 2) throw new Error("the file needs a header and at least one row");
  const [names, ...rows] = records;
  const ragged = rows.findIndex((row) => row.length !== names.length);
  if (ragged >= 0) {
    throw new Error(`line ${lines[ragged + 1]} has ${plural(rows[ragged].length, "value")}, but the header has ${names.length}`);
  }
  const repeated = names.find((name, i) => names.indexOf(name) !== i);
  if (repeated !== undefined) throw new Error(`two columns are named “${repeated}”`);
  return { names, rows, delimiter, column: (i) => rows.map((row) => row[i]) };
}

// A number; null for a text that means "missing", undefined for any other text.
function parseNumber(text, decimal = ".") {
  const trimmed = text.trim(), lower = trimmed.toLowerCase();
  if (MISSING_NUMBERS.has(lower)) return null;
  const plain = trimmed.replace(/%$/, "").trimEnd();
  const parsed = decimal === "," ? plain.replaceAll(".", "").replace(",", ".") : plain.replaceAll(",", "");
  if (decimal === "," ? NUMBER.test(parsed) : NUMBER.test(plain) || THOUSANDS.test(plain)) {
    const number = Number(parsed);
    return Number.isFinite(number) ? number : undefined;
  }
  if (lower === "true") return 1;
  return lower === "false" ? 0 : undefined;
}

// The index of a level, -1 if it is unknown, null for missing; "3.0" also matches the level "3".
function parseLevel(text, indexOf) {
  if (indexOf.has(text)) return indexOf.get(text);
  if (MISSING_TEXTS.has(text.trim())) return null;
  if (text.includes("_") || LEADING_ZERO.test(text) || !NUMBER.test(text.trim())) return -1;
  return indexOf.get(String(Number(text))) ?? -1;
}

function writeCsv(records, delimiter) {
  const quote = (text) => (/["\r\n]/.test(text) || text.includes(delimiter) || text !== text.trim()
    ? `"${text.replaceAll("\"", "\"\"")}"` : text);
  return records.map((record) => `${record.map((value) => quote(String(value))).join(delimiter)}\r\n`).join("");
}
