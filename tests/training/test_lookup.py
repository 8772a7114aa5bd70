"""Look-ups: compiled, sparse and torch implementations agree, on any number of threads."""

import numpy as np
import pytest
import torch

from neuralbasis import kernels
from neuralbasis.encoding import Anchor, continuous_axis, lay_out
from neuralbasis.training import GridEngine
from neuralbasis.training.lookup import TorchLookUp
from tests.models import MIXED, build_axes, build_layout, draw_numbers
from tests.sparse_tables import store
from tests.training.problems import draw_sparse, make_grid


def look_up(positions, layout, threads=1):
    """The compiled look-up of dense or sparse positions."""
    return GridEngine(layout, positions, np.ones(len(positions)), threads).lookup


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("orders", [(1,), (2,), (3,), (1, 2, 3)])
def test_compiled_and_torch_look_ups_agree(orders, threads):
    rng = np.random.default_rng(0)
    layout = build_layout(rng, MIXED, orders)
    positions = layout.encode(draw_numbers(rng, layout.axes[: len(MIXED)], 500))
    rows = rng.integers(0, 500, 2**17 // 8)  # enough work for two threads
    compiled, plain = look_up(positions, layout, threads), TorchLookUp(positions, layout)
    table = torch.from_numpy(rng.normal(size=(layout.n_cells, 4)).astype(np.float32))
    taken, torch_taken = compiled.take(rows), plain.take(rows)
    np.testing.assert_array_equal(taken, torch_taken.T)
    for width in (1, len(layout.terms)):
        scores = compiled.gather(taken, table, per_term=width > 1)
        assert scores.shape == (len(rows), width, 4)
        torch.testing.assert_close(scores, plain.gather(torch_taken, table, width > 1), rtol=1e-4, atol=1e-4)
        slope = torch.from_numpy(rng.normal(size=scores.shape).astype(np.float32))
        gradient = compiled.scatter(taken, slope, layout.n_cells)
        assert gradient.shape == table.shape
        torch.testing.assert_close(gradient, plain.scatter(torch_taken, slope, layout.n_cells), rtol=1e-4, atol=1e-3)
        # `scatter` is the transpose of `gather`.
        forward, backward = (scores * slope).double().sum(), (gradient * table).double().sum()
        torch.testing.assert_close(forward, backward, rtol=1e-4, atol=1e-2)


def test_anchored_look_ups_agree_where_anchors_are_zero():
    """The compiled look-up skips rows on an anchor; torch reads the zeros there."""
    rng = np.random.default_rng(0)
    axes = build_axes(rng, MIXED)
    anchors = {0: Anchor(axes[0].knots[0], 0.9), 1: Anchor(0.0, 0.8)}
    layout = lay_out(axes, [(0,), (1,), (0, 1), (1, 2), (2, 3), (0, 1, 2)], {2: 5, 3: 3}, anchors)
    numbers = draw_numbers(rng, axes, 500)
    numbers[100:, 0], numbers[200:, 1] = axes[0].knots[0], 0.0
    grid = GridEngine(layout, layout.encode(numbers), np.ones(500), threads=1)
    is_zero = (grid.cells.free < 0) & ~grid.cells.based
    table = torch.from_numpy(np.where(is_zero[:, None], 0, rng.normal(size=(layout.n_cells, 2))).astype(np.float32))
    plain, rows = TorchLookUp(grid.positions, layout), np.arange(500)
    expected = plain.gather(plain.take(rows), table, per_term=True)
    torch.testing.assert_close(grid.lookup.gather(grid.lookup.take(rows), table, True), expected, atol=1e-5, rtol=1e-5)
    grad = torch.from_numpy(rng.normal(size=(500, 6, 2)).astype(np.float32))
    mine, other = (lookup.scatter(lookup.take(rows), grad, layout.n_cells)[~is_zero] for lookup in (grid.lookup, plain))
    torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize("absent", [0.0, 1.0, 0.33, np.nan])
def test_sparse_and_dense_look_ups_agree(absent, anchored, threads):
    """Scores agree to the bit: sums are in double precision and then rounded."""
    rng = np.random.default_rng(0)
    layout, numbers, matrix = draw_sparse(rng, 150, absent, anchored)
    plain = look_up(layout.encode(numbers), layout, threads)
    lookup = look_up(layout.encode(matrix), layout, threads)
    cells = GridEngine(layout, layout.encode(numbers), np.ones(150), 1).cells
    is_zero = (cells.free < 0) & ~cells.based
    table = torch.from_numpy(np.where(is_zero[:, None], 0, rng.normal(size=(layout.n_cells, 3))).astype(np.float32))
    rows = rng.integers(0, 150, 15_000)  # enough work for two threads
    assert plain._threads(int(len(rows) * 3 * plain.row_work)) == threads
    for width in (1, len(layout.terms)):
        scores = lookup.gather(lookup.take(rows), table, width > 1)
        assert scores.dtype == torch.float32
        torch.testing.assert_close(scores, plain.gather(plain.take(rows), table, width > 1), rtol=0, atol=0)
        grad = torch.from_numpy(rng.normal(size=scores.shape).astype(np.float32))
        sparse, dense = (one.scatter(one.take(rows), grad, layout.n_cells) for one in (lookup, plain))
        torch.testing.assert_close(sparse, dense, rtol=1e-6, atol=1e-6)
        assert ((sparse == 0) == (dense == 0)).all()


def test_sparse_rows_with_no_stored_value_and_with_all():
    layout, _, _ = draw_sparse(np.random.default_rng(0), 150, 0.0, False)
    table = torch.from_numpy(np.random.default_rng(1).normal(size=(layout.n_cells, 1)))
    for numbers in (np.zeros((3, 5)), np.full((3, 5), 2.0)):
        plain = look_up(layout.encode(numbers), layout)
        lookup = look_up(layout.encode(store(numbers, 0.0)), layout)
        rows, ones = np.array([2, 0]), torch.ones(2, 1, 1)
        torch.testing.assert_close(lookup.gather(rows, table), plain.gather(plain.take(rows), table))
        mine = lookup.scatter(rows, ones, layout.n_cells)
        torch.testing.assert_close(mine, plain.scatter(plain.take(rows), ones, layout.n_cells), rtol=0, atol=0)


def test_sparse_rows_are_trained_on_the_cpu():
    layout, _, matrix = draw_sparse(np.random.default_rng(0), 150, 0.0, False)
    with pytest.raises(ValueError, match="device='cuda' cannot train on a sparse table: set device='cpu'"):
        GridEngine(layout, layout.encode(matrix), np.ones(150), 1, "cuda")


def test_the_number_of_threads_does_not_change_a_gradient():
    """Threads share terms, not rows: every cell is summed in the order of the rows."""
    rng = np.random.default_rng(0)
    layout = build_layout(rng)
    positions = layout.encode(draw_numbers(rng, layout.axes[: len(MIXED)], 2000))
    rows = rng.integers(0, 2000, 40_000)
    grad = torch.from_numpy(rng.normal(size=(40_000, 1, 2)).astype(np.float32))
    table = torch.from_numpy(rng.normal(size=(layout.n_cells, 2)).astype(np.float32))
    results = []
    for threads in (1, 2, 3, 5):
        lookup = look_up(positions, layout, threads)
        assert lookup._threads(grad.numel() * len(layout.terms)) == threads
        taken = lookup.take(rows)
        results.append(
            (taken, lookup.gather(taken, table).numpy(), lookup.scatter(taken, grad, layout.n_cells).numpy())
        )
    for other in results[1:]:
        for mine, theirs in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("n_terms", [1, 2, 7, 40])
def test_every_term_is_summed_by_one_thread(n_terms, monkeypatch):
    """Parts end at the last term: a term past the end would be memory of other objects."""
    axes = [continuous_axis(f"x{index:02d}", np.arange(3.0)) for index in range(n_terms + 1)]
    terms, edges = [(index, index + 1) for index in range(n_terms)], []
    monkeypatch.setattr(kernels, "share_work", lambda work, given: edges.append(list(given)))
    monkeypatch.setattr("neuralbasis.training.lookup.MIN_WORK", 1)
    for seed in range(40):
        shares = 0.8 + 0.2 * np.random.default_rng(seed).random(n_terms + 1)
        layout = lay_out(axes, terms, {2: 3}, {feature: Anchor(0.0, share) for feature, share in enumerate(shares)})
        for threads in (1, 2, 3, 5, 6, 7, 12):
            lookup = look_up(np.ones((100, n_terms + 1), np.float32), layout, threads)
            lookup.scatter(np.ones((n_terms + 1, 100), np.float32), torch.ones(100, 1, 1), layout.n_cells)
            assert edges[-1][0] == 0
            assert edges[-1] == sorted(edges[-1])
            assert edges[-1][-1] == n_terms


def test_gradients_of_slices_and_of_few_rows():
    grid = make_grid(orders=(1,))
    rows = np.array([3, 3, 5])
    slope = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).T[:, None]  # not contiguous
    mine = grid.lookup.scatter(grid.lookup.take(rows), slope, grid.layout.n_cells)
    plain = TorchLookUp(grid.positions, grid.layout)
    torch.testing.assert_close(mine, plain.scatter(plain.take(rows), slope, grid.layout.n_cells))
    torch.testing.assert_close(mine.sum(0), len(grid.layout.terms) * slope.sum((0, 1)), rtol=1e-5, atol=1e-5)
