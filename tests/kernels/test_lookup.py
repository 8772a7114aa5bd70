"""Look-ups of training: gather and scatter against the definition, and as adjoints of each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis import kernels
from neuralbasis.encoding import Anchor
from tests.lookups import contribute, gather, scatter, slow_weights, take, terms_of
from tests.models import build_layout, build_model, draw_numbers

seeds = st.integers(0, 2**32 - 1)


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
    """Positions at eighths: with small integers in the table, single precision is exact."""
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


def test_gather_and_scatter_add_to_existing_values():
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


def test_scatter_writes_only_the_cells_of_its_terms():
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
    skips = (taken[2] == 1)[:, None] & anchored  # (b, T); values below the range are on the first knot as well
    assert 150 * anchored.sum() <= skips.sum() < 200 * anchored.sum()
    table = rng.normal(size=(layout.n_cells, 2)).astype(np.float32)
    expected = np.where(skips[..., None], 0, gather(plain, taken, table, True))
    np.testing.assert_array_equal(gather(layout, taken, table, True), expected)
    grad = rng.normal(size=(200, len(layout.terms), 2)).astype(np.float32)
    expected = scatter(plain, taken, np.where(skips[..., None], np.float32(0), grad))
    np.testing.assert_array_equal(scatter(layout, taken, grad), expected)
