"""Layout: every cell has one index in the flat array, and positions follow the definition."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis.data import SparseMatrix
from neuralbasis.encoding import Anchor, continuous_axis, flatten, lay_out, level_axis, line_up, list_touches
from tests.models import MAX_KNOTS, MIXED, all_terms, build_axes, build_layout, draw_numbers, slow_position


@pytest.fixture
def layout():
    return build_layout(np.random.default_rng(0))


# Axes and cells


def test_axes_are_concatenated(layout):
    assert [axis.name for axis in layout.axes[:5]] == ["x0", "x1", "x2", "x3", "x4"]
    assert len(layout.axis_start) == len(layout.axes) + 1
    for index, axis in enumerate(layout.axes):
        piece = layout.knots[layout.axis_start[index] : layout.axis_start[index + 1]]
        assert piece.tolist() == axis.knots.tolist()
        assert layout.axes[layout.axis_column[index]].name == axis.name
        assert layout.axis_level[index] == axis.is_level
    assert layout.axis_start[-1] == len(layout.knots)


def test_interactions_share_coarse_axes(layout):
    # Each of the five columns has three axes: its own, one for pairs and one for triples.
    assert len(layout.axes) == 3 * len(MIXED)
    pairs = {axis.name: axis for index in range(len(layout.terms)) for axis in axes_of_order(layout, index, 2)}
    for index, term in enumerate(layout.terms):
        for feature, axis in zip(term, layout.axes_of(index), strict=True):
            fine = layout.axes[feature]
            assert (axis.name, axis.kind) == (fine.name, fine.kind)
            if len(term) == 1:
                assert axis is fine
            else:
                assert 2 <= len(axis.knots) <= MAX_KNOTS[len(term)]
                assert set(axis.knots) < set(fine.knots)
            if len(term) == 3:  # purification moves parts of triples to pairs, which needs nested axes
                assert set(axis.knots) < set(pairs[axis.name].knots)


def axes_of_order(layout, index, order):
    return layout.axes_of(index) if len(layout.terms[index]) == order else ()


def test_an_interaction_keeps_fine_axes_if_all_columns_but_one_have_two_values():
    axes = [continuous_axis(name, np.arange(float(size))) for name, size in zip("abcde", (12, 2, 3, 2, 1), strict=True)]
    layout = lay_out(axes, all_terms(5, (2, 3)), {2: 5, 3: 4})
    knots = {term: [len(axis.knots) for axis in layout.axes_of(index)] for index, term in enumerate(layout.terms)}
    assert knots[0, 1] == [12, 2]
    assert knots[0, 4] == [12, 1]
    assert knots[1, 3] == [2, 2]
    assert knots[0, 2] == [5, 3]
    assert knots[0, 1, 3] == [12, 2, 2]
    assert knots[0, 1, 2] == [4, 2, 3]
    assert layout.axes_of(layout.terms.index((0, 1))) == (axes[0], axes[1])


def test_interactions_share_few_places():
    rng = np.random.default_rng(0)
    axes = [continuous_axis(f"x{index}", rng.normal(size=500)) for index in range(6)]
    layout = lay_out(axes, all_terms(6, (2, 3)), {2: 49, 3: 13})
    for index, term in enumerate(layout.terms):
        for axis in layout.axes_of(index):
            last = {2: 48, 3: 12}[len(term)]
            np.testing.assert_allclose(axis.places * last, np.rint(axis.places * last), atol=1e-12)


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.integers(1, 80), min_size=3, max_size=4),
    st.sampled_from(["continuous", "nominal"]),
    st.sampled_from([(49, 13), (25, 9), (17, 7), (9, 5), (5, 4), (3, 3), (2, 2)]),
    st.integers(0, 2**32 - 1),
)
def test_the_axes_of_a_triple_are_nested_in_those_of_its_pairs(sizes, kind, knots, seed):
    """Purification moves parts of triples to pairs, which needs nested axes."""
    rng = np.random.default_rng(seed)
    axes = [
        continuous_axis(f"x{index}", rng.normal(size=size))
        if kind == "continuous"
        else level_axis(f"x{index}", kind, [f"{k:02d}" for k in range(size)], rng.permutation(size) + 1.0)
        for index, size in enumerate(sizes)
    ]
    layout = lay_out(axes, all_terms(len(axes), (1, 2, 3)), dict(zip((2, 3), knots, strict=True)))
    for index, term in enumerate(layout.terms):
        for other, part in enumerate(layout.terms):
            if set(part) < set(term):
                fine = dict(zip(part, layout.axes_of(other), strict=True))
                for feature, axis in zip(term, layout.axes_of(index), strict=True):
                    assert feature not in fine or np.isin(axis.knots, fine[feature].knots).all()


def test_cells_by_brute_force(layout):
    owner = np.full(layout.n_cells, -1)
    for index, term in enumerate(layout.terms):
        shape = tuple(len(axis.knots) + 2 for axis in layout.axes_of(index))
        assert layout.table_shape(index) == shape
        low, high = layout.term_start[index : index + 2]
        assert high - low == len(term)
        strides = layout.term_stride[low:high]
        cells = layout.cells_of(index)
        for rank, place in enumerate(np.ndindex(shape)):  # last axis fastest
            cell = layout.term_offset[index] + sum(s * p for s, p in zip(strides, place, strict=True))
            assert cell == cells.start + rank
            assert owner[cell] == -1
            owner[cell] = index
        assert cells.stop == cells.start + rank + 1
    assert (owner >= 0).all()


def test_a_table_by_hand():
    axes = [
        level_axis("b", "nominal", ["u", "v", "w"], np.array([2.0, 1.0, 3.0])),
        continuous_axis("a", np.arange(4.0)),
    ]
    layout = lay_out(axes, [(0,), (1,), (0, 1)], {2: 2})
    assert layout.terms == ((1,), (0,), (1, 0))  # "a", "b", "a & b"
    assert [layout.table_shape(index) for index in range(3)] == [(6,), (5,), (4, 4)]
    assert layout.term_offset.tolist() == [0, 6, 11]
    assert layout.term_start.tolist() == [0, 1, 2, 4]
    assert layout.term_axis.tolist() == [1, 0, 2, 3]
    assert layout.term_stride.tolist() == [1, 1, 4, 1]
    assert (layout.n_cells, layout.axis_column.tolist()) == (27, [0, 1, 1, 0])
    assert layout.knots.tolist() == [0.0, 1.0, 2.0, 0.0, 1.0, 2.0, 3.0, 0.0, 3.0, 0.0, 2.0]
    assert layout.axis_level.tolist() == [True, False, False, True]
    assert layout.axes[3].levels == ("u", "w")
    assert (layout.skip_axis.tolist(), layout.anchors) == ([-1, -1, -1], {})


def test_flatten_keeps_the_order_of_terms():
    axes = build_axes(np.random.default_rng(1), ("continuous", "nominal"))
    layout = flatten(axes, [(0, 1), (1,)], [(axes[0], axes[1]), (axes[1],)])
    assert layout.terms == ((0, 1), (1,))
    assert layout.axes == axes
    assert layout.term_offset.tolist() == [0, axes[0].n_cells * axes[1].n_cells]


def test_a_column_without_a_term_still_has_an_axis():
    axes = build_axes(np.random.default_rng(1), ("continuous", "continuous"))
    layout = lay_out(axes, [(1,)], {})
    assert (layout.axes, layout.n_cells) == (axes, axes[1].n_cells)


# Anchors


def test_anchors_by_hand():
    axes = [continuous_axis(name, np.arange(5.0)) for name in "abc"]
    anchors = {0: Anchor(0.0, 0.8), 1: Anchor(4.0, 0.9), 2: Anchor(1.0, 0.99)}
    layout = lay_out(axes, [(0,), (1,), (0, 1), (0, 2), (1, 2), (0, 1, 2)], {2: 3, 3: 2}, anchors)
    found = {}
    for index, term in enumerate(layout.terms):
        axis = layout.skip_axis[index]
        feature = -1 if axis < 0 else int(layout.axis_column[axis])
        found[term] = (feature, layout.skip_place[index], layout.anchored_share(index))
        if axis >= 0:
            assert layout.axes[axis] is layout.axes_of(index)[term.index(feature)]
    # The largest share wins, but 1.0 is no knot of the coarse axes 0, 2, 4 and 0, 4.
    assert found == {
        (0,): (-1, -1, 0),
        (1,): (-1, -1, 0),
        (0, 1): (1, 3, 0.9),
        (0, 2): (0, 1, 0.8),
        (1, 2): (1, 3, 0.9),
        (0, 1, 2): (1, 2, 0.9),
    }


# The order of columns


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_tables_are_ordered_by_name(order):
    kinds = ("continuous", "nominal", "continuous", "ordinal")
    axes = build_axes(np.random.default_rng(2), kinds)
    terms = all_terms(4, (1, 2, 3))
    moved = lay_out([axes[feature] for feature in order], terms, MAX_KNOTS)
    plain = lay_out(axes, terms, MAX_KNOTS)
    for index in range(len(terms)):
        assert [axis.name for axis in moved.axes_of(index)] == [axis.name for axis in plain.axes_of(index)]
        for one, other in zip(moved.axes_of(index), plain.axes_of(index), strict=True):
            np.testing.assert_array_equal(one.knots, other.knots)
    assert moved.term_offset.tolist() == plain.term_offset.tolist()
    assert moved.term_stride.tolist() == plain.term_stride.tolist()


def test_positions_do_not_depend_on_the_order_of_columns():
    rng = np.random.default_rng(3)
    axes = build_axes(rng)
    numbers = draw_numbers(rng, axes, 200)
    order = [3, 0, 4, 2, 1]
    terms = all_terms(5, (1,))
    plain = lay_out(axes, terms, {}).encode(numbers)
    moved = lay_out([axes[feature] for feature in order], terms, {}).encode(numbers[:, order])
    np.testing.assert_array_equal(moved, plain[:, order])


# Positions


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["C", "F"]))
def test_positions_follow_the_definition(seed, memory):
    rng = np.random.default_rng(seed)
    layout = build_layout(rng)
    numbers = np.asarray(draw_numbers(rng, layout.axes[:5], 30), order=memory)
    positions = layout.encode(numbers)
    assert (positions.dtype, positions.shape) == (np.float32, (30, len(layout.axes)))
    for index, axis in enumerate(layout.axes):
        expected = [slow_position(value, axis) for value in numbers[:, layout.axis_column[index]]]
        np.testing.assert_allclose(positions[:, index], expected, rtol=2e-7)


def test_knots_have_integer_positions(layout):
    for axis in (axis for axis in layout.axes[:5] if not axis.is_level):
        alone = lay_out([axis], [(0,)], {})
        assert alone.encode(axis.knots[:, None])[:, 0].tolist() == list(range(1, len(axis.knots) + 1))
        halves = alone.encode((axis.knots[1:] + axis.knots[:-1])[:, None] / 2)[:, 0]
        np.testing.assert_allclose(halves, np.arange(1.5, len(axis.knots)), rtol=1e-6)


def test_the_number_of_threads_does_not_change_positions(layout):
    numbers = draw_numbers(np.random.default_rng(4), layout.axes[:5], 20_000)
    np.testing.assert_array_equal(layout.encode(numbers, threads=3), layout.encode(numbers))


@pytest.mark.parametrize("row", [0, 10_000, 19_999])
@pytest.mark.parametrize("threads", [1, 3])
def test_an_infinite_value_names_the_column_on_any_thread(layout, row, threads):
    numbers = draw_numbers(np.random.default_rng(4), layout.axes[:5], 20_000)
    numbers[row, 2] = -np.inf
    with pytest.raises(ValueError, match=r"column 'x2' holds an infinite value; .* replace it before"):
        layout.encode(numbers, threads)


# Sparse numbers


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 2.5, np.nan]))
def test_sparse_numbers_have_the_positions_of_dense_ones(seed, absent):
    rng = np.random.default_rng(seed)
    layout = build_layout(rng, ("continuous",) * 4, (1, 2, 3))
    numbers = draw_numbers(rng, layout.axes[:4], 30)
    numbers[rng.random(numbers.shape) < 0.6] = absent
    present = ~((numbers == absent) | (np.isnan(numbers) & np.isnan(absent)))
    starts = np.r_[0, np.cumsum(present.sum(axis=1))]
    sparse = SparseMatrix(starts, np.nonzero(present)[1].astype(np.int32), numbers[present], absent, 4)
    for dtype in (np.float32, np.float64):
        dense, positions = layout.encode(numbers, dtype=dtype), layout.encode(sparse, dtype=dtype)
        assert (len(positions), positions.n_columns, positions.value.dtype) == (30, len(layout.axes), dtype)
        assert (positions.value != positions.absent[positions.column]).all()
        axes = rng.permutation(len(layout.axes))
        np.testing.assert_array_equal(line_up(positions, axes), line_up(dense, axes))
        np.testing.assert_array_equal(line_up(dense, axes), dense.T[axes])


def test_touches_by_hand():
    axes = [continuous_axis(name, np.arange(3.0)) for name in "abc"]
    absent = np.array([1.0, 1.0, 1.0], dtype=np.float32)
    layout = flatten(axes, [(0,), (0, 2), (1, 2)], [axes[:1], [axes[0], axes[2]], axes[1:]])
    starts, terms, before = list_touches(layout, absent)
    assert (starts.tolist(), terms.tolist(), before.tolist()) == ([0, 2, 3, 5], [0, 1, 2, 1, 2], [0, 0, 0, 1, 1])
    anchored = flatten(axes, layout.terms, [axes[:1], [axes[0], axes[2]], axes[1:]], {2: Anchor(0.0, 0.9)})
    starts, terms, before = list_touches(anchored, absent)  # pairs of c are zero where c is 0
    assert (starts.tolist(), terms.tolist(), before.tolist()) == ([0, 1, 1, 3], [0, 1, 2], [0, 0, 0])
