"""`neuralbasis check` finds what was planted, says it in words, and prints a command that fits the table."""

from __future__ import annotations

import json
import shlex
import warnings

import numpy as np

import neuralbasis
from tests.cli.running import QUICK, fails, run, write_csv

N = 300


def plant(tmp_path, **changes):
    rng = np.random.default_rng(0)
    age = rng.integers(20, 90, N)
    y = np.round(age / 10 + rng.normal(size=N), 3)
    columns = {
        "record": np.arange(1000, 1000 + N),
        "name": [f"patient {k}" for k in range(N)],
        "age": age,
        "dose": np.where(np.arange(N) % 20 == 0, 999, rng.integers(1, 40, N)),
        "zip": rng.choice(["00701", "10115", "20095"], N),
        "price": [f"${1000 + k:,}" for k in rng.integers(0, 500, N)],
        "day": [f"2024-{1 + k % 12:02d}-{1 + k % 28:02d}" for k in range(N)],
        "born": [f"{1 + k % 28}.{1 + k % 12}.1980" for k in range(N)],
        "age_again": age,
        "unit": ["mg"] * N,
        "nothing": [""] * N,
        "billed": np.round(100 * y + 7, 1),
        "y": y,
    }
    columns |= changes
    return write_csv(tmp_path / "t.csv", columns)


SENTENCES = """\
column 'record' has a different integer in every row: it seems to number the rows
column 'name' has 300 different texts in 300 rows: it seems to identify them
column 'zip' holds codes with leading zeros, which are names rather than numbers
column 'price' holds numbers as text: '$1,378' is read as 1378
column 'day' holds dates: year, month, weekday and hour can be used, the date itself cannot
column 'born' holds dates such as '1.1.1980'; write them as 2024-03-15 to use their parts
column 'unit' is 'mg' in every row with a value
column 'nothing' has no value in any row
column 'dose' holds 999, far from its other values: probably a code for a missing value
column 'age_again' equals column 'age' in every row
column 'billed' alone predicts the target almost perfectly (R² 0.99"""


def test_everything_that_was_planted_is_found(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    plant(tmp_path)
    printed = run("check", "t.csv", "--target", "y").stdout
    found = [line[2:] for line in printed.splitlines() if line.startswith("- ")]
    expected = SENTENCES.split("\n")
    assert [line.partition(": '$")[0] for line in found[:-1]] == [line.partition(": '$")[0] for line in expected[:-1]]
    assert found[-1].startswith(expected[-1])
    command = printed.splitlines()[-1].strip()
    assert command == (
        "neuralbasis fit t.csv --target y --feature-types zip=nominal --split-dates --missing=999 --exclude record "
        "--exclude name --exclude born --exclude unit --exclude nothing --exclude age_again --exclude billed"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that '$1,378' is read as 1378
        run(*shlex.split(command)[1:], *QUICK)
    model = neuralbasis.load("t.nbm")
    assert model.encoder.names == ("age", "dose", "zip", "price", "day year", "day month", "day weekday")
    assert model.encoder.axes[1].knots[-1] < 40
    found = json.loads(run("check", "t.csv", "--target", "y", "--json").stdout)
    assert (found["n_rows"], found["command"]) == (N, command)


def test_targets_rows_and_classes(tmp_path) -> None:
    label = np.where(np.arange(N) % 3 == 0, "yes", "no")
    path = write_csv(
        tmp_path / "t.csv",
        {
            "age": [1.5, 2.5, *range(N - 2), 1.5],
            "paid": [*label, label[0]],
            "y": [*np.where(np.arange(N) == 5, "", label), label[0]],
        },
    )
    printed = run("check", path, "--target", "y").stdout
    assert "- target 'y' is missing in 1 rows" not in printed
    assert "- target 'y' is missing in 1 row, which the fit must leave out" in printed
    assert "- 1 row repeats an earlier row in every column: held-out scores may be too good" in printed
    assert "- column 'paid' alone predicts the target almost perfectly (accuracy over the classes 1.000)" in printed
    assert printed.strip().endswith("--target y --drop-missing-target --exclude paid")
    assert "did you mean 'age'?" in fails("check", path, "--target", "aged")


def test_a_clean_table_has_no_findings(tmp_path) -> None:
    rng = np.random.default_rng(1)
    path = write_csv(
        tmp_path / "t.csv", {"a": rng.normal(size=N), "b": rng.choice(["u", "v"], N), "y": rng.normal(size=N)}
    )
    printed = run("check", path, "--target", "y").stdout
    assert printed.splitlines() == [
        f"{path}: 300 rows, 3 columns",
        "",
        "- nothing that would mislead a model",
        "",
        "To fit it:",
        "",
        f"  neuralbasis fit {path} --target y",
    ]
    assert run("check", path).stdout.strip().endswith("--target COLUMN")


def test_a_code_that_another_column_holds_is_not_made_missing_everywhere(tmp_path) -> None:
    rng = np.random.default_rng(1)
    codes = np.where(np.arange(N) % 10 == 0, -9, rng.integers(0, 50, N))
    path = write_csv(tmp_path / "t.csv", {"a": codes, "b": rng.integers(-20, 20, N), "y": rng.normal(size=N)})
    printed = run("check", path, "--target", "y").stdout
    assert "- column 'a' holds -9, far from its other values" in printed
    assert printed.strip().endswith("--target y")
