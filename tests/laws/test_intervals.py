"""Law: intervals have their coverage on fresh rows, for every kind of table; weights, threads and processes agree."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from neuralbasis import NeuralBasisRegressor, update

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
    assert 5 <= len(fitted.model_.residuals.centres) <= 14  # of held-out rows among 2,000
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
    assert update(fitted, *draw(300, 3), validation_size=0).residuals is None


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


def assert_same(one: NeuralBasisRegressor, other: NeuralBasisRegressor) -> None:
    for name in ("centres", "probabilities", "quantiles"):
        np.testing.assert_array_equal(getattr(one.model_.residuals, name), getattr(other.model_.residuals, name))
