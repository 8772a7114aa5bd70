"""kernels: the compiled loops against the NumPy path and the definition; the way back is the adjoint; threads."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis import kernels
from neuralbasis.encoding.layout import Anchor
from neuralbasis.model.interpolation import interpolate_table
from neuralbasis.model.predictor import _positions
from tests.models import (
    MIXED,
    NUMERIC,
    build_layout,
    build_model,
    draw_numbers,
    slow_contributions,
    slow_look_up,
    slow_position,
)

NAN = float("nan")
seeds = st.integers(0, 2**32 - 1)


def terms_of(layout):
    """All that the kernels read about the terms."""
    return (*layout.term_arrays, *layout.skips)


def contribute(model, numbers, threads=1, per_term=True):
    """Contributions (N, T, K), or their sums (N, 1, K), by the compiled loop."""
    out = np.zeros((len(numbers), len(model.shapes) if per_term else 1, model.n_outputs))
    table = np.concatenate([shape.scores.reshape(-1, model.n_outputs) for shape in model.shapes])
    arrays = (*model.layout.axis_arrays, *terms_of(model.layout), table, per_term, out)
    result = kernels.share_rows(lambda _, a, b: kernels.score_rows(a, b, numbers, *arrays), len(numbers), threads)
    assert result == -1
    return out


def contribute_numpy(model, numbers):
    """Contributions (N, T, K) by the NumPy path."""
    values = []
    for shape in model.shapes:
        places = [_positions(numbers[:, f], axis) for f, axis in zip(shape.term, shape.axes, strict=True)]
        values.append(interpolate_table(shape.scores, places))
    return np.stack(values, axis=1)


def take(positions, rows, threads=1):
    """Positions (A, b) of a batch."""
    taken = np.full((positions.shape[1], len(rows)), np.nan, dtype=np.float32)

    def work(_part, first, last):
        return kernels.take_rows(first, last, positions, rows, taken)

    assert kernels.share_rows(work, len(rows), threads, min_rows=16) == -1
    return taken


def gather(layout, taken, table, per_term=False, threads=1):
    """Look-ups (b, 1 or T, C); rows are shared among the threads."""
    out = np.zeros((taken.shape[1], len(layout.terms) if per_term else 1, table.shape[1]), dtype=table.dtype)

    def work(_part, first, last):
        return kernels.gather_rows(first, last, taken, *terms_of(layout), table, per_term, out)

    assert kernels.share_rows(work, len(out), threads, min_rows=16) == -1
    return out


def scatter(layout, taken, grad, threads=1):
    """Histograms (cells, C) of grad (b, 1 or T, C); terms are shared among the threads."""
    out = np.zeros((layout.n_cells, grad.shape[2]), dtype=grad.dtype)

    def work(_part, first, last):
        return kernels.scatter_rows(first, last, taken, *terms_of(layout), grad, grad.shape[1] > 1, out)

    edges = np.linspace(0, len(layout.terms), threads + 1).astype(int)
    assert kernels.share_work(work, edges) == -1
    return out


def slow_weights(layout, position):
    """(T, cells) by how much a row at this position (A,) reads every cell: look-ups of unit tables."""
    weights = np.zeros((len(layout.terms), layout.n_cells))
    for index in range(len(layout.terms)):
        axes = layout.term_axis[layout.term_start[index] : layout.term_start[index + 1]]
        shape = layout.table_shape(index)
        unit = np.eye(int(np.prod(shape))).reshape(*shape, -1)
        weights[index, layout.cells_of(index)] = slow_look_up(unit, position[axes])
    return weights


# Look-ups of raw rows


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
def test_any_memory_gives_the_same_numbers(memory):
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
def test_positions_are_those_of_the_numpy_path_and_the_definition(seed):
    rng = np.random.default_rng(seed)
    layout = build_layout(rng)
    numbers = draw_numbers(rng, layout.axes[:5], 50)
    positions = np.empty((50, len(layout.axes)))  # float64: as exact as the look-ups of raw rows
    assert kernels.locate_rows(0, 50, numbers, *layout.axis_arrays, positions) == -1
    for index, axis in enumerate(layout.axes):
        values = numbers[:, layout.axis_column[index]]
        np.testing.assert_array_equal(positions[:, index], _positions(values, axis))
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


def test_only_the_asked_rows_are_touched():
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


# Forward and backward pass of training


@pytest.mark.parametrize("compiled", [True, False])
def test_rows_are_narrowed_and_their_sizes_added(compiled):
    cast = kernels.narrow_rows if compiled else getattr(kernels.narrow_rows, "py_func", kernels.narrow_rows)
    found = np.array([[1.0, -2.0], [0.1, 3.0], [5.0, 5.0]])
    narrow, sizes = np.zeros((3, 2), dtype=np.float32), np.full(3, 10.0)
    assert cast(0, 2, found, np.array([1.0, 0.5]), narrow, sizes) == -1
    assert narrow.tolist() == [[1.0, -2.0], [float(np.float32(0.1)), 3.0], [0.0, 0.0]]
    np.testing.assert_allclose(sizes, [12.0, 11.6, 10.0])


@pytest.mark.parametrize("compiled", [True, False])
def test_the_highest_class_is_picked_where_it_is_sure(compiled):
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


def test_rows_are_taken_in_any_order():
    rng = np.random.default_rng(1)
    positions = rng.random((300, 7)).astype(np.float32)
    rows = rng.integers(0, 300, 200)
    np.testing.assert_array_equal(take(positions, rows), positions[rows].T)
    np.testing.assert_array_equal(take(np.asfortranarray(positions), rows, threads=3), positions[rows].T)
    out = np.full((7, 200), np.nan, dtype=np.float32)
    kernels.take_rows(70, 75, positions, rows, out)
    np.testing.assert_array_equal(out[:, 70:75], positions[rows[70:75]].T)
    assert np.isnan(np.delete(out, range(70, 75), axis=1)).all()


@settings(deadline=None, max_examples=20)
@given(seeds, st.sampled_from([(1,), (2,), (1, 2), (1, 2, 3)]), st.sampled_from([1, 8]))
def test_gather_and_scatter_are_the_same_matrix(seed, orders, n_channels):
    rng = np.random.default_rng(seed)
    layout = build_layout(rng, ("continuous", "nominal", "continuous"), orders)
    positions = layout.encode(draw_numbers(rng, layout.axes[:3], 12))
    rows = rng.integers(0, 12, 20)
    matrix = np.array([slow_weights(layout, positions[row].astype(float)) for row in rows])  # (b, T, cells)
    np.testing.assert_allclose(matrix.sum(axis=2), 1, rtol=1e-12)
    taken = take(positions, rows)
    table = rng.normal(size=(layout.n_cells, n_channels)).astype(np.float32)
    np.testing.assert_allclose(gather(layout, taken, table, per_term=True), matrix @ table, atol=1e-5)
    np.testing.assert_allclose(gather(layout, taken, table)[:, 0], matrix.sum(axis=1) @ table, atol=1e-5)
    for width in (1, len(layout.terms)):
        grad = rng.normal(size=(len(rows), width, n_channels)).astype(np.float32)
        expected = np.einsum("btn,btc->nc", matrix, np.broadcast_to(grad, (*matrix.shape[:2], n_channels)))
        np.testing.assert_allclose(scatter(layout, taken, grad), expected, atol=1e-5)


def draw_eighths(rng, layout, n_rows):
    """Positions at eighths: with small whole numbers in the table, single precision makes no rounding."""
    cells = np.array([axis.n_cells for axis in layout.axes])
    whole = np.floor(rng.random((n_rows, len(cells))) * cells)
    inside = (whole > 0) & (whole < cells - 2) & ~layout.axis_level
    return (whole + np.where(inside, rng.integers(0, 8, whole.shape) / 8, 0.0)).astype(np.float32)


@pytest.mark.parametrize("orders", [(1,), (2,), (3,), (1, 2, 3)])
def test_gather_and_scatter_are_exactly_adjoint(orders):
    rng = np.random.default_rng(8)
    layout = build_layout(rng, orders=orders)
    positions = draw_eighths(rng, layout, 60)
    taken = take(positions, rows := rng.integers(0, 60, 100))
    table = rng.integers(-8, 9, (layout.n_cells, 3)).astype(np.float32)
    matrix = np.array([slow_weights(layout, position.astype(float)) for position in positions])[rows]
    for width in (1, len(layout.terms)):
        grad = rng.integers(-8, 9, (100, width, 3)).astype(np.float32)
        forward, backward = gather(layout, taken, table, per_term=width > 1), scatter(layout, taken, grad)
        assert (forward.astype(float) * grad).sum() == (table.astype(float) * backward).sum()
        assert backward.sum() == len(layout.terms) / width * grad.sum()
        read = matrix if width > 1 else matrix.sum(axis=1, keepdims=True)
        np.testing.assert_array_equal(forward, read @ table)
        np.testing.assert_array_equal(backward, np.einsum("btn,btc->nc", read, grad))


def test_gather_and_scatter_add_to_what_is_there():
    rng = np.random.default_rng(9)
    layout = build_layout(rng, orders=(1, 2))
    taken = take(layout.encode(draw_numbers(rng, layout.axes[:5], 30)), np.arange(30))
    grad = rng.normal(size=(30, 1, 2)).astype(np.float32)
    total = np.ones((layout.n_cells, 2), dtype=np.float32)
    kernels.scatter_rows(0, len(layout.terms), taken, *terms_of(layout), grad, False, total)
    np.testing.assert_allclose(total, 1 + scatter(layout, taken, grad), atol=1e-5)
    table, out = rng.normal(size=(layout.n_cells, 2)).astype(np.float32), np.ones((30, 1, 2), dtype=np.float32)
    kernels.gather_rows(0, 30, taken, *terms_of(layout), table, False, out)
    np.testing.assert_allclose(out, 1 + gather(layout, taken, table), atol=1e-5)


def test_scatter_touches_the_cells_of_its_terms_only():
    rng = np.random.default_rng(9)
    layout = build_layout(rng)
    taken = take(layout.encode(draw_numbers(rng, layout.axes[:5], 30)), np.arange(30))
    grad, out = np.ones((30, 1, 1), dtype=np.float32), np.zeros((layout.n_cells, 1), dtype=np.float32)
    kernels.scatter_rows(4, 9, taken, *terms_of(layout), grad, False, out)
    inside = slice(layout.cells_of(4).start, layout.cells_of(8).stop)
    np.testing.assert_array_equal(out[inside], scatter(layout, taken, grad)[inside])
    assert out.sum() == out[inside].sum() == pytest.approx(30 * 5)


def test_training_reads_what_prediction_reads():
    rng = np.random.default_rng(10)
    model = build_model(rng, n_outputs=2)
    numbers = draw_numbers(rng, model.encoder.axes, 200)
    table = np.concatenate([shape.scores.reshape(-1, 2) for shape in model.shapes]).astype(np.float32)
    taken = take(model.layout.encode(numbers), np.arange(200))
    np.testing.assert_allclose(gather(model.layout, taken, table, True), contribute(model, numbers), atol=1e-4)


@pytest.mark.parametrize("orders", [(2,), (3,), (1, 2, 3)])
def test_rows_on_the_anchor_of_an_interaction_are_skipped(orders):
    rng, plain = np.random.default_rng(11), build_layout(np.random.default_rng(2), orders=orders)
    smallest = plain.axes[2].knots[0]  # a knot of the coarse axes too
    layout = build_layout(np.random.default_rng(2), orders=orders, anchors={2: Anchor(smallest, 0.9)})
    numbers = draw_numbers(rng, layout.axes[:5], 200)
    numbers[:150, 2] = smallest
    taken = take(layout.encode(numbers), np.arange(200))
    anchored = np.array([len(term) > 1 and 2 in term for term in layout.terms])
    assert (layout.skip_axis >= 0).tolist() == anchored.tolist()
    skips = (taken[2] == 1)[:, None] & anchored  # (b, T); values below the range stand on the first knot as well
    assert 150 * anchored.sum() <= skips.sum() < 200 * anchored.sum()
    table = rng.normal(size=(layout.n_cells, 2)).astype(np.float32)
    expected = np.where(skips[..., None], 0, gather(plain, taken, table, True))
    np.testing.assert_array_equal(gather(layout, taken, table, True), expected)
    grad = rng.normal(size=(200, len(layout.terms), 2)).astype(np.float32)
    expected = scatter(plain, taken, np.where(skips[..., None], np.float32(0), grad))
    np.testing.assert_array_equal(scatter(layout, taken, grad), expected)


# Roughness


@settings(deadline=None, max_examples=25)
@given(seeds, st.integers(0, 40), st.integers(1, 3))
def test_roughness_and_its_pull_are_those_of_the_definition(seed, n_edges, n_channels):
    rng = np.random.default_rng(seed)
    left, right = rng.integers(0, 12, (2, n_edges))
    term, inverse = rng.integers(0, 3, n_edges), (rng.random(n_edges) + 0.1).astype(np.float32)
    table, strength = rng.normal(size=(12, n_channels)), rng.random((3, n_channels))
    rough = np.ones((3, n_channels))
    assert kernels.measure_roughness(left, right, term, inverse, table, rough) == -1
    square = inverse[:, None] * (table[right] - table[left]) ** 2
    expected = 1 + np.array([square[term == index].sum(axis=0) for index in range(3)])
    np.testing.assert_allclose(rough, expected, rtol=1e-12, atol=1e-12)
    grad = np.ones_like(table)
    assert kernels.pull_edges(left, right, term, inverse, strength, table, grad) == -1

    def energy(values):
        change = inverse[:, None] * (values[right] - values[left]) ** 2
        return (strength[term] * change).sum() / 2

    for cell in np.ndindex(*table.shape):
        moved = [table.copy(), table.copy()]
        moved[0][cell] -= 0.5
        moved[1][cell] += 0.5  # a quadratic: central differences are exact
        assert grad[cell] - 1 == pytest.approx(energy(moved[1]) - energy(moved[0]), rel=1e-9, abs=1e-9)


# Threads


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 30_000), st.integers(-1, 7), st.integers(1, 5000))
def test_parts_cover_all_rows_once(n_rows, threads, min_rows):
    seen, lock = [], threading.Lock()

    def work(part, first, last):
        with lock:
            seen.append((part, int(first), int(last)))
        return part - 1

    result = kernels.share_rows(work, n_rows, threads, min_rows)
    seen.sort()
    assert [part for part, _, _ in seen] == list(range(len(seen)))
    assert 1 <= len(seen) <= max(1, threads)
    assert seen[0][1] == 0
    assert seen[-1][2] == n_rows
    assert all(one[2] == other[1] for one, other in pairwise(seen))
    assert len(seen) == 1 or all(last - first >= min_rows // 2 for _, first, last in seen)
    assert result == len(seen) - 2  # the largest


def test_parts_between_given_edges():
    seen, lock = [], threading.Lock()

    def work(part, first, last):
        with lock:
            seen.append((part, first, last))
        return last

    assert kernels.share_work(work, [0, 4, 4, 9]) == 9
    assert sorted(seen) == [(0, 0, 4), (1, 4, 4), (2, 4, 9)]
    seen.clear()
    assert kernels.share_work(work, [2, 7]) == 7
    assert seen == [(0, 2, 7)]


def test_an_error_on_a_thread_reaches_the_caller():
    def work(part, first, last):
        if part == 2:
            raise KeyError("part two")
        return -1

    with pytest.raises(KeyError, match="part two"):
        kernels.share_rows(work, 3000, 3, min_rows=1)


def test_threads_change_no_number():
    rng = np.random.default_rng(11)
    model = build_model(rng, n_outputs=4)
    numbers = draw_numbers(rng, model.encoder.axes, 15_000)
    np.testing.assert_array_equal(contribute(model, numbers, threads=3), contribute(model, numbers))
    positions = model.layout.encode(numbers, threads=3)
    np.testing.assert_array_equal(positions, model.layout.encode(numbers))
    rows = rng.integers(0, 15_000, 5000)
    taken = take(positions, rows)
    np.testing.assert_array_equal(take(positions, rows, threads=3), taken)
    table = rng.normal(size=(model.layout.n_cells, 4)).astype(np.float32)
    for width in (1, len(model.layout.terms)):
        grad = rng.normal(size=(5000, width, 4)).astype(np.float32)
        forward, backward = gather(model.layout, taken, table, width > 1), scatter(model.layout, taken, grad)
        for threads in (2, 3, 40):  # more threads than terms
            np.testing.assert_array_equal(gather(model.layout, taken, table, width > 1, threads), forward)
            np.testing.assert_array_equal(scatter(model.layout, taken, grad, threads), backward)


def test_number_of_threads():
    cores = kernels.count_threads(None)
    assert 1 <= cores <= (os.cpu_count() or 1)
    assert kernels.count_threads(-1) == cores
    assert kernels.count_threads(0) == cores
    assert kernels.count_threads(-2) == max(1, cores - 1)
    assert kernels.count_threads(-1000) == 1
    assert [kernels.count_threads(n) for n in (1, 3, 64)] == [1, 3, 64]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not tell the cores of a process")
def test_cores_are_those_of_the_process():
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        "from neuralbasis.kernels import count_threads; print(count_threads(None), count_threads(-2))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert run.stdout.split() == ["1", "1"]


def test_eight_callers_at_once():
    rng = np.random.default_rng(12)
    model = build_model(rng, NUMERIC, n_outputs=2, n_jobs=3)
    tables = [draw_numbers(rng, model.encoder.axes, 13_000 + 7 * index) for index in range(16)]
    expected = [model.intercept + contribute_numpy(model, table).sum(axis=1) for table in tables]
    with ThreadPoolExecutor(8) as pool:
        for scores, wanted in zip(pool.map(model.scores, tables), expected, strict=True):
            np.testing.assert_allclose(scores, wanted, rtol=1e-11, atol=1e-11)


FORK = """
import multiprocessing
import numpy as np
from tests.models import NUMERIC, build_model, draw_numbers

rng = np.random.default_rng(0)
model = build_model(rng, NUMERIC, n_jobs=3)
numbers = draw_numbers(rng, model.encoder.axes, 20_000)
before = model.scores(numbers)  # the parent's threads are running now

def predict(pipe):
    pipe.send(model.scores(numbers))

context = multiprocessing.get_context("fork")
for _ in range(2):
    near, far = context.Pipe()
    child = context.Process(target=predict, args=(far,), daemon=True)
    child.start()
    assert near.poll(60), "the child does not answer"
    assert np.array_equal(near.recv(), before)
    child.join(60)
    assert child.exitcode == 0
assert np.array_equal(model.scores(numbers), before)
print("same")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems do not fork threads safely")
def test_a_forked_child_predicts(pytestconfig):
    run = subprocess.run(
        [sys.executable, "-c", FORK],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        cwd=pytestconfig.rootpath,
    )
    assert run.stdout == "same\n", run.stderr
