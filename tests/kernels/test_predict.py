"""Prediction: compiled look-ups of raw rows against the NumPy path and the definition; the highest class."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis import kernels
from tests.lookups import contribute, contribute_numpy, gather, take, terms_of
from tests.models import MIXED, NUMERIC, build_layout, build_model, draw_numbers, slow_contributions, slow_position

NAN = float("nan")
seeds = st.integers(0, 2**32 - 1)


@settings(deadline=None, max_examples=40)
@given(
    seeds,
    st.sampled_from([(1,), (2,), (3,), (1, 2), (1, 2, 3)]),
    st.sampled_from([1, 4]),
    st.sampled_from([MIXED, NUMERIC, ("nominal", "continuous", "continuous")]),
)
def test_look_ups_are_those_of_the_numpy_path_and_the_definition(seed, orders, n_outputs, kinds):
    rng = np.random.default_rng(seed)
    model = build_model(rng, kinds, orders, n_outputs)
    numbers = draw_numbers(rng, model.encoder.axes, 40)
    compiled = contribute(model, numbers)
    np.testing.assert_allclose(compiled, contribute_numpy(model, numbers), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(compiled[:10], slow_contributions(model, numbers[:10]), rtol=1e-10, atol=1e-11)
    total = contribute(model, numbers, per_term=False)[:, 0]
    np.testing.assert_allclose(total, compiled.sum(axis=1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_outputs", [1, 4])
@pytest.mark.parametrize("n_rows", [1, kernels.BLOCK - 1, kernels.BLOCK, 2 * kernels.BLOCK + 7])
def test_blocks_of_rows_meet_without_gaps(n_rows, n_outputs):
    rng = np.random.default_rng(n_rows)
    model = build_model(rng, n_outputs=n_outputs)
    numbers = draw_numbers(rng, model.encoder.axes, n_rows)
    np.testing.assert_allclose(contribute(model, numbers), contribute_numpy(model, numbers), rtol=1e-12, atol=1e-13)


def read_only(array):
    array.flags.writeable = False
    return array


MEMORY = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "read-only C": lambda X: read_only(np.array(X, order="C")),
    "read-only F": lambda X: read_only(np.array(X, order="F")),
    "strided": lambda X: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "reversed": lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
}


@pytest.mark.parametrize("memory", MEMORY)
def test_any_memory_layout_gives_the_same_numbers(memory):
    rng = np.random.default_rng(5)
    model = build_model(rng, NUMERIC, n_outputs=4)
    numbers = draw_numbers(rng, model.encoder.axes, 300)
    laid = MEMORY[memory](numbers)
    np.testing.assert_array_equal(laid, numbers)
    np.testing.assert_array_equal(contribute(model, laid), contribute(model, numbers))
    np.testing.assert_array_equal(model.layout.encode(laid), model.layout.encode(numbers))
    np.testing.assert_array_equal(model.scores(laid), model.scores(numbers))
    np.testing.assert_array_equal(laid, numbers)


@settings(deadline=None, max_examples=30)
@given(seeds)
def test_positions_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    layout = build_layout(rng)
    numbers = draw_numbers(rng, layout.axes[:5], 50)
    positions = np.empty((50, len(layout.axes)))  # float64: as exact as the look-ups of raw rows
    assert kernels.locate_rows(0, 50, numbers, *layout.axis_arrays, positions) == -1
    for index, axis in enumerate(layout.axes):
        values = numbers[:, layout.axis_column[index]]
        np.testing.assert_allclose(positions[:, index], [slow_position(v, axis) for v in values], rtol=1e-12)


@pytest.mark.parametrize("orders", [(1,), (2,), (3,)])
def test_a_row_on_a_knot_reads_no_other_cell(orders):
    rng = np.random.default_rng(13)
    model = build_model(rng, orders=orders)
    layout = model.layout
    # The ends of a continuous axis are knots of its coarse axes too; a level is a knot or unseen.
    choices = [[*(axis.knots if axis.is_level else axis.knots[[0, -1]]), NAN, -1.0] for axis in layout.axes[:5]]
    choices = [choice if axis.is_level else choice[:-1] for choice, axis in zip(choices, layout.axes, strict=False)]
    numbers = np.column_stack([rng.choice(choice, 50) for choice in choices])
    positions = layout.encode(numbers)
    cells = (positions[:, layout.term_axis] * layout.term_stride).reshape(50, len(layout.terms), -1).sum(axis=2)
    cells = cells.astype(int) + layout.term_offset
    for row in range(50):
        table = np.full((layout.n_cells, 1), np.nan)
        table[cells[row], 0] = np.arange(len(layout.terms))
        out = np.zeros((50, len(layout.terms), 1))
        arrays = (*layout.axis_arrays, *terms_of(layout), table, True, out)
        kernels.score_rows(row, row + 1, numbers, *arrays)
        assert out[row, :, 0].tolist() == list(range(len(layout.terms)))
        taken = take(positions, np.array([row]))
        total = gather(layout, taken, table.astype(np.float32))
        assert total.tolist() == [[[sum(range(len(layout.terms)))]]]
        alone = gather(layout, taken, table.astype(np.float32), per_term=True)
        assert alone[0, :, 0].tolist() == list(range(len(layout.terms)))


def test_only_the_requested_rows_are_written():
    rng = np.random.default_rng(6)
    model = build_model(rng)
    numbers = draw_numbers(rng, model.encoder.axes, 20)
    layout, out = model.layout, np.zeros((20, 1, 1))
    table = np.concatenate([shape.scores.reshape(-1, 1) for shape in model.shapes])
    kernels.score_rows(5, 9, numbers, *layout.axis_arrays, *terms_of(layout), table, False, out)
    assert (out[:5] == 0).all()
    assert (out[9:] == 0).all()
    np.testing.assert_allclose(out[5:9, 0], contribute(model, numbers)[5:9].sum(axis=1), rtol=1e-12)
    positions = np.full((20, len(layout.axes)), -7.0)
    kernels.locate_rows(5, 9, numbers, *layout.axis_arrays, positions)
    assert (positions[:5] == -7).all()
    assert (positions[9:] == -7).all()
    assert (positions[5:9] >= 0).all()


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_the_column_of_an_infinite_value_is_returned(value):
    rng = np.random.default_rng(7)
    model = build_model(rng, NUMERIC)
    layout, numbers = model.layout, draw_numbers(rng, model.encoder.axes, 3000)
    numbers[2999, 3] = value
    table = np.concatenate([shape.scores.reshape(-1, 1) for shape in model.shapes])
    arrays = (*layout.axis_arrays, *terms_of(layout), table, False, np.zeros((3000, 1, 1)))
    assert kernels.score_rows(0, 3000, numbers, *arrays) == 3
    assert kernels.score_rows(0, 2999, numbers, *arrays) == -1
    positions = np.empty((3000, len(layout.axes)), dtype=np.float32)
    assert kernels.locate_rows(0, 3000, numbers, *layout.axis_arrays, positions) == 3
    assert kernels.locate_rows(0, 2999, numbers, *layout.axis_arrays, positions) == -1


@pytest.mark.parametrize("compiled", [True, False])
def test_rows_are_copied_to_single_precision_and_their_sizes_added(compiled):
    cast = kernels.narrow_rows if compiled else getattr(kernels.narrow_rows, "py_func", kernels.narrow_rows)
    found = np.array([[1.0, -2.0], [0.1, 3.0], [5.0, 5.0]])
    narrow, sizes = np.zeros((3, 2), dtype=np.float32), np.full(3, 10.0)
    assert cast(0, 2, found, np.array([1.0, 0.5]), narrow, sizes) == -1
    assert narrow.tolist() == [[1.0, -2.0], [float(np.float32(0.1)), 3.0], [0.0, 0.0]]
    np.testing.assert_allclose(sizes, [12.0, 11.6, 10.0])


@pytest.mark.parametrize("compiled", [True, False])
def test_the_highest_class_is_picked_if_it_is_certain(compiled):
    scores = np.array(
        [[1.0, 3.0, 2.0], [5.0, 5.0, 1.0], [2.0, 1.0, 1.95], [3.0, 1.0, 0.5], [9.0, 0, 0]], dtype=np.float32
    )
    intercept = np.array([0.0, 0.0, 2.0], dtype=np.float32)
    pick = kernels.pick_classes if compiled else getattr(kernels.pick_classes, "py_func", kernels.pick_classes)
    winners, reach = np.full(5, 7), np.array([0.1, 0.1, 0.1, np.inf, 0.1])
    assert pick(0, 4, scores - intercept, intercept, reach, winners) == -1
    assert winners.tolist() == [1, -1, -1, -1, 7]
    assert pick(0, 1, np.zeros((1, 3), dtype=np.float32), intercept, reach, winners) == -1
    assert winners[0] == 2  # the intercept decides


@pytest.mark.parametrize("n_classes", [2, 3, 8, 17, 1486])
def test_the_highest_of_any_number_of_classes_is_picked(n_classes):
    scores = np.random.default_rng(n_classes).normal(size=(50, n_classes)).astype(np.float32)
    winners, intercept = np.empty(50, dtype=np.int64), np.zeros(n_classes, dtype=np.float32)
    kernels.pick_classes(0, 50, scores.copy(), intercept, np.zeros(50), winners)
    np.testing.assert_array_equal(winners, scores.argmax(axis=1))
