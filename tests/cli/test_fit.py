"""`neuralbasis fit`: held-out rows, several files, tables larger than memory, options, notes and errors."""

from __future__ import annotations

import io
import json
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import accuracy_score, log_loss, mean_absolute_error, r2_score, roc_auc_score

import neuralbasis
import neuralbasis.data.memory
from neuralbasis.data import hold_out
from tests.checkpoints import list_checkpoints
from tests.cli.running import FIT, QUICK, fails, numbers, read_csv, run, write_csv


def test_fit_takes_several_files_a_folder_or_a_pattern(houses, parts, tmp_path):
    """Several files that fit into memory give the same model as one file."""
    whole = tmp_path / "whole.parquet"
    pq.write_table(pa.csv.read_csv(houses), whole)
    run("fit", whole, "--target", "price", "--model", tmp_path / "whole.nbm", *FIT)
    known = neuralbasis.load(tmp_path / "whole.nbm")
    for data in ([parts], [f"{parts}/*.parquet"], sorted(parts.iterdir())):
        found = run("fit", *data, "--target", "price", "--model", tmp_path / "found.nbm", "--force", *FIT)
        assert "80 rows held out" in found.output
        model = neuralbasis.load(tmp_path / "found.nbm")
        assert model.term_names == known.term_names
        assert all((one.scores == other.scores).all() for one, other in zip(model.shapes, known.shapes, strict=True))


def test_fit_of_a_table_larger_than_memory_holds_out_pieces(parts, tmp_path, monkeypatch):
    monkeypatch.setattr(neuralbasis.data.memory, "CELL_BYTES", 1e7)  # makes this small table too large
    given = ["--memory-limit", "1GB", "--json", "--refit", *FIT]
    found = run("fit", parts, "--target", "good", "--model", tmp_path / "m.nbm", *given)
    printed = json.loads(found.stdout)
    assert printed["task"] == "classification"
    assert printed["rows"] == {"train": 333, "held_out": 67}
    assert printed["refitted"]
    assert printed["scores"]["AUROC"]["value"] > 0.8
    assert neuralbasis.load(tmp_path / "m.nbm").classes.tolist() == ["no", "yes"]


def test_fit_writes_checkpoints_and_resumes_from_them(houses, tmp_path):
    given = ["--checkpoint-dir", tmp_path / "state", "--target", "price", "--refit", *FIT]
    run("fit", houses, "--model", tmp_path / "m.nbm", *given)
    before = [path.name for path in list_checkpoints(tmp_path / "state")]
    assert len(before) == len(list_checkpoints(tmp_path / "state" / "refit")) == 2
    run("fit", houses, "--model", tmp_path / "again.nbm", "--resume", *given)
    model, again = (neuralbasis.load(tmp_path / name) for name in ("m.nbm", "again.nbm"))
    assert again.summary.history["seconds"][:10] == model.summary.history["seconds"][:10]  # nothing is trained again
    for shape, other in zip(model.shapes, again.shapes, strict=True):
        np.testing.assert_array_equal(shape.scores, other.scores)


@pytest.mark.parametrize(
    ("target", "task", "expected"),
    [
        ("good", "auto", "classification"),
        ("price", "auto", "regression"),
        ("flag", "auto", "classification"),
        ("weight", "auto", "regression"),
        ("weight", "classification", "classification"),
    ],
)
def test_the_task_of_a_table_larger_than_memory(parts, tmp_path, monkeypatch, target, task, expected):
    for piece in parts.iterdir():
        table = pq.read_table(piece).select(["age", "price", "weight", "good"])
        pq.write_table(table.append_column("flag", pa.array(np.arange(len(table)) % 2)), piece)
    monkeypatch.setattr(neuralbasis.data.memory, "CELL_BYTES", 1e7)
    given = ["--target", target, "--task", task, "--memory-limit", "1GB", "--test-size", "0", "--json", *QUICK]
    found = run("fit", parts, "--model", tmp_path / "m.nbm", *given, "--set", "max_steps=5")
    assert json.loads(found.stdout)["task"] == expected


def test_pieces_are_held_out_at_random(parts, tmp_path, monkeypatch):
    monkeypatch.setattr(neuralbasis.data.memory, "CELL_BYTES", 1e7)
    given = ["--target", "price", "--memory-limit", "1GB", "--json", "--force", *QUICK, "--set", "max_steps=2"]

    def fit(data, share, seed=42):
        chosen = ["--test-size", share, "--set", f"random_state={seed}"]
        return json.loads(run("fit", data, "--model", tmp_path / "m.nbm", *given, *chosen).stdout)

    for share, count in ((0.0, 0), (0.01, 1), (0.2, 1), (0.5, 3), (0.9, 5)):
        assert 65 * count <= fit(parts, share)["rows"]["held_out"] <= 67 * count  # rows of a row group
    constants = {fit(parts, 0.2, seed)["scores"]["RMSE"]["constant"] for seed in (0, 1)}
    assert len(constants) == 2
    assert "--missing cannot be used with Parquet files larger than memory" in fails(
        "fit", parts, "--model", tmp_path / "m.nbm", *given, "--missing=-9"
    )
    pq.write_table(pq.read_table(parts), tmp_path / "single.parquet")
    assert fit(tmp_path / "single.parquet", 0.2)["rows"]["held_out"] == 0


def test_errors_and_model_name_of_several_files(parts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = sorted(parts.iterdir())
    assert "--model: the data have several names" in fails("fit", *files, "--target", "price", code=2)
    assert "no file matches" in fails("fit", "none/*.parquet", "--target", "price", "--model", "m.nbm")
    assert "does not exist" in fails("fit", "none.parquet", "--target", "price", "--model", "m.nbm", code=2)
    assert "did you mean 'price'" in fails("fit", parts, "--target", "prise", "--model", "m.nbm")
    run("fit", parts, "--target", "price", *FIT)
    assert (tmp_path / "parts.nbm").exists()


def test_fit_reads_numbers_in_text_columns(tmp_path) -> None:
    x = np.random.default_rng(0).integers(0, 3000, 200)
    write_csv(tmp_path / "plain.csv", {"x": [*x.tolist(), ""], "y": [*x.tolist(), 0]}, delimiter=";")
    write_csv(tmp_path / "text.csv", {"x": [*(f"{v:,}" for v in x), "oops"], "y": [*x.tolist(), 0]}, delimiter=";")
    for name in ("plain", "text"):
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            found = run("fit", tmp_path / f"{name}.csv", "--target", "y", "--model", tmp_path / f"{name}.nbm", *QUICK)
        assert ("'x' holds numbers as text and is read as numbers" in found.stderr) == (name == "text")
    models = [neuralbasis.load(tmp_path / f"{name}.nbm") for name in ("plain", "text")]
    np.testing.assert_array_equal(*[model.predict(x[:, None].astype(float)) for model in models])


def test_fit_of_a_regression(houses, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = json.loads(run("fit", houses, "--target", "price", "--exclude", "good", *FIT, "--json").stdout)
    assert (printed["task"], printed["model"], printed["refitted"]) == ("regression", "houses.nbm", False)
    assert printed["rows"] == {"train": 320, "held_out": 80}
    model = neuralbasis.load(tmp_path / "houses.nbm")
    assert model.encoder.names == ("age", "size", "city", "member", "zip")
    assert model.encoder.axes[4].levels == ("007", "010", "7")
    assert (model.summary.target, model.summary.n_rows) == ("price", 320)
    out = read_csv(run("predict", "houses.nbm", houses).stdout)
    y, prediction = numbers(read_csv(houses)["price"]), numbers(out["prediction"])
    held = hold_out(y, 0.2, False, 42)
    scores = printed["scores"]
    assert scores["R²"]["value"] == pytest.approx(r2_score(y[held], prediction[held]))
    assert scores["MAE"]["value"] == pytest.approx(mean_absolute_error(y[held], prediction[held]))
    constant = np.full(held.sum(), y[~held].mean())
    assert scores["RMSE"]["constant"] == pytest.approx(np.sqrt(np.mean((y[held] - constant) ** 2)))
    assert all(s["low"] < s["value"] < s["high"] for s in scores.values())
    assert scores["R²"]["value"] > 0.8


def test_fit_and_evaluation_of_classes(houses, tmp_path) -> None:
    path = tmp_path / "good.nbm"
    printed = run("fit", houses, "--target", "good", "--exclude", "price", "--model", path, *FIT)
    assert printed.stdout.startswith("classification of good: 400 rows, 5 columns (3 continuous, 2 nominal)")
    assert "80 rows held out" in printed.stdout
    assert "fitted on the other 320 rows, as measured; --refit would use all rows" in printed.stdout
    found = json.loads(run("evaluate", path, houses, "--json").stdout)
    out = read_csv(run("predict", path, houses, "--proba").stdout)
    y, p = np.array(read_csv(houses)["good"]), numbers(out["probability_yes"])
    assert (found["target"], found["rows"]) == ("good", 400)
    assert found["scores"]["log loss"]["value"] == pytest.approx(log_loss(y == "yes", p))
    assert found["scores"]["AUROC"]["value"] == pytest.approx(roc_auc_score(y == "yes", p))
    assert found["scores"]["accuracy"]["value"] == pytest.approx(accuracy_score(y, out["prediction"]))
    assert "AUROC" in run("evaluate", path, houses, "--target", "good", "--weights", "weight").stdout


def test_refit_uses_all_rows(houses, tmp_path) -> None:
    path = tmp_path / "model.nbm"
    arguments = ["fit", houses, "--target", "price", "--exclude", "good", "--model", path, *FIT]
    printed = run(*arguments, "--refit").stdout
    assert "fitted again on all 400 rows; the scores are of the fit on 320 rows" in printed
    assert neuralbasis.load(path).summary.n_rows == 400
    assert "--force replaces it" in fails(*arguments)
    first = path.read_bytes()
    printed = run(*arguments, "--force", "--test-size", "0").stdout
    assert "fitted on all 400 rows, none held out" in printed
    rows = neuralbasis.load(path), neuralbasis.load(io.BytesIO(first))
    for shape, other in zip(rows[0].shapes, rows[1].shapes, strict=True):
        np.testing.assert_array_equal(shape.scores, other.scores)  # the same rows, the same seed


def test_fit_passes_options_to_the_estimator(houses, tmp_path) -> None:
    path = tmp_path / "model.nbm"
    run(
        "fit", houses, "--target", "price", "--model", path, "--exclude", "id,good", "--exclude", "zip",
        "--exclude", "age & city", "--weights", "weight", "--feature-types", "city=Oslo<Rome<Paris, FR",
        "--interactions", "age & size", "--preset", "fast", "--seed", "7", "--time-limit", "60",
        "--set", "max_steps=30", "--set", "outer_bags=2", "--set", "hidden=(16, 8)", "--set", "scaling=minmax",
    )  # fmt: skip
    model = neuralbasis.load(path)
    found = model.summary.parameters
    assert model.encoder.axes[2].levels == ("Oslo", "Rome", "Paris, FR")
    assert found["interactions"] == [["age", "size"]]
    assert found["exclude"] == [["age", "city"]]
    expected = {"preset": "fast", "random_state": 7, "time_limit": 60.0, "hidden": [16, 8], "scaling": "minmax"}
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("labels", "classes"),
    [(["0", "1"], [0, 1]), (["true", "false"], [False, True]), (["1.0", "2.0"], [1, 2]), (["a", "b"], ["a", "b"])],
)
def test_two_values_are_classes(labels, classes, tmp_path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=120)
    data = write_csv(tmp_path / "data.csv", {"x": x, "y": [labels[int(v > 0)] for v in x]})
    printed = json.loads(run("fit", data, "--target", "y", "--model", tmp_path / "m.nbm", "--json", *QUICK).stdout)
    assert printed["task"] == "classification"
    assert neuralbasis.load(tmp_path / "m.nbm").classes.tolist() == classes
    found = json.loads(run("evaluate", tmp_path / "m.nbm", data, "--json").stdout)
    assert found["scores"]["accuracy"]["value"] > 0.9
    data.write_text(data.read_text() + "1.0,other\n")
    message = fails("evaluate", tmp_path / "m.nbm", data)
    assert "holds 'other' in row 120 (0 is the first), a class that the model does not know; it knows" in message


def test_fit_from_parquet_equals_fit_from_csv(houses, tmp_path) -> None:
    table = pa.csv.read_csv(
        houses, convert_options=pa.csv.ConvertOptions(column_types={"zip": pa.string()}, strings_can_be_null=True)
    )
    pq.write_table(table, tmp_path / "houses.parquet")
    arguments = ["--target", "price", "--exclude", "good", *FIT]
    run("fit", houses, *arguments, "--model", tmp_path / "a.nbm")
    run("fit", tmp_path / "houses.parquet", *arguments, "--model", tmp_path / "b.nbm")
    from_csv = run("predict", tmp_path / "a.nbm", houses).stdout
    assert run("predict", tmp_path / "b.nbm", houses).stdout == from_csv
    assert run("predict", tmp_path / "a.nbm", tmp_path / "houses.parquet").stdout == from_csv


def test_errors_in_a_fit(houses, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)

    def error_of(*arguments, text: str | None = None, code: int = 1) -> str:
        path = houses
        if text is not None:
            path = tmp_path / "other.csv"
            path.write_text(text)
        return fails("fit", path, *arguments, "--model", tmp_path / "never.nbm", *QUICK, code=code)

    assert "did you mean 'price'?" in error_of("--target", "prices")
    assert "did you mean 'weight'?" in error_of("--target", "price", "--weights", "wait")
    assert "no column 'nothing'" in error_of("--target", "price", "--exclude", "nothing")
    assert "no column 'zap'" in error_of("--target", "price", "--feature-types", "zap=nominal")
    assert "must be one of" in error_of("--target", "price", "--feature-types", "zip=words")
    assert "did you mean 'outer_bags'?" in error_of("--target", "price", "--set", "outer_bag=3")
    assert "--feature-types" in error_of("--target", "price", "--set", "feature_types=3")
    assert "expects name=value" in error_of("--target", "price", "--set", "outer_bags")
    assert "learning_rate" in error_of("--target", "price", "--exclude", "id,good", "--set", "learning_rate=-1")
    assert "a regression needs numbers" in error_of("--target", "good", "--task", "regression")
    assert "Missing option '--target'" in error_of(code=2)
    rows = "".join(f"{i},{i % 7}\n" for i in range(60))
    assert "target 'y' is missing in 2 rows, first in row 60 (0 is the first)" in error_of(
        "--target", "y", text="x,y\n" + rows + "3,\n4,NA\n"
    )
    assert "has one row; a model needs at least two" in error_of("--target", "y", text="x,y\n1,2\n")
    assert "no column beside the target" in error_of("--target", "y", text="y\n1\n2\n")
    for text in ("2024-01-05,1\n2024-01-06,2\n", ",1\n,2\n"):
        message = error_of("--target", "y", text="x,y\n" + text * 9)
        assert message.endswith("has no column with values that a model can use; see the notes above")
    assert "holds none out" in error_of("--target", "y", "--test-size", "0.01", text="x,y\n" + rows)
    assert not (tmp_path / "never.nbm").exists()
    assert "name the file to write" in fails("fit", "-", "--target", "y", code=2, stdin="x,y\n1,2\n")


def test_fit_prints_notes(tmp_path) -> None:
    rng = np.random.default_rng(0)
    columns = {"name": [f"n{i}" for i in range(90)], "x": rng.normal(size=90), "y": rng.integers(0, 4, 90)}
    data = write_csv(tmp_path / "data.csv", columns)
    printed = run("fit", data, "--target", "y", "--model", tmp_path / "m.nbm", *QUICK).stderr
    assert "column 'name' has 90 different texts in 90 rows; --exclude it" in printed
    assert "target 'y' has 4 distinct integers and is read as numeric; --task classification" in printed


def test_rows_are_held_out_in_equal_shares_per_class() -> None:
    y = np.array(["a"] * 50 + ["b"] * 10 + ["c"])
    is_held = hold_out(y, 0.2, True, 0)
    assert [int(is_held[y == label].sum()) for label in "abc"] == [10, 2, 0]
    assert hold_out(np.arange(1000.0), 0.25, False, 0).sum() == 250
    assert not hold_out(y, 0.0, True, 0).any()
