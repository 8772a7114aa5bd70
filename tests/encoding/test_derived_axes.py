"""Axes made from other axes: fewer knots, fewer levels, further knots."""

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from neuralbasis.encoding import Axis, continuous_axis, level_axis
from tests.axis_values import column_values, increases, knot_limits, locate, scalings
from tests.models import slow_position

NAN = float("nan")


@settings(deadline=None, max_examples=200)
@given(column_values, scalings, knot_limits, st.integers(2, 40))
def test_coarse_axes_are_nested_and_have_even_places(values, scaling, max_knots, coarse_knots):
    axis = continuous_axis("x", values, scaling=scaling, max_knots=max_knots)
    coarse = axis.coarsen(coarse_knots)
    assert len(coarse.knots) <= coarse_knots
    assert increases(coarse.knots)
    assert set(coarse.knots) <= set(axis.knots)
    assert coarse.knots[[0, -1]].tolist() == axis.knots[[0, -1]].tolist()
    assert (coarse.name, coarse.kind, coarse.levels, coarse.mass) == ("x", "continuous", None, None)
    if len(axis.knots) <= coarse_knots:
        assert coarse.knots.tolist() == axis.knots.tolist()
    if len(axis.knots) == 1:
        assert coarse is axis
        return
    steps = np.rint(coarse.places * (coarse_knots - 1))
    assert increases(steps)
    assert coarse.places.tolist() == (steps / (coarse_knots - 1)).tolist()


@settings(deadline=None)
@given(column_values, scalings, st.integers(2, 40))
@example(np.array([0.0, 1.0, 2.0, 3.0, 9.0]), "minmax", 4)  # 9 is the knot nearest to 2/3 and to 1
def test_a_coarse_axis_keeps_both_ends(values, scaling, coarse_knots):
    axis = continuous_axis("x", values, scaling=scaling)
    assume(len(axis.knots) > 1)
    assert axis.coarsen(coarse_knots).places[[0, -1]].tolist() == [0.0, 1.0]


def test_coarse_knots_are_nearest_to_even_places():
    axis = Axis("x", "continuous", np.arange(6.0), np.array([0.0, 0.1, 0.45, 0.6, 0.8, 1.0]))
    assert axis.coarsen(3).knots.tolist() == [0.0, 2.0, 5.0]
    assert axis.coarsen(3).places.tolist() == [0.0, 0.5, 1.0]
    assert axis.coarsen(4).knots.tolist() == [0.0, 2.0, 3.0, 5.0]  # 1/3 -> 0.45, 2/3 -> 0.6
    assert axis.coarsen(4).places.tolist() == [0.0, 1 / 3, 2 / 3, 1.0]
    assert axis.coarsen(2).knots.tolist() == [0.0, 5.0]
    assert axis.knots.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_few_knots_move_to_distinct_even_places():
    axis = Axis("x", "continuous", np.arange(4.0), np.array([0.0, 0.01, 0.02, 1.0]))
    assert axis.coarsen(11).knots.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert axis.coarsen(11).places.tolist() == [0.0, 0.1, 0.2, 1.0]
    assert axis.coarsen(4).places.tolist() == [0.0, 1 / 3, 2 / 3, 1.0]
    crowded = Axis("x", "continuous", np.arange(3.0), np.array([0.0, 0.99, 1.0]))
    assert crowded.coarsen(5).places.tolist() == [0.0, 0.75, 1.0]


def test_a_place_far_from_all_knots_is_left_out():
    axis = Axis("x", "continuous", np.arange(7.0), np.array([0.0, 0.01, 0.02, 0.03, 0.04, 0.99, 1.0]))
    coarse = axis.coarsen(5)  # 0.04 is the nearest to 0.25 and to 0.5, 1.0 to 0.75 (but 0.99 is nearer)
    assert coarse.knots.tolist() == [0.0, 4.0, 5.0, 6.0]
    assert coarse.places.tolist() == [0.0, 0.25, 0.75, 1.0]


@pytest.mark.parametrize("kind", ["nominal", "ordinal"])
def test_a_coarse_axis_keeps_the_heaviest_levels(kind):
    axis = level_axis("size", kind, ["S", "M", "L", "XL"], np.array([5.0, 1.0, 7.0, 5.0]))
    coarse = axis.coarsen(3)
    assert (coarse.name, coarse.kind, coarse.is_level, coarse.n_cells) == ("size", kind, True, 5)
    assert (coarse.knots.tolist(), coarse.levels) == ([0.0, 2.0, 3.0], ("S", "L", "XL"))
    assert (coarse.places.tolist(), coarse.mass.tolist()) == ([0.0, 0.5, 1.0], [5.0, 7.0, 5.0])
    assert locate(coarse, [0.0, 1.0, 2.0, 3.0, NAN, -1.0, 4.0]) == [1.0, 4.0, 2.0, 3.0, 0.0, 4.0, 4.0]
    twice = coarse.coarsen(2)  # the first of two levels of equal mass stays
    assert (twice.knots.tolist(), twice.levels, twice.mass.tolist()) == ([0.0, 2.0], ("S", "L"), [5.0, 7.0])
    assert locate(twice, [0.0, 1.0, 2.0, 3.0, NAN]) == [1.0, 3.0, 2.0, 3.0, 0.0]
    same = axis.coarsen(4)
    assert (same.knots.tolist(), same.levels, same.places.tolist()) == ([0, 1, 2, 3], axis.levels, [0, 1 / 3, 2 / 3, 1])
    assert level_axis("size", kind, ["S", "M", "L"]).coarsen(2).levels == (
        "S",
        "M",
    )  # without mass all levels weigh the same


@settings(deadline=None)
@given(st.lists(st.integers(1, 5), min_size=2, max_size=60), st.integers(2, 70), st.integers(2, 20))
def test_coarse_levels_are_nested(mass, first, second):
    names = [f"level {index:02d}" for index in range(len(mass))]
    axis = level_axis("x", "nominal", names, np.array(mass, dtype=float))
    coarse = axis.coarsen(max(first, second))
    for one, other in ((axis, coarse), (coarse, coarse.coarsen(min(first, second)))):
        assert set(other.knots) <= set(one.knots)
        assert len(other.knots) == min(len(one.knots), max(first, second) if one is axis else min(first, second))
        assert [names[int(knot)] for knot in other.knots] == list(other.levels)
        assert [mass[int(knot)] for knot in other.knots] == other.mass.tolist()
        left = set(one.knots) - set(other.knots)
        assert max((mass[int(knot)] for knot in left), default=0) <= other.mass.min()
        codes = np.r_[np.arange(len(mass)), -1.0, len(mass), NAN]
        assert locate(other, codes) == [slow_position(code, other) for code in codes]


@given(
    hnp.arrays(float, st.integers(2, 60), elements=st.floats(-100, 100)), st.lists(st.floats(-120, 120), max_size=20)
)
def test_places_of_added_knots_are_interpolated(values, more):
    assume(len(np.unique(values)) > 1)
    axis = continuous_axis("a", values, max_knots=9)
    more = np.clip(more, axis.knots[0], axis.knots[-1])
    fine = axis.add_knots(more)
    assert np.isin(axis.knots, fine.knots).all()
    assert np.isin(fine.knots, np.r_[axis.knots, more]).all()
    np.testing.assert_allclose(fine.places, np.interp(fine.knots, axis.knots, axis.places))
    assert (np.diff(fine.knots) > 0).all()
    added = ~np.isin(fine.knots, axis.knots)
    assert (np.diff(fine.places)[added[1:] | added[:-1]] >= np.finfo(np.float32).eps).all()


def test_knots_too_close_to_others_are_not_added():
    axis = continuous_axis("a", np.array([0.0, 1.0]))
    assert axis.add_knots(np.array([0.5, 0.5 + 1e-9, 1e-9])).knots.tolist() == [0.0, 1.0]
    assert axis.add_knots(np.array([0.25, 0.5])).knots.tolist() == [0.0, 0.25, 0.5, 1.0]


@given(
    hnp.arrays(float, st.integers(3, 40), elements=st.floats(-100, 100)), st.lists(st.floats(-100, 100), max_size=20)
)
def test_cells_are_carried_to_added_knots_and_back(values, more):
    assume(len(np.unique(values)) > 1)
    axis = continuous_axis("a", values, max_knots=9)
    fine = axis.add_knots(np.clip(more, axis.knots[0], axis.knots[-1]))
    cells = np.random.default_rng(0).normal(size=(axis.n_cells, 2))
    carried = axis.carry(cells, fine)
    assert carried.shape == (fine.n_cells, 2)
    np.testing.assert_array_equal(carried[[0, -1]], cells[[0, -1]])
    for channel in range(2):
        np.testing.assert_allclose(
            carried[1:-1, channel], np.interp(fine.knots, axis.knots, cells[1:-1, channel]), atol=1e-9
        )
    np.testing.assert_allclose(fine.carry(carried, axis), cells, atol=1e-12)
