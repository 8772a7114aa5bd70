"""Law: intervals have their coverage on fresh rows, for every kind of table; weights, threads and processes agree.

With classes, intervals contain the mean true probability of fresh rows with similar scores.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, update

QUICK = {"max_steps": 60, "outer_bags": 4, "interactions": 0, "random_state": 0}


def draw(n_rows: int, seed: int, shift: float = 0.0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """A heteroscedastic table: noise is skewed and grows with the mean."""
    rng = np.random.default_rng(seed)
    size, age = rng.uniform(size=(2, n_rows))
    mean = 100 * (1 + size + np.sin(3 * age))
    return {"size": size, "age": age}, shift + mean + (mean - 80) * (rng.exponential(size=n_rows) - 1) / 2


def cover(bounds: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (bounds[:, 0] <= y) & (y <= bounds[:, 1])


def assert_covered(fitted, rows, y, coverage: float, error: float) -> None:
    """Overall, and in the low and the high half of the predictions."""
    inside, predicted = cover(fitted.predict_interval(rows, coverage), y), fitted.predict(rows)
    is_high = predicted > np.median(predicted)
    found = [inside.mean(), inside[is_high].mean(), inside[~is_high].mean()]
    np.testing.assert_allclose(found, coverage, atol=error)


@pytest.mark.parametrize("n_members", [1, 4, 7])
def test_fresh_rows_are_covered_overall_and_in_both_halves(n_members):
    fitted = NeuralBasisRegressor(**{**QUICK, "outer_bags": n_members}).fit(*draw(6000, 1))
    rows, y = draw(20_000, 2)
    for coverage in (0.5, 0.8, 0.9, 0.98):
        assert_covered(fitted, rows, y, coverage, 0.04 if n_members > 1 else 0.06)  # one member holds out 900 rows
    bounds = fitted.predict_interval(rows, 0.8)
    above, below = (y > bounds[:, 1]).mean(), (y < bounds[:, 0]).mean()
    np.testing.assert_allclose([above, below], 0.1, atol=0.04)  # the tails of skewed noise are equally probable


def test_rows_of_files_larger_than_memory_are_covered(tmp_path, monkeypatch):
    X, y = draw(6000, 1)
    pq.write_table(pa.table({**X, "target": y}), tmp_path / "rows.parquet", row_group_size=500)
    division = SimpleNamespace(n_sample=2000, n_pools=2)
    monkeypatch.setattr("neuralbasis.training.tables.divide_rows", lambda *_given: division)
    monkeypatch.setattr("neuralbasis.training.tables.count_rows_in_memory", lambda *_given: 0)
    fitted = NeuralBasisRegressor(**QUICK).fit(tmp_path / "rows.parquet", "target")
    assert 5 <= len(fitted.model_.residuals[0].centres) <= 14  # of held-out rows among 2,000
    assert_covered(fitted, *draw(20_000, 2), 0.9, 0.05)


def draw_wide(n_rows: int, seed: int) -> tuple[sp.csr_array, np.ndarray]:
    rng = np.random.default_rng(seed)
    others = sp.random(n_rows, 21_000, density=0.002, random_state=seed, format="csr")
    strong = rng.random((n_rows, 3)) * (rng.random((n_rows, 3)) < 0.5)
    target = 10 * (strong.sum(axis=1) + 0.3 * rng.normal(size=n_rows))
    return sp.csr_array(sp.hstack([sp.csr_array(strong), others])), target


def test_rows_of_a_wide_table_are_covered_also_after_an_update():
    fitted = NeuralBasisRegressor(**{**QUICK, "max_terms": None}).fit(*draw_wide(900, 3))
    assert fitted.model_.is_wide
    rows, y = draw_wide(3000, 4)
    assert abs(cover(fitted.predict_interval(rows, 0.8), y).mean() - 0.8) < 0.06
    more, target = draw_wide(600, 5)
    updated = update(fitted, more, target + 100)
    assert abs(cover(updated.predict_interval(rows, 0.8), y + 100).mean() - 0.8) < 0.08


def test_an_update_measures_its_own_rows():
    fitted = NeuralBasisRegressor(**QUICK).fit(*draw(3000, 1))
    updated = update(fitted, *draw(3000, 3, shift=500.0))
    assert_covered(updated, *draw(10_000, 2, shift=500.0), 0.9, 0.05)
    assert update(fitted, *draw(300, 3), validation_size=0).residuals == ()


def test_weight_equals_repetition():
    X, y = draw(600, 1)
    weights = np.random.default_rng(3).integers(0, 4, len(y))
    weighted = NeuralBasisRegressor(**QUICK).fit(X, y, sample_weight=weights)
    repeated = NeuralBasisRegressor(**QUICK).fit(
        {k: np.repeat(v, weights) for k, v in X.items()}, np.repeat(y, weights)
    )
    assert_same(weighted, repeated)


def test_a_sparse_table_gives_the_intervals_of_a_dense_one():
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((500, 4)) < 0.3, rng.normal(size=(500, 4)).round(1), 0.0)
    y = dense[:, 0] + rng.normal(size=500)
    one, other = (NeuralBasisRegressor(**QUICK).fit(table, y) for table in (dense, sp.csr_array(dense)))
    np.testing.assert_allclose(one.predict_interval(dense), other.predict_interval(dense), rtol=0, atol=1e-5)


def test_a_seed_gives_the_same_bits_on_any_number_of_threads():
    assert_same(*(NeuralBasisRegressor(**QUICK, n_jobs=n_jobs).fit(*draw(600, 1)) for n_jobs in (1, 2)))


def draw_classes(n_rows: int, seed: int, n_classes: int = 2) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """A table, classes, and the true probabilities (N, classes)."""
    rng = np.random.default_rng(seed)
    size, age, colour = rng.uniform(-1, 1, (3, n_rows))
    scores = np.stack([np.zeros(n_rows), 2.5 * size + np.sin(4 * age) + (colour > 0.3) - 1, 2 * age - 2 * size**2])
    proba = np.exp(scores[:n_classes].T)
    proba /= proba.sum(axis=1, keepdims=True)
    y = (rng.random((n_rows, 1)) > proba.cumsum(axis=1)).sum(axis=1)
    return {"size": size, "age": age, "colour": colour}, y, proba


def count_inside(fitted: NeuralBasisClassifier, rows, proba: np.ndarray, coverage: float = 0.9) -> float:
    """Share of narrow bands of the score whose mean true probability lies within the mean bounds, over all classes."""
    predicted, bounds = fitted.predict_proba(rows), fitted.predict_interval(rows, coverage)
    if len(fitted.classes_) == 2:
        predicted, bounds, proba = predicted[:, 1:], bounds[:, None], proba[:, 1:]
    found = []
    for k in range(predicted.shape[1]):
        for band in np.array_split(np.argsort(predicted[:, k]), 100):
            low, high = bounds[band, k].mean(axis=0)
            found.append(low <= proba[band, k].mean() <= high)
    return float(np.mean(found))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_true_probabilities_are_covered_in_narrow_bands_of_the_score(n_classes):
    rows, _, proba = draw_classes(40_000, 99, n_classes)
    fits = [NeuralBasisClassifier(**QUICK).fit(*draw_classes(4000, seed, n_classes)[:2]) for seed in range(4)]
    for coverage, low, high in ((0.5, 0.4, 0.75), (0.9, 0.85, 0.99)):  # means of several regions vary less than one
        assert low < np.mean([count_inside(fitted, rows, proba, coverage) for fitted in fits]) < high


def test_more_rows_give_narrower_intervals():
    rows, _, _ = draw_classes(2000, 99)
    sizes = (1000, 4000, 16_000)
    fits = [NeuralBasisClassifier(**QUICK).fit(*draw_classes(n_rows, 1)[:2]) for n_rows in sizes]
    regions = [len(fitted.model_.residuals[0].centres) for fitted in fits]
    widths = [np.ptp(fitted.predict_interval(rows), axis=1).mean() for fitted in fits]
    expected = [np.sqrt(n_regions / n_rows) for n_regions, n_rows in zip(regions, sizes, strict=True)]
    np.testing.assert_allclose(np.divide(widths, expected), widths[-1] / expected[-1], rtol=0.3)
    assert widths[-1] < 0.7 * widths[1]


def test_bounds_correct_a_badly_calibrated_model():
    """Few steps of one learner leave all probabilities too close to the share of the class."""
    rows, _, proba = draw_classes(40_000, 99)
    parameters = {**QUICK, "max_steps": 8, "boosted_steps": False}
    fitted = NeuralBasisClassifier(**parameters).fit(*draw_classes(6000, 1)[:2])
    predicted, bounds = fitted.predict_proba(rows)[:, 1], fitted.predict_interval(rows)
    bands = np.array_split(np.argsort(predicted), 100)
    truth, point = (np.array([values[band].mean() for band in bands]) for values in (proba[:, 1], predicted))
    low, high = np.transpose([bounds[band].mean(axis=0) for band in bands])
    assert ((point < low) | (point > high)).mean() > 0.5
    assert np.abs(point - truth).mean() > 0.15
    assert np.maximum(0, np.maximum(low - truth, truth - high)).mean() < 0.02


def test_probabilities_of_files_larger_than_memory_are_covered(tmp_path, monkeypatch):
    X, y, _ = draw_classes(6000, 1)
    pq.write_table(pa.table({**X, "target": y}), tmp_path / "rows.parquet", row_group_size=500)
    division = SimpleNamespace(n_sample=2000, n_pools=2)
    monkeypatch.setattr("neuralbasis.training.tables.divide_rows", lambda *_given: division)
    monkeypatch.setattr("neuralbasis.training.tables.count_rows_in_memory", lambda *_given: 0)
    fitted = NeuralBasisClassifier(**QUICK).fit(tmp_path / "rows.parquet", "target")
    rows, _, proba = draw_classes(20_000, 2)
    assert count_inside(fitted, rows, proba) > 0.75


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_of_a_wide_table_have_intervals_also_after_an_update(n_classes):
    (X, target), (more, other) = draw_wide(900, 3), draw_wide(600, 5)
    limits = np.quantile(target, [0.5] if n_classes == 2 else [0.3, 0.7])
    fitted = NeuralBasisClassifier(**{**QUICK, "max_terms": None}).fit(X, np.digitize(target, limits))
    assert fitted.model_.is_wide
    rows, y = draw_wide(3000, 4)
    for model in (fitted, update(fitted, more, np.digitize(other, limits))):
        bounds = model.predict_interval(rows).reshape(3000, -1, 2)[:, -1]  # of the last class
        for part in np.array_split(np.argsort(bounds[:, 0]), 5):
            low, high = bounds[part].mean(axis=0)
            assert low - 0.07 < (y[part] > limits[-1]).mean() < high + 0.07


def test_tied_classes_have_intervals():
    rows, _, proba = draw_classes(20_000, 99, 3)
    fitted = NeuralBasisClassifier(**QUICK, network__tied_classes=True).fit(*draw_classes(4000, 1, 3)[:2])
    assert count_inside(fitted, rows, proba) > 0.75


def test_an_update_of_classes_measures_its_own_rows():
    rows, _, proba = draw_classes(20_000, 99)
    X, y, _ = draw_classes(4000, 3)
    fitted = NeuralBasisClassifier(**QUICK).fit(*draw_classes(3000, 1)[:2])
    updated = update(fitted, X, 1 - y)
    bounds, truth = updated.predict_interval(rows), 1 - proba[:, 1]
    for part in np.array_split(np.argsort(bounds[:, 0]), 10):
        low, high = bounds[part].mean(axis=0)
        assert low - 0.05 < truth[part].mean() < high + 0.05


def test_weights_and_threads_of_classes():
    X, y, _ = draw_classes(600, 1, 3)
    weights = np.random.default_rng(3).integers(0, 4, len(y))
    weighted = NeuralBasisClassifier(**QUICK, n_jobs=1).fit(X, y, sample_weight=weights)
    assert_same(weighted, NeuralBasisClassifier(**QUICK, n_jobs=2).fit(X, y, sample_weight=weights))
    repeated = NeuralBasisClassifier(**QUICK).fit(
        {k: np.repeat(v, weights) for k, v in X.items()}, np.repeat(y, weights)
    )
    for left, right in zip(weighted.model_.residuals, repeated.model_.residuals, strict=True):
        np.testing.assert_allclose(left.quantiles, right.quantiles, atol=1e-6)


def assert_same(one, other) -> None:
    for left, right in zip(one.model_.residuals, other.model_.residuals, strict=True):
        for name in ("centres", "probabilities", "quantiles"):
            np.testing.assert_array_equal(getattr(left, name), getattr(right, name))
