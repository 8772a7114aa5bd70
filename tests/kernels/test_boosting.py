"""kernels.boosting: a round moves rows as its tables do, and cuts in all places."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis import kernels

seeds = st.integers(0, 2**32 - 1)
SIZES, NOMINAL = np.array([9, 6, 5]), np.array([False, True, False])
TERMS = {
    kernels.cut_columns: (np.array([[0], [1], [2]]), np.array([0, 9, 15])),
    kernels.cut_pairs: (np.array([[0, 1], [1, 2], [0, 2]]), np.array([0, 54, 84])),
}


class Round:
    """Rows on two ordered axes and one of levels, with missing and unseen values, and the tables of a round."""

    def __init__(self, seed, n_rows=200):
        rng = np.random.default_rng(seed)
        lines = [np.where(rng.random(n_rows) < 0.1, 0, rng.uniform(1, size - 2, n_rows)) for size in (9, 5)]
        self.positions = np.stack([lines[0], rng.integers(0, 6, n_rows), lines[1]]).astype(np.float32)
        self.curvature = rng.random(n_rows) * (rng.random(n_rows) < 0.8)
        self.first = rng.normal(size=n_rows) * (self.curvature > 0)
        self.slope, self.moved, self.tables = self.first.copy(), np.zeros(n_rows), np.zeros(129)

    def cut(self, kernel, seed=1, least=2.0, loop=None):
        cells, (terms, self.offsets) = np.rint(self.positions).astype(np.uint16), TERMS[kernel]
        (loop or kernel)(
            self.positions, cells, terms, SIZES, NOMINAL, 1.0, least, 0.3, self.slope, self.curvature, self.tables,
            self.offsets, self.moved, seed,
        )  # fmt: skip
        return self

    def interpolate(self, kernel):
        """The tables, read at the rows."""
        total = np.zeros(len(self.slope))
        for term, first in zip(*TERMS[kernel], strict=True):
            shape = SIZES[term]
            table, positions = self.tables[first : first + shape.prod()].reshape(shape), self.positions[term]
            whole = np.floor(positions).astype(int)
            for corner in np.ndindex(*[2] * len(term)):
                upper = np.array(corner)[:, None]
                share = np.where(upper, positions - whole, 1 - positions + whole).prod(axis=0)
                total += share * table[tuple(np.minimum(whole + upper, shape[:, None] - 1))]
        return total


@pytest.mark.parametrize("kernel", TERMS)
@settings(deadline=None)
@given(seeds, st.integers(1, 100))
def test_rows_move_as_the_tables_do(kernel, seed, cuts):
    found = Round(seed).cut(kernel, cuts)
    np.testing.assert_allclose(found.moved, found.interpolate(kernel), atol=1e-6)
    np.testing.assert_allclose(found.slope, found.first + found.curvature * found.moved, atol=1e-12)


@pytest.mark.parametrize("kernel", TERMS)
def test_a_round_lowers_the_quadratic_model_of_the_loss(kernel):
    gains = []
    for seed in range(20):
        found = Round(seed).cut(kernel)
        gains.append(-(found.first @ found.moved) - (found.curvature * found.moved**2).sum() / 2)
    assert np.mean(gains) > 0
    assert np.mean(np.array(gains) > 0) > 0.9


@pytest.mark.skipif(not kernels.NUMBA, reason="the loops are not compiled")
@pytest.mark.parametrize("kernel", TERMS)
def test_a_round_is_the_same_without_numba(kernel, monkeypatch):
    compiled = Round(0).cut(kernel)
    for name, loop in list(vars(kernels.boosting).items()):
        if name.startswith("_") and hasattr(loop, "py_func"):
            monkeypatch.setattr(kernels.boosting, name, loop.py_func)
    with np.errstate(over="ignore"):
        plain = Round(0).cut(kernel, loop=kernel.py_func)
    assert compiled.tables.any()
    np.testing.assert_allclose(plain.tables, compiled.tables, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(plain.moved, compiled.moved, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kernel", TERMS)
def test_pieces_need_rows(kernel):
    found = Round(3).cut(kernel, least=1e9)
    assert not found.tables.any()
    np.testing.assert_array_equal(found.slope, found.first)


def test_cuts_are_spread_over_all_cells_of_a_column():
    positions, places = np.linspace(1, 7, 300, dtype=np.float32)[None], set()
    for seed in range(1, 200):
        tables = np.zeros(9)
        kernels.cut_columns(
            positions, np.rint(positions).astype(np.uint16), np.array([[0]]), np.array([9]), np.array([False]), 0.0,
            10.0, 1.0, np.random.default_rng(seed).normal(size=300), np.ones(300), tables, np.array([0]),
            np.zeros(300), seed,
        )  # fmt: skip
        changed = np.flatnonzero(np.diff(tables))
        assert len(changed) <= kernels.boosting.N_CUTS
        places |= set(changed.tolist())
    assert places == set(range(1, 7))


def test_a_pair_is_cut_in_four_pieces_along_either_axis():
    rng = np.random.default_rng(0)
    positions, places = rng.uniform(1, 8, (2, 500)).astype(np.float32), {0: set(), 1: set()}
    cells = np.rint(positions).astype(np.uint16)
    for seed in range(1, 400):
        tables = np.zeros(100)
        kernels.cut_pairs(
            positions, cells, np.array([[0, 1]]), np.array([10, 10]), np.array([False, False]), 0.0, 10.0, 1.0,
            rng.normal(size=500), np.ones(500), tables, np.array([0]), np.zeros(500), seed,
        )  # fmt: skip
        table = tables.reshape(10, 10)
        values, counts = np.unique(np.round(table[cells[0], cells[1]], 9), return_counts=True)
        assert len(values) <= 4
        assert counts.min() >= 10
        for axis, lines in enumerate((table, table.T)):
            places[axis] |= set(np.flatnonzero((np.diff(lines, axis=0) != 0).all(axis=1)).tolist())
    assert min(places.values(), key=len) >= set(range(1, 7))
