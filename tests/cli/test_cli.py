"""The command line, on real files, and in real processes for tests of pipes, signals, memory and imports."""

from __future__ import annotations

import csv
import gzip
import io
import json
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, log_loss, mean_absolute_error, r2_score, roc_auc_score

import neuralbasis
import neuralbasis.data.memory
from neuralbasis.cli import main
from neuralbasis.cli.fitting import detect_task, hold_out, hold_out_pieces
from neuralbasis.cli.metrics import classification_metrics, regression_metrics
from neuralbasis.cli.options import FitOptions
from neuralbasis.cli.tables import Dialect, SourceTable, needed_types, read_batch, read_file
from neuralbasis.data.files import open_files
from neuralbasis.encoding.axis import Axis, level_axis
from neuralbasis.encoding.encoder import Encoder
from neuralbasis.model.additive_model import AdditiveModel
from neuralbasis.model.shapes import Shape
from neuralbasis.training.checkpoints import list_checkpoints
from tests.models import build_model, draw_numbers, name_columns

QUICK = ["--set", "max_steps=30", "--set", "outer_bags=2", "--interactions", "0"]
KINDS = {
    "regression": {},
    "binary": {"link": "logit", "classes": np.array(["no", "yes"])},
    "multiclass": {"link": "mlogit", "classes": np.array([3, 5, 8]), "n_outputs": 3},
}


def run(*arguments, code: int = 0, stdin=None):
    """Run a command in this process and check its exit code."""
    found = CliRunner().invoke(main, [str(a) for a in arguments], input=stdin)
    assert found.exit_code == code, found.output
    return found


def fails(*arguments, code: int = 1, stdin=None) -> str:
    """Run a command that must fail, and return the line of its error."""
    found = run(*arguments, code=code, stdin=stdin)
    lines = [line for line in found.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, found.output
    assert "Traceback" not in found.output
    return lines[0]


def spawn(*arguments, **options) -> subprocess.Popen:
    command = [sys.executable, "-m", "neuralbasis", *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, **{**pipes, **options})


def write_csv(path: Path, columns: dict, **options) -> Path:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, **options)
        writer.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            writer.writerow(["" if v is None or v != v else v for v in row])
    return path


def read_csv(source) -> dict[str, list]:
    text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
    header, *rows = csv.reader(io.StringIO(text))
    return {name: [row[k] for row in rows] for k, name in enumerate(header)}


def numbers(texts: list[str]) -> np.ndarray:
    return np.array([float(text) for text in texts])


@pytest.fixture(params=KINDS)
def case(request, tmp_path):
    """A random model in memory, a table that uses every kind of cell, and the files of both."""
    rng = np.random.default_rng(5)
    model = build_model(rng, orders=(1, 2), **KINDS[request.param])
    columns = name_columns(model.encoder.axes, draw_numbers(rng, model.encoder.axes, 300))
    model.save(tmp_path / "model.nbm")
    table = {"id": [f"{i:05d}" for i in range(300)], **columns}
    return model, columns, tmp_path / "model.nbm", write_csv(tmp_path / "data.csv", table)


@pytest.fixture
def houses(tmp_path) -> Path:
    """A table with missing numbers, texts with a comma, booleans, zero-padded codes, two targets and weights."""
    rng, n = np.random.default_rng(1), 400
    age, size = rng.integers(18, 90, n), rng.normal(size=n).round(3)
    city, member = rng.choice(["Oslo", "Rome", "Paris, FR"], n), rng.choice(["true", "false"], n)
    price = (age / 20 + size + (city == "Oslo") + (member == "true") + rng.normal(0, 0.2, n)).round(4)
    size = [None if i % 50 == 3 else v for i, v in enumerate(size)]
    return write_csv(
        tmp_path / "houses.csv",
        {
            "id": [f"{i:04d}" for i in range(n)],
            "age": age,
            "size": size,
            "city": city,
            "member": member,
            "zip": rng.choice(["007", "010", "7"], n),
            "weight": rng.integers(1, 4, n),
            "price": price,
            "good": np.where(price > np.median(price), "yes", "no"),
        },
    )


FIT = ["--exclude", "id,weight", "--feature-types", "zip=nominal", *QUICK]


@pytest.fixture
def parts(houses) -> Path:
    """The same table as three Parquet files of two row groups each, in a folder."""
    table, folder = pa.csv.read_csv(houses), houses.parent / "parts"
    folder.mkdir()
    for number in range(3):
        pq.write_table(table.slice(134 * number, 134), folder / f"part-{number}.parquet", row_group_size=67)
    return folder


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
    for shape, twin in zip(model.shapes, again.shapes, strict=True):
        np.testing.assert_array_equal(shape.scores, twin.scores)


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
def test_the_task_of_a_table_larger_than_memory(parts, target, task, expected):
    for piece in parts.iterdir():
        table = pq.read_table(piece)
        pq.write_table(table.append_column("flag", pa.array(np.arange(len(table)) % 2)), piece)
    source = open_files([parts])
    assert detect_task(SourceTable(source, Dialect()), FitOptions(target, task)) == expected


def test_pieces_are_held_out_at_random(parts):
    source = open_files([parts])
    for share, count in ((0.0, 0), (0.01, 1), (0.2, 1), (0.5, 3), (0.9, 5)):
        assert hold_out_pieces(source, share, 42).sum() == count
    assert any((hold_out_pieces(source, 0.2, 42) != hold_out_pieces(source, 0.2, seed)).any() for seed in range(5))
    assert not hold_out_pieces(source.take(source.pieces[:1]), 0.2, 42).any()


def test_errors_and_model_name_of_several_files(parts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = sorted(parts.iterdir())
    assert "--model: the data have several names" in fails("fit", *files, "--target", "price", code=2)
    assert "no file matches" in fails("fit", "none/*.parquet", "--target", "price", "--model", "m.nbm")
    assert "does not exist" in fails("fit", "none.parquet", "--target", "price", "--model", "m.nbm", code=2)
    assert "did you mean 'price'" in fails("fit", parts, "--target", "prise", "--model", "m.nbm")
    run("fit", parts, "--target", "price", *FIT)
    assert (tmp_path / "parts.nbm").exists()


def test_predictions_equal_those_of_the_model(case) -> None:
    model, columns, path, data = case
    options = ["--contributions"] if model.classes is None else ["--contributions", "--proba"]
    found = read_csv(run("predict", path, data, "--keep", "id", *options).stdout)
    assert found["id"][:2] == ["00000", "00001"]
    if model.classes is None:
        np.testing.assert_array_equal(numbers(found["prediction"]), model.predict(columns))
    else:
        assert found["prediction"] == list(map(str, model.predict(columns)))
        got = np.column_stack([numbers(found[f"probability_{label}"]) for label in model.classes])
        np.testing.assert_array_equal(got, model.predict_proba(columns))
    suffixes = [""] if model.n_outputs == 1 else [f"_{label}" for label in model.classes]
    for k, suffix in enumerate(suffixes):
        parts = [numbers(found[f"contribution_{term}{suffix}"]) for term in model.term_names]
        np.testing.assert_array_equal(np.array(parts).T, model.contributions(columns)[..., k])
        total = np.sum(parts, axis=0) + numbers(found[f"intercept{suffix}"])
        np.testing.assert_allclose(total, numbers(found[f"score{suffix}"]), atol=1e-12)


def test_all_formats_of_input_and_output_agree(case, tmp_path) -> None:
    model, _, path, data = case
    expected = run("predict", path, data, "--keep", "id").stdout
    packed = tmp_path / "data.csv.gz"
    packed.write_bytes(gzip.compress(data.read_bytes()))
    types = {axis.name: pa.string() if axis.is_level else pa.float64() for axis in model.encoder.axes}
    convert = pa.csv.ConvertOptions(column_types={"id": pa.string(), **types}, strings_can_be_null=True)
    pq.write_table(pa.csv.read_csv(data, convert_options=convert), tmp_path / "data.parquet", row_group_size=70)
    assert run("predict", path, packed, "--keep", "id").stdout == expected
    assert run("predict", path, "-", "--keep", "id", stdin=data.read_bytes()).stdout == expected
    assert run("predict", path, tmp_path / "data.parquet", "--keep", "id").stdout == expected
    for name in ("out.csv", "out.csv.gz", "out.parquet"):
        printed = run("predict", path, data, "--keep", "id", "-o", tmp_path / name)
        assert printed.stdout == ""
        assert "300 rows" in printed.stderr
    assert (tmp_path / "out.csv").read_text() == expected
    assert gzip.decompress((tmp_path / "out.csv.gz").read_bytes()).decode() == expected
    written = pq.read_table(tmp_path / "out.parquet")
    assert written.column_names == ["id", "prediction"]
    assert [str(v) for v in written["prediction"].to_pylist()] == [str(v) for v in model.predict(case[1]).tolist()]
    assert not list(tmp_path.glob("*.part"))


def test_blocks_do_not_change_the_types(case, monkeypatch) -> None:
    """Types come from the model, even if the first block holds only missing values."""
    _, _, path, data = case
    header, *rows = data.read_text().splitlines()
    rows.sort(key=lambda row: row.split(",")[1] != "")
    data.write_text("\n".join([header, *rows]) + "\n")
    expected = run("predict", path, data, "--keep", "id").stdout
    monkeypatch.setattr("neuralbasis.cli.tables.BLOCK_BYTES", 200)
    assert run("predict", path, data, "--keep", "id").stdout == expected


def small_model(tmp_path, axes: list[Axis]) -> tuple[Path, AdditiveModel]:
    rng, shapes = np.random.default_rng(0), []
    for index, axis in enumerate(axes):
        scores = rng.normal(size=(axis.n_cells, 1))
        shapes.append(Shape((index,), (axis,), scores, np.zeros_like(scores), np.ones(axis.n_cells)))
    model = AdditiveModel(Encoder(tuple(axes)), np.zeros(1), tuple(shapes), "identity")
    model.save(tmp_path / "small.nbm")
    return tmp_path / "small.nbm", model


def number_axis(name: str, *knots: float) -> Axis:
    return Axis(name, "continuous", np.array(knots, dtype=float), np.linspace(0, 1, len(knots)))


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("age,city\n1.5,Oslo\n,Rome\n3,\n2,Paris\n", []),
        ("\ufeffage,city\n1.5,Oslo\nNA,Rome\nnull,NA\n2,Paris\n".replace("null,", "3,"), []),
        ('"city","age"\n"Oslo","1.5"\n"Rome","nan"\n"","3"\n"Paris","2"\n', []),
        ("id;age;city\r\n1;1.5;Oslo\r\n2;;Rome\r\n3;3;N/A\r\n4;2;Paris\r\n", []),
        ("id\tage\tcity\n1\t1.5\tOslo\n2\t\tRome\n3\t3\tNULL\n4\t2\tParis\n", []),
        ("age#city\n1.5#Oslo\n?#Rome\n3.0#?\n2#Paris\n", ["--delimiter", "#", "--missing", "?"]),
        ("age,city,ä\n1.5,Oslo,é\n,Rome,é\n3,,é\n2,Paris,é\n", ["--encoding", "latin-1"]),
    ],
    ids=["plain", "bom", "quoted", "semicolon", "tab", "own", "latin-1"],
)
def test_dialects_of_csv(text, options, tmp_path) -> None:
    path, model = small_model(tmp_path, [number_axis("age", 1, 2, 4), level_axis("city", "nominal", ["Oslo", "Rome"])])
    data = tmp_path / "data.csv"
    data.write_bytes(text.encode("latin-1" if options[:1] == ["--encoding"] else "utf-8"))
    found = numbers(read_csv(run("predict", path, data, *options).stdout)["prediction"])
    rows = {"age": [1.5, None, 3, 2], "city": ["Oslo", "Rome", None, "Paris"]}
    np.testing.assert_array_equal(found, model.predict(rows))


def read_numbers(model, path: Path) -> np.ndarray:
    """The encoded numbers of a file."""
    with open(path, "rb") as file:
        (batch,) = read_file(str(path), file, Dialect()).batches(needed_types(model.encoder.axes))
        return model.encoder.numbers(read_batch(batch, model.encoder.axes, Dialect().nulls))


def test_levels_and_booleans_in_other_spellings(tmp_path) -> None:
    axes = [level_axis("grade", "nominal", ["1", "2.5"]), level_axis("on", "nominal", ["false", "true"])]
    axes += [number_axis("flag", 0, 1), level_axis("zip", "nominal", ["007", "7"])]
    _, model = small_model(tmp_path, axes)
    text = "grade,on,flag,zip\n1.0,TRUE,true,007\n2.50,False,False,7\n1,1,1,07\n3,0,0.5,7.0\nx,maybe,NA,\n"
    (tmp_path / "data.csv").write_text(text)
    expected = [[0, 1, 1, 0], [1, 0, 0, 1], [0, 1, 1, -1], [-1, 0, 0.5, 1], [-1, -1, np.nan, np.nan]]
    np.testing.assert_array_equal(read_numbers(model, tmp_path / "data.csv"), expected)
    table = pa.table({"grade": [1.0, 2.5], "on": [True, False], "flag": [True, None], "zip": ["007", "7"]})
    pq.write_table(table, tmp_path / "data.parquet")
    np.testing.assert_array_equal(read_numbers(model, tmp_path / "data.parquet"), [[0, 1, 1, 0], [1, 0, np.nan, 1]])


TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from('",\n;'), max_size=8)


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=6))
def test_kept_texts_are_written_unchanged(texts, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("kept")
    path, _ = small_model(folder, [number_axis("age", 1, 2)])
    data = write_csv(folder / "data.csv", {"note": texts, "age": [1.0] * len(texts)}, delimiter=",")
    found = run("predict", path, data, "--keep", "note", "--delimiter", ",", "-o", folder / "out.csv")
    assert found.exit_code == 0
    with open(folder / "out.csv", newline="", encoding="utf-8") as file:
        assert [row[0] for row in csv.reader(file)][1:] == texts


def test_predicting_an_empty_table(case, tmp_path) -> None:
    _, _, path, data = case
    data.write_text(data.read_text().splitlines()[0] + "\n")
    assert run("predict", path, data, "--keep", "id").stdout == "id,prediction\n"
    run("predict", path, data, "-o", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").shape == (0, 1)


def test_errors_in_a_table(tmp_path) -> None:
    path, _ = small_model(tmp_path, [number_axis("age", 1, 2), level_axis("city", "nominal", ["Oslo"])])
    data = tmp_path / "data.csv"

    def error_of(text: str | bytes) -> str:
        data.write_bytes(text if isinstance(text, bytes) else text.encode())
        return fails("predict", path, data)

    assert "no column 'age'; did you mean 'Age'?" in error_of("Age,city\n1,Oslo\n")
    assert "no columns 'age', 'city'; it has 'x', 'y'" in error_of("x,y\n1,Oslo\n")
    assert "check --delimiter" in error_of("age/city\n1/Oslo\n")
    assert "more than one column 'age'" in error_of("age,age,city\n1,2,Oslo\n")
    assert "is empty" in error_of("")
    assert "Expected 2 columns, got 3" in error_of("age,city\n1,Oslo,3\n")
    assert "--encoding" in error_of(b"age,city\n1,\xff\xfe\n")
    assert "column 'age' holds an infinite value" in error_of("age,city\ninf,Oslo\n")
    texts = error_of("age,city\n" + "1,Oslo\nabc,Oslo\n" * 9)
    assert "column 'age' must hold numbers, but holds 'abc'" in texts
    assert "--missing 'abc'" in texts
    data.with_suffix(".parquet").write_text("age,city\n1,Oslo\n")
    assert "not a Parquet file" in fails("predict", path, data.with_suffix(".parquet"))
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(gzip.compress(b"age,city\n" + b"1,Oslo\n" * 99999)[:200])
    assert "cut.csv.gz: " in fails("predict", path, cut)
    pq.write_table(pa.table({"age": ["1", "x"], "city": ["Oslo", "Oslo"]}), tmp_path / "text.parquet")
    assert "column 'age' must hold numbers, but holds 'x'" in fails("predict", path, tmp_path / "text.parquet")


def test_numbers_with_separators_and_few_other_texts(tmp_path) -> None:
    path, model = small_model(tmp_path, [number_axis("pay", 0, 1000, 4000), level_axis("city", "nominal", ["Oslo"])])
    rows = [*("1,200", "40 %", " 7 ", "?"), *(f"{i}" for i in range(18)), "oops"]
    data = tmp_path / "data.csv"
    data.write_text("pay;city\n" + "".join(f"{text};Oslo\n" for text in rows))
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        found = run("predict", path, data)
    assert "'pay' holds numbers, but 1 of 22 values are not numbers, such as 'oops'" in found.stderr
    expected = model.predict({"pay": [1200, 40, 7, None, *range(18), None], "city": ["Oslo"] * 23})
    np.testing.assert_array_equal(numbers(read_csv(found.stdout)["prediction"]), expected)


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


def test_errors_in_a_command(case, tmp_path) -> None:
    model, _, path, data = case
    assert "does not exist" in fails("predict", path, "nowhere.csv", code=2)
    assert "'--nothing'" in fails("predict", path, data, "--nothing", code=2)
    assert "predict --help')" in fails("predict", path, code=2)
    assert "the folder" in fails("predict", path, data, "-o", tmp_path / "nowhere" / "out.csv")
    assert "cannot be written in the same run" in fails("predict", path, data, "-o", data)
    assert "no column 'idd'; did you mean 'id'?" in fails("predict", path, data, "--keep", "idd")
    (tmp_path / "broken.nbm").write_bytes(path.read_bytes()[:-300])
    assert "broken.nbm" in fails("predict", tmp_path / "broken.nbm", data)
    assert "data.csv" in fails("show", data)
    assert "no term 'y'" in fails("show", path, "--term", "y")
    if model.classes is None:
        assert "--proba needs a model of classes" in fails("predict", path, data, "--proba")


def test_a_failed_run_keeps_the_old_output(tmp_path) -> None:
    path, _ = small_model(tmp_path, [number_axis("age", 1, 2)])
    data, out = tmp_path / "data.csv", tmp_path / "out.csv"
    data.write_text("age\n" + "1\n" * 4_000_000 + "abc\n")  # fails in the second block, when the first is written
    out.write_text("old")
    fails("predict", path, data, "-o", out)
    assert out.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.csv", "out.csv", "small.nbm"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk(case) -> None:
    _, _, path, data = case
    assert "no space left" in fails("predict", path, data, "-o", "/dev/full")
    with open("/dev/full", "wb") as full, spawn("predict", path, data, stdout=full) as process:
        _, printed = process.communicate()
    assert process.returncode == 1
    assert b"Traceback" not in printed


def test_a_closed_pipe(tmp_path) -> None:
    path, _ = small_model(tmp_path, [number_axis("age", 1, 2)])
    (tmp_path / "data.csv").write_text("age\n" + "1.25\n" * 200_000)
    with spawn("predict", path, tmp_path / "data.csv") as process:
        assert process.stdout.readline() == b"prediction\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_ctrl_c(tmp_path) -> None:
    path, _ = small_model(tmp_path, [number_axis("age", 1, 2)])
    with spawn("predict", path, "-", "-o", tmp_path / "out.csv") as process:
        process.stdin.write(b"age\n" + b"1\n" * 4_000_000)  # returns when the command reads
        process.stdin.flush()
        while not list(tmp_path.glob(".out.csv.*")):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        process.stdin.close()
        printed = process.stderr.read().decode()
    assert process.returncode == 130
    assert printed.strip() == "error: stopped; nothing was written"
    assert [p.name for p in tmp_path.iterdir()] == ["small.nbm"]


def test_a_traceback_only_on_request(case, monkeypatch) -> None:
    _, _, path, data = case
    data.write_text(data.read_text() + "9,inf,level 0,inf,level 0,inf\n")
    assert "infinite" in fails("predict", path, data)
    shown = run("--debug", "predict", path, data, code=1).stderr
    assert shown.startswith("Traceback (most recent call last):")
    assert "\nValueError: " in shown
    with pytest.raises(ValueError, match="infinite"):
        main(["--debug", "predict", str(path), str(data)], standalone_mode=False)
    monkeypatch.setenv("NEURALBASIS_DEBUG", "1")
    assert "Traceback" in run("predict", path, data, code=1).stderr


PROBE = """
import sys
from neuralbasis.cli import main
model, data = sys.argv[1:]
for command in (["--help"], ["fit", "--help"], ["show", model], ["explain", model, data], ["predict", model, data]):
    assert main(command, standalone_mode=False) in (None, 0)
    print(*sorted({"torch", "sklearn", "polars", "tqdm", "matplotlib"} & set(sys.modules)), file=sys.stderr)
"""


def test_reading_a_model_imports_no_torch(tmp_path) -> None:
    path, _ = small_model(tmp_path, [number_axis("age", 1, 2)])
    (tmp_path / "data.csv").write_text("age\n1\n")
    command = [sys.executable, "-c", PROBE, str(path), str(tmp_path / "data.csv")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "prediction\n" in done.stdout
    assert done.stderr == "\n" * 5


MEMORY = """
import sys
from neuralbasis.cli import main
main(sys.argv[1:], standalone_mode=False)
with open("/proc/self/status") as file:  # peak of this process only; getrusage would include its parent's
    print(next(int(line.split()[1]) // 1024 for line in file if line.startswith("VmHWM")))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_table(tmp_path) -> None:
    rng, names = np.random.default_rng(0), [f"x{k}" for k in range(8)]
    path, model = small_model(tmp_path, [number_axis(name, -1, 0, 1) for name in names])
    peaks = []
    for n_rows in (20_000, 250_000):
        X = rng.normal(size=(n_rows, 8)).round(9)
        pa.csv.write_csv(
            pa.table({**dict(zip(names, X.T, strict=True)), "id": np.arange(n_rows)}), tmp_path / "data.csv"
        )
        arguments = ["predict", path, tmp_path / "data.csv", "-o", tmp_path / "out.csv", "--keep", "id"]
        command = [sys.executable, "-c", MEMORY, *map(str, arguments)]
        peaks.append(int(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
        found = pa.csv.read_csv(tmp_path / "out.csv")
        np.testing.assert_array_equal(found["prediction"].to_numpy(), model.predict(X))
        np.testing.assert_array_equal(found["id"].to_numpy(), np.arange(n_rows))
    assert peaks[1] < 450
    assert peaks[1] - peaks[0] < 100  # only blocks in flight may add to the peak


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "neuralbasis", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"neuralbasis, version {neuralbasis.__version__}\n"
    done = subprocess.run([sys.executable, "-m", "neuralbasis"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Usage" in done.stdout + done.stderr


def held_out(path: Path, target: str, task: str) -> np.ndarray:
    y = np.array(read_csv(path)[target])
    return hold_out(y if task == "classification" else y.astype(float), 0.2, task, 42)


def test_fit_of_a_regression(houses, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = json.loads(run("fit", houses, "--target", "price", "--exclude", "good", *FIT, "--json").stdout)
    assert (printed["task"], printed["model"], printed["refitted"]) == ("regression", "houses.nbm", False)
    assert printed["rows"] == {"train": 320, "held_out": 80}
    model = neuralbasis.load(tmp_path / "houses.nbm")
    assert model.encoder.names == ("age", "size", "city", "member", "zip")
    assert model.encoder.axes[4].levels == ("007", "010", "7")
    assert (model.summary.target, model.summary.n_rows) == ("price", 320)
    rows, held = read_csv(houses), held_out(houses, "price", "regression")
    out = read_csv(run("predict", "houses.nbm", houses).stdout)
    y, prediction = numbers(rows["price"]), numbers(out["prediction"])
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
    assert "class that the model does not know, first in row 121" in fails("evaluate", tmp_path / "m.nbm", data)


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
    assert "target 'y' is missing in 2 rows, first in row 61" in error_of(
        "--target", "y", text="x,y\n" + rows + "3,\n4,NA\n"
    )
    assert "has 1 rows" in error_of("--target", "y", text="x,y\n1,2\n")
    assert "no column beside the target" in error_of("--target", "y", text="y\n1\n2\n")
    assert "got dates" in error_of("--target", "y", text="x,y\n" + "2024-01-05,1\n2024-01-06,2\n" * 9)
    assert "has no value that is not missing" in error_of("--target", "y", text="x,y\n" + ",1\n,2\n" * 9)
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
    is_held = hold_out(y, 0.2, "classification", 0)
    assert [int(is_held[y == label].sum()) for label in "abc"] == [10, 2, 0]
    assert hold_out(np.arange(1000.0), 0.25, "regression", 0).sum() == 250
    assert not hold_out(y, 0.0, "classification", 0).any()


def test_metrics_equal_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    y, weights = rng.normal(size=500), rng.integers(1, 5, 500).astype(float)
    guess = y + rng.normal(size=500)
    r2, rmse, mae = regression_metrics(y, guess, 0.0, weights)
    assert r2.value == pytest.approx(r2_score(y, guess, sample_weight=weights))
    assert rmse.value == pytest.approx(np.sqrt(np.average((y - guess) ** 2, weights=weights)))
    assert mae.value == pytest.approx(mean_absolute_error(y, guess, sample_weight=weights))
    codes = rng.integers(0, 3, 500)
    p = (rng.random((500, 3)) + 0.7 * np.eye(3)[codes]).round(2)  # ties
    p /= p.sum(axis=1, keepdims=True)
    loss, area, hits = classification_metrics(codes, p, np.full(3, 1 / 3), weights)
    assert loss.value == pytest.approx(log_loss(codes, p, sample_weight=weights))
    one_sided = [roc_auc_score(codes == k, p[:, k], sample_weight=weights) for k in range(3)]
    assert area.value == pytest.approx(np.mean(one_sided))
    assert hits.value == pytest.approx(accuracy_score(codes, p.argmax(axis=1), sample_weight=weights))
    assert (loss.constant, area.constant) == (pytest.approx(np.log(3)), 0.5)


@pytest.mark.parametrize("n_rows", [300, 20_000])
def test_intervals_have_the_theoretical_width(n_rows) -> None:
    rng = np.random.default_rng(2)
    y, error = rng.normal(size=n_rows), rng.normal(size=n_rows)
    mae = regression_metrics(y, y + error, 0.0)[2]
    width = 2 * 1.96 * np.abs(error).std() / np.sqrt(n_rows)
    assert mae.high - mae.low == pytest.approx(width, rel=0.1)
    codes = (rng.random(n_rows) < 0.4).astype(int)
    p = 1 / (1 + np.exp(-(codes + rng.normal(size=n_rows))))
    area = classification_metrics(codes, np.column_stack([1 - p, p]), np.array([0.6, 0.4]))[1]
    beaten = [np.searchsorted(np.sort(p[codes == 0]), p[codes == 1]) / (codes == 0).sum()]
    beaten.append(np.searchsorted(np.sort(p[codes == 1]), p[codes == 0]) / codes.sum())
    delong = np.sqrt(sum(part.var() / len(part) for part in beaten))
    assert area.high - area.low == pytest.approx(2 * 1.96 * delong, rel=0.1)


def test_metrics_of_a_constant_target_or_a_single_class() -> None:
    r2, rmse, _ = regression_metrics(np.ones(5), np.ones(5), 1.0)
    assert np.isnan(r2.value)
    assert rmse.value == 0
    area = classification_metrics(np.zeros(4, int), np.full((4, 2), 0.5), np.array([1.0, 0.0]))[1]
    assert np.isnan(area.value)


def test_show(case) -> None:
    model, _, path, _ = case
    assert run("show", path).stdout.endswith(f"\n\n{model}\n")
    assert run("show", path, "--term", "x1 & x2").stdout == f"{model.scorecard('x1 & x2')}\n"
    found = json.loads(run("show", path, "--json").stdout)
    assert [term["name"] for term in found["terms"]] == list(model.term_names)
    np.testing.assert_allclose([term["importance"] for term in found["terms"]], model.importances())
    cells = json.loads(run("show", path, "--term", "x0", "--json").stdout)["cells"]
    assert cells[0]["score"] == model.shapes[0].scores[0, 0]


def test_explain_a_row(case) -> None:
    model, columns, path, data = case
    row = {name: values[41:42] for name, values in columns.items()}
    found = json.loads(run("explain", path, data, "--row", "42", "--json").stdout)
    contributions = model.contributions(row)[0]
    k = int(model.scores(row)[0].argmax()) if model.n_outputs > 1 else 0
    order = np.argsort(-np.abs(contributions[:, k]), kind="stable")
    assert [part["term"] for part in found["contributions"]] == [model.term_names[t] for t in order]
    np.testing.assert_array_equal(
        np.squeeze([p["contribution"] for p in found["contributions"]]), np.squeeze(contributions[order])
    )
    assert str(found["prediction"]) == str(model.predict(row)[0])
    if model.classes is not None:
        assert list(found["probabilities"].values()) == model.predict_proba(row)[0].tolist()
    page = run("explain", path, data, "--row", "42").stdout.splitlines()
    assert page[0].startswith("intercept")
    assert page[-1].startswith("prediction")
    assert len(page) == 3 + len(model.terms)
    assert "█" * 24 in page[1]
    assert "there is no row 301" in fails("explain", path, data, "--row", "301")


def test_explain_given_values(tmp_path) -> None:
    axes = [number_axis("age", 1, 2, 4), level_axis("city", "nominal", ["007", "7"]), number_axis("size", 0, 9)]
    path, model = small_model(tmp_path, axes)
    printed = run("explain", path, "--values", "age=3", "city=007")
    assert printed.stderr == "note: not given, so read as missing: 'size'\n"
    assert "age = 3" in printed.stdout
    assert "size = missing" in printed.stdout
    found = json.loads(run("explain", path, "--values", "age=3", "city=007", "size=1", "--json").stdout)
    cells = [np.interp(3, [1, 2, 4], model.shapes[0].scores[1:-1, 0]), model.shapes[1].scores[1, 0]]
    cells.append(np.interp(1, [0, 9], model.shapes[2].scores[1:-1, 0]))
    assert found["score"] == pytest.approx(sum(cells))
    assert "city = Rom (never seen)" in run("explain", path, "--values", "city=Rom").stdout
    assert "no column 'agee'; did you mean 'age'?" in fails("explain", path, "--values", "agee=3")
    assert "expects name=value" in fails("explain", path, "--values", "age")
    assert "column 'age' must hold numbers, but holds 'old'" in fails("explain", path, "--values", "age=old")
    assert "give one table" in fails("explain", path, code=2)
    assert "does not exist" in fails("explain", path, "nowhere.csv", code=2)


@pytest.mark.parametrize("to", ["sql", "json", "python", "c"])
def test_export_of_text_formats(to, tmp_path) -> None:
    path, model = small_model(tmp_path, [number_axis("age", 1, 2, 4), level_axis("city", "nominal", ["Oslo", "Rome"])])
    text = getattr(neuralbasis.export, f"to_{to}")(model)
    assert run("export", path, "--to", to).stdout.strip() == text.strip()
    suffix = {"sql": "sql", "json": "json", "python": "py", "c": "c"}[to]
    run("export", path, "-o", tmp_path / f"out.{suffix}")
    assert (tmp_path / f"out.{suffix}").read_text(encoding="utf-8").strip() == text.strip()


def test_export_of_binary_formats_and_errors(tmp_path) -> None:
    path, model = small_model(tmp_path, [number_axis("age", 1, 2, 4)])
    for name, package in (("out.onnx", "onnx"), ("out.xlsx", "openpyxl")):
        pytest.importorskip(package)
        run("export", path, "-o", tmp_path / name)
        assert (tmp_path / name).stat().st_size > 100
    printed = run("export", path, "--to", "sql", "--table", "people", "--dialect", "duckdb").stdout
    assert printed.strip() == neuralbasis.export.to_sql(model, table="people", dialect="duckdb").strip()
    assert "give --to" in fails("export", path, "-o", tmp_path / "out.txt", code=2)
    assert "onnx is a binary format" in fails("export", path, "--to", "onnx", code=2)
    assert "--table is for sql only" in fails("export", path, "--to", "c", "--table", "t", code=2)
    assert "cannot be written" in fails("export", path, "--to", "c", "-o", path)


def test_report(case, tmp_path) -> None:
    """The page equals that of `report.write` for the same rows."""
    _, columns, path, data = case
    table, model = read_csv(data), neuralbasis.load(path)
    y = model.predict(columns)
    table["truth"] = [str(value) for value in y]
    data = write_csv(tmp_path / "later.csv", table)
    out, expected = tmp_path / "page.html", tmp_path / "expected.html"
    options = ["--row", 3, "--row", 7, "--title", "Later", "--target", "truth"]
    assert "MB" in run("report", path, data, "-o", out, *options).stderr
    neuralbasis.report.write(expected, model, columns, y, [2, 6], "Later")
    assert out.read_bytes() == expected.read_bytes()
    run("report", path, "-o", out)
    neuralbasis.report.write(expected, model)
    assert out.read_bytes() == expected.read_bytes()
    assert "--row needs a table" in fails("report", path, "--row", 1, code=2)
    assert "has no column 'trut'" in fails("report", path, data, "--target", "trut", "-o", out)
    assert "must lie between" in fails("report", path, data, "--row", 301, "-o", out)
    table["truth"][4] = ""
    write_csv(data, table)
    assert "'truth' is missing in 1 row, first in row 5" in fails("report", path, data, "--target", "truth", "-o", out)
    assert out.read_bytes() == expected.read_bytes()


def test_plot(tmp_path) -> None:
    pytest.importorskip("matplotlib")
    path, _ = small_model(tmp_path, [number_axis("age", 1, 2, 4), level_axis("city", "nominal", ["Oslo", "Rome"])])
    wanted = {"a.png": [], "b.svg": ["--term", "city"], "c.pdf": ["--kind", "importances"]}
    for name, options in {**wanted, "d.png": ["--kind", "grid", "-n", 1]}.items():
        run("plot", path, "-o", tmp_path / name, *options)
        assert (tmp_path / name).stat().st_size > 1000
    assert "age" not in (tmp_path / "b.svg").read_text(encoding="utf-8").partition("<metadata>")[0]
    assert "leave --kind and -n out" in fails("plot", path, "-o", tmp_path / "e.png", "--term", "age", "-n", 2, code=2)
    assert "height" in fails("plot", path, "-o", tmp_path / "e.png", "--term", "height")
    assert ".png" in fails("plot", path, "-o", tmp_path / "e.txt")


def test_doctor() -> None:
    found = json.loads(run("doctor", "--json").stdout)
    assert (found["ok"], found["self_test"]) == (True, "passed")
    assert found["packages"]["numpy"] == np.__version__
    assert found["threads"] >= 1
    page = run("doctor").stdout
    assert page.splitlines()[-1].split() == ["self-test", "passed"]
    assert "kernels" in page
