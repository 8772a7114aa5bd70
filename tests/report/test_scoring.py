"""Files scored on the page in Chromium: predictions, drift, notes about columns, measures and the file to download."""

import csv
import io
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss, mean_absolute_error, r2_score, roc_auc_score, root_mean_squared_error

from neuralbasis import AdditiveModel
from neuralbasis.encoding import Encoder, continuous_axis, level_axis
from neuralbasis.model.shapes import Shape
from tests.report.pages import CLOSE, KINDS, both_looks, make_model, needs_browser, rows_of

SCORED = """(async () => {
  for (let i = 0; i < 600; i++) {
    if (/scored/.test(document.getElementById("file-status").textContent)) break;
    await new Promise((done) => setTimeout(done, 20));
  }
  return document.getElementById("file-status").textContent;
})()"""

DROP = """(bytes, name) => {
  const transfer = new DataTransfer();
  transfer.items.add(new File([Uint8Array.from(bytes)], name));
  const fire = (event) => document.body.dispatchEvent(
    new DragEvent(event, { bubbles: true, cancelable: true, dataTransfer: transfer }));
  fire("dragover");
  const isMarked = document.body.classList.contains("dropping");
  fire("drop");
  return isMarked;
}"""

DOWNLOAD = """(async () => {
  let found = null;
  const open = URL.createObjectURL;
  URL.createObjectURL = (blob) => { found = blob; return open.call(URL, blob); };
  HTMLAnchorElement.prototype.click = function () { this.dataset.clicked = true; };
  document.getElementById("download").click();
  delete HTMLAnchorElement.prototype.click;
  URL.createObjectURL = open;
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(await found.arrayBuffer());
})()"""


def score(page, content, name="later.csv"):
    """Drop a file on the page; its status when it is scored."""
    data = content if isinstance(content, bytes) else content.encode()
    assert page.run(DROP, list(data), name)
    return page.run(SCORED)


def download(page, delimiter=","):
    """Header and records of the scored file."""
    text = page.run(DOWNLOAD)
    assert text.startswith("\ufeff")
    header, *records = csv.reader(io.StringIO(text[1:], newline=""), delimiter=delimiter)
    return header, records


def read_facts(page):
    return dict(zip(page.read("#file-facts dt"), page.read("#file-facts dd:not(.soft)"), strict=True))


def read_drift(page):
    """Outside, missing, index and verdict of each listed column."""
    lines = page.run(
        "[...document.querySelectorAll('#drift tbody tr')].map((row) => [row.children[0].textContent,"
        " ...[1, 2, 3].map((i) => Number(row.children[i].querySelector('data')?.value)), row.children[4].textContent])"
    )
    return {name: found for name, *found in lines}


@needs_browser
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_gets_the_predictions_of_predict(kind, open_page):
    model = make_model(kind)
    _, table = rows_of(model, 120)
    page = open_page(model)
    text = pd.DataFrame(table).to_csv(index=False)
    assert score(page, text) == "later.csv: 120 rows scored."
    header, records = download(page)
    n_columns = len(table)
    assert header[:n_columns] == list(table)
    rows = pd.read_csv(io.StringIO(text))
    if model.classes is None:
        found = np.array([record[n_columns:] for record in records], dtype=float)
        np.testing.assert_allclose(np.squeeze(found), model.predict(rows), rtol=0, atol=CLOSE)
        assert header[n_columns:] == (["prediction"] if found.shape[1] == 1 else ["prediction 0", "prediction 1"])
    else:
        assert [record[n_columns] for record in records] == model.predict(rows).tolist()
        found = np.array([record[n_columns + 1 :] for record in records], dtype=float)
        np.testing.assert_allclose(found, model.predict_proba(rows), rtol=0, atol=CLOSE)
        assert header[n_columns:] == ["prediction", *(f"probability of {label}" for label in model.classes)]


@pytest.fixture(scope="module")
def towns():
    """A probability of "yes" from a number and a level, with the training weights of 1000 rows."""
    age = continuous_axis("age", np.arange(20.0, 61.0))
    town = level_axis("town", "nominal", ["Bern", "Lima, Peru", 'the "old" Oslo'])
    shapes = []
    for feature, (axis, weights) in enumerate([(age, np.full(41, 1000 / 41)), (town, np.array([500.0, 300.0, 200.0]))]):
        cells = np.r_[0.0, weights, 0.0]
        scores = np.linspace(-1, 1, len(cells))[:, None]
        shapes.append(Shape((feature,), (axis,), scores, np.full_like(scores, 0.1), cells))
    encoder = Encoder((age, town))
    return AdditiveModel(encoder, np.array([0.2]), tuple(shapes), "logit", np.array(["no", "yes"], dtype=object))


AWKWARD = {
    "quotes": 'age,town\n31,"Lima, Peru"\n45,"the ""old"" Oslo"\n',
    "semicolons": 'age;town\n31;Lima, Peru\n45;"the ""old"" Oslo"\n',
    "tabs": 'age\ttown\n31\tLima, Peru\n45\tthe "old" Oslo\n',
    "CRLF": 'age,town\r\n31,"Lima, Peru"\r\n45,"the ""old"" Oslo"\r\n',
    "CR": 'age,town\r31,"Lima, Peru"\r45,"the ""old"" Oslo"\r',
    "BOM": '\ufeffage,town\n31,"Lima, Peru"\n45,"the ""old"" Oslo"',
    "blank lines": '\nage,town\n\n31,"Lima, Peru"\n\n45,"the ""old"" Oslo"\n\n',
    "line breaks": 'note,age,town\n"a\nb, ""c""",31,"Lima, Peru"\n"",45,"the ""old"" Oslo"\n',
    "other order": 'town,age\n"Lima, Peru",31\n"the ""old"" Oslo",45\n',
    "UTF-16": 'age,town\n31,"Lima, Peru"\n45,"the ""old"" Oslo"\n'.encode("utf-16"),
}


@needs_browser
def test_awkward_files_are_read(towns, open_page):
    page = open_page(towns)
    expected = towns.predict_proba({"age": [31.0, 45.0], "town": ["Lima, Peru", 'the "old" Oslo']})
    for name, content in AWKWARD.items():
        assert score(page, content, f"{name}.csv") == f"{name}.csv: 2 rows scored.", name
        delimiter = {"semicolons": ";", "tabs": "\t"}.get(name, ",")
        header, records = download(page, delimiter)
        found = np.array([record[-2:] for record in records], dtype=float)
        np.testing.assert_allclose(found, expected, rtol=0, atol=CLOSE, err_msg=name)
        assert {"age", "town"} <= set(header)
        if name == "line breaks":
            assert [record[0] for record in records] == ['a\nb, "c"', ""]


@needs_browser
def test_files_that_cannot_be_scored_say_why(towns, open_page):
    page = open_page(towns)
    for content, message in {
        "": "the file needs a header and at least one row",
        "age,town\n": "the file needs a header and at least one row",
        "age,town\n31,Bern\n45\n": "line 3 has 1 value, but the header has 2",
        'age,town\n31,"a\nb"\n45,Bern,7\n': "line 4 has 3 values, but the header has 2",
        'age,town\n31,"Bern\n45,Bern\n': "line 2: a quote is opened but never closed",
        "age,age\n1,2\n": "two columns are named “age”",
        "height,weight\n1,2\n": "no column of the model is in the file. "
        "Expected age, town …; the header has height, weight",
    }.items():
        assert score(page, content) == f"later.csv was not scored: {message}."
        assert page.run("document.getElementById('file-result').hidden && document.getElementById('download').hidden")


@needs_browser
def test_numbers_are_read_as_in_predict(towns, open_page):
    texts = ["31", " +45.0 ", "4.5e1", "1,200.5", "40 %", "N/A", "", "?", "none", "0x1F", "1_0", "31 years", ".5", "-0"]
    page = open_page(towns)
    file = pd.DataFrame({"age": texts, "town": "Bern"}).to_csv(index=False, sep="|")
    score(page, file)
    numbers = [31, 45, 45, 1200.5, 40, *[np.nan] * 7, 0.5, 0]
    expected = towns.predict_proba({"age": numbers, "town": ["Bern"] * len(texts)})
    _, records = download(page, "|")
    found = np.array([record[-2:] for record in records], dtype=float)
    np.testing.assert_allclose(found, expected, rtol=0, atol=CLOSE)
    assert page.read("#file-notes li") == ["age: 3 of 14 values are not numbers, such as “0x1F”, and count as missing."]
    score(page, "age;town\n31,5;Bern\n45,0;Bern\n")
    assert page.read("#file-notes li") == ["age: the comma is read as a decimal mark."]
    (first, _), expected = download(page, ";")[1], towns.predict_proba({"age": [31.5], "town": ["Bern"]})
    np.testing.assert_allclose(np.array(first[-2:], dtype=float), expected[0], rtol=0, atol=CLOSE)


@needs_browser
@both_looks
def test_notes_about_columns(look, towns, open_page):
    page = open_page(towns, **look)
    score(page, "Age ,city\n" + "31,x\n" * 30)
    assert page.read("#file-notes li") == [
        "There is no column “town”: it counts as missing in all rows.",
        "“Age ” is read as age.",
    ]
    score(page, "age,Town\n31,bern\n32,Bernn\n33,bern\n34,Atlantis\n35,Bern\n")
    assert page.read("#file-notes li") == [
        "“Town” is read as town.",
        "town: 3 levels that no training row has: “bern” (2 rows; nearest known: “Bern”), "
        "“Bernn” (1 row; nearest known: “Bern”), “Atlantis” (1 row).",
    ]
    score(page, "age,twon\n31,Bern\n")
    assert page.read("#file-notes li") == ["There is no column “town”: it counts as missing in all rows. Is it “twon”?"]
    score(page, "age,town\n31,Z\xfcrich\n".encode("latin-1"))
    assert page.read("#file-notes li")[0] == "The file is not UTF-8; it was read as windows-1252."
    assert "“Zürich” (1 row)" in page.read("#file-notes li")[1]


@needs_browser
@both_looks
def test_drift_is_the_population_stability_index(look, towns, open_page):
    rng = np.random.default_rng(0)
    page = open_page(towns, **look)
    town = rng.choice(["Bern", "Lima, Peru", 'the "old" Oslo'], 2000, p=[0.2, 0.3, 0.5])
    age = np.where(rng.random(2000) < 0.1, np.nan, rng.integers(20, 71, 2000).astype(float))
    score(page, pd.DataFrame({"age": age, "town": town}).to_csv(index=False))
    found = read_drift(page)
    outside, missing, index, verdict = found["town"]
    counts = np.array([(town == level).sum() for level in ["Bern", "Lima, Peru", 'the "old" Oslo']]) + 0.5
    before, after = np.array([500.5, 300.5, 200.5]) / 1001.5, counts / counts.sum()
    assert index == pytest.approx(((after - before) * np.log(after / before)).sum(), rel=1e-3)
    assert (outside, missing, verdict) == (0, 0, "strong drift")
    outside, missing, index, verdict = found["age"]
    assert outside == pytest.approx((age > 60).mean())
    assert missing == pytest.approx(np.isnan(age).mean())
    assert index > 0.25
    assert verdict == "strong drift · 20 to 70; training 20 to 60"
    score(page, pd.DataFrame({"age": rng.integers(20, 61, 2000), "town": rng.choice(["Bern"], 2000)}).to_csv())
    assert read_drift(page)["age"][3] == "stable"
    score(page, pd.DataFrame({"age": rng.integers(20, 61, 12), "town": "Bern"}).to_csv())
    assert read_drift(page)["age"][3] in ("stable", "no more than chance")


@needs_browser
def test_measures_of_a_file_with_the_target(fitted, open_page):
    model, frame, y = fitted
    page = open_page(model, frame, y)
    rows = frame.assign(rent=y).iloc[100:]
    rows.loc[150, "rent"] = np.nan
    score(page, rows.to_csv(index=False))
    known = rows.dropna()
    predicted = model.predict(known[["age", "city"]])
    expected = {
        "R²": r2_score(known["rent"], predicted),
        "RMSE": root_mean_squared_error(known["rent"], predicted),
        "mean absolute error": mean_absolute_error(known["rent"], predicted),
    }
    found = read_facts(page)
    assert {name: float(found[name]) for name in expected} == pytest.approx(expected, rel=5e-3)
    assert page.read("#file-notes li") == ["rent is known for 199 rows."]


@needs_browser
@pytest.mark.parametrize("kind", ["logit", "mlogit"])
def test_measures_of_a_file_with_classes(kind, fitted, open_page):
    model = replace(make_model(kind), summary=replace(fitted[0].model_.summary, target="label"))
    _, table = rows_of(model, 150)
    codes = np.random.default_rng(0).integers(0, len(model.classes), 150)
    page = open_page(model)
    score(page, pd.DataFrame(table).assign(label=model.classes[codes]).to_csv(index=False))
    probability = model.predict_proba(table)
    areas = [roc_auc_score(codes == k, probability[:, k]) for k in range(len(model.classes))]
    expected = {
        "accuracy": (probability.argmax(axis=1) == codes).mean(),
        "log loss": log_loss(codes, probability),
        "AUROC": np.mean(areas),
    }
    found = read_facts(page)
    assert {name: float(found[name]) for name in expected} == pytest.approx(expected, rel=5e-3)
    rates = np.bincount(codes) / 150
    entropy = -(rates * np.log(rates)).sum()
    (note,) = [text for text in page.read("#file-facts dd.soft") if "base rate" in text]
    assert float(note.split(" for ")[0].split()[-1]) == pytest.approx(entropy, rel=5e-3)


@needs_browser
@both_looks
def test_a_chosen_file_is_scored(look, towns, open_page, tmp_path):
    path = tmp_path / "chosen.csv"
    path.write_text("age,town\n31,Bern\n")
    page = open_page(towns, **look)
    page.send("DOM.enable")
    root = page.send("DOM.getDocument")["root"]["nodeId"]
    node = page.send("DOM.querySelector", nodeId=root, selector="#file")["nodeId"]
    page.send("DOM.setFileInputFiles", files=[str(path)], nodeId=node)
    assert page.run(SCORED) == "chosen.csv: 1 row scored."
    assert read_facts(page)["rows"] == "1"


@needs_browser
def test_formulas_and_markup_of_a_file_stay_text(towns, open_page):
    page = open_page(towns)
    score(page, "age,town,<b>x</b>\n31,<img src=x>,=1+1\n")
    assert page.count("#files img, #files b") == 0
    assert "“<img src=x>” (1 row)" in page.read("#file-notes li")[0]
