"""Members: groups of members train as all together would, on any number of threads."""

import threading
import time
from dataclasses import replace
from itertools import groupby
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from neuralbasis import NeuralBasisRegressor
from neuralbasis.data.target import Sample
from neuralbasis.distributed.process_group import SINGLE_PROCESS
from neuralbasis.losses.cross_entropy import CrossEntropy
from neuralbasis.losses.log_loss import LogLoss
from neuralbasis.losses.squared_error import SquaredError
from neuralbasis.networks import MLPBasis, SplineBasis
from neuralbasis.networks.basis_net import MIX_FLOOR
from neuralbasis.training import loop
from neuralbasis.training import members as module
from neuralbasis.training.batches import share_pool
from neuralbasis.training.defaults import make_net
from neuralbasis.training.engines import ExactEngine
from neuralbasis.training.history import History
from neuralbasis.training.lookup import TorchLookUp
from neuralbasis.training.loop import _EarlyStopping, train_net
from neuralbasis.training.members import MemberGroup, Members, Settings, compute_gradients, count_groups
from neuralbasis.training.penalties import Penalty
from neuralbasis.training.rows import place_rows
from tests.training import problems
from tests.training.problems import make_config, make_grid

QUICK = {"hidden": (16, 16), "n_bases": 8, "outer_bags": 5, "random_state": 0, "max_steps": 40}
LOSSES = {"regression": SquaredError(), "binary": LogLoss(), "multiclass": CrossEntropy(3)}


def draw(n_rows=300, seed=0):
    X = np.random.default_rng(seed).random((n_rows, 3))
    return X, np.sin(6 * X[:, 0]) + X[:, 1] * (X[:, 2] > 0.5)


def make_problem(threads=1, **parameters):
    return problems.make_problem(
        *draw(), validation_size=0.2, pairs=[(1, 2)], threads=threads, **{**QUICK, **parameters}
    )


def run(n_groups, monkeypatch, threads=1, **parameters):
    problem, history = make_problem(threads, **parameters), History()
    monkeypatch.setattr(module, "N_GROUPS", n_groups)
    assert train_net(**vars(problem), settings=Settings(max_steps=60, batch_size=64), history=history)
    return problem.net.table(problem.grid.points).detach(), problem.net.intercept.detach(), history


def test_groups_train_as_the_whole(monkeypatch):
    table, intercept, history = run(1, monkeypatch)
    for n_groups in (2, 3, 5, 8):
        other, other_intercept, other_history = run(n_groups, monkeypatch)
        torch.testing.assert_close(other, table, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(other_intercept, intercept, rtol=1e-3, atol=1e-4)
        assert other_history.validation == pytest.approx(history.validation, rel=1e-4)
        assert other_history.steps == history.steps
    assert table.std() > 0.1


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing(threads, monkeypatch):
    alone, together = (run(2, monkeypatch, t) for t in (1, threads))
    assert torch.equal(alone[0], together[0])
    assert torch.equal(alone[1], together[1])
    assert alone[2].validation == together[2].validation


def test_members_that_cannot_be_separated_stay_together():
    def count(exact=False, **parameters):
        problem = make_problem(**parameters)
        return count_groups(problem.net, ExactEngine(problem.grid) if exact else problem.grid)

    class Shared(MLPBasis):
        """Inherits `separable`, and is not."""

        def __init__(self, *given, **options):
            super().__init__(*given, **options)
            self.gain = torch.nn.Parameter(torch.ones(3))

    assert count() == count(basis="spline") == 2
    assert count(outer_bags=1) == 1
    assert count(exact=True) == 1
    assert count(dropout=0.1) == count(basis_dropout=0.1) == 1  # one stream of random numbers
    assert count(basis=lambda order, n, copies, generator: Shared(order, n, copies, generator=generator)) == 1
    assert count(basis=lambda order, n, copies, generator: SplineBasis(order, n, copies)) == 2


def test_a_part_has_its_own_members_rows():
    rows = make_problem().rows
    part = rows.part(1, 3)
    assert torch.equal(part.held_out, rows.held_out[:, 1:3])
    torch.testing.assert_close(part.shares(), rows.shares()[:, 1:3])
    assert part.init is None


def make_members(threads=1, **settings):
    problem = make_problem(threads)
    known = problem.net, problem.grid, problem.grid, problem.rows, problem.loss
    return Members(*known, Settings(**settings))


def make_pool():
    problem = make_problem()
    return share_pool(problem.grid, problem.rows, SINGLE_PROCESS)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_in_a_group_is_raised(threads, monkeypatch):
    def fail():
        raise RuntimeError("out of luck")

    with make_members(threads) as members:
        assert len(members.groups) == 2
        monkeypatch.setattr(members.groups[1], "validation_losses", fail)
        with pytest.raises(RuntimeError, match="out of luck"):
            members.validation_losses()


def test_an_interruption_ends_all_threads(monkeypatch):
    def interrupt(*_given):
        raise KeyboardInterrupt

    def work():
        with members:
            members.advance(make_pool(), [np.arange(50)] * 5, 1.0)

    members = make_members(2, max_steps=50)
    monkeypatch.setattr(members.groups[0], "move", interrupt)
    with pytest.raises(KeyboardInterrupt):
        work()
    steps = members.groups[1].step
    time.sleep(0.05)
    assert members.groups[1].step == steps
    assert not any(thread.is_alive() for thread in members.threads._threads)


def test_groups_train_at_the_same_time(monkeypatch):
    """Each waits for the other: on one thread they would wait for ever."""
    meeting, seen = threading.Barrier(2, timeout=20), set()

    def meet(*_given):
        meeting.wait()
        seen.add(threading.get_ident())

    with make_members(2) as members:
        for group in members.groups:
            monkeypatch.setattr(group, "move", meet)
        members.advance(make_pool(), [np.arange(50)], 1.0)
    assert len(seen) == 2
    with make_members(1) as alone:
        assert alone.threads is None


def test_threads_are_split_between_groups():
    with make_members(5) as members:
        assert [group.grid.threads for group in members.groups] == [2, 2]
        assert [group.grid.lookup.threads for group in members.groups] == [2, 2]


def test_kept_values_are_restored():
    with make_members(max_steps=20) as members:
        for _ in range(2):
            members.advance(make_pool(), [np.arange(50)] * 5, 1.0)
            assert {group.step for group in members.groups} == {members.steps}
            if members.steps == 5:
                members.keep()
                losses = members.validation_losses()
        assert not torch.equal(members.validation_losses(), losses)
        members.restore()
    problem = make_problem()
    with Members(members.net, problem.grid, problem.grid, problem.rows, problem.loss, Settings()) as again:
        torch.testing.assert_close(again.validation_losses(), losses, rtol=1e-5, atol=1e-7)


def test_a_time_limit_ends_all_members_at_one_step(monkeypatch):
    found = []

    class Recorded(Members):
        def __init__(self, *given):
            super().__init__(*given)
            found.append(self)

    monkeypatch.setattr(loop, "Members", Recorded)
    X, y = draw()
    model = NeuralBasisRegressor(**{**QUICK, "max_steps": 10**6}, interactions=0, n_jobs=1, time_limit=0.3).fit(X, y)
    assert model.history_.stopped_by == "time_limit"
    (members,) = found
    assert {group.step for group in members.groups} == {members.steps} == {model.history_.steps[-1]}
    assert members.steps > 10


@pytest.mark.parametrize(("gain", "improved"), [(-1.0, False), (0.0, False), (0.01, True)])
def test_a_later_stage_must_lower_the_held_out_loss(gain, improved):
    losses = torch.from_numpy(np.random.default_rng(0).normal(size=100))
    stopping = SimpleNamespace(
        learners=SimpleNamespace(validates=True), n_before=1, losses_before=losses, best_losses=losses - gain / 100
    )
    assert _EarlyStopping.improved.fget(stopping) is improved


@pytest.mark.parametrize("given", [None, 1, 3])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("task", LOSSES)
def test_gradients_of_a_batch_are_those_of_the_loss_and_the_penalties(task, tied, given):
    """Look-ups that torch can differentiate, the loss of every member's rows, and the penalties of the table."""
    rng, grid, loss_function = np.random.default_rng(0), make_grid(orders=(1, 2)), LOSSES[task]
    n_rows = len(grid.positions)
    y = rng.normal(size=n_rows) if task == "regression" else np.arange(n_rows) % max(loss_function.n_outputs, 2)
    rows = place_rows(Sample(y, rng.random(n_rows) + 0.1), loss_function, 3, 0.3, rng, "cpu")
    if given:
        rows = replace(rows, init=torch.randn(n_rows, given, loss_function.n_outputs))
    config = make_config(outer_bags=3, tied_classes=tied, n_subnets=2)
    net, batch = make_net(config, grid, loss_function, None, n_rows, rng), rng.integers(0, n_rows, 40)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn(parameter.shape) / 3)
    penalty = Penalty(grid, 50.0, {1: (0.7, 0.2), 2: (2.0, 0.5)}, output_penalty=0.3)
    penalty.refresh(net.table(grid.points).detach(), 0.5)
    group = MemberGroup(net, grid, rows, penalty, loss_function, Settings(), np.empty(0, dtype=int))
    group.pool = share_pool(grid, rows, SINGLE_PROCESS)
    compute_gradients([group], batch)
    found = [parameter.grad.clone() for parameter in net.parameters()]
    net.zero_grad()
    table, lookup = net.table(grid.points), TorchLookUp(grid.positions, grid.layout)
    parts = torch.stack([
        sum(share[:, None] * table[cell] for _, cell, share in corners)
        for _, corners in groupby(lookup._corners(lookup.take(batch)), key=lambda corner: corner[0])
    ], dim=1)  # fmt: skip
    scores = net.combine(parts if tied else parts.sum(1, keepdim=True))
    scores = scores + rows.init[batch] if given else scores
    loss = (loss_function.loss(scores, rows.target[batch]) * rows.shares()[batch]).sum() / len(batch)
    pull = torch.zeros_like(table)
    penalty.add_gradient(table.detach(), pull)
    sizes = [mix.detach().square().mean(dim=(1, 2), keepdim=True) for mix in net.mixes.values()]
    ridges = [(mix.square() / (size + MIX_FLOOR)).sum() for mix, size in zip(net.mixes.values(), sizes, strict=True)]
    (loss + (table * pull).sum() + net.ridge / 2 * sum(ridges)).backward()
    for mine, parameter in zip(found, net.parameters(), strict=True):
        torch.testing.assert_close(mine, parameter.grad, rtol=1e-3, atol=2e-5)
