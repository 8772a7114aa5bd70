"""Small grids, tables and training problems for the tests of single training steps."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from neuralbasis import NeuralBasisRegressor
from neuralbasis.config import FitConfig
from neuralbasis.data import Sample, read_columns
from neuralbasis.encoding import Anchor, Encoder, continuous_axis, lay_out
from neuralbasis.losses import choose_loss
from neuralbasis.training import GridEngine, make_net, place_rows
from tests.models import MIXED, build_layout, draw_numbers
from tests.sparse_tables import store

SMALL = {"network__hidden": (16, 16), "network__n_bases": 8, "outer_bags": 2, "random_state": 0, "interactions": 0}
NOT_SMOOTH = {1: (0.0, 1.0), 2: (0.0, 1.0), 3: (0.0, 1.0)}  # strength and floor by order


def make_config(**parameters):
    return FitConfig.read(NeuralBasisRegressor(**{**SMALL, **parameters}))


def make_grid(seed=0, orders=(1, 2), n_rows=80, threads=1):
    rng = np.random.default_rng(seed)
    layout = build_layout(rng, MIXED, orders)
    numbers = draw_numbers(rng, layout.axes[: len(MIXED)], n_rows)
    return GridEngine(layout, layout.encode(numbers), rng.random(n_rows) + 0.1, threads)


def draw_additive(n_rows, seed=0):
    """sin, a step and a line, without noise."""
    X = np.random.default_rng(seed).random((n_rows, 3))
    return X, np.sin(6 * X[:, 0]) + (X[:, 1] > 0.5) + 2 * X[:, 2]


def draw_noisy(n_rows=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n_rows, 4))
    return X, np.sin(6 * X[:, 0]) + rng.normal(0, 1.0, n_rows)


def draw_sparse(rng, n_rows, absent, anchored):
    """A layout of all orders, and its rows dense and sparse.

    One column has no absent value, one no other, and one some missing ones.
    """
    numbers = np.where(rng.random((n_rows, 5)) < 0.3, rng.normal(size=(n_rows, 5)).round(1), absent)
    numbers[:, 3], numbers[:, 4] = 1.0 if np.isnan(absent) else absent, rng.normal(size=n_rows)
    numbers[5:20, 1] = np.nan
    axes = [continuous_axis(f"x{index}", column) for index, column in enumerate(numbers.T)]
    terms = [(0,), (1,), (2,), (3,), (4,), (0, 1), (1, 2), (0, 4), (2, 3), (0, 1, 2), (2, 3, 4)]
    anchors = {0: Anchor(0.0, 0.8), 2: Anchor(0.0, 0.9)} if anchored else None
    return lay_out(axes, terms, {2: 7, 3: 4}, anchors), numbers, store(numbers, absent)


def make_problem(
    X, y, seed=0, classes=None, validation_size=0.25, pairs=(), threads=1, **parameters
):  # fmt: skip
    """Everything `train_net` takes but the settings and the history."""
    config, columns, rng = make_config(**parameters), read_columns(X), np.random.default_rng(seed)
    encoder, sample = Encoder.fit(columns), Sample(y, np.ones(len(y)))
    layout = lay_out(encoder.axes, [*((feature,) for feature in range(len(encoder.axes))), *pairs], {2: 9})
    grid = GridEngine(layout, layout.encode(encoder.numbers(columns)), sample.weights, threads)
    loss = choose_loss(sample, classes)
    net = make_net(config, grid, loss, sample, len(sample.y), rng)
    rows = place_rows(sample, loss, config.outer_bags, validation_size, rng, grid.device)
    return SimpleNamespace(net=net, grid=grid, engine=grid, rows=rows, loss=loss, rng=rng)
