"""net: every cell of the table against a loop over cells, and the published numbers of parameters."""

from itertools import product

import numpy as np
import pytest
import torch

from neuralbasis.bases import MLPBasis, SplineBasis
from neuralbasis.layout import lay_out
from neuralbasis.net import BasisNet, OrderPoints, Points, _multiply
from neuralbasis.train import GridEngine, training_threads
from neuralbasis.train.points import describe_cells
from tests.models import MIXED, all_terms, build_axes, draw_numbers


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with training_threads():
        yield


def make_grid(seed=0, orders=(1, 2), n_rows=60):
    rng = np.random.default_rng(seed)
    axes = build_axes(rng, MIXED)
    layout = lay_out(axes, all_terms(len(axes), orders), {2: 5, 3: 3})
    return GridEngine(layout, layout.encode(draw_numbers(rng, axes, n_rows)), rng.random(n_rows) + 0.1, threads=1)


def make_net(grid, tied, n_subnets=1, n_members=2, n_outputs=3, seed=0, **options):
    """Random parameters everywhere."""
    orders = [len(term) for term in grid.layout.terms]
    copies, generator = n_members * n_subnets, torch.Generator().manual_seed(seed)
    bases = {
        order: MLPBasis(order, 3 + order, copies, (6,), fourier=2, generator=generator) for order in sorted(set(orders))
    }
    counts = {order: orders.count(order) for order in bases}
    net = BasisNet(bases, counts, grid.cells.n_free, n_members, n_outputs, n_subnets, tied, **options)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return net


def slow_table(net, grid):
    """One cell, member and class at a time, by the equations of the module."""
    layout, cells = grid.layout, describe_cells(grid.layout)
    table = np.zeros((layout.n_cells, net.n_members, net.n_outputs))
    seen = dict.fromkeys(grid.points.orders, 0)
    for index, term in enumerate(layout.terms):
        order, rank = len(term), seen[len(term)]
        seen[order] += 1
        chosen, key = grid.points.orders[order], str(order)
        values = net.bases[key](chosen.places, chosen.weight).detach().double().numpy()
        for cell, place in zip(
            range(*layout.cells_of(index).indices(layout.n_cells)), cells.places[index], strict=True
        ):
            if cells.free[cell] >= 0:
                table[cell] = net.free[cells.free[cell]].detach().reshape(net.n_members, net.n_outputs)
            elif cells.based[cell]:
                (point,) = np.flatnonzero((chosen.places.numpy() == place.astype(np.float32)).all(axis=1))
                for member, subnet, k in product(range(net.n_members), range(net.n_subnets), range(net.n_outputs)):
                    copy = member * net.n_subnets + subnet
                    table[cell, member, k] += slow_cell(net, key, values[copy, point], copy, rank, k)
    return table.reshape(layout.n_cells, -1)


def slow_cell(net, key, values, copy, rank, k):
    column = rank if net.tied else rank * net.n_outputs + k
    shape = values @ net.coefficients[key][copy, :, column].detach().double().numpy()
    if not net.tied:
        return shape
    return (shape + net.offsets[key][copy, 0, rank].item()) * net.mixes[key][copy, rank, k].item()


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("n_subnets", [1, 3])
@pytest.mark.parametrize("orders", [(1,), (1, 2), (2, 3)])
def test_table_is_a_loop_over_cells(orders, n_subnets, tied):
    grid = make_grid(orders=orders)
    net = make_net(grid, tied, n_subnets)
    table = net.table(grid.points).detach()
    assert table.shape == (grid.layout.n_cells, 2 * 3)
    np.testing.assert_allclose(table, slow_table(net, grid), rtol=1e-4, atol=2e-4)


def test_cells_nobody_speaks_for_are_zero_and_take_no_gradient():
    grid = make_grid()
    net = make_net(grid, tied=False)
    silent = (grid.cells.free < 0) & ~grid.cells.based
    assert 0 < silent.sum() < len(silent)
    table = net.table(grid.points)
    assert table[torch.from_numpy(silent)].abs().max() == 0
    table.backward(torch.from_numpy(np.repeat(silent[:, None], 6, axis=1).astype(np.float32)))
    assert all(parameter.grad is None or parameter.grad.abs().max() == 0 for parameter in net.parameters())


def test_every_free_cell_has_a_number_of_its_own():
    grid = make_grid()
    net = make_net(grid, tied=True)
    free = np.flatnonzero(grid.cells.free >= 0)
    assert len(free) == grid.cells.n_free == len(net.free)
    table = net.table(grid.points).detach()
    torch.testing.assert_close(table[free], net.free.detach()[grid.cells.free[free]], rtol=0, atol=0)


def test_a_table_of_levels_only_has_no_points():
    rng = np.random.default_rng(0)
    axes = build_axes(rng, ("nominal", "nominal"))
    layout = lay_out(axes, [(0,), (1,)], {})
    grid = GridEngine(layout, layout.encode(draw_numbers(rng, axes, 20)), np.ones(20), threads=1)
    net = make_net(grid, tied=False)
    assert len(grid.points.orders[1].places) == 0
    table = net.table(grid.points)
    np.testing.assert_allclose(table.detach(), slow_table(net, grid))
    table.sum().backward()
    assert net.free.grad.unique().tolist() == [1.0]


@pytest.mark.parametrize("n_outputs", [1, 4])
def test_both_ways_to_multiply_agree(n_outputs):
    generator = torch.Generator().manual_seed(0)
    n_points, n_terms = 30, 20
    values = torch.randn(3, n_points, 5, generator=generator, dtype=torch.float64)
    coefficients = torch.randn(3, 5, n_terms, n_outputs, generator=generator, dtype=torch.float64)
    results = []
    for count in (149, 150):  # 30 · 20 = 4 · 150: one cell more, and one product serves all
        term = torch.arange(count) * 7 % n_terms
        point = torch.arange(count) * 11 % n_points
        results.append(_multiply(values, coefficients, OrderPoints(None, None, term, point)))
        direct = torch.stack([torch.einsum("qb,qbl->ql", values[:, p], coefficients[:, :, t])
                              for t, p in zip(term.tolist(), point.tolist(), strict=True)], dim=1)  # fmt: skip
        torch.testing.assert_close(results[-1], direct, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(results[0], results[1][:, :149], rtol=1e-12, atol=1e-12)


def test_dropped_bases_are_scaled_in_training_and_whole_after_it():
    grid = make_grid(orders=(1,))
    net = make_net(grid, tied=False, basis_dropout=0.5)
    whole = make_net(grid, tied=False)
    net.eval()
    torch.testing.assert_close(net.table(grid.points), whole.table(grid.points), rtol=0, atol=0)
    net.train()
    torch.manual_seed(0)
    with torch.no_grad():
        draws = torch.stack([net.table(grid.points) for _ in range(300)])
        expected = whole.table(grid.points)
    assert ((draws.mean(0) - expected).abs() <= 6 * draws.std(0) / 300**0.5 + 1e-6).all()
    changing = draws.std(0)[:, 0].numpy() > 0
    np.testing.assert_array_equal(changing, grid.cells.based)  # free cells are never dropped


@pytest.mark.parametrize(("n_terms", "n_outputs", "published"), [(39, 1, 68_023), (54, 7, 69_883)])
@pytest.mark.parametrize("n_members", [1, 3])
def test_published_numbers_of_parameters(n_terms, n_outputs, published, n_members):
    """PAPER table 1: FICO (39 terms) and CoverType (54 terms, 7 classes)."""
    basis = MLPBasis(1, 100, n_members, hidden=(256, 128, 128), fourier=0)
    net = BasisNet({1: basis}, {1: n_terms}, 0, n_members, n_outputs, tied=True)
    assert net.count_parameters() == published


def test_parameters_of_free_classes_and_free_cells():
    bases = {1: SplineBasis(1, 8, 2), 2: SplineBasis(2, 16, 2)}
    net = BasisNet(bases, {1: 4, 2: 3}, n_free=5, n_members=2, n_outputs=3)
    assert net.count_parameters() == 8 * 4 * 3 + 16 * 3 * 3 + 5 * 3 + 3


def test_a_net_starts_at_its_intercept():
    grid = make_grid()
    orders = [len(term) for term in grid.layout.terms]
    for tied in (False, True):
        bases = {order: MLPBasis(order, 4, 2) for order in (1, 2)}
        net = BasisNet(bases, {o: orders.count(o) for o in bases}, grid.cells.n_free, 2, 3, tied=tied)
        assert net.table(grid.points).abs().max() == 0
        net.table(grid.points).square().sum().backward()
        assert net.intercept.tolist() == [[0.0] * 3] * 2


def test_source_reads_orders_then_free_then_zero():
    net = BasisNet({1: SplineBasis(1, 4, 1)}, {1: 1}, 2, 1, 1)
    with torch.no_grad():
        net.coefficients["1"] += 1.0  # a partition of unity: every based cell is 1
        net.free.copy_(torch.tensor([[5.0], [7.0]]))
    chosen = OrderPoints(torch.tensor([[0.1], [0.9]]), torch.ones(2), torch.zeros(3, dtype=torch.int64),
                         torch.tensor([0, 1, 1]))  # fmt: skip
    source = torch.tensor([3, 0, 1, 2, 4, 5, 3])
    torch.testing.assert_close(
        net.table(Points({1: chosen}, source))[:, 0], torch.tensor([5.0, 1.0, 1.0, 1.0, 7.0, 0.0, 5.0])
    )
