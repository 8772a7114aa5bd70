"""`neuralbasis predict`: formats of input and output, errors in tables, interruptions, memory."""

from __future__ import annotations

import csv
import gzip
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis.encoding import level_axis
from neuralbasis.model.residuals import Residuals
from tests.cli.running import fails, number_axis, numbers, read_csv, run, small_model, spawn, write_csv


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
        np.testing.assert_array_equal(numbers(found[f"score{suffix}"]), model.scores(columns)[:, k])
    n_labels = 0 if model.classes is None else len(model.classes)
    assert list(found)[:2] == ["id", "prediction"]
    assert len(found) == 2 + n_labels + (len(model.terms) + 2) * len(suffixes)


def test_interval(tmp_path) -> None:
    path, model = small_model(tmp_path, [number_axis("age", 1, 2, 4)])
    data = write_csv(tmp_path / "data.csv", {"lower": ["a"] * 5, "age": [0.5, 1.5, None, 3.0, 9.0]})
    quantiles = np.array([[-2.0, 0.5, 1.0], [-4.0, -1.0, 3.0]])
    model = replace(model, residuals=(Residuals(np.array([-0.5, 0.5]), np.array([0.0, 0.5, 1.0]), quantiles),))
    model.save(path)
    found = read_csv(run("predict", path, data, "--interval", 0.9, "--contributions").stdout)
    assert list(found) == ["prediction", "lower", "upper", "contribution_age", "intercept", "score"]
    rows = {"age": [0.5, 1.5, None, 3.0, 9.0]}
    bounds = np.column_stack([numbers(found["lower"]), numbers(found["upper"])])
    np.testing.assert_array_equal(bounds, model.predict_interval(rows, 0.9))
    np.testing.assert_array_equal(numbers(found["prediction"]), model.predict(rows))
    assert "already has a column 'lower'" in fails("predict", path, data, "--interval", 0.9, "--keep", "lower")
    assert "0<x<1" in fails("predict", path, data, "--interval", 90, code=2)
    run("predict", path, data, "--interval", 0.5, "-o", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").column_names == ["prediction", "lower", "upper"]


def test_an_interval_of_any_model_needs_residuals(case, tmp_path) -> None:
    model, columns, path, data = case
    assert "this model has none" in fails("predict", path, data, "--interval", 0.9)
    residuals = Residuals(np.array([-0.5, 0.5]), np.array([0.0, 1.0]), np.array([[-2.0, 1.0], [-4.0, 3.0]]))
    model = replace(model, residuals=(residuals,) * model.n_outputs)
    model.save(tmp_path / "measured.nbm")
    found = read_csv(run("predict", tmp_path / "measured.nbm", data, "--interval", 0.9).stdout)
    suffixes = [""] if model.n_outputs == 1 else [f"_{label}" for label in model.classes]
    names = [f"{bound}{suffix}" for suffix in suffixes for bound in ("lower", "upper")]
    assert list(found) == ["prediction", *names]
    bounds = np.column_stack([numbers(found[name]) for name in names])
    np.testing.assert_array_equal(bounds, model.predict_interval(columns, 0.9).reshape(len(bounds), -1))


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


def test_levels_and_booleans_in_other_spellings(tmp_path) -> None:
    axes = [level_axis("grade", "nominal", ["1", "2.5"]), level_axis("on", "nominal", ["false", "true"])]
    axes += [number_axis("flag", 0, 1), level_axis("zip", "nominal", ["007", "7"])]
    path, model = small_model(tmp_path, axes)

    def check(name: str, rows: dict) -> None:
        found = numbers(read_csv(run("predict", path, tmp_path / name).stdout)["prediction"])
        np.testing.assert_array_equal(found, model.predict(rows))

    text = "grade,on,flag,zip\n1.0,TRUE,true,007\n2.50,False,False,7\n1,1,1,07\n3,0,0.5,7.0\nx,maybe,NA,\n"
    (tmp_path / "data.csv").write_text(text)
    on, unseen = ["true", "false", "true", "false", "other"], "other"
    rows = {"grade": ["1", "2.5", "1", unseen, unseen], "on": on, "flag": [1, 0, 1, 0.5, None]}
    check("data.csv", {**rows, "zip": ["007", "7", unseen, "7", None]})
    table = pa.table({"grade": [1.0, 2.5], "on": [True, False], "flag": [True, None], "zip": ["007", "7"]})
    pq.write_table(table, tmp_path / "data.parquet")
    check("data.parquet", {"grade": ["1", "2.5"], "on": on[:2], "flag": [1, None], "zip": ["007", "7"]})


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
    assert "line 2 has 3 values, but the header has 2 names" in error_of("age,city\n1,Oslo,3\n")
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
    assert (
        "column 'pay' holds a value that is not a number, 'oops' in row 22 (0 is the first), which counts"
        in found.stderr
    )
    expected = model.predict({"pay": [1200, 40, 7, None, *range(18), None], "city": ["Oslo"] * 23})
    np.testing.assert_array_equal(numbers(read_csv(found.stdout)["prediction"]), expected)


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
        arguments = ["predict", path, tmp_path / "data.csv", "-o", tmp_path / "out.csv", "--keep", "id", "--force"]
        command = [sys.executable, "-c", MEMORY, *map(str, arguments)]
        peaks.append(int(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
        found = pa.csv.read_csv(tmp_path / "out.csv")
        np.testing.assert_array_equal(found["prediction"].to_numpy(), model.predict(X))
        np.testing.assert_array_equal(found["id"].to_numpy(), np.arange(n_rows))
    assert peaks[1] < 450
    assert peaks[1] - peaks[0] < 100  # only blocks in flight may add to the peak


def test_row_groups_of_parquet_output_are_large_and_bounded(tmp_path):
    path, model = small_model(tmp_path, [number_axis("age", 1, 2)])
    ages = np.linspace(0, 3, 400_000)
    pq.write_table(pa.table({"age": ages}), tmp_path / "data.parquet", row_group_size=30_000)
    run("predict", path, tmp_path / "data.parquet", "-o", tmp_path / "out.parquet")
    found = pq.ParquetFile(tmp_path / "out.parquet")
    sizes = [found.metadata.row_group(k).num_rows for k in range(found.num_row_groups)]
    assert len(sizes) > 2
    assert 65_536 <= min(sizes[:-1]) <= max(sizes) <= 131_072
    np.testing.assert_array_equal(found.read()["prediction"], model.predict({"age": ages}))
