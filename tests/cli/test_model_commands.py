"""`merge`, `update` and `diff` do what the functions of the package do."""

from __future__ import annotations

import json

import numpy as np
import pytest

import neuralbasis
from tests.cli.running import QUICK, fails, read_csv, run, write_csv


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two tables of different rows and different slopes, and a model of each."""
    folder, rng = tmp_path_factory.mktemp("models"), np.random.default_rng(0)
    for name, slope in (("north", 1), ("south", 3)):
        x, kind = rng.random(200).round(3), rng.choice(["a", "b"], 200)
        write_csv(folder / f"{name}.csv", {"x": x, "kind": kind, "y": (slope * x + (kind == "a")).round(4)})
        run("fit", folder / f"{name}.csv", "--target", "y", "--model", folder / f"{name}.nbm", *QUICK)
    return folder


def test_merge(models, tmp_path) -> None:
    paths = [models / "north.nbm", models / "south.nbm"]
    out = tmp_path / "both.nbm"
    printed = run("merge", *paths, "-o", out, "--weight", 1, "--weight", 2).stdout
    assert printed == f"saved {out}: 2 models of 320 rows, 2 terms\n"
    expected = neuralbasis.merge([neuralbasis.load(path) for path in paths], [1, 2])
    table = {"x": np.linspace(0, 1, 9), "kind": ["a"] * 9}
    np.testing.assert_array_equal(neuralbasis.load(out).predict(table), expected.predict(table))
    assert "exists already" in fails("merge", *paths, "-o", out)
    assert "weights must be one number" in fails("merge", *paths, "-o", out, "--weight", 1, "--force")


def test_update(models, tmp_path) -> None:
    out = tmp_path / "new.nbm"
    given = ["update", models / "north.nbm", models / "south.csv", "-o", out]
    assert "corrected with 200 rows" in run(*given, "--set", "random_state=3").stdout
    columns = read_csv(models / "south.csv")
    X = {"x": np.array(columns["x"], dtype=float), "kind": columns["kind"]}
    before, after = neuralbasis.load(models / "north.nbm"), neuralbasis.load(out)
    expected = neuralbasis.update(before, X, np.array(columns["y"], dtype=float), random_state=3)
    np.testing.assert_array_equal(after.predict(X), expected.predict(X))
    assert (after.summary.target, after.summary.n_rows) == ("y", before.summary.n_rows + 200)
    assert "exists already" in fails(*given)
    assert "an estimator has no parameter 'random_stat'" in fails(*given, "--force", "--set", "random_stat=3")


def test_diff(models, tmp_path) -> None:
    north, south = models / "north.nbm", models / "south.nbm"
    found = json.loads(run("diff", north, south, "--json").stdout)["terms"]
    assert [row["term"] for row in found] == ["x", "kind"]
    one, other = neuralbasis.load(north), neuralbasis.load(south)
    axis, weights = one.encoder.axes[0], one.shapes[0].weights[1:-1]
    rows = {"x": axis.knots, "kind": ["a"] * len(axis.knots)}
    gap = np.abs(one.contributions(rows)[:, 0, 0] - other.contributions(rows)[:, 0, 0])
    assert found[0]["difference"] == pytest.approx(np.average(gap, weights=weights))
    assert found[0]["difference"] > 5 * found[1]["difference"]
    same = json.loads(run("diff", north, north, "--json").stdout)["terms"]
    assert [row["difference"] for row in same] == [0, 0]
    printed = run("diff", north, south).stdout.splitlines()
    assert printed[0].split() == ["term", str(north), str(south), "difference"]
    assert printed[1].split()[0] == "x"
    write_csv(tmp_path / "c.csv", {"x": range(60), "kind": ["a"] * 60, "y": ["u", "v"] * 30})
    run("fit", tmp_path / "c.csv", "--target", "y", "--model", tmp_path / "c.nbm", *QUICK)
    assert fails("diff", north, tmp_path / "c.nbm") == (
        "error: the models have different targets or classes; compare models of one target"
    )
