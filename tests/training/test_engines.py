"""Engines: dense and sparse rows give the same points, and both engines learn the same function."""

import numpy as np
import pytest
import torch

from neuralbasis import NeuralBasisRegressor
from neuralbasis.training import ExactEngine, GridEngine
from tests.training.problems import SMALL, draw_additive, draw_sparse


@pytest.mark.parametrize("absent", [0.0, np.nan])
def test_engines_of_sparse_rows_are_those_of_dense_rows(absent):
    layout, numbers, matrix = draw_sparse(np.random.default_rng(2), 150, absent, False)
    weights = np.random.default_rng(3).random(150)
    one, other = (GridEngine(layout, layout.encode(values), weights, 1) for values in (matrix, numbers))
    np.testing.assert_allclose(one.cell_weight, other.cell_weight, rtol=1e-12, atol=1e-12)
    assert ((one.cell_weight == 0) == (other.cell_weight == 0)).all()
    rows = np.arange(40, 90)
    points, lookup, index = ExactEngine(one).batch(rows)
    plain_points, plain, plain_index = ExactEngine(other).batch(rows)
    assert type(lookup) is type(one.lookup) is not type(plain)
    for order, chosen in points.orders.items():
        for name in ("places", "weight", "term", "point"):
            torch.testing.assert_close(getattr(chosen, name), getattr(plain_points.orders[order], name))
    table = torch.from_numpy(np.random.default_rng(4).normal(size=(len(points.source), 2)))
    mine = lookup.gather(lookup.take(index), table, per_term=True)
    torch.testing.assert_close(mine, plain.gather(plain.take(plain_index), table, per_term=True), rtol=0, atol=0)


def test_the_exact_engine_reaches_a_similar_loss():
    X, y = draw_additive(400)
    T, truth = draw_additive(400, seed=1)
    options = {**SMALL, "max_steps": 200, "smoothness": 0, "network__hidden": (32, 32)}
    grid, exact = (NeuralBasisRegressor(network__engine=engine, **options).fit(X, y) for engine in ("grid", "exact"))
    losses = [np.mean((model.predict(T) - truth) ** 2) for model in (grid, exact)]
    assert exact.score(T, truth) > 0.95
    assert 0.5 < losses[0] / losses[1] < 2
