"""SparseCodes: the terms that rows of a sparse table touch, their positions, and bases interpolated there."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis import kernels
from neuralbasis.encoding import CodeFinder, SparseCodes, coarsen_axis, pool_axis
from tests.sparse_tables import draw_table, store


def find(table: np.ndarray, terms, max_knots: int = 9) -> tuple[CodeFinder, SparseCodes]:
    stored = store(table)
    finder = CodeFinder.of(pool_axis(stored, max_knots=max_knots), 0.0, terms, table.shape[1])
    return finder, finder.find(stored)


def test_the_shared_axis_has_the_absent_value_among_its_knots():
    axis = pool_axis(store(draw_table(0)), max_knots=9)
    assert axis.knots[0] == 0.0
    assert len(axis.knots) == 10  # nine at entries, all above the absent value
    assert (np.diff(axis.knots) > 0).all()
    assert (np.diff(axis.places) >= 0).all()


def test_an_absent_value_between_entries_is_a_knot_between_them():
    axis = pool_axis(store(np.array([[-3.0, 0.0], [0.0, 5.0], [2.0, -1.0]])))
    assert axis.knots.tolist() == [-3.0, -1.0, 0.0, 2.0, 5.0]
    assert (np.diff(axis.places) >= 0).all()


def test_the_absent_value_is_a_knot_for_any_absent_value():
    assert pool_axis(store(np.array([[1.0, 2.0], [3.0, 1.0]]), absent=1.0)).knots.tolist() == [1.0, 2.0, 3.0]


def test_a_table_without_entries_has_one_knot():
    assert pool_axis(store(np.zeros((3, 2)))).knots.tolist() == [0.0]


def test_weights_move_the_knots_as_repetition_does():
    table = draw_table(1, n_rows=30)
    weights = np.random.default_rng(2).integers(1, 4, 30)
    weighted = pool_axis(store(table), weights.astype(float), max_knots=7)
    repeated = pool_axis(store(np.repeat(table, weights, axis=0)), max_knots=7)
    np.testing.assert_array_equal(weighted.knots, repeated.knots)
    np.testing.assert_allclose(weighted.places, repeated.places, atol=1e-12)


def test_a_coarser_axis_keeps_the_absent_value():
    axis = pool_axis(store(np.random.default_rng(0).normal(size=(50, 3)).round(2)), max_knots=33)
    coarse = coarsen_axis(axis, 0.0, 5)
    assert 0.0 in coarse.knots
    assert len(coarse.knots) <= 6
    assert set(coarse.knots) <= set(axis.knots)


@given(st.integers(0, 10_000), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_codes_are_the_terms_whose_features_are_all_present(seed, order):
    table = draw_table(seed, n_rows=12)
    rng = np.random.default_rng(seed)
    every = list(combinations(range(table.shape[1]), order))
    terms = [tuple(rng.permutation(every[i])) for i in rng.choice(len(every), rng.integers(1, len(every) + 1), False)]
    finder, entries = find(table, terms)
    place = np.interp(table, finder.axis.knots, np.arange(1, len(finder.axis.knots) + 1))
    for i, values in enumerate(table):
        own = slice(entries.starts[i], entries.starts[i + 1])
        expected = [t for t, features in enumerate(finder.features) if values[features].all()]
        assert sorted(entries.term[own].tolist()) == expected
        for term, position in zip(entries.term[own], entries.position[own], strict=True):
            np.testing.assert_allclose(position, place[i, finder.features[term]], rtol=1e-6)


def test_rows_are_taken_in_any_order_and_more_than_once():
    _, entries = find(draw_table(3), [(0,), (1,), (2,)])
    rows = np.array([5, 0, 5, 39])
    taken = entries.take(rows)
    for k, row in enumerate(rows):
        own, all_of = slice(*taken.starts[k : k + 2]), slice(*entries.starts[row : row + 2])
        assert taken.term[own].tolist() == entries.term[all_of].tolist()
        np.testing.assert_array_equal(taken.position[own], entries.position[all_of])


@pytest.mark.parametrize("order", [1, 2, 3])
def test_bases_are_interpolated_linearly_and_the_gradient_is_the_transpose(order):
    rng = np.random.default_rng(order)
    side, n = 5, 30
    position = (rng.integers(0, side - 1, (n, order)) + rng.choice([0.0, 0.25, 0.5], (n, order))).astype(np.float32)
    entries = SparseCodes(np.array([0, n]), np.zeros(n, np.int32), position)
    bases = rng.normal(size=(side**order, 2))
    blend = entries.blend(bases, side)
    table = bases.reshape(*[side] * order, 2)
    for e in range(n):
        value = table
        for p in position[e]:
            low = int(p)
            value = value[low] if p == low else value[low] + (p - low) * (value[low + 1] - value[low])
        np.testing.assert_allclose(blend[e], value, rtol=1e-6)
    grad, back = rng.normal(size=blend.shape), np.zeros_like(bases)
    kernels.pull_bases(position, side, grad, back)
    assert (blend * grad).sum() == pytest.approx((bases * back).sum(), rel=1e-6)


def test_the_number_of_threads_does_not_change_codes_and_scores():
    table = draw_table(4, n_rows=3000)
    terms = [(0, 1), (1, 2), (3, 4), (2, 5)]
    stored = store(table)
    finder = CodeFinder.of(pool_axis(stored, max_knots=9), 0.0, terms, 6)
    one, two = finder.find(stored, 1), finder.find(stored, 3)
    for name in ("starts", "term", "position"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    rng = np.random.default_rng(0)
    coefficients, bases = rng.normal(size=(4, 2, 3)), rng.normal(size=(finder.side**2, 2))
    first, second = np.zeros((3000, 3)), np.zeros((3000, 3))
    one.add_scores(one.blend(bases, finder.side), coefficients, first)
    one.add_scores(one.blend(bases, finder.side, 3), coefficients, second, 3)
    np.testing.assert_array_equal(first, second)


def test_entries_sorted_by_term_leave_the_counts_at_zero():
    _, entries = find(draw_table(5), [(0,), (2,), (3,)])
    size = len(entries.term)
    count = np.zeros(3, np.int64)
    touched, begin, entry, row = (np.empty(size + 1, np.int64) for _ in range(4))
    found = kernels.sort_entries(entries.starts, entries.term, count, touched, begin, entry, row)
    assert not count.any()
    assert sorted(touched[:found].tolist()) == [0, 1, 2]
    for j in range(found):
        own = slice(begin[j], begin[j + 1])
        assert set(entries.term[entry[own]].tolist()) == {touched[j]}
        for e, i in zip(entry[own], row[own], strict=True):
            assert entries.starts[i] <= e < entries.starts[i + 1]
    assert begin[found] == size
