"""BasisNet: every cell of the table against a loop over cells, and the published numbers of parameters."""

from itertools import product

import numpy as np
import pytest
import torch

from neuralbasis.encoding import lay_out
from neuralbasis.networks import BasisNet, MLPBasis, OrderPoints, Points, SplineBasis
from neuralbasis.networks.basis_net import multiply_cells
from neuralbasis.training import GridEngine
from tests.models import MIXED, all_terms, build_axes, draw_numbers

pytestmark = pytest.mark.usefixtures("one_torch_thread")
FREE_SCALE = 5.0  # free parameters move faster by this factor


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
    """One cell and channel at a time, by the equations of the module: members and classes, or tied members' copies."""
    layout, cells = grid.layout, grid.cells
    table = np.zeros((layout.n_cells, net.n_members, net.n_subnets if net.tied else net.n_outputs))
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
                table[cell] = FREE_SCALE * net.free[cells.free[cell]].detach().reshape(table.shape[1:])
            elif cells.based[cell]:
                (point,) = np.flatnonzero((chosen.places.numpy() == place.astype(np.float32)).all(axis=1))
                for member, subnet, k in product(range(net.n_members), range(net.n_subnets), range(net.n_outputs)):
                    copy = member * net.n_subnets + subnet
                    if net.tied:
                        table[cell, member, subnet] = slow_cell(net, key, values[copy, point], copy, rank)
                    else:
                        table[cell, member, k] += slow_cell(net, key, values[copy, point], copy, rank, k)
    return table.reshape(layout.n_cells, -1)


def slow_cell(net, key, values, copy, rank, k=None):
    """f_t = Σ_k h_k a_tk, for a class where classes are not tied, with the offset of its term where they are."""
    column = rank if net.tied else rank * net.n_outputs + k
    shape = values @ net.coefficients[key][copy, :, column].detach().double().numpy()
    return shape + net.offsets[key][copy, 0, rank].item() if net.tied else shape


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("n_subnets", [1, 3])
@pytest.mark.parametrize("orders", [(1,), (1, 2), (2, 3)])
def test_table_is_a_loop_over_cells(orders, n_subnets, tied):
    grid = make_grid(orders=orders)
    net = make_net(grid, tied, n_subnets)
    table = net.table(grid.points).detach()
    assert table.shape == (grid.layout.n_cells, 2 * n_subnets if tied else 2 * 3)
    np.testing.assert_allclose(table, slow_table(net, grid), rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("n_subnets", [1, 3])
def test_tied_scores_are_a_loop_over_terms(n_subnets):
    """g_l = f_0l + Σ_t f_t w_tl, subnets and all cells of a term weighed alike, free ones too."""
    grid = make_grid(orders=(1, 2))
    net = make_net(grid, True, n_subnets)
    table, rows = net.table(grid.points).detach(), np.arange(len(grid.positions))
    parts = grid.lookup.gather(grid.lookup.take(rows), table, per_term=True)
    assert parts.shape == (len(rows), len(grid.layout.terms), 2 * n_subnets)
    weights = np.concatenate([net.mixes["1"].detach(), net.mixes["2"].detach()], axis=1)  # (M·S, T, K)
    np.testing.assert_array_equal(net.mix().detach(), weights)
    expected = np.zeros((len(rows), 2, 3))
    for member, subnet, term, k in product(range(2), range(n_subnets), range(len(grid.layout.terms)), range(3)):
        copy = member * n_subnets + subnet
        expected[:, member, k] += parts[:, term, copy].double().numpy() * weights[copy, term, k]
    expected += net.intercept.detach().numpy()
    scores = net.combine(parts)
    assert scores.shape == (len(rows), 2, 3)
    np.testing.assert_allclose(scores.detach(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("drawn", [False, True])
def test_shapes_of_tied_classes_learn_only_if_classes_weigh_them_differently(drawn):
    """Slopes of a softmax sum to 0 over the classes: with equal weights none of them reaches a shape."""
    grid = make_grid(orders=(1,))
    net = make_net(grid, True)
    for mix in net.mixes.values():
        torch.nn.init.ones_(mix)
    if drawn:
        net.draw_mixes(2.0, torch.Generator().manual_seed(0))
        weights = net.mix().detach()
        torch.testing.assert_close(weights.sum(dim=2), torch.zeros(weights.shape[:2]), atol=1e-5, rtol=0)
        assert 1 < weights.std() < 3
    slope = torch.randn(7, 2, 3, generator=torch.Generator().manual_seed(1))
    slope -= slope.mean(dim=2, keepdim=True)
    pull, _ = net.pull(torch.zeros(7, len(grid.layout.terms), 2), slope)
    assert (pull.abs().mean() > 0.1) == drawn


@pytest.mark.parametrize("size", [0.1, 1.0, 10.0])
def test_the_ridge_on_tied_weights_follows_their_size(size):
    net = make_net(make_grid(orders=(1,)), True, ridge=0.5)
    net.mixes["1"].data.fill_(size)
    net.add_gradients([torch.zeros_like(net.intercept), torch.zeros_like(net.mixes["1"])])
    expected = torch.full_like(net.mixes["1"], 0.5 * size / (size**2 + 0.02))
    torch.testing.assert_close(net.mixes["1"].grad, expected)


def test_scores_of_free_classes_are_the_sums_and_the_intercept():
    net = make_net(make_grid(), tied=False)
    parts = torch.randn(7, 1, 6, generator=torch.Generator().manual_seed(0))
    scores = net.combine(parts)
    assert scores.shape == (7, 2, 3)
    torch.testing.assert_close(scores, parts.reshape(7, 2, 3) + net.intercept)


def test_levels_of_tied_classes_share_their_weights():
    """A nominal column is one shape with a number a level: its scores are multiples of one vector over the classes."""
    axes = build_axes(np.random.default_rng(0), ("nominal", "continuous"))
    layout = lay_out(axes, [(0,), (1,)], {})
    positions = layout.encode(np.column_stack([np.arange(6) % 6, np.full(6, axes[1].knots[0])]).astype(float))
    grid = GridEngine(layout, positions, np.ones(6), threads=1)
    net = make_net(grid, tied=True, n_members=1)
    parts = grid.lookup.gather(grid.lookup.take(np.arange(6)), net.table(grid.points).detach(), per_term=True)
    scores = net.combine(parts)[:, 0].detach()
    assert torch.linalg.matrix_rank(scores - scores[0], atol=1e-4) == 1


def test_cells_that_are_neither_based_nor_free_are_zero_and_take_no_gradient():
    grid = make_grid()
    net = make_net(grid, tied=False)
    is_zero = (grid.cells.free < 0) & ~grid.cells.based
    assert 0 < is_zero.sum() < len(is_zero)
    table = net.table(grid.points)
    assert table[torch.from_numpy(is_zero)].abs().max() == 0
    table.backward(torch.from_numpy(np.repeat(is_zero[:, None], 6, axis=1).astype(np.float32)))
    assert all(parameter.grad is None or parameter.grad.abs().max() == 0 for parameter in net.parameters())


@pytest.mark.parametrize("tied", [False, True])
def test_every_free_cell_has_its_own_parameter(tied):
    grid = make_grid()
    net = make_net(grid, tied)
    free = np.flatnonzero(grid.cells.free >= 0)
    assert len(free) == grid.cells.n_free == len(net.free)
    table = net.table(grid.points).detach()
    torch.testing.assert_close(table[free], FREE_SCALE * net.free.detach()[grid.cells.free[free]], rtol=0, atol=0)


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
    assert net.free.grad.unique().tolist() == [FREE_SCALE]


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
        results.append(multiply_cells(values, coefficients, OrderPoints(None, None, term, point)))
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
        draws = torch.stack([net.table(grid.points) for _ in range(300)]).double()
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
    tied = BasisNet(bases, {1: 4, 2: 3}, n_free=5, n_members=2, n_outputs=3, tied=True)
    # One shape and an offset a term, weights of the classes, one number a free cell, intercepts.
    assert tied.count_parameters() == 8 * 4 + 16 * 3 + (4 + 3) + 3 * (4 + 3) + 5 + 3


def test_a_net_starts_at_its_intercept():
    grid = make_grid()
    orders = [len(term) for term in grid.layout.terms]
    for tied in (False, True):
        bases = {order: MLPBasis(order, 4, 2) for order in (1, 2)}
        net = BasisNet(bases, {o: orders.count(o) for o in bases}, grid.cells.n_free, 2, 3, tied=tied)
        table, rows = net.table(grid.points).detach(), np.arange(len(grid.positions))
        assert table.abs().max() == 0
        net.intercept.data = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        scores = net.combine(grid.lookup.gather(grid.lookup.take(rows), table, tied))
        assert scores.unique(dim=0).tolist() == [[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]


def test_source_reads_orders_then_free_then_zero():
    net = BasisNet({1: SplineBasis(1, 4, 1)}, {1: 1}, 2, 1, 1)
    with torch.no_grad():
        net.coefficients["1"] += 1.0  # a partition of unity: every based cell is 1
        net.free.copy_(torch.tensor([[5.0], [7.0]]))
    chosen = OrderPoints(torch.tensor([[0.1], [0.9]]), torch.ones(2), torch.zeros(3, dtype=torch.int64),
                         torch.tensor([0, 1, 1]))  # fmt: skip
    source = torch.tensor([3, 0, 1, 2, 4, 5, 3])
    torch.testing.assert_close(
        net.table(Points({1: chosen}, source))[:, 0],
        torch.tensor([5 * FREE_SCALE, 1.0, 1.0, 1.0, 7 * FREE_SCALE, 0.0, 5 * FREE_SCALE]),
    )


# Members in parts


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("n_subnets", [1, 2])
def test_a_part_is_some_of_the_members(tied, n_subnets):
    grid = make_grid()
    net = make_net(grid, tied, n_subnets, n_members=5)
    whole, width = net.table(grid.points).detach(), (n_subnets if tied else net.n_outputs)
    for first, last in ((0, 2), (2, 5), (0, 5)):
        part = net.part(first, last)
        assert part.n_members == last - first
        torch.testing.assert_close(part.table(grid.points), whole[:, first * width : last * width])
        torch.testing.assert_close(part.intercept, net.intercept[first:last])
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.zero_()
    torch.testing.assert_close(net.table(grid.points).detach(), whole)  # a part has values of its own


@pytest.mark.parametrize("tied", [False, True])
def test_a_net_absorbs_its_parts(tied):
    grid = make_grid()
    net, other = (make_net(grid, tied, 2, n_members=5, seed=seed) for seed in (0, 1))
    for basis, source in zip(net.bases.values(), other.bases.values(), strict=True):
        basis.load_state_dict(source.state_dict())  # frequencies are drawn once and never absorbed
    for first, last in ((0, 2), (2, 5)):
        net.absorb(other.part(first, last), first)
    torch.testing.assert_close(net.table(grid.points), other.table(grid.points))
    torch.testing.assert_close(net.intercept, other.intercept)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("n_subnets", [1, 3])
def test_the_backward_pass_of_combine_is_that_of_torch(tied, n_subnets):
    grid = make_grid(orders=(1, 2))
    net, generator = make_net(grid, tied, n_subnets), torch.Generator().manual_seed(2)
    n_parts = len(grid.layout.terms) if tied else 1
    width = net.n_members * (n_subnets if tied else net.n_outputs)
    parts = torch.randn(7, n_parts, width, generator=generator, requires_grad=True)
    slope = torch.randn(7, net.n_members, net.n_outputs, generator=generator)
    net.combine(parts).backward(slope)
    expected = {name: p.grad.clone() for name, p in net.named_parameters() if p.grad is not None}
    assert "intercept" in expected
    net.zero_grad()
    found, own = net.pull(parts.detach(), slope)
    torch.testing.assert_close(found, parts.grad)
    net.add_gradients(own)
    for name, parameter in net.named_parameters():
        if name in expected:
            torch.testing.assert_close(parameter.grad, expected[name])
    net.add_gradients([grad.double() for grad in own])  # to what is there
    torch.testing.assert_close(net.intercept.grad, 2 * expected["intercept"])
