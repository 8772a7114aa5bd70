"""The messages about bad input, word for word: they name the column, the row or the line, and say what to do."""

from __future__ import annotations

import gzip
import json
import warnings
from typing import Any

import numpy as np
import pandas
import pytest

import neuralbasis
from neuralbasis.encoding import level_axis
from tests.cli.running import QUICK, fails, number_axis, read_csv, run, small_model, write_csv

N = 60
X = np.arange(N) / 4
LETTERS = ["a", "b", "c"] * (N // 3)


def make(target: Any = None, header: str = "x,k,y", **changes: Any) -> bytes:
    """A CSV of x, k and y; a change such as x=(3, "oops") replaces the value of that row."""
    columns = {"x": [*X], "k": [*LETTERS], "y": [*(X * 2)] if target is None else [*target]}
    for name, (row, value) in changes.items():
        columns[name][row] = value
    lines = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    return "\n".join([header, *lines, ""]).encode()


LATIN = make(k=(3, "ö")).decode().encode("latin-1")
FIT_ERRORS = {
    "empty": (b"", "{f} is empty; a CSV file must start with the names of its columns"),
    "blank": (b"\n\n", "{f} is empty; a CSV file must start with the names of its columns"),
    "no rows": (b"x,y\n", "{f} has no rows; a model needs at least two, and 50 or more to be of use"),
    "one row": (b"x,y\n1,2\n", "{f} has one row; a model needs at least two, and 50 or more to be of use"),
    "utf-16": (make().decode().encode("utf-16"), "{f}: line 1 is not utf-8 (byte 0xff); try --encoding utf-16"),
    "latin-1": (LATIN, "{f}: line 5 is not utf-8 (byte 0xf6); try --encoding latin-1"),
    "cp1252": (LATIN.replace(b"\xf6", b"\x80"), "{f}: line 5 is not utf-8 (byte 0x80); try --encoding cp1252"),
    "short line": (
        make() + b"1,a\n",
        "{f}: line 62 has 2 values, but the header has 3 names; correct that line, quote values that contain ',', or "
        "give another --delimiter",
    ),
    "open quote": (make(k=(4, '"a')), "{f}: a quoted value that starts in line 6 does not end; close its quote"),
    "wrong name": (make(header="x,k,Y"), "{f} has no column 'y'; did you mean 'Y'?"),
    "one column": (
        b"price\n1\n2\n",
        "{f} (its first line, 'price', is a single column: check --delimiter) has no column 'y'; it has 'price'",
    ),
    "no header": (
        make(header="0.25,a,0.5"),
        "{f} has no column 'y'; it has '0.25', 'a', '0.5'; its first line holds values such as '0.25': write a line "
        "with the names of the columns above it",
    ),
    "same names": (make(header="x,x,y"), "{f} has more than one column 'x'; give each column a unique name"),
    "missing target": (
        make(y=(5, "NaN")),
        "target 'y' is missing in 1 row, first in row 5 (0 is the first); --drop-missing-target leaves such rows out",
    ),
    "text in target": (
        make(y=(5, "high")),
        "target 'y' holds 'high' in row 5 (0 is the first), but numbers in 59 of 60 rows; correct it, pass --missing "
        "high to read it as missing, or give --task classification",
    ),
    "infinite target": (
        make(y=(5, "inf")),
        "target 'y' holds an infinite value in row 5 (0 is the first); correct it, or leave the row out",
    ),
    "constant target": (make([7] * N), "target 'y' is 7 in every row; a model needs at least two different values"),
    "target of names": (
        make([f"n{i}" for i in range(N)]),
        "target 'y' has 60 different values in 60 rows, but classes must repeat; name another column with --target",
    ),
    "infinite value": (
        make(x=(7, "-inf")),
        "column 'x' holds an infinite value in row 7 (0 is the first); correct it, or pass --missing inf to read it as "
        "missing",
    ),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("case", FIT_ERRORS)
def test_errors_of_a_fit(folder, case) -> None:
    content, expected = FIT_ERRORS[case]
    (folder / "t.csv").write_bytes(content)
    assert fails("fit", "t.csv", "--target", "y") == "error: " + expected.format(f="t.csv")
    assert not (folder / "t.nbm").exists()
    if case not in ("missing target", "infinite value"):
        checked = run("check", "t.csv", "--target", "y", code=None)
        assert expected.format(f="t.csv") in checked.output


def test_errors_of_options(folder) -> None:
    (folder / "t.csv").write_bytes(make())
    fit = ["fit", "t.csv", "--target", "y"]
    assert fails(*fit, "--encoding", "latin-nine", code=2) == (
        "error: Invalid value for '--encoding': there is no encoding 'latin-nine'; latin-1, cp1252 and utf-16 are "
        "frequent ones (see 'main fit --help')"
    )
    assert fails(*fit, "--delimiter", ";;", code=2).startswith(
        "error: Invalid value for '--delimiter': give one character, or tab, not ';;'"
    )
    assert fails(*fit, "--weights", "k").startswith("error: column 'k' cannot be used as --weights: ")
    assert fails(*fit, "--feature-types", "k=continuous") == (
        "error: column 'k' must hold numbers, but holds 'a' in row 0 (0 is the first); correct it, or pass "
        "--feature-types k=nominal"
    )
    assert fails("fit", "t.csv", "--target", "x", "--task", "classification") == (
        "error: target 'x' has 60 different values in 60 rows, but classes must repeat; name another column with "
        "--target, or give --task regression"
    )
    assert fails("predcit", code=2).startswith("error: there is no command 'predcit'; did you mean 'predict'?")
    assert "File '.' is a directory." in fails("check", ".", code=2)
    (folder / "t.tsv").write_bytes(make().replace(b",", b"\t"))
    run("check", "t.tsv", "--delimiter", "tab", "--target", "y")


def test_files_of_another_kind(folder) -> None:
    (folder / "t.csv.gz").write_bytes(make())
    (folder / "t.parquet").write_bytes(make())
    assert fails("check", "t.csv.gz") == "error: t.csv.gz is not compressed with gzip; give it a name that ends in .csv"
    found = fails("check", "t.parquet")
    assert found.startswith("error: t.parquet is not a Parquet file that can be read")
    assert found.endswith("; write it again, or as CSV")


def test_several_files_have_the_messages_of_one(folder) -> None:
    for name, content in (("ragged", make() + b"1,a\n"), ("empty", b""), ("latin", FIT_ERRORS["latin-1"][0])):
        (folder / f"{name}.csv").write_bytes(content)
    fit = ["--target", "y", "--memory-limit", "1GB"]
    assert "ragged.csv: line 62 has 2 values, but the header has 3 names" in fails("fit", "ragged.csv", *fit)
    assert "empty.csv is empty; a CSV file must start with" in fails("fit", "empty.csv", *fit)
    assert "latin.csv: line 5 is not utf-8 (byte 0xf6); try --encoding latin-1" in fails("fit", "latin.csv", *fit)


@pytest.fixture
def model(folder):
    return small_model(folder, [number_axis("x", 0, 1, 15), level_axis("k", "nominal", ["a", "b", "c"])])[0]


def test_a_text_in_a_column_of_numbers_is_a_note(folder, model) -> None:
    (folder / "t.csv").write_bytes(make(x=(17, "n.a. yet")))
    expected = (
        "note: column 'x' holds a value that is not a number, 'n.a. yet' in row 17 (0 is the first), which counts as "
        "missing; correct it, or confirm it with --missing 'n.a. yet'\n"
    )
    found = run("predict", model, "t.csv")
    assert found.stderr == expected
    assert run("predict", model, "t.csv", "--missing", "n.a. yet").stderr == ""
    (folder / "t.csv").write_bytes(make(x=(17, "")))
    assert run("predict", model, "t.csv").stdout == found.stdout
    columns = read_csv(make(x=(17, "n.a. yet")).decode())
    with pytest.warns(UserWarning, match=r"'x' .* 1 of 60 values is not a number, 'n.a. yet' in row 17 \(0 is"):
        neuralbasis.load(model).predict({"x": columns["x"], "k": columns["k"]})


def test_rows_are_counted_over_all_batches(folder, model, monkeypatch) -> None:
    monkeypatch.setattr("neuralbasis.cli.tables.BLOCK_BYTES", 300)
    lines = make().decode().splitlines()
    lines[50], lines[58] = "soon,a,1", "later,b,1"
    (folder / "t.csv").write_text("\n".join([*lines[:1], *lines[1:] * 3, ""]))
    assert run("predict", model, "t.csv").stderr == (
        "note: column 'x' holds 6 values that are not numbers, first 'soon' in row 49 (0 is the first), which count as "
        "missing; correct it, or confirm it with --missing 'soon'\n"
    )
    text = (folder / "t.csv").read_text().splitlines()
    text[151] = "inf,a,1"
    (folder / "t.csv").write_text("\n".join(text))
    assert fails("predict", model, "t.csv").startswith("error: column 'x' holds an infinite value in row 150 (0 is")
    upper = "\n".join([lines[0], *(line.upper() for line in lines[1:49] * 3), ""])
    (folder / "t.csv").write_text(upper)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        printed = run("predict", model, "t.csv").stderr
    assert printed.count("warning: column 'k': ") == 1  # not for each batch


def test_errors_of_a_prediction(folder, model) -> None:
    (folder / "t.csv").write_bytes(make(x=(0, "bad")).replace(b".", b"?"))
    assert fails("predict", model, "t.csv") == (
        "error: column 'x' must hold numbers, but holds '0?25' in row 1 (0 is the first); correct it, or pass "
        "--missing '0?25' to read it as missing"
    )
    (folder / "t.csv").write_bytes(make(header="x,K,y"))
    assert fails("predict", model, "t.csv") == "error: t.csv has no column 'k'; did you mean 'K'?"
    assert fails("explain", model, "x=3", code=2).startswith(
        "error: give one table, with --row, or --values and the row as NAME=VALUE"
    )
    assert (
        fails("report", model, "-o", "page.pdf") == "error: page.pdf: the page is HTML; name a file that ends in .html"
    )
    assert fails("merge", model, "-o", "m.nbm", code=2).startswith("error: give two models or more")
    assert "--to json does not fit m.xlsx, which names excel" in fails(
        "export", model, "--to", "json", "-o", "m.xlsx", code=2
    )


def test_parts_of_a_date_that_is_absent(folder) -> None:
    path, _ = small_model(folder, [number_axis(f"day {part}", 0, 1, 15) for part in ("year", "month")])
    (folder / "t.csv").write_bytes(make())
    assert fails("predict", path, "t.csv") == "error: t.csv has no column 'day'; it has 'x', 'k', 'y'"


def test_the_option_missing_applies_to_every_kind_of_table(folder, model) -> None:
    codes = np.where(np.arange(N) % 7 == 0, -9, X)
    frame = pandas.DataFrame({"x": codes, "k": LETTERS, "y": X})
    frame.to_csv("t.csv", index=False)
    frame.to_parquet("t.parquet")
    frame.to_excel("t.xlsx", index=False)
    frame.to_json("t.json", orient="records")
    found = [run("predict", model, f"t.{kind}", "--missing=-9").stdout for kind in ("parquet", "xlsx", "json")]
    missing = pandas.DataFrame({"x": np.where(codes < 0, np.nan, codes), "k": LETTERS})
    expected = neuralbasis.load(model).predict(missing)
    for printed in found:
        np.testing.assert_array_equal(np.array(read_csv(printed)["prediction"], dtype=float), expected)
    frame["x"] = np.where(codes < 0, -9, np.arange(N)).astype(int)
    frame.to_parquet("whole.parquet")
    run("fit", "whole.parquet", "--target", "y", "--missing=-9", *QUICK)
    assert neuralbasis.load("whole.nbm").encoder.axes[0].knots[0] >= 0


def test_an_index_without_a_name_is_left_out(folder) -> None:
    pandas.DataFrame({"x": X[::-1], "k": LETTERS, "y": X}).to_csv("t.csv")
    note = "a column without a name numbers the rows"
    assert f"note: {note} and is left out\n" in run("fit", "t.csv", "--target", "y", *QUICK).stderr
    assert neuralbasis.load("t.nbm").encoder.names == ("x", "k")
    printed = run("check", "t.csv", "--target", "y").stdout
    assert f"- {note}: the fit leaves it out" in printed
    assert printed.strip().endswith("neuralbasis fit t.csv --target y --exclude x")  # which gives the target away


def test_check_repeats_the_options_of_reading(folder) -> None:
    text = make(k=(3, "ö"), x=(3, "-9")).decode().replace(",", ";").replace(".", ",")
    (folder / "t.csv").write_bytes(text.encode("latin-1"))
    given = ["--encoding", "latin-1", "--decimal", ",", "--delimiter", ";", "--missing=?"]
    printed = json.loads(run("check", "t.csv", "--target", "y", "--json", *given).stdout)
    assert printed["command"].startswith(
        "neuralbasis fit t.csv --target y --delimiter ';' --encoding latin-1 --decimal , '--missing=?'"
    )


def test_other_forms_of_dates_are_left_out_with_a_note(folder) -> None:
    dates = {
        "a": [f"{2000 + i}/0{1 + i % 9}/15" for i in range(N)],
        "b": [f"{1 + i % 28} Mar {1960 + i}" for i in range(N)],
        "c": [f"June {1 + i % 28}, 2024" for i in range(N)],
        "d": [f"2024-{1 + i % 12:02d}" for i in range(N)],
        "e": [f"4711-{10 + i % 7}" for i in range(N)],  # no dates
        "f": [f"market {i % 7}" for i in range(N)],
    }
    write_csv(folder / "t.csv", {"x": X, **dates, "y": X})
    printed = run("fit", "t.csv", "--target", "y", *QUICK).stderr
    assert [line.split("'")[1] for line in printed.splitlines() if "holds dates as text" in line] == [*"abcd"]
    assert neuralbasis.load("t.nbm").encoder.names == ("x", "e", "f")


def test_blank_texts_in_a_column_of_numbers(folder) -> None:
    (folder / "t.csv").write_bytes(make(x=(17, " ")))
    assert run("fit", "t.csv", "--target", "y", *QUICK).stderr == (
        "note: column 'x' holds numbers as text and is read as numbers; ' ' and the like count as missing; "
        "--feature-types x=nominal keeps the texts as labels\n"
    )


def test_five_rows_warn_and_print_no_noise(folder) -> None:
    write_csv(folder / "five.csv", {"x": range(5), "y": [1, 2, 3, 5, 8]})
    found = run("fit", "five.csv", "--target", "y", *QUICK)
    assert found.stderr == (
        "note: column 'x' numbers the rows; --exclude it unless their order matters\n"
        * 0
        + "note: target 'y' has 5 distinct integers and is read as numeric; --task classification reads them as "
        "classes\nnote: 5 rows are too few for curves that can be trusted; read the bands, or collect more rows\n"
    )
    assert "1 row held out" in found.stdout


def test_a_compressed_table(folder) -> None:
    (folder / "t.csv.gz").write_bytes(gzip.compress(make() + b"1,a\n"))
    assert "t.csv.gz: line 62 has 2 values" in fails("fit", "t.csv.gz", "--target", "y")


def test_dates_as_texts_with_zones_and_in_every_kind_of_table(folder) -> None:
    times = pandas.date_range("2023-11-01", periods=N, freq="31h")
    table = {
        "day": times.strftime("%Y-%m-%d"),
        "zone": times.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "exact": times.strftime("%Y-%m-%d %H:%M:%S.%f"),
        "clock": times.strftime("%H:%M:%S"),
    }
    frame = pandas.DataFrame({**table, "y": X})
    frame.to_csv("t.csv", index=False)
    frame.to_json("t.json", orient="records")
    frame.to_parquet("t.parquet")
    options = ["--target", "y", "--split-dates", "--exclude", "clock", *QUICK, "--force"]
    found = set()
    for kind in ("csv", "json", "parquet"):
        run("fit", f"t.{kind}", *options)
        found |= {run("predict", "t.nbm", f"t.{other}").stdout for other in ("csv", "json", "parquet")}
    assert len(found) == 1
    parts = ("year", "month", "weekday", "hour")
    assert neuralbasis.load("t.nbm").encoder.names == (
        *(f"day {part}" for part in parts[:3]),
        *(f"{name} {part}" for name in ("zone", "exact") for part in parts),
    )
    hours = neuralbasis.load("t.nbm").encoder.axes[6].knots
    assert set(hours) <= set(times.hour)
    printed = run("check", "t.csv", "--target", "y").stdout
    assert "- column 'clock' holds times of day; a number such as the hour can be used" in printed


def test_workbooks_without_a_row_of_names(folder) -> None:
    frame = pandas.DataFrame({"x": X[::-1], "k": LETTERS, "y": X})
    frame.to_excel("title.xlsx", startrow=2, index=False)
    assert fails("check", "title.xlsx") == (
        "error: title.xlsx: the first row of the first sheet must hold the names of the columns, but 3 of its cells "
        "are empty; delete the rows above the table, or name all columns"
    )
    frame.to_excel("index.xlsx")
    run("fit", "index.xlsx", "--target", "y", *QUICK)
    assert neuralbasis.load("index.nbm").encoder.names == ("x", "k")
    frame.astype({"x": object}).replace({"x": {X[5]: "n/k"}}).to_excel("texts.xlsx", index=False)
    assert (
        "- column 'x' holds numbers as text and is read as numbers; 1 of 60 values is not a number, 'n/k', and is "
        "read as missing\n"
    ) in run("check", "texts.xlsx").stdout


def test_a_table_larger_than_memory_names_the_option(folder, monkeypatch) -> None:
    monkeypatch.setattr("neuralbasis.data.memory.CELL_BYTES", 1e7)
    for part in ("a", "b"):
        write_csv(folder / f"{part}.csv", {"x": [f"${1000 + i:,}" for i in range(N)], "y": X})
    fit = ["fit", "a.csv", "b.csv", "--target", "y", "--memory-limit", "1GB", "--model", "m.nbm", *QUICK]
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        printed = run(*fit, "--set", "max_steps=2", "--set", "outer_bags=2").stderr
    assert "'$1,000' is read as 1000; to keep the texts as labels, pass --feature-types COLUMN=nominal\n" in printed
