"""Low-rank training: scores and gradients are those of plain torch, and the ridge applied late is the ridge."""

from __future__ import annotations

from itertools import repeat

import numpy as np
import pytest
import torch

from neuralbasis.data import Sample
from neuralbasis.encoding import CodeFinder, pool_axis
from neuralbasis.losses import CrossEntropy, LogLoss, SquaredError
from neuralbasis.networks import MLPBasis
from neuralbasis.training import History, Settings, place_rows
from neuralbasis.training.batches import Batches
from neuralbasis.training.loop import run_loop
from neuralbasis.training.low_rank import LearningRates, LowRankMembers, LowRankNet
from tests.sparse_tables import draw_table, store

RATES = LearningRates(rate=0.1, base_rate=0.01, ridge=0.5, output_penalty=0.1)


def find_mass(finder, codes, n_rows):
    """(cells,) mean number of codes of a row on each cell; a code between knots counts in part on either side."""
    mass, below = np.zeros([finder.side] * codes.position.shape[1]), np.floor(codes.position).astype(int)
    part = codes.position - below
    for corner in np.ndindex(*[2] * part.shape[1]):
        cells = np.minimum(below + corner, finder.side - 1)
        np.add.at(mass, tuple(cells.T), np.where(corner, part, 1 - part).prod(axis=1) / n_rows)
    return mass.ravel()


def make_net(table, orders=(1, 2), n_members=2, n_outputs=3, seed=0):
    stored, generator = store(table), torch.Generator().manual_seed(seed)
    axis, n_columns = pool_axis(stored, max_knots=7), table.shape[1]
    terms = {1: [(f,) for f in range(n_columns)], 2: [(0, 1), (3, 2), (1, 4), (0, 5)]}
    finders = {order: CodeFinder.of(axis, 0.0, terms[order], n_columns) for order in orders}
    codes = {order: finder.find(stored) for order, finder in finders.items()}
    bases = {
        order: MLPBasis(order, 2, 1, hidden=(8,), fourier=3, batch_norm=False, generator=generator) for order in orders
    }
    mass = {order: find_mass(finders[order], found, len(table)) for order, found in codes.items()}
    return LowRankNet(finders, bases, mass, n_members, n_outputs), codes


def make_members(table, y, loss, settings=None, rates=RATES, threads=1, **options):
    net, codes = make_net(table, n_outputs=loss.n_outputs, **options)
    rows = place_rows(
        Sample(y, np.ones(len(y))), loss, net.n_members, 0.2, np.random.default_rng(0), torch.device("cpu")
    )
    return LowRankMembers(net, codes, rows, loss, settings or Settings(batch_size=16, max_steps=50), rates, threads)


def make_batches(members, settings, rng):
    return Batches(repeat(members.rows), settings.batch_size, settings.max_steps, rng)


def dense_scores(net, table, coefficients, tables):
    """(N, C) by plain torch indexing, a term after the other."""
    finder = net.finders[1]
    place = np.interp(table, finder.axis.knots, np.arange(1, len(finder.axis.knots) + 1))
    whole, part = place.astype(int), torch.from_numpy(place - place.astype(int)).float()
    scores = torch.zeros(len(table), coefficients[1].shape[2])
    for order, found in net.finders.items():
        grid = tables[order].reshape(*[found.side] * order, -1)
        for t, features in enumerate(found.features):
            present = torch.from_numpy((table[:, features] != 0).all(axis=1)).float()
            blend = 0.0
            for corner in np.ndindex(*[2] * order):
                share = torch.ones(len(table))
                cell = []
                for feature, upper in zip(features, corner, strict=True):
                    share = share * (part[:, feature] if upper else 1 - part[:, feature])
                    cell.append(np.minimum(whole[:, feature] + upper, found.side - 1))
                blend = blend + share[:, None] * grid[tuple(cell)]
            scores = scores + present[:, None] * (blend @ coefficients[order][t])
    return scores


def fill(net, seed=0):
    rng = np.random.default_rng(seed)
    for values in net.coefficients.values():
        values[:] = rng.normal(size=values.shape)


def test_bases_are_zero_at_the_absent_value_and_of_mean_square_one():
    table = draw_table(0)
    net, codes = make_net(table)
    for order, finder in net.finders.items():
        values = net.table(order).detach().numpy()
        grid = values.reshape(*[finder.side] * order, -1)
        for d in range(order):
            assert not np.moveaxis(grid, d, 0)[finder.absent_cell].any()
        mass = find_mass(finder, codes[order], len(table))
        mass.reshape([finder.side] * order)[finder.absent_cell] = 0
        np.testing.assert_allclose((mass[:, None] * values**2).sum(axis=0), 1.0, rtol=1e-4)


def test_scores_are_those_of_every_term_looked_up_by_itself():
    table = draw_table(1)
    net, codes = make_net(table)
    fill(net)
    found = np.zeros((len(table), 6), np.float32)
    tables = {order: net.table(order).detach() for order in net.finders}
    for order, mine in codes.items():
        mine.add_scores(mine.blend(tables[order].numpy(), net.finders[order].side), net.coefficients[order], found)
    coefficients = {order: torch.from_numpy(values) for order, values in net.coefficients.items()}
    np.testing.assert_allclose(found, dense_scores(net, table, coefficients, tables), atol=2e-5)


@pytest.mark.parametrize("loss", [CrossEntropy(3), LogLoss(), SquaredError()], ids=["classes", "two", "numbers"])
def test_a_step_follows_the_gradients_of_plain_torch(loss):
    table = draw_table(2)
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, len(table)) if loss.n_outputs == 3 else rng.integers(0, 2, len(table)).astype(float)
    members = make_members(table, y, loss, rates=LearningRates(0.1, 0.0, 0.0, 0.0))
    net = members.net
    fill(net)
    batch = np.arange(0, 40, 2)
    before = {order: torch.from_numpy(values.copy()).requires_grad_() for order, values in net.coefficients.items()}
    tables = {order: net.table(order) for order in net.finders}
    scores = dense_scores(net, table[batch], before, tables).view(len(batch), 2, -1) + net.intercept
    losses = loss.loss(scores, members.rows.target[batch]) * members.shares[batch] / len(batch)
    leaves = [*before.values(), *net.parameters()]
    expected = torch.autograd.grad(losses.sum(), leaves)
    moved = [parameter.grad for parameter in net.parameters()]
    kept = {}
    members.optimizer.step = lambda _rate: kept.update(grads=[grad.clone() for grad in moved])
    members._step(batch, 1.0)
    for grad, (order, old) in zip(expected, before.items(), strict=False):
        power = grad.square().mean(dim=(1, 2), keepdim=True)
        step = torch.where(power > 0, 0.1 * grad / power.sqrt().clamp(min=1e-30), 0.0)
        np.testing.assert_allclose(net.coefficients[order], (old - step).detach(), atol=2e-5)
    names = [name for name, _ in net.named_parameters()]
    for name, grad, found in zip(names, expected[len(before) :], kept["grads"], strict=True):
        share = 1 if name == "intercept" else net.n_members  # all members share the bases: their mean pull
        np.testing.assert_allclose(found, grad / share, atol=3e-6, err_msg=name)


def test_coefficients_without_rows_in_a_batch_do_not_change():
    table = draw_table(4)
    table[:, 5] = 0.0
    members = make_members(table, np.arange(40) % 3, CrossEntropy(3))
    fill(members.net)
    before = members.net.coefficients[1].copy()
    for _ in range(3):
        members._step(np.arange(16), 1.0)
    np.testing.assert_array_equal(members.net.coefficients[1][5], before[5])
    assert (members.net.coefficients[1][:5] != before[:5]).all()


def test_a_ridge_applied_late_is_the_ridge_of_every_step():
    table, y = draw_table(5, share=0.15), np.arange(40) % 3
    late, early = (make_members(table, y, CrossEntropy(3)) for _ in range(2))
    batches = np.random.default_rng(0).integers(0, 40, (12, 8))
    for batch in batches:
        late._step(batch, 2.0)
        early._step(batch, 2.0)
        early._catch_up()
    late._catch_up()
    for order, values in late.net.coefficients.items():
        np.testing.assert_allclose(values, early.net.coefficients[order], rtol=2e-4, atol=1e-6)


def test_ridge_and_output_penalty_follow_the_codes_of_a_term():
    rates = LearningRates(0.1, 0.1, 2.0, 3.0)
    learner = make_members(draw_table(6), np.arange(40) % 3, CrossEntropy(3), rates=rates).learners[0]
    count = np.bincount(learner.codes.term, minlength=6)
    np.testing.assert_allclose(learner.ridge, 2.0 / 40 * np.sqrt(count / count.mean()) + 3.0 * count / count.sum())


@pytest.mark.parametrize("true_scale", [0.5, 1.0, 2.5])
def test_coefficients_are_scaled_on_held_out_rows(true_scale):
    rng, table = np.random.default_rng(10), draw_table(10, n_rows=3000)
    net, codes = make_net(table, n_members=1, n_outputs=1)
    fill(net)
    scores = np.zeros((3000, 1), np.float32)
    for order, mine in codes.items():
        found = net.table(order).detach().numpy()
        mine.add_scores(mine.blend(found, net.finders[order].side), net.coefficients[order], scores)
    y = (rng.random(3000) < 1 / (1 + np.exp(-true_scale * scores[:, 0]))).astype(float)
    members = make_members(table, y, LogLoss(), n_members=1)
    for order, values in net.coefficients.items():
        members.net.coefficients[order][:] = values
    members.net.load_state_dict(net.state_dict())
    members.optimizer.values.copy_(torch.cat([p.detach().reshape(-1) for p in net.parameters()]))
    losses = members.validation_losses()
    assert members.scale == pytest.approx(true_scale, rel=0.2)
    members.keep()
    members.restore()
    members.apply_scale()
    np.testing.assert_allclose(members.net.coefficients[1], np.float32(members.scale) * net.coefficients[1], rtol=1e-6)
    assert float(members.validation_losses().sum()) == pytest.approx(float(losses.sum()), rel=1e-4)  # now at scale 1
    assert members.scale == pytest.approx(1.0, rel=0.05)


def test_threads_do_not_change_a_fit():
    table, y = draw_table(7, n_rows=600), np.arange(600) % 3
    found = []
    for threads in (1, 3):
        settings = Settings(batch_size=300, max_steps=8)
        members = make_members(table, y, CrossEntropy(3), settings, threads=threads)
        run_loop(members, make_batches(members, settings, np.random.default_rng(0)), settings, History())
        found.append(members.net.coefficients[1])
    np.testing.assert_array_equal(*found)


def test_members_do_not_learn_from_rows_they_hold_out():
    table, y = draw_table(8, n_rows=60), np.arange(60) % 2
    one = make_members(table, y.astype(float), LogLoss(), n_members=1)
    held = np.flatnonzero(one.rows.held_out[:, 0])
    other = y.copy()
    other[held] = 1 - other[held]
    two = make_members(table, other.astype(float), LogLoss(), n_members=1)
    two.rows.held_out.copy_(one.rows.held_out)
    two.shares.copy_(one.shares)
    for members in (one, two):
        members.advance(members.rows, [np.arange(60)] * 5, 1.0)
    np.testing.assert_array_equal(one.net.coefficients[1], two.net.coefficients[1])


def test_training_finds_a_planted_shape_and_a_planted_pair():
    rng = np.random.default_rng(9)
    table = draw_table(9, n_rows=4000, share=0.3)
    y = np.sqrt(table[:, 2]) - 1.5 * (table[:, 4] > 0) + 2.0 * ((table[:, 0] > 0) & (table[:, 1] > 0))
    y = y + 0.1 * rng.normal(size=len(y))
    loss = SquaredError.of(Sample(y, np.ones(len(y))))
    settings = Settings(batch_size=64, max_steps=1500)
    members = make_members(table, y, loss, settings, LearningRates(0.1, 0.01, 0.01, 0.0))
    history = History()
    run_loop(members, make_batches(members, settings, rng), settings, history)
    error = 2 * history.validation[history.best] * y.var()  # from half squared errors in units of y's deviation
    assert error < 0.02 * y.var()
