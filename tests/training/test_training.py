"""train: optimiser, look-ups, penalties, held-out rows, batches, and whole fits: what they learn and when they stop."""

import math
import time
from collections import Counter
from dataclasses import replace
from itertools import groupby
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, kernels
from neuralbasis.config import make_net
from neuralbasis.data.frames import read_columns
from neuralbasis.data.sparse import SparseMatrix
from neuralbasis.data.target import Sample
from neuralbasis.distributed.process_group import SINGLE_PROCESS
from neuralbasis.encoding.axis import continuous_axis, level_axis
from neuralbasis.encoding.encoder import Encoder
from neuralbasis.encoding.layout import Anchor, lay_out
from neuralbasis.losses.loss import CrossEntropy, LogLoss, SquaredError, choose_loss
from neuralbasis.networks import MLPBasis, SplineBasis
from neuralbasis.networks.basis_net import MIX_FLOOR, BasisNet
from neuralbasis.training.batches import share_pool
from neuralbasis.training.engines import ExactEngine, GridEngine, _stands_on_anchor
from neuralbasis.training.history import History
from neuralbasis.training.lookup import MIN_WORK, CompiledLookUp, SparseLookUp, TorchLookUp, choose_lookup
from neuralbasis.training.loop import _Watch, train, training_threads
from neuralbasis.training.members import Members, Part, Settings, compute_gradients, schedule
from neuralbasis.training.optimizer import FlatAdamW
from neuralbasis.training.penalties import (
    N_BLOCKS,
    RAMP,
    REACH,
    RIDGE_FLOOR,
    Bends,
    Edges,
    Penalty,
    adapt_smoothness,
    find_bends,
    find_blocks,
    find_edges,
    find_loose_cells,
)
from neuralbasis.training.rows import MAX_COPIES, RARE_SHARE, Rows, copy_rare, hold_out, place_rows, standard_error
from neuralbasis.training.stage import Stage
from tests.models import MIXED, build_axes, build_layout, draw_numbers

seeds = st.integers(0, 2**32 - 1)
SMALL = {"hidden": (16, 16), "n_bases": 8, "outer_bags": 2, "random_state": 0, "interactions": 0}


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with training_threads():
        yield


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


# Optimiser


def draw_module(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_steps_are_torch_s_adamw(weight_decay):
    mine, reference = draw_module(), draw_module()
    flat = FlatAdamW(mine.parameters(), weight_decay, averaging=7)
    other = torch.optim.AdamW(
        reference.parameters(), betas=FlatAdamW.betas, eps=FlatAdamW.epsilon, weight_decay=weight_decay
    )
    generator, average = torch.Generator().manual_seed(1), None
    for step in range(1, 51):
        x, y = (torch.randn(8, size, generator=generator, dtype=torch.float64) for size in (3, 2))
        rate = 0.1 / step
        for net in (mine, reference):
            (net(x) - y).square().mean().backward()
        flat.step(rate)
        other.param_groups[0]["lr"] = rate
        other.step()
        other.zero_grad()
        expected = nn.utils.parameters_to_vector(reference.parameters()).detach()
        torch.testing.assert_close(flat.values, expected, rtol=1e-9, atol=1e-12)
        # A plain mean of the values so far, and from step 8 on an exponential one.
        share = 1 / min(step, 8)
        average = expected if average is None else (1 - share) * average + share * expected
        torch.testing.assert_close(flat.average, average, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(nn.utils.parameters_to_vector(mine.parameters()).detach(), flat.values, rtol=0, atol=0)


def test_without_averaging_the_average_is_the_values():
    module = draw_module()
    flat = FlatAdamW(module.parameters(), 0.0, averaging=0)
    for _ in range(5):
        module(torch.ones(1, 3).double()).sum().backward()
        flat.step(0.1)
        torch.testing.assert_close(flat.average, flat.values, rtol=0, atol=0)


def test_parameters_are_views_and_gradients_are_taken():
    module = draw_module()
    before = [parameter.detach().clone() for parameter in module.parameters()]
    flat = FlatAdamW(module.parameters(), 0.0, averaging=3)
    for parameter, old in zip(module.parameters(), before, strict=True):
        assert torch.equal(parameter, old)
    flat.values.zero_()
    assert all(parameter.abs().max() == 0 for parameter in module.parameters())
    module(torch.ones(1, 3).double()).sum().backward()
    flat.step(0.1)
    assert all(parameter.grad.abs().max() == 0 for parameter in module.parameters())
    flat.step(0.0)  # without gradients, and at rate 0
    assert flat.steps == 2


def test_compiled_and_torch_steps_agree(monkeypatch):
    """The loop on the CPU, and plain torch for other devices."""
    compiled, plain = draw_module().float(), draw_module().float()
    flats = [FlatAdamW(module.parameters(), 0.1, averaging=4) for module in (compiled, plain)]
    for step in range(1, 20):
        for module, flat in zip((compiled, plain), flats, strict=True):
            module(torch.full((1, 3), 1.0 / step)).square().sum().backward()
            with monkeypatch.context() as patch:
                if module is plain:
                    patch.setattr(FlatAdamW, "is_compiled", False)
                flat.step(0.05)
    torch.testing.assert_close(flats[0].values, flats[1].values, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(flats[0].average, flats[1].average, rtol=1e-5, atol=1e-6)
    assert flats[0].grad.abs().max() == flats[1].grad.abs().max() == 0


def test_empty_parameters_are_left_out():
    module = nn.ParameterList([nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(0, 3))])
    flat = FlatAdamW(module.parameters(), 0.0, 1.0)
    module[0].sum().backward()
    flat.step(0.5)
    torch.testing.assert_close(module[0].detach(), torch.tensor([0.5, 0.5]))


def test_the_rate_warms_up_and_falls_to_zero():
    rates = [schedule(progress) for progress in np.linspace(0, 1, 201)]
    assert rates[0] == 0
    assert rates[-1] == pytest.approx(0, abs=1e-12)
    assert 0.99 < max(rates) <= 1
    assert np.argmax(rates) == 10
    assert schedule(0.5) == pytest.approx(0.5)


# Look-ups


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("orders", [(1,), (2,), (3,), (1, 2, 3)])
def test_compiled_and_torch_look_ups_agree(orders, threads):
    rng = np.random.default_rng(0)
    layout = build_layout(rng, MIXED, orders)
    positions = layout.encode(draw_numbers(rng, layout.axes[: len(MIXED)], 500))
    rows = rng.integers(0, 500, MIN_WORK // 8)
    compiled, plain = CompiledLookUp(positions, layout, threads), TorchLookUp(positions, layout)
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
        # The way back is the transpose of the way there.
        there, back = (scores * slope).double().sum(), (gradient * table).double().sum()
        torch.testing.assert_close(there, back, rtol=1e-4, atol=1e-2)


def test_anchored_look_ups_agree_where_anchors_are_zero():
    """The compiled way skips rows on an anchor; the other reads the zeros that stand there."""
    rng = np.random.default_rng(0)
    axes = build_axes(rng, MIXED)
    anchors = {0: Anchor(axes[0].knots[0], 0.9), 1: Anchor(0.0, 0.8)}
    layout = lay_out(axes, [(0,), (1,), (0, 1), (1, 2), (2, 3), (0, 1, 2)], {2: 5, 3: 3}, anchors)
    numbers = draw_numbers(rng, axes, 500)
    numbers[100:, 0], numbers[200:, 1] = axes[0].knots[0], 0.0
    grid = GridEngine(layout, layout.encode(numbers), np.ones(500), threads=1)
    silent = (grid.cells.free < 0) & ~grid.cells.based
    table = torch.from_numpy(np.where(silent[:, None], 0, rng.normal(size=(layout.n_cells, 2))).astype(np.float32))
    plain, rows = TorchLookUp(grid.positions, layout), np.arange(500)
    expected = plain.gather(plain.take(rows), table, per_term=True)
    torch.testing.assert_close(grid.lookup.gather(grid.lookup.take(rows), table, True), expected, atol=1e-5, rtol=1e-5)
    grad = torch.from_numpy(rng.normal(size=(500, 6, 2)).astype(np.float32))
    mine, other = (lookup.scatter(lookup.take(rows), grad, layout.n_cells)[~silent] for lookup in (grid.lookup, plain))
    torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)


def store(numbers, absent):
    """The same numbers stored, by the definition."""
    present = ~((numbers == absent) | (np.isnan(numbers) & np.isnan(absent)))
    starts = np.r_[0, np.cumsum(present.sum(axis=1))]
    return SparseMatrix(starts, np.nonzero(present)[1].astype(np.int32), numbers[present], absent, numbers.shape[1])


def draw_stored(rng, n_rows, absent, anchored):
    """A layout of all orders over columns of which one has no absent value, one no other, and all some missing ones."""
    numbers = np.where(rng.random((n_rows, 5)) < 0.3, rng.normal(size=(n_rows, 5)).round(1), absent)
    numbers[:, 3], numbers[:, 4] = 1.0 if np.isnan(absent) else absent, rng.normal(size=n_rows)
    numbers[5:20, 1] = np.nan
    axes = [continuous_axis(f"x{index}", column) for index, column in enumerate(numbers.T)]
    terms = [(0,), (1,), (2,), (3,), (4,), (0, 1), (1, 2), (0, 4), (2, 3), (0, 1, 2), (2, 3, 4)]
    anchors = {0: Anchor(0.0, 0.8), 2: Anchor(0.0, 0.9)} if anchored else None
    return lay_out(axes, terms, {2: 7, 3: 4}, anchors), numbers, store(numbers, absent)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize("absent", [0.0, 1.0, 0.33, np.nan])
def test_stored_and_compiled_look_ups_agree(absent, anchored, threads, monkeypatch):
    """To the bit: sums are in double precision and then rounded."""
    monkeypatch.setattr("neuralbasis.training.lookup.MIN_WORK", 1)
    rng = np.random.default_rng(0)
    layout, numbers, stored = draw_stored(rng, 150, absent, anchored)
    plain = CompiledLookUp(layout.encode(numbers), layout, threads)
    lookup = SparseLookUp(layout.encode(stored), layout, threads)
    silent = np.concatenate([_stands_on_anchor(layout, index) for index in range(len(layout.terms))])
    table = torch.from_numpy(np.where(silent[:, None], 0, rng.normal(size=(layout.n_cells, 3))).astype(np.float32))
    rows = rng.integers(0, 150, 90)
    for width in (1, len(layout.terms)):
        scores = lookup.gather(lookup.take(rows), table, width > 1)
        assert scores.dtype == torch.float32
        torch.testing.assert_close(scores, plain.gather(plain.take(rows), table, width > 1), rtol=0, atol=0)
        grad = torch.from_numpy(rng.normal(size=scores.shape).astype(np.float32))
        mine, other = (one.scatter(one.take(rows), grad, layout.n_cells) for one in (lookup, plain))
        torch.testing.assert_close(mine, other, rtol=1e-6, atol=1e-6)
        assert ((mine == 0) == (other == 0)).all()


def test_stored_rows_without_entries_and_without_any_other():
    layout, _, _ = draw_stored(np.random.default_rng(0), 150, 0.0, False)
    table = torch.from_numpy(np.random.default_rng(1).normal(size=(layout.n_cells, 1)))
    for numbers in (np.zeros((3, 5)), np.full((3, 5), 2.0)):
        plain = CompiledLookUp(layout.encode(numbers), layout)
        lookup = SparseLookUp(layout.encode(store(numbers, 0.0)), layout)
        rows, ones = np.array([2, 0]), torch.ones(2, 1, 1)
        torch.testing.assert_close(lookup.gather(rows, table), plain.gather(plain.take(rows), table))
        mine = lookup.scatter(rows, ones, layout.n_cells)
        torch.testing.assert_close(mine, plain.scatter(plain.take(rows), ones, layout.n_cells), rtol=0, atol=0)


@pytest.mark.parametrize("absent", [0.0, np.nan])
def test_engines_on_stored_rows_are_those_on_all_values(absent):
    layout, numbers, stored = draw_stored(np.random.default_rng(2), 150, absent, False)
    weights = np.random.default_rng(3).random(150)
    one, other = (GridEngine(layout, layout.encode(values), weights, 1) for values in (stored, numbers))
    np.testing.assert_allclose(one.cell_weight, other.cell_weight, rtol=1e-12, atol=1e-12)
    assert ((one.cell_weight == 0) == (other.cell_weight == 0)).all()
    rows = np.arange(40, 90)
    points, lookup, index = ExactEngine(one).batch(rows)
    plain_points, plain, plain_index = ExactEngine(other).batch(rows)
    assert isinstance(lookup, SparseLookUp)
    for order, chosen in points.orders.items():
        for name in ("places", "weight", "term", "point"):
            torch.testing.assert_close(getattr(chosen, name), getattr(plain_points.orders[order], name))
    table = torch.from_numpy(np.random.default_rng(4).normal(size=(len(points.source), 2)))
    mine = lookup.gather(lookup.take(index), table, per_term=True)
    torch.testing.assert_close(mine, plain.gather(plain.take(plain_index), table, per_term=True), rtol=0, atol=0)


def test_stored_rows_are_trained_on_the_cpu():
    layout, _, stored = draw_stored(np.random.default_rng(0), 150, 0.0, False)
    with pytest.raises(ValueError, match="device='cuda' cannot train on a sparse table: set device='cpu'"):
        choose_lookup(layout.encode(stored), layout, 1, torch.device("cuda"))


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
        lookup = CompiledLookUp(positions, layout, threads)
        assert lookup._threads(grad.numel() * len(layout.terms)) == threads
        taken = lookup.take(rows)
        results.append(
            (taken, lookup.gather(taken, table).numpy(), lookup.scatter(taken, grad, layout.n_cells).numpy())
        )
    for other in results[1:]:
        for mine, theirs in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("n_terms", [1, 2, 7, 40])
def test_every_term_is_summed_by_one_thread_whatever_is_skipped(n_terms, monkeypatch):
    """Parts end at the last term, never beyond it: a term that is not there would be memory of others."""
    axes = [continuous_axis(f"x{index:02d}", np.arange(3.0)) for index in range(n_terms + 1)]
    terms, edges = [(index, index + 1) for index in range(n_terms)], []
    monkeypatch.setattr(kernels, "share_work", lambda work, given: edges.append(list(given)))
    monkeypatch.setattr("neuralbasis.training.lookup.MIN_WORK", 1)
    for seed in range(40):
        shares = 0.8 + 0.2 * np.random.default_rng(seed).random(n_terms + 1)
        layout = lay_out(axes, terms, {2: 3}, {feature: Anchor(0.0, share) for feature, share in enumerate(shares)})
        for threads in (1, 2, 3, 5, 6, 7, 12):
            lookup = CompiledLookUp(np.ones((100, n_terms + 1), np.float32), layout, threads)
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


# Penalties


def draw_table(grid, n_channels=2, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(grid.layout.n_cells, n_channels)))


def bend_slowly(grid, table):
    """f'' (bends, C) at every inner knot of a main effect with an order, its width (bends, 1), and (term, bend)."""
    second, width, where = [], [], []
    for index, term in enumerate(grid.layout.terms):
        axis, first = grid.layout.axes_of(index)[0], grid.layout.cells_of(index).start + 1
        if len(term) > 1 or axis.kind == "nominal":
            continue
        for bend, knot in enumerate(range(1, len(axis.knots) - 1)):
            before, here, after = axis.places[knot - 1 : knot + 2]
            down, mid, up = table[first + knot - 1 : first + knot + 2]
            width.append((after - before) / 2)
            second.append(((up - mid) / (after - here) - (mid - down) / (here - before)) / width[-1])
            where.append((index, bend))
    return np.array(second).reshape(-1, table.shape[1]), np.array(width)[:, None], where


def mean_slowly(grid, table):
    """(bends, C): mean f''² over the bends of the same term within reach."""
    second, width, where = bend_slowly(grid, table)
    sizes, means = Counter(index for index, _ in where), []
    for index, bend in where:
        reach = max(REACH[0], sizes[index] // REACH[1])
        near = [k for k, (other, place) in enumerate(where) if other == index and abs(place - bend) <= reach]
        means.append((width[near] * second[near] ** 2).sum(axis=0) / width[near].sum())
    return np.array(means).reshape(-1, table.shape[1])


def penalty_value(grid, table, frozen, n_rows, noise, smoothness, output_penalty):
    """The documented penalties of `table`, their weights taken from the table `frozen`."""
    left, right, width, block, term, share = find_edges(grid)
    total = 0.0
    for index in range(len(term)):
        mine, (strength, floor) = block == index, smoothness[len(grid.layout.terms[term[index]])]
        rough = [((t[right] - t[left]) ** 2 / width[:, None])[mine].sum(axis=0) for t in (table, frozen)]
        total += (strength * noise / (rough[1] / share[index] + floor + 1e-12) / n_rows * rough[0]).sum()
    if 0 in smoothness:
        (strength, floor), (second, width, _) = smoothness[0], bend_slowly(grid, table)
        total += (strength * noise / (mean_slowly(grid, frozen) + floor) / n_rows * width * second**2).sum()
    loose, group, weight = find_loose_cells(grid, smoothness)
    for index in np.unique(group):
        chosen, parts = loose[group == index], weight[group == index, None]
        ridge = 0.5 * noise / (np.average(frozen[chosen] ** 2, axis=0, weights=parts[:, 0]) + RIDGE_FLOOR) / n_rows
        total += (ridge * (parts * table[chosen] ** 2).sum(axis=0)).sum()
    share = grid.cell_weight / grid.cell_weight[grid.layout.cells_of(0)].sum()
    return total + output_penalty * (share[:, None] * table**2).sum()


EVEN = {1: (3.0, 3.0), 2: (3.0, 3.0), 3: (3.0, 3.0)}
NONE = {1: (0.0, 1.0), 2: (0.0, 1.0), 3: (0.0, 1.0)}
UNEVEN = {1: (0.7, 0.2), 2: (2.0, 0.5), 3: (0.0, 1.0)}
BENT = {0: (0.9, 30.0), 1: (0.0, 1.0), 2: (2.0, 0.5), 3: (0.0, 1.0)}


@pytest.mark.parametrize("orders", [(1,), (1, 2), (2, 3)])
@pytest.mark.parametrize(
    ("smoothness", "output_penalty"), [(EVEN, 0.0), (NONE, 0.0), (NONE, 0.5), (UNEVEN, 0.5), (BENT, 0.0)]
)
def test_gradient_is_that_of_the_documented_penalty(orders, smoothness, output_penalty):
    grid = make_grid(orders=orders)
    frozen, table = draw_table(grid, seed=1), draw_table(grid, seed=2)
    noise = torch.tensor([0.3, 0.8], dtype=torch.float64)
    penalty = Penalty(grid, 50.0, smoothness, output_penalty)
    penalty.refresh(frozen, noise)
    grad = torch.ones_like(table)
    penalty.add_gradient(table, grad)
    arguments = (frozen.numpy(), 50.0, noise.numpy(), smoothness, output_penalty)
    cells = np.random.default_rng(3).permutation(list(np.ndindex(*table.shape)))[:50]
    for cell in map(tuple, cells):
        values = []
        for step in (-0.5, 0.5):  # a quadratic: central differences are exact
            moved = table.numpy().copy()
            moved[cell] += step
            values.append(penalty_value(grid, moved, *arguments))
        assert grad[cell].item() - 1 == pytest.approx(values[1] - values[0], rel=1e-5, abs=1e-7)


def make_tiny_grid():
    """A line of three knots, three levels, and their pair; one row on every main cell but the unseen ones."""
    axes = [
        continuous_axis("a", np.array([0.0, 1.0, 4.0]), scaling="minmax"),
        level_axis("b", "nominal", ["u", "v", "w"]),
    ]
    layout = lay_out(axes, [(0,), (1,), (0, 1)], {2: 5})
    numbers = np.array([[np.nan, 0.0], [0.0, 1.0], [1.0, 2.0], [4.0, np.nan]])
    return GridEngine(layout, layout.encode(numbers), np.ones(4), threads=1)


def test_weights_of_the_penalties_by_hand():
    grid = make_tiny_grid()
    penalty = Penalty(grid, n_rows=10.0, smoothness={1: (2.0, 3.0), 2: (5.0, 4.0)})
    table = torch.zeros(grid.layout.n_cells, 1)
    table[:5, 0] = torch.tensor([4.0, 1.0, 2.0, 5.0, 0.0])  # line: missing, three knots, unseen
    table[5:10, 0] = torch.tensor([3.0, 1.0, 2.0, 3.0, 0.0])  # levels: missing, three levels, unseen
    penalty.refresh(table, noise=0.5)
    # ∫ f'² = 1² / 0.25 + 3² / 0.75 = 16; levels have no order; nothing in the pair is rough yet.
    assert penalty.edges.roughness(table)[:, 0].tolist() == [16.0, 0.0, 0.0]
    expected = [2 * 2.0 * 0.5 / 10 / (16 + 3.0), 2 * 2.0 * 0.5 / 10 / 3.0, 2 * 5.0 * 0.5 / 10 / 4.0]
    torch.testing.assert_close(penalty.smooth[:, 0], torch.tensor(expected))
    ridge = dict(zip(penalty.loose.tolist(), penalty.ridge[:, 0].tolist(), strict=True))
    floor = RIDGE_FLOOR
    assert ridge[0] == pytest.approx(0.05 / (16 + floor), rel=1e-5)  # missing on the line
    assert ridge[5] == pytest.approx(0.05 / (9 + floor), rel=1e-5)  # missing level, on its own
    for level in (6, 7, 8):
        assert ridge[level] == pytest.approx(0.05 / (14 / 3 + floor), rel=1e-5)
    # Of the pair, cells with a missing value are free; the knots of each level share the weight of one cell.
    knots = {10 + 5 * knot + level for knot in (1, 2, 3) for level in (1, 2, 3)}
    pair = {cell: weight for cell, weight in ridge.items() if cell >= 10}
    assert set(pair) == knots | {10, 11, 12, 13, 15, 20, 25}
    for cell, weight in pair.items():
        assert weight == pytest.approx(0.05 / floor / (3 if cell in knots else 1), rel=1e-5)


def test_edges_of_a_pair_by_hand():
    grid = make_tiny_grid()
    left, right, width, block, terms, _ = find_edges(grid)
    term = terms[block]
    assert [grid.layout.terms[t] for t in np.unique(term)] == [(0,), (0, 1)]  # levels have no order
    main = term == 0
    assert list(zip(left[main], right[main], width[main], strict=True)) == [(1, 2, 0.25), (2, 3, 0.75)]
    start = grid.layout.cells_of(2).start  # (missing, 3 knots, unseen) x (missing, 3 levels, unseen)
    expected = {
        (start + 5 * knot + level, start + 5 * (knot + 1) + level, 3 * gap)  # three parallel lines, one a level
        for knot, gap in ((1, 0.25), (2, 0.75))
        for level in (1, 2, 3)
    }
    pair = term == 2
    assert set(zip(left[pair].tolist(), right[pair].tolist(), width[pair].tolist(), strict=True)) == expected
    assert pair.sum() == len(expected)


def test_edges_run_along_both_axes_of_a_pair():
    axes = [continuous_axis(name, np.arange(float(size)), scaling="minmax") for name, size in (("a", 3), ("b", 5))]
    layout = lay_out(axes, [(0, 1)], {2: 5})
    grid = GridEngine(layout, layout.encode(np.array([[0.0, 0.0]])), np.ones(1), threads=1)
    left, right, width, *_ = find_edges(grid)
    steps, counts = np.unique(right - left, return_counts=True)
    assert (steps.tolist(), counts.tolist()) == ([1, 7], [3 * 4, 2 * 5])  # 7 = 5 knots, missing and unseen
    # Places are 1/4 apart along b, on three lines, and 1/2 along a, on five.
    np.testing.assert_allclose(width, np.where(right - left == 1, 0.25 * 3, 0.5 * 5))


@pytest.mark.parametrize(("orders", "expected"), [((1,), 4.0), ((2,), 4.0 + 9.0), ((3,), 4.0 + 9.0 + 1.0)])
def test_roughness_is_the_integral_of_the_squared_slopes(orders, expected):
    """f = 2a + 3b - c has slopes 2, 3 and -1, whatever the knots."""
    axes = [
        continuous_axis(name, np.arange(float(size)), scaling="minmax")
        for name, size in zip("abc", (5, 3, 2), strict=True)
    ]
    order = orders[0]
    layout = lay_out(axes, [tuple(range(order))], {2: 5, 3: 5})
    grid = GridEngine(layout, layout.encode(np.zeros((1, 3))), np.ones(1), threads=1)
    table = torch.from_numpy(np.nan_to_num(grid.cells.places[0]) @ np.array([2.0, 3.0, -1.0])[:order])[:, None]
    torch.testing.assert_close(Edges(grid).roughness(table), torch.tensor([[expected]], dtype=torch.float64))


@pytest.mark.parametrize("orders", [(1,), (1, 2), (1, 2, 3)])
def test_compiled_and_torch_edges_agree(orders):
    grid = make_grid(orders=orders)
    compiled, plain = Edges(grid), Edges(grid)
    assert compiled.compiled
    plain.compiled = False
    left, right, width, block, term, share = find_edges(grid)
    table, strength = draw_table(grid, 3).float(), torch.rand(len(term), 3)
    rough = compiled.roughness(table)
    assert rough.shape == (len(term), 3)
    torch.testing.assert_close(rough, plain.roughness(table), rtol=1e-5, atol=1e-5)
    square = (table[right] - table[left]).square().double().numpy() / width[:, None]
    slow = [square[block == index].sum(axis=0) / share[index] for index in range(len(term))]
    np.testing.assert_allclose(rough, slow, rtol=1e-5, atol=1e-5)
    grads = [torch.ones_like(table), torch.ones_like(table)]
    compiled.add_gradient(strength, table, grads[0])
    plain.add_gradient(strength, table, grads[1])
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-5, atol=1e-4)
    assert (grads[0] - 1).abs().max() > 0.1


def test_no_order_no_edges():
    axes = build_axes(np.random.default_rng(0), ("nominal", "nominal"))
    layout = lay_out(axes, [(0,), (1,), (0, 1)], {2: 5})
    grid = GridEngine(layout, layout.encode(np.zeros((2, 2))), np.ones(2), threads=1)
    assert [len(part) for part in find_edges(grid)] == [0, 0, 0, 0, 3, 3]  # a block a term
    penalty, table = Penalty(grid, 5.0, EVEN), torch.ones(layout.n_cells, 1)
    penalty.refresh(table, 1.0)
    grad = torch.zeros_like(table)
    penalty.add_gradient(table, grad)
    np.testing.assert_array_equal(grad[:, 0] > 0, (grid.cells.free >= 0) | grid.cells.based)  # levels have a ridge


def test_blocks_cut_the_axes_of_interactions():
    def make_axis(name, size):
        return continuous_axis(name, np.arange(float(size)), scaling="minmax", max_knots=49)

    long, short, levels = make_axis("a", 49), make_axis("b", 9), level_axis("c", "nominal", list("uvw"))
    assert find_blocks([long]).tolist() == [0] * 51  # a main effect is one block
    block = find_blocks([long, short])
    assert block.shape == (51, 11)
    assert len(np.unique(block)) == N_BLOCKS * 2  # at least four knots along a side
    np.testing.assert_array_equal(block[1:50, 1] // 2, np.arange(49) * N_BLOCKS // 49)
    np.testing.assert_array_equal(block[1, 1:10], np.arange(9) * 2 // 9)
    assert len(np.unique(find_blocks([long, levels]))) == N_BLOCKS
    assert len(np.unique(find_blocks([levels, levels]))) == 1
    assert len(np.unique(find_blocks([long, long, short]))) == N_BLOCKS**2 * 2


def test_roughness_of_a_block_is_a_mean_whatever_its_extent():
    """f = 2a + 2b has |∇f|² = 8 everywhere, also where knots are dense."""
    values = np.r_[np.zeros(60), np.linspace(1, 2, 30), np.geomspace(2, 50, 40)]
    axes = [continuous_axis(name, values, max_knots=49) for name in "ab"]
    layout = lay_out(axes, [(0, 1)], {2: 49})
    grid = GridEngine(layout, layout.encode(np.zeros((1, 2))), np.ones(1), threads=1)
    gaps = np.diff(axes[0].places)
    assert gaps.max() > 2 * gaps.min()  # uneven
    table = torch.from_numpy(np.nan_to_num(grid.cells.places[0]).sum(axis=1) * 2)[:, None]
    rough = Edges(grid).roughness(table)
    assert len(rough) == N_BLOCKS**2
    torch.testing.assert_close(rough, torch.full_like(rough, 8.0), rtol=1e-4, atol=1e-4)


def test_the_exact_engine_has_the_ridge_of_free_cells_only():
    grid = make_grid(orders=(1, 2))
    penalty, frozen = Penalty(grid, 50.0, EVEN), draw_table(grid, seed=1)
    penalty.refresh(frozen, 0.5)
    assert len(penalty.loose) > penalty.n_free > 0  # pairs of levels have a ridge, too
    table = torch.randn(7 + penalty.n_free + 1, frozen.shape[1], dtype=torch.float64)
    grad = torch.zeros_like(table)
    penalty.add_exact_gradient(table, grad, torch.zeros(len(table), 1))
    assert grad[:7].abs().max() == grad[-1].abs().max() == 0
    ridge = dict(zip(penalty.loose.tolist(), penalty.ridge, strict=True))
    for cell in np.flatnonzero(grid.cells.free >= 0):
        own = 7 + grid.cells.free[cell]
        torch.testing.assert_close(grad[own], ridge[int(cell)] * table[own])


def test_without_smoothness_interactions_have_no_ridge():
    grid = make_grid(orders=(1, 2))
    free = np.flatnonzero(grid.cells.free >= 0)
    np.testing.assert_array_equal(np.sort(find_loose_cells(grid, NONE)[0]), free)
    assert len(find_loose_cells(grid, EVEN)[0]) > len(free)


def test_a_sharp_block_leaves_the_others_pressed():
    axes = [continuous_axis(name, np.arange(49.0), scaling="minmax", max_knots=49) for name in "ab"]
    layout = lay_out(axes, [(0, 1)], {2: 49})
    grid = GridEngine(layout, layout.encode(np.zeros((1, 2))), np.ones(1), threads=1)
    table = torch.zeros(layout.n_cells, 1)
    place = torch.from_numpy(np.nan_to_num(grid.cells.places[0]))
    table[(place < 0.1).all(dim=1)] = 5.0  # a sharp corner
    penalty = Penalty(grid, 10.0, {2: (60.0, 5.0)})
    for progress, grown in ((0.45, 0.5), (1.0, 1.0)):  # local weights grow over nine tenths of the steps
        penalty.refresh(table, 1.0, progress)
        flat = 2 * 60.0 / 5.0 / 10.0 * grown
        weights = penalty.smooth.reshape(N_BLOCKS, N_BLOCKS)
        torch.testing.assert_close(weights[2:], torch.full_like(weights[2:], flat))
        assert weights[0, 0] < flat / 10


# Curvature


def make_bendable_grid(seed=0, sizes=(3, 30, 12, 220)):
    """Uneven places: levels without and with an order, two knots, so many knots each; and a pair of the last two."""
    rng = np.random.default_rng(seed)
    axes = [
        level_axis("a", "nominal", list("uvwxy")),
        continuous_axis("b", np.array([0.0, 1.0])),
        level_axis("c", "ordinal", list("uvwxyz")),
    ]
    for name, size in zip("defg", sizes, strict=False):
        axes.append(continuous_axis(name, rng.gamma(1.0, size=size), scaling="minmax", max_knots=300))
    terms = [*((feature,) for feature in range(len(axes))), (len(axes) - 2, len(axes) - 1)]
    layout = lay_out(axes, terms, {2: 5})
    assert list(layout.terms) == terms
    return GridEngine(layout, layout.encode(np.zeros((1, len(axes)))), np.ones(1), threads=1)


def place_of_cells(grid):
    """(cells, 1): the place of every knot of the main effects, 0 elsewhere."""
    places = torch.zeros(grid.layout.n_cells, 1, dtype=torch.float64)
    for index, term in enumerate(grid.layout.terms):
        if len(term) == 1:
            axis, first = grid.layout.axes_of(index)[0], grid.layout.cells_of(index).start + 1
            places[first : first + len(axis.knots), 0] = torch.from_numpy(axis.places.copy())
    return places


def both_bends(grid):
    """The compiled and the torch path."""
    compiled, plain = Bends(grid), Bends(grid)
    assert compiled.compiled
    plain.compiled = False
    return compiled, plain


@settings(deadline=None, max_examples=5)
@given(seeds)
def test_curvature_is_the_mean_squared_second_difference_around_a_knot(seed):
    grid = make_bendable_grid(seed)
    table = draw_table(grid, 2, seed)
    for bends in both_bends(grid):
        np.testing.assert_allclose(bends.curvature(table), mean_slowly(grid, table.numpy()), rtol=1e-4)


def test_curvature_of_a_parabola_by_hand():
    axis = continuous_axis("x", np.array([0.0, 1.0, 4.0]), scaling="minmax")  # places 0, 0.25, 1
    layout = lay_out([axis], [(0,)], {})
    bends = Bends(GridEngine(layout, layout.encode(np.zeros((1, 1))), np.ones(1), threads=1))
    table = torch.tensor([[9.0], [0.0], [1.0], [4.0], [9.0]])
    # Slopes 1 / 0.25 = 4 and 3 / 0.75 = 4; then 4 and 8 / 0.75: they differ by 6.67 over a width of 0.5.
    assert bends.curvature(table).item() == pytest.approx(0, abs=1e-8)
    table[3] = 9.0
    assert bends.curvature(table).item() == pytest.approx(((8 / 0.75 - 4) / 0.5) ** 2, rel=1e-5)


@settings(deadline=None, max_examples=20)
@given(seeds, st.floats(-3, 3), st.floats(-3, 3))
def test_a_straight_line_has_no_curvature(seed, slope, level):
    grid = make_bendable_grid(seed, sizes=(3, 30))
    places = place_of_cells(grid)
    table, curved = slope * places + level, places**2
    for bends in both_bends(grid):
        straight, bent = bends.curvature(table), bends.curvature(curved)
        assert straight.max() < 1e-4 * max(1.0, slope**2)
        assert bent.numpy() == pytest.approx(4, rel=1e-3)  # f'' = 2 everywhere


@settings(deadline=None, max_examples=5)
@given(seeds)
def test_the_pull_of_bends_is_the_derivative_of_the_weighted_curvature(seed):
    grid = make_bendable_grid(seed, sizes=(3, 20))
    rng, table = np.random.default_rng(seed), draw_table(grid, 2, seed)
    strength = torch.from_numpy(rng.random((len(find_bends(grid)[0]), 2)))

    def value(moved):
        second, width, _ = bend_slowly(grid, moved)
        return (strength.numpy() * width * second**2).sum() / 2

    grads = []
    for bends in both_bends(grid):
        grads.append(torch.ones_like(table))
        bends.add_gradient(strength, table, grads[-1])
    torch.testing.assert_close(*grads, rtol=1e-9, atol=1e-9)
    size = float(grads[0].abs().max())
    for cell in map(tuple, rng.permutation(list(np.ndindex(*table.shape)))[:30]):
        sides = []
        for step in (-0.5, 0.5):  # a quadratic: central differences are exact
            moved = table.numpy().copy()
            moved[cell] += step
            sides.append(value(moved))
        assert grads[0][cell].item() - 1 == pytest.approx(sides[1] - sides[0], rel=1e-4, abs=1e-6 * size)


def test_bends_stand_on_inner_knots_of_main_effects_with_an_order():
    grid = make_bendable_grid()
    middle, before, after, width, low, high = find_bends(grid)
    terms = np.searchsorted([cells.start for cells in map(grid.layout.cells_of, range(8))], middle, side="right") - 1
    counts = Counter(terms.tolist())
    assert counts == {2: 4, 3: 1, 4: 28, 5: 10, 6: 218}  # not of levels without an order, of two knots, of the pair
    for index in counts:
        mine, axis = np.flatnonzero(terms == index), grid.layout.axes_of(index)[0]
        first = grid.layout.cells_of(index).start + 1
        np.testing.assert_array_equal(middle[mine], first + np.arange(1, len(axis.knots) - 1))
        np.testing.assert_array_equal(before[mine], np.diff(axis.places)[:-1])
        np.testing.assert_array_equal(after[mine], np.diff(axis.places)[1:])
        # Windows end with the term, and reach eight bends or a twenty-fourth of them to either side.
        reach = max(8, len(mine) // 24)
        np.testing.assert_array_equal(low[mine], np.maximum(mine - reach, mine[0]))
        np.testing.assert_array_equal(high[mine], np.minimum(mine + reach, mine[-1]) + 1)
    np.testing.assert_allclose(width, (before + after) / 2)


def test_windows_do_not_cross_terms():
    """A bend of one column says nothing about the columns beside it."""
    grid = make_bendable_grid()
    table = torch.zeros(grid.layout.n_cells, 1, dtype=torch.float64)
    cells = grid.layout.cells_of(4)  # 30 knots
    table[cells.start + 15] = 1.0
    for bends in both_bends(grid):
        curvature = bends.curvature(table)[:, 0].numpy()
        middle = bends.arrays[0].numpy()
        inside = (middle >= cells.start) & (middle < cells.stop)
        assert not curvature[~inside].any()
        near = np.abs(middle - (cells.start + 15)) <= 1 + REACH[0]
        np.testing.assert_array_equal(curvature > 0, near)


@pytest.mark.parametrize(
    "axes",
    [
        [level_axis("a", "nominal", list("abcdef"))],
        [continuous_axis("a", np.array([0.0, 1.0]))],
        [continuous_axis("a", np.array([5.0]))],
        [level_axis("a", "nominal", list("abcdef")), continuous_axis("b", np.array([0.0, 1.0]))],
    ],
    ids=len,
)
def test_levels_and_two_knots_cannot_bend(axes):
    layout = lay_out(axes, [(feature,) for feature in range(len(axes))], {})
    grid = GridEngine(layout, layout.encode(np.zeros((1, len(axes)))), np.ones(1), threads=1)
    assert [len(part) for part in find_bends(grid)] == [0] * 6
    table = draw_table(grid, 3)
    for bends in both_bends(grid):
        assert bends.curvature(table).shape == (0, 3)
        grad = torch.zeros_like(table)
        bends.add_gradient(torch.empty(0, 3, dtype=torch.float64), table, grad)
        assert not grad.any()


def test_the_weight_of_the_curvature_grows_with_training():
    grid = make_bendable_grid()
    table = draw_table(grid, 2).float()
    penalty = Penalty(grid, 50.0, {0: (3.0, 30.0), 1: (0.0, 1.0), 2: (0.0, 1.0)})
    full = 2 * 3.0 * 0.4 / 50 / (mean_slowly(grid, table.double().numpy()) + 30.0)
    for progress, share in [(0.0, 0.0), (RAMP / 4, 0.25), (0.45, 0.5), (0.9, 1.0), (0.95, 1.0), (1.0, 1.0)]:
        penalty.refresh(table, 0.4, progress)
        np.testing.assert_allclose(penalty.bend, share * full, rtol=1e-4)
        grad = torch.zeros_like(table)
        penalty.bends.add_gradient(penalty.bend, table, grad)
        assert bool(grad.any()) == (share > 0)
    penalty.refresh(table, 0.4)  # trained to the end
    np.testing.assert_allclose(penalty.bend, full, rtol=1e-4)


def test_without_strength_there_are_no_bends():
    grid = make_bendable_grid()
    assert Penalty(grid, 50.0, EVEN).bends is None
    assert Penalty(grid, 50.0, {**EVEN, 0: (0.0, 30.0)}).bends is None
    assert Penalty(grid, 50.0, {**NONE, 0: (3.0, 30.0)}).edges is None


@pytest.mark.parametrize(
    ("n_rows", "information", "press"),
    [(1, 1, 0.3), (900, 1, 0.3), (3000, 1, 1), (30_000, 1, 10**0.3), (30_000, 0.1, 1), (6000, 0.25, 0.5)],
)
def test_bends_are_pressed_by_what_all_rows_tell(n_rows, information, press):
    found = adapt_smoothness({0: (3.0, 30.0), 1: (2.0, 4.0)}, n_rows, information)
    assert found[0] == pytest.approx((press * 3, 30))
    assert found[1] == pytest.approx((2 / information**0.5, 4 / information**0.5))  # slopes, where a class is rare


# Held-out rows


@settings(deadline=None)
@given(seeds, st.integers(2, 200), st.integers(1, 12), st.floats(0.02, 0.5))
def test_parts_are_disjoint_while_they_last(seed, n_rows, n_members, share):
    held = hold_out(np.zeros(n_rows), n_members, share, np.random.default_rng(seed))
    assert held.shape == (n_rows, n_members)
    asked = min(round(share * n_rows), n_rows - 1)
    if asked == 0:
        assert not held.any()
        return
    parts = max(2, -(-n_rows // asked))
    for first in range(0, n_members, parts):
        times = held[:, first : first + parts].sum(axis=1)
        assert times.max() == 1
        if first + parts <= n_members:
            assert times.min() == 1  # all parts together are all rows
    sizes = held.sum(axis=0)
    assert sizes.max() <= max(asked, -(-n_rows // 2))
    assert sizes.min() >= n_rows // parts >= 1
    assert sizes.max() - sizes.min() <= 1


@settings(deadline=None)
@given(seeds, st.lists(st.integers(0, 60), min_size=2, max_size=5), st.integers(1, 9), st.floats(0.05, 0.5))
def test_classes_are_balanced_to_a_row(seed, counts, n_members, share):
    rng = np.random.default_rng(seed)
    strata = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    held = hold_out(strata, n_members, share, rng) if len(strata) > 1 else np.zeros((0, 1), bool)
    if held.any():
        parts = max(2, -(-len(strata) // round(share * len(strata))))
        for label, count in enumerate(counts):
            assert set(held[strata == label].sum(axis=0)) <= {count // parts, -(-count // parts)}


@pytest.mark.parametrize(("asked", "sizes"), [(1, {1}), (10, {10}), (30, {25}), (50, {50}), (99, {50}), (500, {50})])
def test_a_number_of_rows_is_the_most_that_is_held_out(asked, sizes):
    """Equal parts of the table that are not larger than asked for, and half of the table at most."""
    held = hold_out(np.zeros(100), 2, asked, np.random.default_rng(0))
    assert set(held.sum(axis=0)) == sizes


def test_the_validation_loss_is_the_mean_over_members_of_each_ones_mean():
    rng = np.random.default_rng(0)
    held = torch.from_numpy(rng.random((40, 3)) < 0.4)
    weights, losses = rng.random(40) + 0.5, rng.random((40, 3))
    rows = Rows(torch.zeros(40), torch.from_numpy(weights).float(), held, 40.0, 1.0, np.ones(40, int))
    means = [np.average(losses[h, m], weights=weights[h]) for m, h in enumerate(held.numpy().T)]
    parts = rows.validate(torch.from_numpy(losses))
    assert float(parts.sum()) == pytest.approx(np.mean(means), rel=1e-6)
    assert (parts[~held.any(dim=1)] == 0).all()
    some = torch.nonzero(held.any(dim=1))[:, 0]
    torch.testing.assert_close(rows.validation_parts(some), rows.validation_parts()[some])


def test_large_tables_hold_out_no_more_than_they_need():
    held = hold_out(np.zeros(1000), 3, 0.4, np.random.default_rng(0), max_rows=50)
    assert held.sum(axis=0).tolist() == [50, 50, 50]


@pytest.mark.parametrize("size", [0, 0.0, 0.001])
def test_nothing_is_held_out_where_nothing_is_asked(size):
    assert not hold_out(np.zeros(100), 4, size, np.random.default_rng(0)).any()


def test_members_draw_anew_when_the_parts_are_used_up():
    held = hold_out(np.zeros(40), 4, 0.5, np.random.default_rng(0))
    assert (held[:, 0] == ~held[:, 1]).all()
    assert (held[:, 2] == ~held[:, 3]).all()
    assert (held[:, 0] != held[:, 2]).any()
    assert (held[:, 0] != held[:, 3]).any()


# Rare classes and batches


@settings(deadline=None)
@given(seeds, st.lists(st.integers(1, 2000), min_size=1, max_size=4), st.integers(1, 3))
def test_copies_leave_the_expected_gradient_as_it_is(seed, counts, n_members):
    rng = np.random.default_rng(seed)
    strata = np.repeat(np.arange(len(counts)), counts)
    sample = Sample(strata, rng.random(len(strata)) + 0.1)
    held = torch.from_numpy(rng.random((len(strata), n_members)) < 0.2)
    rows = place_rows(sample, CrossEntropy(len(counts)), n_members, 0, rng, "cpu")
    rows, copies = replace(rows, held_out=held), rows.copies
    np.testing.assert_array_equal(copies, copy_rare(strata))
    # A draw takes a row with probability copies / Σ copies: times its share, that is its weight again.
    expected = (rows.shares() * torch.from_numpy(copies / copies.sum())[:, None]).numpy()
    plain = sample.weights[:, None] * ~held.numpy()
    np.testing.assert_allclose(expected, plain / np.maximum(plain.sum(axis=0), 1e-12), rtol=1e-4)
    if (~held).any(dim=0).all():
        np.testing.assert_allclose(expected.sum(axis=0), 1, rtol=1e-4)


def test_copies_are_capped_and_common_classes_have_one():
    common = int(1 / RARE_SHARE)
    counts = np.array([10_000, 10_000 // common + 10, 100, 1])
    strata = np.repeat([5, 7, 8, 9], counts)
    copies = {label: set(copy_rare(strata)[strata == label].tolist()) for label in (5, 7, 8, 9)}
    assert copies[5] == {1}
    assert copies[7] == {1}
    assert copies[8] == {min(MAX_COPIES, int(RARE_SHARE * counts.sum() / 100))}
    assert copies[9] == {MAX_COPIES}
    assert set(copy_rare(np.zeros(50)).tolist()) == {1}


def test_targets_of_a_regression_are_no_classes():
    sample = Sample(np.r_[np.zeros(99), 1.0], np.arange(1.0, 101))
    rows = place_rows(sample, SquaredError.of(sample), 2, 0.2, np.random.default_rng(0), "cpu")
    assert set(rows.copies.tolist()) == {1}
    assert rows.weights.mean().item() == pytest.approx(1)
    assert rows.n_effective == sample.weights.sum()
    rare = place_rows(replace(sample, y=sample.y.astype(int)), LogLoss(), 2, 0.2, np.random.default_rng(0), "cpu")
    assert rare.copies.tolist() == [1] * 99 + [5]


# The loop


def make_problem(X, y, seed=0, classes=None, validation_size=0.25, **parameters):
    """Everything `train` takes but the settings."""
    estimator = NeuralBasisRegressor(**{**SMALL, **parameters})
    columns, rng = read_columns(X), np.random.default_rng(seed)
    encoder, sample = Encoder.fit(columns), Sample(y, np.ones(len(y)))
    layout = lay_out(encoder.axes, [(feature,) for feature in range(len(encoder.axes))], {})
    positions, objective = layout.encode(encoder.numbers(columns)), choose_loss(sample, classes)
    grid = GridEngine(layout, positions, sample.weights, threads=1)
    net = make_net(estimator, grid, objective, sample, len(sample.y), rng)
    rows = place_rows(sample, objective, estimator.outer_bags, validation_size, rng, grid.device)
    return SimpleNamespace(net=net, grid=grid, engine=grid, rows=rows, objective=objective, rng=rng)


def run(problem, **options):
    history = History()
    assert train(**vars(problem), settings=Settings(**options), history=history)
    return history


def look_up(grid, table):
    """Sums over the terms (N, 1, C) for all rows."""
    return grid.lookup.gather(grid.lookup.take(np.arange(len(grid.positions))), table)


def slow_validation_loss(problem):
    """Mean over members of the weighted loss of the held-out rows."""
    net, grid, rows = problem.net, problem.grid, problem.rows
    with torch.no_grad():
        scores = net.combine(look_up(grid, net.table(grid.points)))
        losses = problem.objective.loss(scores, rows.target).double().numpy()
    held, weights = rows.held_out.numpy(), rows.weights.double().numpy()
    means = [np.average(losses[held[:, m], m], weights=weights[held[:, m]]) for m in range(net.n_members)]
    return float(np.mean(means))


def test_the_best_checkpoint_is_kept():
    problem = make_problem(*draw_noisy())
    history = run(problem, max_steps=200, learning_rate=0.1, smoothness=NONE, early_stopping_rounds=4, batch_size=64)
    assert history.stopped_by == "early_stopping"
    assert history.best == int(np.argmin(history.validation)) == len(history.steps) - 5
    assert history.steps == [8 * (k + 1) for k in range(len(history.steps))]
    assert slow_validation_loss(problem) == pytest.approx(history.validation[history.best], rel=1e-5)
    assert history.validation[-1] > 1.001 * history.validation[history.best]
    assert not problem.net.training


def test_without_early_stopping_the_schedule_ends_and_the_best_is_kept_all_the_same():
    problem = make_problem(*draw_noisy())
    history = run(problem, max_steps=200, learning_rate=0.1, smoothness=NONE, early_stopping_rounds=0, batch_size=64)
    assert (history.stopped_by, history.steps[-1], len(history.steps)) == ("schedule", 200, 25)
    assert history.best == int(np.argmin(history.validation)) < 24
    assert slow_validation_loss(problem) == pytest.approx(min(history.validation), rel=1e-5)


def test_a_checkpoint_within_the_tolerance_is_not_better():
    problem = make_problem(*draw_noisy())
    history = run(problem, max_steps=100, early_stopping_rounds=3, early_stopping_tolerance=100.0)
    assert (history.best, len(history.steps), history.stopped_by) == (0, 4, "early_stopping")


def test_the_standard_error_of_a_sum_by_hand():
    parts = torch.tensor([1.0, 2.0, 3.0, 6.0])  # mean 3, squares 4 + 1 + 0 + 9 = 14
    assert standard_error(parts) == pytest.approx(math.sqrt(14 / 3) * 2)
    assert standard_error(torch.full((5,), 0.25)) == 0
    assert standard_error(torch.tensor([3.0])) == 0
    assert standard_error(torch.empty(0)) == 0


@settings(deadline=None, max_examples=10)
@given(seeds)
def test_the_standard_error_is_the_spread_of_sums(seed):
    parts = np.random.default_rng(seed).normal(size=(4000, 25))
    found = np.mean([standard_error(torch.from_numpy(row)) ** 2 for row in parts[:200]])
    assert math.sqrt(found) == pytest.approx(parts.sum(axis=1).std(), rel=0.12)


def keep_slowly(losses, tolerance):
    """The checkpoint kept of many (parts of the validation loss a checkpoint each), by the documented rule."""
    sums, best, lowest = [float(parts.sum()) for parts in losses], 0, 0
    for k in range(1, len(sums)):
        if tolerance is None:
            lowest = min(range(k + 1), key=sums.__getitem__)
            if sums[k] - sums[lowest] <= standard_error(losses[k] - losses[lowest]):
                best = k
        elif sums[k] < sums[best] - tolerance:
            best = k
    return best


@settings(deadline=None)
@given(seeds, st.integers(1, 30), st.sampled_from([None, 0.0, 0.1]), st.sampled_from([0.0, 0.01, 0.1, 1.0]))
def test_the_kept_checkpoint_is_the_latest_one_that_none_surely_beats(seed, n_looks, tolerance, noise):
    rng = np.random.default_rng(seed)
    rows, fall = rng.random(20) / 20, np.cumsum(rng.normal(-0.02, 0.1, n_looks))
    losses = [torch.from_numpy(rows * (1 + part) + noise * rng.normal(size=20) / 20) for part in fall]
    watch = SimpleNamespace(
        settings=Settings(early_stopping_tolerance=tolerance), lowest=math.inf, lowest_losses=torch.empty(0)
    )
    kept = [k for k, parts in enumerate(losses) if _Watch._is_kept(watch, float(parts.sum()), parts)]
    assert kept[0] == 0
    assert kept[-1] == keep_slowly(losses, tolerance)
    sums = [float(parts.sum()) for parts in losses]
    if tolerance == 0.0:
        assert kept[-1] == int(np.argmin(sums))
    elif tolerance is None:
        assert kept[-1] >= int(np.argmin(sums))
        assert watch.lowest == min(sums)


def test_a_loss_that_is_no_number_is_never_kept():
    watch = SimpleNamespace(settings=Settings(early_stopping_tolerance=None), lowest=1.0, lowest_losses=torch.ones(2))
    for bad in (math.nan, math.inf):
        assert not _Watch._is_kept(watch, bad, torch.tensor([bad, 1.0]))
    assert watch.lowest == 1.0


@pytest.mark.parametrize("tolerance", [None, 0.0])
def test_a_run_keeps_the_state_of_its_rule(tolerance, monkeypatch):
    seen = []

    def score(crew):
        seen.append(validation_losses(crew))
        return seen[-1]

    validation_losses = Members.validation_losses
    monkeypatch.setattr(Members, "validation_losses", score)
    problem = make_problem(*draw_noisy())
    history = run(
        problem, max_steps=200, learning_rate=0.05, smoothness=NONE, batch_size=64, early_stopping_rounds=0,
        early_stopping_tolerance=tolerance,
    )  # fmt: skip
    seen = seen[1:]  # the first look is at the untrained net
    assert history.validation == [float(parts.sum()) for parts in seen]
    lowest = int(np.argmin(history.validation))
    assert history.best == keep_slowly(seen, tolerance)
    assert history.best == lowest if tolerance == 0 else lowest < history.best < len(seen) - 1
    assert slow_validation_loss(problem) == pytest.approx(history.validation[history.best], rel=1e-5)


def test_an_automatic_tolerance_waits_from_the_last_kept_checkpoint():
    problem = make_problem(*draw_noisy())
    history = run(
        problem, max_steps=200, learning_rate=0.1, smoothness=NONE, early_stopping_rounds=4, batch_size=64,
        early_stopping_tolerance=None,
    )  # fmt: skip
    assert history.stopped_by == "early_stopping"
    assert int(np.argmin(history.validation)) <= history.best == len(history.steps) - 5
    assert slow_validation_loss(problem) == pytest.approx(history.validation[history.best], rel=1e-5)


def test_checkpoints_are_added_to_the_history():
    history = History()
    history.add("main effects", 8, 0.5, keep=True)
    history.add("main effects", 8, 0.6, keep=False)
    assert (history.steps, history.validation, history.best) == ([8, 16], [0.5, 0.6], 0)
    history.add("refinement", 0, 0.4, keep=True)
    assert (history.steps, history.stage[-1], history.best) == ([8, 16, 16], "refinement", 2)
    assert 0 <= history.seconds[0] <= history.seconds[1] <= history.seconds[2] < 5


def test_without_validation_the_last_state_is_kept():
    problem = make_problem(*draw_noisy(), validation_size=0)
    history = run(problem, max_steps=60, early_stopping_rounds=1)
    assert np.isnan(history.validation).all()
    assert history.best == len(history.steps) - 1
    assert history.stopped_by == "schedule"


@pytest.mark.parametrize("given", [None, 1, 3])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_gradients_of_a_batch_are_those_of_the_loss_and_the_penalties(task, tied, given):
    """Look-ups that torch can differentiate, the loss of every member's rows, and the penalties of the table."""
    rng, grid = np.random.default_rng(0), make_grid(orders=(1, 2))
    n_rows, objective = (
        len(grid.positions),
        {"regression": SquaredError(), "binary": LogLoss()}.get(task, CrossEntropy(3)),
    )
    y = rng.normal(size=n_rows) if task == "regression" else np.arange(n_rows) % max(objective.n_outputs, 2)
    rows = place_rows(Sample(y, rng.random(n_rows) + 0.1), objective, 3, 0.3, rng, "cpu")
    if given:
        rows = replace(rows, init=torch.randn(n_rows, given, objective.n_outputs))
    estimator = NeuralBasisRegressor(**{**SMALL, "outer_bags": 3}, tied_classes=tied, n_subnets=2)
    net, batch = make_net(estimator, grid, objective, None, n_rows, rng), rng.integers(0, n_rows, 40)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn(parameter.shape) / 3)
    penalty = Penalty(grid, 50.0, UNEVEN, output_penalty=0.3)
    penalty.refresh(net.table(grid.points).detach(), 0.5)
    part = Part(net, grid, rows, penalty, objective, Settings(), np.empty(0, dtype=int))
    part.pool = share_pool(grid, rows, SINGLE_PROCESS)
    compute_gradients([part], batch)
    found = [parameter.grad.clone() for parameter in net.parameters()]
    net.zero_grad()
    table, lookup = net.table(grid.points), TorchLookUp(grid.positions, grid.layout)
    parts = torch.stack([
        sum(share[:, None] * table[cell] for _, cell, share in corners)
        for _, corners in groupby(lookup._corners(lookup.take(batch)), key=lambda corner: corner[0])
    ], dim=1)  # fmt: skip
    scores = net.combine(parts if tied else parts.sum(1, keepdim=True))
    scores = scores + rows.init[batch] if given else scores
    loss = (objective.loss(scores, rows.target[batch]) * rows.shares()[batch]).sum() / len(batch)
    pull = torch.zeros_like(table)
    penalty.add_gradient(table.detach(), pull)
    sizes = [mix.detach().square().mean(dim=(1, 2), keepdim=True) for mix in net.mixes.values()]
    ridges = [(mix.square() / (size + MIX_FLOOR)).sum() for mix, size in zip(net.mixes.values(), sizes, strict=True)]
    (loss + (table * pull).sum() + net.ridge / 2 * sum(ridges)).backward()
    for mine, parameter in zip(found, net.parameters(), strict=True):
        torch.testing.assert_close(mine, parameter.grad, rtol=1e-3, atol=2e-5)


def add_net(problem, seed=7):
    """The problem of a second stage: a new net on what the trained one leaves."""
    scores = Stage(problem.net, problem.grid).add_scores(problem.rows.init)
    estimator, n_rows = NeuralBasisRegressor(**SMALL), len(scores)
    net = make_net(estimator, problem.grid, problem.objective, None, n_rows, np.random.default_rng(seed))
    rows, rng = replace(problem.rows, init=scores), np.random.default_rng(seed)
    return SimpleNamespace(
        net=net, grid=problem.grid, engine=problem.grid, rows=rows, objective=problem.objective, rng=rng
    )


def test_a_later_stage_that_does_not_help_is_as_if_it_had_not_been():
    problem, history = make_problem(*draw_noisy()), History()
    assert train(**vars(problem), settings=Settings(max_steps=100, batch_size=64), history=history)
    before = replace(history, stage=list(history.stage), steps=list(history.steps))
    later = add_net(problem)
    given = Stage(problem.net, problem.grid).add_scores(None)
    wild = Settings(max_steps=60, learning_rate=3.0, smoothness=NONE, early_stopping_rounds=4, stage="pairs")
    assert not train(**vars(later), settings=wild, history=history)
    assert later.net.table(later.grid.points).abs().max() == 0
    torch.testing.assert_close(Stage(later.net, later.grid).add_scores(later.rows.init), given)
    assert (history.best, history.constant, history.stopped_by) == (before.best, before.constant, "early_stopping")
    first = len(before.steps)
    assert history.stage == ["main effects"] * first + ["pairs"] * 4  # it waits for four checkpoints of its own
    assert history.steps == before.steps + [before.steps[-1] + 2 * (k + 1) for k in range(4)]
    assert min(history.validation[first:]) >= history.validation[history.best]


def test_a_later_stage_that_helps_goes_on_from_the_first():
    X, y = draw_additive(300)
    problem, history = make_problem(X, y), History()
    assert train(**vars(problem), settings=Settings(max_steps=20), history=history)  # too few
    constant, half = history.constant, history.validation[history.best]
    assert constant == pytest.approx(0.5, rel=0.2)  # half the variance of the target, in its own unit
    later = add_net(problem)
    assert train(**vars(later), settings=Settings(max_steps=200, stage="pairs"), history=history)
    assert history.best > history.stage.index("pairs")
    assert history.validation[history.best] == min(history.validation) < half / 5
    assert history.constant == constant
    with torch.no_grad():
        scores = later.rows.init + later.net.combine(look_up(later.grid, later.net.table(later.grid.points)))
    error = problem.objective.loss(scores, later.rows.target)
    held = later.rows.held_out
    expected = np.mean([error[held[:, m], m].mean().item() for m in range(2)])
    assert history.validation[history.best] == pytest.approx(expected, rel=1e-4)
    assert history.seconds == sorted(history.seconds)


def test_without_validation_a_later_stage_is_kept():
    problem, history = make_problem(*draw_noisy(), validation_size=0), History()
    assert train(**vars(problem), settings=Settings(max_steps=20), history=history)
    later = add_net(problem)
    assert train(**vars(later), settings=Settings(max_steps=20, stage="pairs"), history=history)
    assert history.best == len(history.steps) - 1
    assert later.net.table(later.grid.points).abs().max() > 0


def test_held_out_rows_teach_their_member_nothing():
    X, y = draw_noisy(60)
    problems = [make_problem(X, y, outer_bags=3), make_problem(X, y, outer_bags=3)]
    held = problems[1].rows.held_out[:, 0]
    target = problems[1].rows.target.clone()
    target[held] += 50.0
    problems[1].rows = replace(problems[1].rows, target=target)
    for problem in problems:
        # One checkpoint, at the end: what it chooses and weighs follows the validation loss of all members.
        run(problem, max_steps=5, n_checkpoints=1, smoothness=NONE, batch_size=64)
    tables = [p.net.table(p.grid.points).detach() for p in problems]
    known = torch.from_numpy(problems[0].grid.cells.based)
    torch.testing.assert_close(tables[0][known, 0], tables[1][known, 0], rtol=1e-4, atol=1e-6)
    assert not torch.allclose(tables[0][known, 1], tables[1][known, 1], atol=1e-3)


def test_a_net_without_a_shape_learns_the_mean():
    """All columns constant: only the intercept can move, and it is right from the start."""
    X, y = np.ones((40, 1)), np.repeat([0, 0, 0, 1], 10)
    problem = make_problem(X, y, classes=np.array([0, 1]), validation_size=0, outer_bags=1)
    assert problem.net.intercept.item() == pytest.approx(np.log(1 / 3), rel=1e-5)
    run(problem, max_steps=50, batch_size=40)
    table = problem.net.table(problem.grid.points).detach()
    assert (problem.net.intercept + table[1]).item() == pytest.approx(np.log(1 / 3), abs=0.02)


def test_a_fixed_basis_reaches_the_least_squares_fit():
    """Coefficients of a spline without penalties: a convex problem with a known answer."""
    X, y = draw_noisy(300)
    problem = make_problem(X[:, :1], y, validation_size=0, outer_bags=1)
    problem.net = BasisNet({1: SplineBasis(1, 6, 1)}, {1: 1}, problem.grid.cells.n_free, 1, 1)
    run(problem, max_steps=1500, batch_size=300, smoothness=NONE, weight_decay=0.0, learning_rate=0.05)
    flat = look_up(problem.grid, problem.net.table(problem.grid.points).detach())
    scores = (flat[:, 0, 0] + problem.net.intercept.item()).numpy()
    # The grid interpolates between knots: so does the reference.
    order = problem.grid.points.orders[1]
    cells = np.zeros((problem.grid.layout.n_cells, 6), np.float32)
    cells[problem.grid.cells.based] = SplineBasis(1, 6, 1)(order.places, order.weight)[0][order.point].numpy()
    design = look_up(problem.grid, torch.from_numpy(cells))[:, 0].double().numpy()
    target = problem.rows.target.double().numpy()
    best = design @ np.linalg.lstsq(design, target, rcond=None)[0]
    np.testing.assert_allclose(scores, best, atol=2e-3)


# Whole fits


def test_learns_a_known_additive_function():
    X, y = draw_additive(800)
    model = NeuralBasisRegressor(outer_bags=2, interactions=0).fit(X, y)
    T, truth = draw_additive(1000, seed=1)
    assert model.score(T, truth) > 0.98
    contributions = model.eval_terms(T)
    for index, part in enumerate([np.sin(6 * T[:, 0]), (T[:, 1] > 0.5) * 1.0, 2 * T[:, 2]]):
        rest = contributions[:, index] - part
        assert 1 - rest.var() / part.var() > 0.97


@pytest.mark.parametrize("parameters", [{}, {"dropout": 0.2, "basis_dropout": 0.2}, {"engine": "exact"}], ids=str)
def test_same_seed_same_model_other_seed_other_model(parameters):
    X, y = draw_noisy(120)

    def fit(seed):
        return NeuralBasisRegressor(**{**SMALL, "random_state": seed, "max_steps": 40, **parameters}).fit(X, y)

    torch.manual_seed(1)
    first = fit(3)
    torch.manual_seed(2)  # the state of torch is not what is drawn from
    second = fit(3)
    np.testing.assert_array_equal(first.predict(X), second.predict(X))
    assert first.history_.validation == second.history_.validation
    assert np.abs(first.predict(X) - fit(4).predict(X)).max() > 1e-3


def test_fitting_leaves_the_global_generators_alone():
    X, y = draw_noisy(60)
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    NeuralBasisRegressor(**SMALL, max_steps=10, dropout=0.5).fit(X, y)
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002


@pytest.mark.parametrize("outer_bags", [1, 3])  # one member on all threads, or parts on theirs
@pytest.mark.parametrize("interactions", [0, 2])
def test_the_number_of_threads_changes_nothing(interactions, outer_bags, monkeypatch):
    monkeypatch.setattr("neuralbasis.training.lookup.MIN_WORK", 1)  # threads even for little work
    X, y = draw_additive(600)
    options = {**SMALL, "max_steps": 15, "interactions": interactions, "outer_bags": outer_bags}
    one, two, five = (NeuralBasisRegressor(**options, n_jobs=n).fit(X, y) for n in (1, 2, 5))
    for other in (two, five):
        np.testing.assert_array_equal(one.predict(X), other.predict(X))
        assert one.history_.validation == other.history_.validation


def test_time_limit_stops_with_a_usable_model():
    X, y = draw_additive(500)
    NeuralBasisRegressor(**SMALL, max_steps=2).fit(X, y)  # compiled kernels are loaded
    started = time.monotonic()
    model = NeuralBasisRegressor(**SMALL, max_steps=10**7, time_limit=0.5, learning_rate=0.05).fit(X, y)
    assert 0.5 < time.monotonic() - started < 1.5
    assert model.history_.stopped_by == "time_limit"
    assert len(model.history_.steps) == 1  # far from the first regular checkpoint
    assert 0.5 < model.history_.seconds[-1] < 1.0
    assert np.isfinite(model.predict(X)).all()


def test_callbacks_see_the_history_and_can_stop():
    X, y = draw_noisy(100)
    seen = []

    def watch(history):
        assert isinstance(history, History)
        seen.append((len(history.steps), history.steps[-1], history.validation[-1]))

    def stop(history):
        return len(history.steps) == 3

    model = NeuralBasisRegressor(**SMALL, max_steps=50, callbacks=[watch, stop]).fit(X, y)
    history = model.history_
    assert history.stopped_by == "callback"
    assert seen == [(k + 1, 2 * (k + 1), history.validation[k]) for k in range(3)]
    assert history.seconds == sorted(history.seconds)
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("verbose", [False, True])
def test_verbose_shows_a_progress_bar_on_stderr(capsys, verbose):
    X, y = draw_noisy(60)
    NeuralBasisRegressor(**SMALL, max_steps=10, verbose=verbose).fit(X, y)
    out, err = capsys.readouterr()
    assert out == ""
    if verbose:
        assert "10/10" in err
        assert "loss=" in err
    else:
        assert err == ""


def test_the_exact_engine_reaches_a_similar_loss():
    X, y = draw_additive(400)
    T, truth = draw_additive(400, seed=1)
    options = {**SMALL, "max_steps": 200, "smoothness": 0, "hidden": (32, 32)}
    grid, exact = (NeuralBasisRegressor(engine=engine, **options).fit(X, y) for engine in ("grid", "exact"))
    losses = [np.mean((model.predict(T) - truth) ** 2) for model in (grid, exact)]
    assert exact.score(T, truth) > 0.95
    assert 0.5 < losses[0] / losses[1] < 2


def test_torch_s_threads_come_back_also_after_an_error():
    X, y = draw_noisy(60)
    before, seen = torch.get_num_threads(), []

    def look(history):
        seen.append(torch.get_num_threads())

    def fail(history):
        raise RuntimeError("from the callback")

    try:
        torch.set_num_threads(2)
        NeuralBasisRegressor(**SMALL, max_steps=5, callbacks=[look]).fit(X, y)
        assert torch.get_num_threads() == 2
        with pytest.raises(RuntimeError, match="from the callback"):
            NeuralBasisRegressor(**SMALL, max_steps=5, callbacks=[fail]).fit(X, y)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert set(seen) == {1}


def test_torch_trains_every_stage_on_one_thread():
    X, y = draw_noisy(60)
    seen = {}

    def look(history):
        seen.setdefault(history.stage[-1], set()).add(torch.get_num_threads())

    options = {**SMALL, "interactions": [(0, 1)], "n_interaction_bases": 4, "max_interaction_bins": 5}
    NeuralBasisRegressor(**options, n_jobs=2, max_steps=4, callbacks=[look]).fit(X, y)
    assert seen == {"main effects": {1}, "pairs": {1}}


@pytest.mark.parametrize("weight", [20.0, 0.05, 0.3])
def test_a_weighted_fit_follows_the_heavy_half(weight):
    x = np.random.default_rng(0).random((400, 1))
    rising = np.arange(400) % 2 == 0
    y = np.where(rising, x[:, 0], -x[:, 0])
    model = NeuralBasisRegressor(**{**SMALL, "outer_bags": 8}).fit(x, y, sample_weight=np.where(rising, weight, 1.0))
    expected = x[:, 0] * (weight - 1) / (weight + 1)
    assert np.sqrt(np.mean((model.predict(x) - expected) ** 2)) < 0.06


def test_given_scores_of_a_regression_leave_the_remainder():
    X, _ = draw_additive(500)
    base, rest = 20 + 30 * X[:, 0], np.sin(6 * X[:, 1])
    model = NeuralBasisRegressor(**SMALL).fit(X, base + rest, init_score=base)
    assert 1 - np.var(model.predict(X) - rest) / np.var(rest) > 0.98
    assert np.mean(model.predict(X)) == pytest.approx(rest.mean(), abs=0.02)
    np.testing.assert_allclose(model.predict(X, init_score=base), base + model.predict(X))
    importance = model.term_importances()
    assert importance[1] > 10 * max(importance[0], importance[2])


def test_given_scores_of_two_classes_leave_the_remainder():
    rng = np.random.default_rng(0)
    X = rng.random((4000, 2))
    base, rest = 4 * (X[:, 0] - 0.5), 2 * np.sin(6 * X[:, 1])
    y = (rng.random(4000) < 1 / (1 + np.exp(-base - rest))).astype(int)
    model = NeuralBasisClassifier(**SMALL).fit(X, y, init_score=base)
    assert np.corrcoef(model.decision_function(X), rest)[0, 1] ** 2 > 0.95
    importance = model.term_importances()
    assert importance[1] > 5 * importance[0]
    alone = NeuralBasisClassifier(**SMALL).fit(X, y).term_importances()
    assert alone[0] > 5 * importance[0]


def test_a_table_of_levels_only_fits_the_means_of_the_levels():
    levels = np.repeat(["x", "y", "z"], 100)
    y = np.repeat([1.0, 2.0, 6.0], 100)
    for engine in ("grid", "exact"):
        model = NeuralBasisRegressor(**SMALL, engine=engine).fit(pd.DataFrame({"level": levels}), y)
        np.testing.assert_allclose(model.predict({"level": ["x", "y", "z"]}), [1, 2, 6], atol=0.15)


def test_a_constant_target_is_predicted():
    X, _ = draw_noisy(50)
    model = NeuralBasisRegressor(**SMALL, max_steps=20).fit(X, np.full(50, 0.1))
    np.testing.assert_allclose(model.predict(X), 0.1, atol=1e-6)


def test_rare_classes_are_found():
    rng = np.random.default_rng(0)
    X = rng.random((3000, 2))
    y = (X[:, 0] > 0.99).astype(int)
    model = NeuralBasisClassifier(**SMALL).fit(X, y)
    scores = model.decision_function(X)
    assert scores[y == 1].mean() > 0 > scores[y == 0].mean()
    assert model.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), rel=0.25)


def test_output_penalty_shrinks_contributions_in_both_engines():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = X[:, 0] + rng.normal(size=300) * 0.1
    for engine in ("grid", "exact"):
        spans = []
        for penalty in (0.0, 10.0):
            model = NeuralBasisRegressor(
                engine=engine, output_penalty=penalty, max_steps=60, outer_bags=1, early_stopping_rounds=0,
                smoothness=0, interactions=0,
            ).fit(X, y)  # fmt: skip
            spans.append(np.ptp(model.term_scores_[0]))
        assert spans[1] < 0.3 * spans[0], engine


def test_a_run_that_diverges_keeps_its_last_good_state():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = X[:, 0] + rng.normal(size=400) * 0.1
    steps = []

    class Exploding(MLPBasis):
        def forward(self, points, weight):
            steps.append(self.training)
            values = super().forward(points, weight)
            return values * float("nan") if sum(steps) > 150 else values

    def explode(n_inputs, n_bases, n_copies, generator):
        return Exploding(n_inputs, n_bases, n_copies, generator=generator)

    options = {"max_steps": 200, "outer_bags": 1, "early_stopping_rounds": 0, "interactions": 0}
    model = NeuralBasisRegressor(basis=explode, **options).fit(X, y)
    assert np.isnan(model.history_.validation[-1])
    assert not np.isnan(model.history_.validation[model.history_.best])
