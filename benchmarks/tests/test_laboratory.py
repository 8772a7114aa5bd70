"""The laboratory: generated problems match their truth, metrics and comparisons are right, and a run can be resumed."""

from __future__ import annotations

import argparse
import json
import math
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from benchmarks import baselines, datasets
from benchmarks.accuracy import comparison, laboratory
from benchmarks.accuracy import laboratory_report as report
from benchmarks.accuracy.comparison import compare, find_ratio
from benchmarks.accuracy.measure import Cell, Record, measure_here, read_records, split
from benchmarks.accuracy.shape_metrics import score_seeds, score_shapes, spread_columns, total_variation
from benchmarks.datasets import families

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("pandas", reason="levels are in a pandas frame")

needs_ebm = pytest.mark.skipif(
    not baselines.is_installed("ebm"), reason="needs the package interpret-core (extra 'benchmarks')"
)
WITH_TERMS = ["ours", pytest.param("ebm", marks=needs_ebm)]
WITHOUT_TRUTH = {"classes3", "classes20", "separable", "pairs", "pairs_binary"}


@pytest.mark.parametrize("family", families.FAMILIES)
def test_families(family: str) -> None:
    """The requested rows, all classes in both parts; a seed determines the problem."""
    data = datasets.load(f"{family}/400", seed=3)
    assert (len(data.X), len(data.y), len(data.test.X), len(data.test.y)) == (400, 400, 10_000, 10_000)
    assert data.X.shape[1] == data.test.X.shape[1]
    assert (data.truth is None) == (family in WITHOUT_TRUTH)
    if data.task == "classification":
        counts = np.bincount(data.y)
        assert len(counts) == len(np.bincount(data.test.y)) == {"classes3": 3, "classes20": 20}.get(family, 2)
        assert counts.min() >= 5
    quick, again, other = (datasets.load(f"{family}/30000", quick=True, seed=seed) for seed in (3, 3, 4))
    assert (len(quick.y), quick.task) == (200, data.task)
    assert (again.y == quick.y).all()
    assert (again.test.y == quick.test.y).all()
    assert (other.test.y != quick.test.y).any()


@pytest.mark.parametrize("family", families.REGRESSIONS)
def test_true_effects_and_noise_are_the_target(family: str) -> None:
    data = datasets.load(f"{family}/3000", seed=1)
    effects = data.truth.effects(data.test.X)
    assert effects.shape == data.test.X.shape
    assert np.abs(effects.mean(axis=0)).max() < 0.06
    assert effects.sum(axis=1).std() == pytest.approx(1, rel=0.05)
    for part in (data, data.test):
        left = part.y - data.truth.scores(part.X)
        assert left.std() == pytest.approx(data.truth.noise, rel=0.06)
        assert abs(left.mean()) < 4 * data.truth.noise / math.sqrt(len(left))
        assert abs(np.corrcoef(left, data.truth.scores(part.X))[0, 1]) < 0.06
    assert data.truth.noise == pytest.approx(math.sqrt(20) if family == "noisy" else 0.5)


@pytest.mark.parametrize("family", [name for name, family in families.ADDITIVE.items() if family.n_classes == 2])
def test_true_effects_are_the_logit(family: str) -> None:
    """In each tenth of the rows the frequency of the second class matches the mean probability."""
    data = datasets.load(f"{family}/3000", seed=1)
    probabilities = expit(data.truth.scores(data.test.X))
    for part in np.array_split(np.argsort(probabilities), 10):
        spread = math.sqrt((probabilities[part] * (1 - probabilities[part])).mean() / len(part))
        assert abs(data.test.y[part].mean() - probabilities[part].mean()) < 4 * spread + 5 / len(part)
    assert probabilities.mean() == pytest.approx(0.002 if family == "rare" else 0.5, rel=0.15)


def test_the_truth_does_not_depend_on_the_rows() -> None:
    X = np.random.default_rng(0).normal(size=(50, 8))
    small, large = (datasets.load(f"jumps/{rows}", seed=2).truth.effects(X) for rows in (300, 3000))
    assert (small == large).all()
    assert (datasets.load("jumps/300", seed=3).truth.effects(X) != small).any()


def test_columns_of_families() -> None:
    X = datasets.load("spikes/3000").X
    for j, special in enumerate([0, 99_999, -9, 0, 99_999, -9, 0, 99_999]):
        assert 0.03 < (X[:, j] == special).mean() < 0.28
        assert len(np.unique(X[:, j])) == (X[:, j] != special).sum() + 1  # all others are different
    assert {3 <= len(np.unique(x)) <= 12 for x in datasets.load("integers/3000").X.T} == {True}
    assert np.corrcoef(datasets.load("correlated/3000").X.T)[0, 1:] == pytest.approx(0.9, abs=0.02)
    X = datasets.load("tails/3000").X
    assert np.log(X[:, 0]).std() == pytest.approx(2, rel=0.1)
    assert np.abs(X[:, 1]).max() > 100
    assert np.median(np.abs(X[:, 1])) == pytest.approx(1, rel=0.1)
    data = datasets.load("irrelevant/300")
    effects = data.truth.effects(data.X)
    assert effects.shape[1] == 60
    assert (effects.std(axis=0) > 0).sum() == 5


def test_missing_values() -> None:
    data = datasets.load("missing/30000", seed=5)
    gaps = np.isnan(data.X)
    assert gaps.mean(axis=0) == pytest.approx([0, 0, 0, 0.05, 0.2, 0.5, 0.1, 0.3], abs=0.01)
    effects = data.truth.effects(data.X)
    heights = [effects[gaps[:, j], j] for j in range(3, 8)]
    assert all(np.ptp(height) == 0 for height in heights)
    deviations = effects[:, 3:].std(axis=0)
    assert all(abs(height[0]) < 0.03 * deviation for height, deviation in zip(heights[:3], deviations[:3], strict=True))
    assert all(abs(height[0]) > 0.3 * deviation for height, deviation in zip(heights[3:], deviations[3:], strict=True))


def test_levels() -> None:
    few, many = datasets.load("levels/300").X, datasets.load("levels_binary/30000").test.X
    assert [len(few[name].cat.categories) for name in list(few)[:5]] == [3, 10, 50, 60, 60]
    assert [len(many[name].cat.categories) for name in list(many)[:5]] == [3, 10, 50, 300, 3000]
    assert [str(dtype) for dtype in many.dtypes[5:]] == ["float64", "float64"]
    effects = datasets.load("levels/300").truth.effects(few)
    for j, name in enumerate(list(few)[:5]):
        assert (
            len({(level, effect) for level, effect in zip(few[name], effects[:, j], strict=True)})
            == few[name].nunique()
        )


def test_separable_classes_separate() -> None:
    from sklearn.linear_model import LogisticRegression

    data = datasets.load("separable/3000")
    assert LogisticRegression(C=1e6, max_iter=5000).fit(data.X, data.y).score(data.test.X, data.test.y) > 0.999
    assert LogisticRegression(C=1e6, max_iter=5000).fit(data.test.X, data.test.y).score(data.test.X, data.test.y) == 1


def test_unknown_problems() -> None:
    for key in ("jump/300", "jumps/many"):
        with pytest.raises(ValueError, match="family/rows"):
            datasets.load(key)
    with pytest.raises(ValueError, match="a data set is one of"):
        datasets.load("jumps")


def test_split_of_generated_rows() -> None:
    train, test = split(Cell("jumps/300", "linear", split_seed=7))
    assert (len(train.y), len(test.y)) == (300, 10_000)
    assert (train.y == datasets.load("jumps/300", seed=7).y).all()
    train, test = split(Cell("iris", "linear", split_seed=7))
    assert (np.bincount(train.y).tolist(), np.bincount(test.y).tolist()) == ([40] * 3, [10] * 3)


def test_scores_of_shapes() -> None:
    """Truth x and 0 on x = -1, 0, 1; found 2 x with an offset, and steps of 1 up and down."""
    X = np.array([[1.0, 0.0], [-1.0, 1.0], [0.0, 2.0]])
    truth = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]])
    found = np.array([[7.0, 0.0], [3.0, 1.5], [5.0, 0.0]])
    metrics = score_shapes([found, found + 1], truth, X)
    assert metrics["shape_error"] == pytest.approx(math.sqrt((2 + 1.5) / 2))  # squares: 1, 1, 0 and 0.25, 1, 0.25
    assert metrics["roughness"] == pytest.approx((4 + 3) / 2)
    assert metrics["shape_spread"] == pytest.approx(0)
    other = np.array([[7.0, 0.0], [3.0, 0.0], [5.0, 0.0]])
    assert score_shapes([found, other, found], truth, X)["shape_spread"] == pytest.approx(math.sqrt(1.5 / 2 / 2))
    assert total_variation(np.array([[0.0], [9.0], [1.0]]), np.array([[1.0], [np.nan], [2.0]])) == 1
    assert spread_columns(np.array([[1.0, 2.0]]), [(2,), (0,)], 4).tolist() == [[2, 0, 1, 0]]


def test_levels_have_no_order() -> None:
    data = datasets.load("levels/300", quick=True).test
    effects = data.truth.effects(data.X)
    assert total_variation(effects, data.X) == pytest.approx(
        total_variation(effects[:, 5:], data.X.iloc[:, 5:].to_numpy())
    )


class Constant:
    """Predicts the same for every row."""

    def __init__(self, value: float) -> None:
        self.value = value

    def predict(self, X: Any) -> np.ndarray:
        return np.full(len(X), self.value)

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.tile([1 - self.value, self.value], (len(X), 1))


def test_change_with_the_seed() -> None:
    test = datasets.Dataset("", np.zeros((2, 1)), np.array([0.0, 4.0]), "regression")
    models = [Constant(0.5), Constant(0.7), Constant(0.1)]
    assert score_seeds(models, test)["seed_change"] == pytest.approx((0.2 + 0.4) / 2 / 2)
    test = datasets.Dataset("", np.zeros((2, 1)), np.array([0, 1]), "classification")
    assert score_seeds(models, test)["seed_change"] == pytest.approx((0.2 + 0.4) / 2)
    assert score_seeds(models[:1], test) == {}


@pytest.mark.parametrize("learner", WITH_TERMS)
@pytest.mark.parametrize("family", ["missing", "jumps_binary"])
def test_contributions_and_intercept_are_the_score(learner: str, family: str) -> None:
    data, module = datasets.load(f"{family}/300", quick=True), baselines.get(learner)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # EBM's pictures do not show missing values
        model = module.fit(data.X, data.y, data.task, 0, quick=True, interactions=2)
    found = module.contributions(model, data.test.X)
    assert found.shape == (1000, len(model.term_features_))
    scores = found.sum(axis=1) + model.intercept_
    predictions = model.predict(data.test.X) if family == "missing" else model.predict_proba(data.test.X)[:, 1]
    assert predictions == pytest.approx(scores if family == "missing" else expit(scores), abs=1e-5)


@pytest.mark.parametrize("learner", WITH_TERMS)
def test_metrics_of_a_cell(learner: str) -> None:
    """Shapes are scored where the truth is known and all terms are main effects; readability is ours only."""
    mains, own = {"interactions": 0}, {"readability"} if learner == "ours" else set()
    metrics = measure_here(Cell("smooth/300", learner, quick=True, options=mains, refits=1)).metrics
    assert set(metrics) == {"rmse", "seed_change", "shape_error", "roughness", "shape_spread"} | own
    assert 0 < metrics["shape_error"] < 1.5
    assert metrics.pop("readability", 0.0) >= 0
    assert min(metrics.values()) > 0
    assert set(measure_here(Cell("pairs/300", learner, quick=True, options=mains)).metrics) == {"rmse"} | own
    cell = Cell("smooth/300", learner, quick=True, options={"interactions": 1})
    assert set(measure_here(cell).metrics) == {"rmse"} | own


@pytest.mark.parametrize("key", ["cancer", "diabetes"])
def test_rows_drawn_of_a_real_set_leave_the_others_to_test(key: str) -> None:
    whole, drawn, other = datasets.load(key), datasets.load(f"{key}@100", seed=1), datasets.load(f"{key}@100", seed=2)
    assert len(drawn.y) == 100
    assert len(drawn.test.y) == len(whole.y) - 100
    together = np.concatenate([drawn.X, drawn.test.X])
    np.testing.assert_array_equal(np.sort(together, axis=0), np.sort(whole.X, axis=0))
    assert not np.array_equal(drawn.X, other.X)
    if whole.task == "classification":
        assert drawn.y.mean() == pytest.approx(whole.y.mean(), abs=0.01)
    train, test = split(Cell(f"{key}@100", "linear", 1))
    np.testing.assert_array_equal(train.X, drawn.X)
    np.testing.assert_array_equal(test.y, drawn.test.y)
    assert "shape_error" not in measure_here(Cell(f"{key}@100", "linear", options={})).metrics


def test_names_of_drawn_problems() -> None:
    assert laboratory.list_problems("heloc@50,drawn", [300])[:2] == ["heloc@50", "heloc@800"]
    for wrong in ("heloc@", "heloc@few", "jumps@300", "nothing@300"):
        with pytest.raises(argparse.ArgumentTypeError, match="heloc@800"):
            laboratory.list_problems(wrong, [300])
    with pytest.raises(ValueError, match="name@rows"):
        datasets.load("iris@few")


def test_old_cells_are_read(tmp_path: Path) -> None:
    old = asdict(make_record("ca"))
    del old["cell"]["refits"], old["cell"]["options"]
    path = tmp_path / "cells.jsonl"
    path.write_text(json.dumps(old) + "\n", encoding="utf-8")
    (record,) = read_records(path)
    assert (record.cell.data, record.cell.refits, record.cell.options) == ("ca", 0, {"interactions": 0})


def make_record(data: str, split_seed: int = 0, seconds: float = 1.0, **metrics: float) -> Record:
    cell, versions = Cell(data, "linear", split_seed), {"sklearn": "1.0"}
    return Record(cell, 10, 2, seconds, 1.0, 2.0, 1.0, metrics, versions, load=0.5)


def make_records(metric: str, losses: dict[str, list[float | None]], seconds: float = 1.0) -> dict[Any, Record]:
    """Records of problems with their losses on splits 0, 1, …; None where there is none."""
    return {
        (data, k): make_record(data, k, seconds, **{metric: loss})
        for data, found in losses.items() for k, loss in enumerate(found) if loss is not None
    }  # fmt: skip


def test_ratio_and_interval() -> None:
    """With two values a quarter of the resamples has either twice; with three, each is drawn thrice in 1 of 27."""
    assert find_ratio([0.5, 2.0]) == comparison.Ratio(pytest.approx(1), pytest.approx(0.5), pytest.approx(2))
    assert find_ratio([1.0, 1.0, 8.0]) == comparison.Ratio(pytest.approx(2), 1, pytest.approx(8))
    assert find_ratio([0.7]) == comparison.Ratio(pytest.approx(0.7))
    found = [find_ratio(ratios).verdict for ratios in ([0.5, 0.9], [0.5, 2.0], [1.1, 1.2], [1.0, 1.0], [0.9])]
    assert found == ["better", "tied", "worse", "tied", "–"]


def test_interval_of_many_values() -> None:
    """As the normal one: the mean logarithm ± 1.96 standard errors."""
    logs = np.random.default_rng(1).normal(0.1, 0.3, size=200)
    ratio, half = find_ratio(np.exp(logs)), 1.96 * logs.std() / math.sqrt(200)
    assert np.log([ratio.low, ratio.high]) == pytest.approx([logs.mean() - half, logs.mean() + half], abs=0.004)


def test_comparison() -> None:
    ours = make_records("rmse", {"a": [0.5, 1.0, 9.0], "b": [2.0, 1.0], "c": [1.1, 1.21], "d": [1.0]}, seconds=1)
    theirs = make_records("rmse", {"a": [1.0, 2.0, None], "b": [1.0, 2.0], "c": [1.0, 1.0], "e": [1.0]}, seconds=4)
    found = compare({"ours": ours, "EBM": theirs}, ("ours", "EBM"))
    assert len(found.pairs) == 6  # the third split of a, and d and e, have one learner only
    means = {problem: ratio.mean for problem, ratio in found.problems.items()}
    assert means == pytest.approx({"a": 0.5, "b": 1, "c": math.sqrt(1.1 * 1.21)})
    assert found.overall.mean == pytest.approx((0.5 * math.sqrt(1.1 * 1.21)) ** (1 / 3))
    assert found.of_means == pytest.approx((0.5 * 1.155) ** (1 / 3))  # b's means are equal
    assert (found.counts["better"], found.counts["tied"], found.counts["worse"]) == (1, 1, 1)
    assert found.share == pytest.approx(2 / 3)
    assert found.worst == ("c", pytest.approx(1.1537, abs=1e-4))
    assert found.seconds == pytest.approx(1 / 4)
    assert found.means("calibration") == (None, None)
    assert found.seed_change is None
    assert compare({"ours": ours}, ("ours", "EBM")).pairs == []


def test_means_of_pairs() -> None:
    ours = {
        ("a", 0): make_record("a", log_loss=0.5, calibration=0.1, seed_change=0.2),
        ("b", 0): make_record("b", log_loss=1e-9, calibration=0.3, seed_change=0.4),
        ("c", 0): make_record("c", rmse=1.0),
    }
    theirs = {
        ("a", 0): make_record("a", log_loss=1.0, calibration=0.2, seed_change=0.5),
        ("b", 0): make_record("b", log_loss=2e-3, calibration=0.6, seed_change=0.7),
        ("c", 0): make_record("c", rmse=1.0, seed_change=5.0),
    }
    found = compare({"ours": ours, "EBM": theirs}, ("ours", "EBM"))
    assert found.problems["b"].mean == pytest.approx(0.5)  # 0.001 is the least log loss
    assert found.means("calibration") == pytest.approx((0.2, 0.4))
    assert found.seed_change == pytest.approx(0.3 / 0.6)


def test_readability_of_a_report() -> None:
    """The mean of our records that have it; older records are reported without it."""
    values = {0: {"readability": 0.25}, 1: {"readability": 0.75}, 2: {}}
    ours = {("a", split): make_record("a", split, rmse=1.0, **own) for split, own in values.items()}
    theirs = {place: make_record(*place, rmse=1.0) for place in ours}
    assert compare({"ours": ours, "EBM": theirs}, ("ours", "EBM")).readability == pytest.approx(0.5)
    text = report.write_report(report.Run({"ours": ours, "EBM": theirs}), "command")
    header, _, line = text.split("## Comparisons")[1].strip().splitlines()[:3]
    assert [row.strip("|").split("|")[-1].strip() for row in (header, line)] == ["readability", "0.500"]
    figures = text.split("## Figures: readability")[1].strip().splitlines()
    assert [cell.strip() for cell in figures[2].strip("|").split("|")] == ["a", "0.50 ± 0.35", "–"]
    old = report.write_report(report.Run({"ours": theirs, "EBM": theirs}), "command")
    line = old.split("## Comparisons")[1].strip().splitlines()[2]
    assert line.strip("|").split("|")[-1].strip() == "–"
    assert "## Figures: readability" not in old


def test_shape_errors_by_family() -> None:
    def mains(errors: list[float], size: int) -> dict[Any, Record]:
        return {
            (f"smooth/{size}", k): make_record(f"smooth/{size}", k, rmse=1.0, shape_error=error, roughness=2 * error)
            for k, error in enumerate(errors)
        }

    records = {
        "ours mains": mains([0.1], 300) | mains([0.2], 3000),
        "EBM mains": mains([0.2], 300) | mains([0.1], 3000),
    }
    text = report.write_report(report.Run(records), "command")
    assert compare(records, ("ours mains", "EBM mains")).shape_errors["smooth"].mean == pytest.approx(1)
    assert "| smooth |             0.150 |            0.150 |                 0.300 |" in text
    line = next(line for line in text.splitlines() if line.startswith("| shape error, smooth"))
    assert [cell.strip() for cell in line.split("|")[4:-1]] == ["1.00", "–", "≤ 0.7", "missed"]


def read_goals(text: str) -> dict[tuple[str, ...], tuple[str, ...]]:
    lines = text.split("## Targets")[1].strip().splitlines()[2:]
    cells = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]
    return {row[:3]: row[3:] for row in cells}


def test_targets_of_a_report() -> None:
    ours = make_records("rmse", {"a": [0.9, 0.9], "jumps/300": [1.2, 1.2]}, seconds=1)
    theirs = make_records("rmse", {"a": [1.0, 1.0], "jumps/300": [1.0, 1.0]}, seconds=10)
    for places, value in ((ours, 0.8), (theirs, 0.85)):
        places["fraud", 0] = make_record("fraud", log_loss=0.002, average_precision=value, calibration=value, auroc=1.0)
    goals = read_goals(report.write_report(report.Run({"ours": ours, "EBM": theirs}), "command"))
    title = "ours / EBM"
    assert goals["loss, geometric mean", title, "real"] == ("0.949", "–", "≤ 0.99", "met")
    assert goals["loss, geometric mean", title, "generated"] == ("1.20", "–", "≤ 0.99", "missed")
    assert goals["share better or tied", title, "real"] == ("1.00", "–", "≥ 0.85", "met")  # fraud has no verdict
    assert goals["share better or tied", title, "generated"] == ("0", "–", "≥ 0.85", "missed")
    assert goals["loss, worst problem", title, "generated"] == ("1.20", "–", "≤ 1.02", "missed")
    assert goals["fit seconds", title, "generated"] == ("0.100", "–", "≤ 0.2", "met")
    assert goals["fraud, average precision", title, "real"] == ("0.800", "0.850", "≥ EBM", "missed")
    assert goals["calibration error", title, "real"] == ("0.800", "0.850", "≤ EBM", "met")
    assert not any(name.startswith("change with the seed") for name, *_ in goals)


def test_report_lists_missing_cells() -> None:
    records = {"linear": make_records("rmse", {"a": [1.0, 2.0]}), "EBM": {}}
    failed, absent = {"EBM on a, split 0": "exit code 1: no"}, {"ca": "it is not there"}
    run = report.Run(records, failed, [("a", 1), ("b", 1), ("a", 1), ("a", 2)], absent)
    text = report.write_report(run, "python -m this")
    assert "`python -m this`" in text
    assert "sklearn 1.0" in text
    assert "2 cells measured, 1 failed, 4 missing; load before a fit 0.5" in text
    assert "- EBM on a, split 0: failed, exit code 1: no" in text
    assert "- split 1, not started within the budget: a (2), b (1)\n" in text
    assert "- split 2, not started within the budget: a (1)\n" in text
    assert "- ca: not run, it is not there" in text
    assert "| a       | 1.5000 ± 0.7071 |   – |" in text


def test_problems_are_listed_from_small_to_large() -> None:
    found = laboratory.list_problems("small,jumps,rare,smooth/50,iris", [3000, 300])
    assert found == [
        "smooth/50", "iris", "wine", "jumps/300", "diabetes", "cancer", "german", "digits", "jumps/3000", "rare/3000",
        "abalone",
    ]  # fmt: skip
    assert set(laboratory.REAL) == set(datasets.LOADERS) - {"covertype"}
    assert len(laboratory.list_problems("generated", [300])) == len(datasets.FAMILIES) - 1  # rare needs more rows


def test_order_of_work() -> None:
    cells = laboratory.list_cells(["iris", "ca"], ["EBM mains", "linear"], [200, 201], refits=2, quick=False)
    assert [(name, cell.data, cell.split_seed) for name, cell in cells[:5]] == [
        ("EBM mains", "iris", 200), ("linear", "iris", 200), ("EBM mains", "ca", 200), ("linear", "ca", 200),
        ("EBM mains", "iris", 201),
    ]  # fmt: skip
    assert cells[0][1] == Cell("iris", "ebm", 200, options={"interactions": 0}, refits=2)


def run_laboratory(capsys: pytest.CaptureFixture[str], out: Path, *arguments: str) -> str:
    laboratory.main(["--quick", "--problems", "jumps/300,iris", "--learners", "linear", "--out", str(out), *arguments])
    return capsys.readouterr().out


def test_a_run_can_be_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, written = tmp_path / "cells.jsonl", tmp_path / "report.md"
    text = run_laboratory(capsys, out, "--budget", "0.01")  # the first cell is begun, the second is not
    assert "1 cells measured, 0 failed, 1 missing" in text
    assert "- split 200, not started within the budget: jumps/300 (1)" in text
    text = run_laboratory(capsys, out)
    assert "2 cells measured, 0 failed, 0 missing" in text
    records = read_records(out)
    assert [record.cell.data for record in records] == ["iris", "jumps/300"]
    text = run_laboratory(capsys, out, "--budget", "0", "--report", str(written))
    assert written.read_text(encoding="utf-8") == text
    assert "2 cells measured, 0 failed, 0 missing" in text
    assert f"| iris      | {records[0].metrics['log_loss']:.4f} |" in text
    out.write_text(out.read_text().replace(records[0].versions["sklearn"], "0.0"))
    assert "0 cells measured, 0 failed, 2 missing" in run_laboratory(capsys, out, "--budget", "0")
    text = run_laboratory(capsys, out, "--budget", "0", "--any-version")
    assert "2 cells measured, 0 failed, 0 missing" in text
    assert "sklearn 0.0" in text


def test_failing_and_absent_learners_are_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(laboratory.LEARNERS, "broken", ("linear", {"depth": 3}))
    monkeypatch.setattr(baselines, "is_installed", lambda name: name != "xgboost")
    laboratory.main(["--quick", "--problems", "iris", "--learners", "broken,XGBoost,linear"])
    text = capsys.readouterr().out
    assert "1 cells measured, 1 failed, 0 missing" in text
    assert (
        "- broken on iris, split 200: failed, exit code 1: TypeError: fit() got an unexpected keyword argument" in text
    )
    assert "- XGBoost: not run, the package xgboost is not installed" in text


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--problems", "jumps,moon"], ["--learners", "moon"]):
        with pytest.raises(SystemExit):
            laboratory.main([*arguments, "--quick"])
        assert "'moon' is not one of" in capsys.readouterr().err
