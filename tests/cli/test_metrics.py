"""Metrics equal those of scikit-learn, and their intervals have the theoretical width."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, log_loss, mean_absolute_error, r2_score, roc_auc_score

from neuralbasis.cli.metrics import classification_metrics, regression_metrics


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
