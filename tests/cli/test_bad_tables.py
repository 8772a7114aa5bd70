"""Tables as people have them: what is read, what is left out, and the message for everything else, word for word."""

from __future__ import annotations

import csv
import json
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import neuralbasis
from tests.cli.running import fails, number_axis, read_csv, run, small_model, write_csv

FAST = ["--target", "y", "--interactions", "0", "--set", "max_steps=2", "--set", "outer_bags=2", "--force"]
N = 60
X = np.random.default_rng(0).normal(size=N).round(2)
Y = (2 * X + 0.01).round(3)


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Write a table of x, y and these columns in the working directory; returns its name."""
    monkeypatch.chdir(tmp_path)

    def write(name="t.csv", encoding="utf-8", delimiter=",", **columns) -> str:
        write_csv(tmp_path / name, {"x": X, "y": Y, **columns}, delimiter=delimiter)
        (tmp_path / name).write_bytes((tmp_path / name).read_text("utf-8").encode(encoding))
        return name

    return write


def notes(*arguments) -> list[str]:
    """The notes and warnings of a fit that succeeds."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        return [line for line in run(*arguments).stderr.splitlines() if line.startswith(("note: ", "warning: "))]


def columns_of(name="t.nbm") -> tuple[str, ...]:
    return neuralbasis.load(name).encoder.names


@pytest.mark.parametrize("name", ["out.xlsx", "out.xls"])
def test_an_excel_name_is_not_given_to_a_csv(tmp_path, name) -> None:
    path, _ = small_model(tmp_path, [number_axis("x", 0, 1)])
    data, out = write_csv(tmp_path / "t.csv", {"x": X}), tmp_path / name
    assert fails("predict", path, data, "-o", out) == (
        f"error: {out}: tables are written as CSV or Parquet, not as Excel; name a file that ends in .csv, which Excel "
        "opens"
    )
    assert not out.exists()


def test_outputs_are_replaced_only_with_force(tmp_path) -> None:
    path, _ = small_model(tmp_path, [number_axis("x", 0, 1)])
    data = write_csv(tmp_path / "t.csv", {"x": X})
    for command, name in (("predict", "o.csv"), ("export", "o.sql"), ("report", "o.html"), ("plot", "o.svg")):
        out, more = tmp_path / name, [data] * (command == "predict")
        out.write_text("mine")
        message = f"error: {out} exists already; --force replaces it, --output names another file"
        assert fails(command, path, *more, "-o", out) == message
        assert out.read_text() == "mine"
        run(command, path, *more, "-o", out, "--force")
        assert out.read_text() != "mine"


def test_another_encoding(table) -> None:
    hint = "is not utf-8 (byte 0xe4); try --encoding latin-1"
    assert fails("fit", table(city=["Köln"] * 30 + ["Mähren"] * 30, encoding="latin-1"), *FAST).startswith(
        "error: t.csv: line 2 is not utf-8 (byte 0xf6)"
    )
    assert fails("fit", table(Länge=X, encoding="latin-1"), *FAST) == f"error: t.csv: line 1 {hint}"
    assert fails("fit", "t.csv", *FAST, "--encoding", "ascii").endswith("(byte 0xe4); try another --encoding")
    run("fit", "t.csv", *FAST, "--encoding", "latin-1")
    assert columns_of() == ("x", "Länge")


def test_a_ragged_line_is_named(table) -> None:
    limit = csv.field_size_limit()
    name = table(text=['"a\nb"'] * N)  # a quoted value of two lines
    with open(name, "a", encoding="utf-8") as file:
        file.write("1,2\n")
    assert fails("fit", name, *FAST) == (
        f"error: t.csv: line {2 + 2 * N} has 2 values, but the header has 3 names; correct that line, quote values "
        "that contain ',', or give another --delimiter"
    )
    assert csv.field_size_limit() == limit  # it is global: other readers of the process refuse huge values


def test_excel_and_json_are_read(table, tmp_path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("openpyxl")
    mixed = [1, "a"] * (N // 2)
    pandas.DataFrame({"x": X, "kind": mixed, "y": Y}).to_excel(tmp_path / "book.xlsx", index=False)
    records = [{"x": float(x), "kind": k, "y": float(y)} for x, k, y in zip(X, mixed, Y, strict=True)]
    (tmp_path / "list.json").write_text(json.dumps(records))
    (tmp_path / "lines.jsonl").write_text("\n".join(map(json.dumps, records)))
    table(kind=mixed)
    tables = []
    for name in ("book.xlsx", "list.json", "lines.jsonl", "t.csv"):
        run("fit", name, *FAST, "--model", "m.nbm")
        tables.append(read_csv(run("predict", "m.nbm", name).stdout)["prediction"])
    assert tables[0] == tables[1] == tables[2] == tables[3]
    (tmp_path / "bad.json").write_text('{"x": [1, 2]')
    assert "bad.json is not JSON that can be read" in fails("fit", "bad.json", *FAST)
    (tmp_path / "bad.json").write_text("[1, 2]")
    assert fails("fit", "bad.json", *FAST) == (
        'error: bad.json must hold a list of records, such as [{"age": 31}, {"age": 45}], or one record a line; '
        'pandas writes them with to_json(orient="records")'
    )
    (tmp_path / "bad.json").write_text('{"x": {"0": 1, "1": 2}, "y": {"0": 3, "1": 4}}')
    assert 'pandas writes them with to_json(orient="records")' in fails("fit", "bad.json", *FAST)
    (tmp_path / "bad.xlsx").write_text("x,y\n1,2\n")
    assert fails("fit", "bad.xlsx", *FAST) == (
        "error: bad.xlsx is not an Excel workbook that can be read; save it again as .xlsx, or as CSV"
    )
    (tmp_path / "old.xls").write_text("")
    assert fails("fit", "old.xls", *FAST) == (
        "error: old.xls is a .xls file, which cannot be read; save the table as CSV or .xlsx"
    )


def test_currency_and_percent_are_numbers(table) -> None:
    money = [f"${1000 + 10 * k:,}" for k in range(N)]
    assert notes("fit", table(money=money, share=[f"{k} %" for k in range(N)]), *FAST)[:1] == [
        "note: column 'money' holds numbers as text and is read as numbers; '$1,000' is read as 1000; --feature-types "
        "money=nominal keeps the texts as labels"
    ]
    axes = neuralbasis.load("t.nbm").encoder.axes
    assert [axis.kind for axis in axes] == ["continuous"] * 3
    assert axes[1].knots[0] >= 1000
    found = notes("fit", table(y=money), *FAST)
    assert found == ["note: target 'y' holds numbers as text, such as '$1,000', and is read as numbers"]
    assert neuralbasis.load("t.nbm").classes is None


def test_decimal_commas(table) -> None:
    commas = [f"{k / 4:.2f}".replace(".", ",") for k in range(N)]
    thousands = [f"{1000 + k / 4:,.2f}".translate(str.maketrans(",.", ".,")) for k in range(N)]
    name = table(width=commas, area=thousands, delimiter=";")
    assert fails("fit", name, *FAST) == (
        "error: column 'width' holds numbers with a decimal comma, such as '0,00'; --decimal , reads them, "
        "--feature-types width=nominal keeps them as labels"
    )
    assert "target 'y' holds numbers with a decimal comma, such as '0,00'" in fails("fit", table(y=commas), *FAST)
    name = table(y=commas, width=commas, area=thousands, x=[str(x).replace(".", ",") for x in X], delimiter=";")
    notes("fit", name, *FAST, "--decimal", ",")
    axes = {axis.name: axis for axis in neuralbasis.load("t.nbm").encoder.axes}
    assert axes["x"].knots[-1] == X.max()
    assert 1000 <= axes["area"].knots[0] < axes["area"].knots[-1] < 1015
    assert len(read_csv(run("predict", "t.nbm", name, "--decimal", ",").stdout)["prediction"]) == N
    assert "--decimal , reads numbers with a decimal comma" in fails("predict", "t.nbm", name)


def test_empty_columns_and_dates_are_left_out_with_a_note(table) -> None:
    days = [f"2024-{1 + k % 12:02d}-{1 + k % 28:02d}" for k in range(N)]
    written = [f"{1 + k % 28:02d}/{1 + k % 12:02d}/1980" for k in range(N)]
    name = table(nothing=[""] * N, admitted=days, born=written)
    assert notes("fit", name, *FAST) == [
        "note: column 'nothing' has no value in any row and is left out",
        "note: column 'admitted' holds dates and is left out; --split-dates uses their parts",
        "note: column 'born' holds dates as text, such as '01/01/1980', and is left out; written as 2024-03-15, "
        "--split-dates would use their parts",
    ]
    assert columns_of() == ("x",)
    run("fit", name, *FAST, "--split-dates")
    assert columns_of() == ("x", "admitted year", "admitted month", "admitted weekday")
    model = neuralbasis.load("t.nbm")
    parts = {"x": X, "admitted year": np.full(N, 2024.0), "admitted month": 1.0 + np.arange(N) % 12}
    weekdays = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
    parts["admitted weekday"] = [weekdays[np.datetime64(day).astype(object).weekday()] for day in days]
    found = read_csv(run("predict", "t.nbm", name).stdout)["prediction"]
    np.testing.assert_array_equal(np.array(found, dtype=float), model.predict(parts))
    pa.parquet.write_table(pa.csv.read_csv(name), "t.parquet")
    assert read_csv(run("predict", "t.nbm", "t.parquet").stdout)["prediction"] == found
    assert fails("predict", "t.nbm", table(admitted=written)) == (
        "error: column 'admitted' must hold dates such as 2024-03-15, since the model uses its year, but holds values "
        "such as '01/01/1980'; write it in this form"
    )


def test_missing_targets(table) -> None:
    name = table(y=["" if k in (3, 7) else y for k, y in enumerate(Y)])
    message = (
        "error: target 'y' is missing in 2 rows, first in row 3 (0 is the first); --drop-missing-target leaves such "
    )
    assert fails("fit", name, *FAST) == f"{message}rows out"
    left_out = ["note: 2 rows without a value of the target 'y' left out"]
    assert notes("fit", name, *FAST, "--drop-missing-target") == left_out
    for command in ("evaluate", "report"):
        assert fails(command, "t.nbm", name) == f"{message}rows out"
        assert notes(command, "t.nbm", name, "--drop-missing-target") == left_out
    assert json.loads(run("evaluate", "t.nbm", name, "--json", "--drop-missing-target").stdout)["rows"] == N - 2


def test_few_rows_are_noted(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "five.csv", {"x": X[:5], "y": Y[:5]})
    assert notes("fit", "five.csv", *FAST, "--test-size", "0") == [
        "note: 5 rows are too few for curves that can be trusted; read the bands, or collect more rows"
    ]


def test_a_report_uses_the_target_of_the_fit(table, tmp_path) -> None:
    run("fit", table(), *FAST)
    run("report", "t.nbm", "t.csv", "-o", "known.html")
    run("report", "t.nbm", "t.csv", "--target", "y", "-o", "named.html")
    assert (tmp_path / "known.html").read_bytes() == (tmp_path / "named.html").read_bytes()
    write_csv(tmp_path / "no_target.csv", {"x": X})
    run("report", "t.nbm", "no_target.csv", "-o", "without.html")
    assert (tmp_path / "without.html").stat().st_size < (tmp_path / "known.html").stat().st_size
