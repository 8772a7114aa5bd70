"""Penalties: weights and gradients of slopes, curvature and ridge against slow references and by hand."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis.encoding import continuous_axis, lay_out, level_axis
from neuralbasis.training import GridEngine
from neuralbasis.training.penalties import Penalty, adapt_smoothness
from tests.models import build_axes
from tests.training.problems import NOT_SMOOTH, make_grid

seeds = st.integers(0, 2**32 - 1)


def draw_table(grid, n_channels=2, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(grid.layout.n_cells, n_channels)))


def make_edges(grid):
    return Penalty(grid, 1.0, EVEN).edges


def find_edges(grid):
    """Cells before and after each edge, its width and its block; the term and the share of each block."""
    edges = make_edges(grid)
    left, right, block, inverse = (array.numpy() for array in edges.arrays)
    return left, right, 1 / inverse.astype(float), block, edges.term.numpy(), edges.share[:, 0].numpy()


def make_bends(grid):
    return Penalty(grid, 1.0, {**NOT_SMOOTH, 0: (1.0, 1.0)}).bends


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
        reach = max(8, sizes[index] // 24)
        near = [k for k, (other, place) in enumerate(where) if other == index and abs(place - bend) <= reach]
        means.append((width[near] * second[near] ** 2).sum(axis=0) / width[near].sum())
    return np.array(means).reshape(-1, table.shape[1])


def find_loose_cells(penalty):
    """Cells with a ridge, their groups and weights."""
    return penalty.loose.numpy(), penalty.group.numpy(), penalty.weight[:, 0].double().numpy()


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
    loose, group, weight = find_loose_cells(Penalty(grid, n_rows, smoothness))
    for index in np.unique(group):
        chosen, parts = loose[group == index], weight[group == index, None]
        ridge = 0.5 * noise / (np.average(frozen[chosen] ** 2, axis=0, weights=parts[:, 0]) + 0.02) / n_rows
        total += (ridge * (parts * table[chosen] ** 2).sum(axis=0)).sum()
    share = grid.cell_weight / grid.cell_weight[grid.layout.cells_of(0)].sum()
    return total + output_penalty * (share[:, None] * table**2).sum()


EVEN = {1: (3.0, 3.0), 2: (3.0, 3.0), 3: (3.0, 3.0)}


UNEVEN = {1: (0.7, 0.2), 2: (2.0, 0.5), 3: (0.0, 1.0)}


BENT = {0: (0.9, 30.0), 1: (0.0, 1.0), 2: (2.0, 0.5), 3: (0.0, 1.0)}


@pytest.mark.parametrize("orders", [(1,), (1, 2), (2, 3)])
@pytest.mark.parametrize(
    ("smoothness", "output_penalty"), [(EVEN, 0.0), (NOT_SMOOTH, 0.0), (NOT_SMOOTH, 0.5), (UNEVEN, 0.5), (BENT, 0.0)]
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
    floor = 0.02  # of the mean square
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
    term, width = terms[block], width.round(6)  # widths are stored in single precision
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
    np.testing.assert_allclose(width, np.where(right - left == 1, 0.25 * 3, 0.5 * 5), rtol=1e-6)


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
    torch.testing.assert_close(make_edges(grid).roughness(table), torch.tensor([[expected]], dtype=torch.float64))


@pytest.mark.parametrize("orders", [(1,), (1, 2), (1, 2, 3)])
def test_compiled_and_torch_edges_agree(orders):
    grid = make_grid(orders=orders)
    compiled, plain = make_edges(grid), make_edges(grid)
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
    def count_blocks(*axes):
        layout = lay_out(axes, [tuple(range(len(axes)))], {2: 49, 3: 49})
        grid = GridEngine(layout, layout.encode(np.zeros((1, len(axes)))), np.ones(1), threads=1)
        return len(make_edges(grid).term)

    def make_axis(name, size):
        return continuous_axis(name, np.arange(float(size)), scaling="minmax", max_knots=49)

    long, short, levels = make_axis("a", 49), make_axis("b", 9), level_axis("c", "nominal", list("uvw"))
    assert count_blocks(long) == 1  # a main effect is one block
    assert count_blocks(long, short) == 6 * 2  # at least four knots along a side
    assert count_blocks(long, levels) == 6
    assert count_blocks(make_axis("d", 49), long, short) == 6**2 * 2


def test_roughness_of_a_block_is_a_mean_whatever_its_extent():
    """f = 2a + 2b has |∇f|² = 8 everywhere, also where knots are dense."""
    values = np.r_[np.zeros(60), np.linspace(1, 2, 30), np.geomspace(2, 50, 40)]
    axes = [continuous_axis(name, values, max_knots=49) for name in "ab"]
    layout = lay_out(axes, [(0, 1)], {2: 49})
    grid = GridEngine(layout, layout.encode(np.zeros((1, 2))), np.ones(1), threads=1)
    gaps = np.diff(axes[0].places)
    assert gaps.max() > 2 * gaps.min()  # uneven
    table = torch.from_numpy(np.nan_to_num(grid.cells.places[0]).sum(axis=1) * 2)[:, None]
    rough = make_edges(grid).roughness(table)
    assert len(rough) == 36
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
    np.testing.assert_array_equal(np.sort(find_loose_cells(Penalty(grid, 1.0, NOT_SMOOTH))[0]), free)
    assert len(find_loose_cells(Penalty(grid, 1.0, EVEN))[0]) > len(free)


def test_a_sharp_block_does_not_change_the_weights_of_others():
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
        weights = penalty.smooth.reshape(6, 6)
        torch.testing.assert_close(weights[2:], torch.full_like(weights[2:], flat))
        assert weights[0, 0] < flat / 10


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
    compiled, plain = make_bends(grid), make_bends(grid)
    assert compiled.compiled
    plain.compiled = False
    return compiled, plain


@settings(deadline=None, max_examples=5)
@given(seeds)
def test_curvature_is_the_mean_squared_second_difference_around_a_knot(seed):
    grid = make_bendable_grid(seed)
    table = draw_table(grid, 2, seed)
    expected = mean_slowly(grid, table.numpy())
    for bends in both_bends(grid):  # differences of nearly equal slopes cancel in single precision
        np.testing.assert_allclose(bends.curvature(table), expected, rtol=1e-4, atol=1e-9 * expected.max())


def test_curvature_of_a_parabola_by_hand():
    axis = continuous_axis("x", np.array([0.0, 1.0, 4.0]), scaling="minmax")  # places 0, 0.25, 1
    layout = lay_out([axis], [(0,)], {})
    bends = make_bends(GridEngine(layout, layout.encode(np.zeros((1, 1))), np.ones(1), threads=1))
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
def test_the_gradient_of_bends_is_that_of_the_weighted_curvature(seed):
    grid = make_bendable_grid(seed, sizes=(3, 20))
    rng, table = np.random.default_rng(seed), draw_table(grid, 2, seed)
    strength = torch.from_numpy(rng.random((len(make_bends(grid).low), 2)))

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


def test_bends_are_at_inner_knots_of_ordered_main_effects():
    grid = make_bendable_grid()
    bends = make_bends(grid)
    middle, before, after = (array.numpy() for array in bends.arrays)
    low, high, window = bends.low.numpy(), bends.high.numpy(), bends.window[:, 0].numpy()
    terms = np.searchsorted([cells.start for cells in map(grid.layout.cells_of, range(8))], middle, side="right") - 1
    counts = Counter(terms.tolist())
    assert counts == {2: 4, 3: 1, 4: 28, 5: 10, 6: 218}  # not of levels without an order, of two knots, of the pair
    for index in counts:
        mine, axis = np.flatnonzero(terms == index), grid.layout.axes_of(index)[0]
        first = grid.layout.cells_of(index).start + 1
        np.testing.assert_array_equal(middle[mine], first + np.arange(1, len(axis.knots) - 1))
        gaps = np.diff(axis.places)
        width = (gaps[:-1] + gaps[1:]) / 2
        np.testing.assert_allclose(before[mine], 1 / gaps[:-1] / np.sqrt(width), rtol=1e-6)
        np.testing.assert_allclose(after[mine], 1 / gaps[1:] / np.sqrt(width), rtol=1e-6)
        # Windows end with the term, and reach eight bends or a twenty-fourth of them to either side.
        reach = max(8, len(mine) // 24)
        np.testing.assert_array_equal(low[mine], np.maximum(mine - reach, mine[0]))
        np.testing.assert_array_equal(high[mine], np.minimum(mine + reach, mine[-1]) + 1)
        widths = [width[a:b].sum() for a, b in zip(low[mine] - mine[0], high[mine] - mine[0], strict=True)]
        np.testing.assert_allclose(window[mine], widths)


def test_windows_do_not_cross_terms():
    """A bend of one column does not change the weights of the columns beside it."""
    grid = make_bendable_grid()
    table = torch.zeros(grid.layout.n_cells, 1, dtype=torch.float64)
    cells = grid.layout.cells_of(4)  # 30 knots
    table[cells.start + 15] = 1.0
    for bends in both_bends(grid):
        curvature = bends.curvature(table)[:, 0].numpy()
        middle = bends.arrays[0].numpy()
        inside = (middle >= cells.start) & (middle < cells.stop)
        assert not curvature[~inside].any()
        near = np.abs(middle - (cells.start + 15)) <= 1 + 8
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
    assert [len(part) for part in make_bends(grid).arrays] == [0] * 3
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
    for progress, share in [(0.0, 0.0), (0.9 / 4, 0.25), (0.45, 0.5), (0.9, 1.0), (0.95, 1.0), (1.0, 1.0)]:
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
    assert Penalty(grid, 50.0, {**NOT_SMOOTH, 0: (3.0, 30.0)}).edges is None


@pytest.mark.parametrize(
    ("n_rows", "information", "factor"),
    [(1, 1, 0.3), (900, 1, 0.3), (3000, 1, 1), (30_000, 1, 10**0.3), (30_000, 0.1, 1), (6000, 0.25, 0.5)],
)
def test_penalties_follow_the_information_of_the_rows(n_rows, information, factor):
    found = adapt_smoothness({0: (3.0, 30.0), 1: (2.0, 4.0)}, n_rows, information)
    assert found[0] == pytest.approx((factor * 3, 30))
    assert found[1] == pytest.approx((2 / information**0.5, 4 / information**0.5))  # slopes
