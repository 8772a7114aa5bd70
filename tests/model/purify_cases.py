"""Random tables to purify, and slow reference computations."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import strategies as st

from neuralbasis.encoding import Axis, continuous_axis, level_axis
from neuralbasis.model.purify import Table
from tests.models import slow_look_up

seeds = st.integers(0, 2**32 - 1)

WEIGHTS = ("full", "sparse", "band", "blocks", "uneven", "none")


def levels(name, count):
    return level_axis(name, "nominal", [f"level {k}" for k in range(count)])


def thin(axis, keep):
    """The axis with some of its knots."""
    names = None if axis.levels is None else tuple(axis.levels[k] for k in keep)
    return Axis(axis.name, axis.kind, axis.knots[keep], axis.places[keep], names)


def draw_nested(rng, axis):
    """A random coarser axis, or the axis itself with probability 0.2."""
    if rng.random() < 0.2:
        return axis
    count = len(axis.knots)
    return thin(axis, np.sort(rng.choice(count, rng.integers(1, count + 1), replace=False)))


def draw_weights(rng, cells, kind="sparse"):
    """Training weights; those of the unseen cell of the first axis are 0."""
    weights = rng.integers(1, 9, cells).astype(float)
    grid = np.indices(cells)
    if kind == "sparse":
        weights *= rng.random(cells) < 0.4
    elif kind == "band":  # strongly correlated columns
        weights *= np.ptp(grid, axis=0) <= 1
    elif kind == "blocks":
        weights *= np.ptp(grid % 2, axis=0) == 0
    elif kind in ("uneven", "extreme"):
        reach = 1.5 if kind == "uneven" else 6
        weights = 10.0 ** rng.uniform(-reach, reach, cells) * (rng.random(cells) < 0.7)
    elif kind == "none":
        weights[:] = 0.0
    weights[-1] = 0.0
    return weights


def draw_table(rng, term, axes, n_channels=2, kind="sparse", mix=None):
    cells = tuple(axis.n_cells for axis in axes)
    return Table(term, tuple(axes), rng.normal(0, 3, (*cells, n_channels)), draw_weights(rng, cells, kind), mix)


def draw_tables(rng, n_outputs=2, orders=(1, 2, 3), mixed=False):
    """Terms of three continuous columns and one nominal, on nested random axes; `mixed` adds terms with a mix."""
    main = [continuous_axis(f"x{d}", rng.normal(0, 10, rng.integers(3, 9))) for d in range(3)] + [levels("x3", 5)]
    pair = [draw_nested(rng, axis) for axis in main]
    axes = {1: main, 2: pair, 3: [draw_nested(rng, axis) for axis in pair]}
    tables = []
    for term in (term for order in orders for term in combinations(range(4), order)):
        channels = rng.integers(1, 3) if mixed and rng.random() < 0.7 else n_outputs
        mix = rng.normal(size=(channels, n_outputs)) if mixed and channels < n_outputs else None
        channels = n_outputs if mix is None else channels
        kind = rng.choice(WEIGHTS)
        tables.append(draw_table(rng, term, [axes[len(term)][f] for f in term], channels, kind, mix))
    return main, tables


def positions(values, axis):
    """Positions by definition; a level that a coarse axis does not keep has the position of the unseen cell."""
    if axis.is_level:
        place = {knot: 1.0 + k for k, knot in enumerate(axis.knots)}
        found = np.array([place.get(value, len(axis.knots) + 1.0) for value in values])
    else:
        found = np.interp(values, axis.knots, np.arange(1.0, len(axis.knots) + 1))
    return np.where(np.isnan(values), 0.0, found)


def outputs(table):
    return table.values if table.mix is None else table.values @ table.mix


def score(tables, intercept, numbers):
    total = np.tile(intercept, (len(numbers), 1))
    for table in tables:
        places = [positions(numbers[:, f], axis) for f, axis in zip(table.term, table.axes, strict=True)]
        total += [slow_look_up(outputs(table), place) for place in zip(*places, strict=True)]
    return total


def worst_mean(table):
    """Largest weighted mean along an axis."""
    weights, worst = table.weights[..., None], 0.0
    for d in range(len(table.term)):
        margin = weights.sum(axis=d)
        means = (weights * table.values).sum(axis=d) / np.where(margin > 0, margin, 1.0)
        worst = max(worst, float(np.abs(means).max()))
    return worst


def project(values, weights, size):
    """Residual of weighted least squares on one-hot columns for the cells of all subsets of axes (reference)."""
    grid = np.indices(weights.shape).reshape(weights.ndim, -1)
    columns = []
    for kept in combinations(range(weights.ndim), size):
        cell = np.ravel_multi_index(grid[list(kept)], [weights.shape[d] for d in kept])
        columns.append(np.eye(cell.max() + 1)[cell])
    design, root = np.concatenate(columns, axis=1), np.sqrt(weights).reshape(-1, 1)
    flat = values.reshape(weights.size, -1)
    found = np.linalg.lstsq(root * design, root * flat, rcond=1e-12)[0]
    return (flat - design @ found).reshape(values.shape)


def assert_same_tables(ones, others, atol=0.0):
    """The same terms in the same order, and the same outputs."""
    assert [table.term for table in ones] == [table.term for table in others]
    for one, other in zip(ones, others, strict=True):
        np.testing.assert_allclose(outputs(one), outputs(other), rtol=0, atol=atol)
        np.testing.assert_array_equal(one.weights, other.weights)
