"""Members: groups of members train as all together would, on any number of threads."""

import threading
import time
from collections import Counter
from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest
import torch

from neuralbasis import NetworkConfig, NeuralBasisRegressor
from neuralbasis.data import Sample
from neuralbasis.losses import CrossEntropy, LogLoss, SquaredError
from neuralbasis.networks import MLPBasis, SplineBasis
from neuralbasis.training import ExactEngine, Settings, make_net, place_rows
from neuralbasis.training.batches import Pool
from neuralbasis.training.lookup import TorchLookUp
from neuralbasis.training.members import MemberGroup, Members, compute_gradients
from neuralbasis.training.penalties import Penalty
from tests.training import problems
from tests.training.problems import make_config, make_grid

QUICK = {"network__hidden": (16, 16), "network__n_bases": 8, "outer_bags": 5, "random_state": 0, "max_steps": 40}
LOSSES = {"regression": SquaredError(), "binary": LogLoss(), "multiclass": CrossEntropy(3)}


def draw(n_rows=300, seed=0):
    X = np.random.default_rng(seed).random((n_rows, 3))
    return X, np.sin(6 * X[:, 0]) + X[:, 1] * (X[:, 2] > 0.5)


def make_problem(threads=1, **parameters):
    return problems.make_problem(
        *draw(), validation_size=0.2, pairs=[(1, 2)], threads=threads, **{**QUICK, **parameters}
    )


class Watched(MLPBasis):
    """A network that calls `act` with itself before every evaluation, as `network__basis=Watched.make(act)`."""

    act = staticmethod(lambda basis: None)

    def forward(self, places, weight):
        type(self).act(self)
        return super().forward(places, weight)

    @classmethod
    def make(cls, act):
        kind = type(cls.__name__, (cls,), {"act": staticmethod(act)})
        return lambda order, n_bases, copies, generator: kind(order, n_bases, copies, (16, 16), generator=generator)


class Shared(MLPBasis):
    """Inherits `separable`, and is not."""

    def __init__(self, *given, **options):
        super().__init__(*given, **options)
        self.gain = torch.nn.Parameter(torch.ones(3))


def fit(basis, **options):
    X, y = draw()
    options = {**QUICK, "interactions": 0, "network__hidden": NetworkConfig().hidden, **options}
    return NeuralBasisRegressor(**options, network__basis=basis).fit(X, y)


def test_two_groups_train_as_one():
    def make(kind):
        return lambda order, n_bases, copies, generator: kind(order, n_bases, copies, (16, 16), generator=generator)

    options = {"interactions": [(1, 2)], "max_steps": 60, "network__batch_size": 64}
    apart, together = (fit(make(kind), **options) for kind in (MLPBasis, Shared))
    assert apart.history_.steps == together.history_.steps
    assert apart.history_.validation == pytest.approx(together.history_.validation, rel=1e-4)
    assert apart.intercept_ == pytest.approx(together.intercept_, abs=1e-4)
    for one, other in zip(apart.term_scores_, together.term_scores_, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
    assert apart.term_scores_[0].std() > 0.1


def test_members_that_cannot_be_separated_stay_together():
    def count(exact=False, **parameters):
        problem = make_problem(**parameters)
        engine = ExactEngine(problem.grid) if exact else problem.grid
        return len(Members(problem.net, problem.grid, engine, problem.rows, problem.loss, Settings()).groups)

    assert count() == count(network__basis="spline") == 2
    assert count(outer_bags=1) == 1
    assert count(exact=True) == 1
    assert count(network__dropout=0.1) == count(network__basis_dropout=0.1) == 1  # one stream of random numbers
    assert count(network__basis=lambda order, n, copies, generator: Shared(order, n, copies, generator=generator)) == 1
    assert count(network__basis=lambda order, n, copies, generator: SplineBasis(order, n, copies)) == 2


def test_a_part_has_its_own_members_rows():
    rows = make_problem().rows
    part = rows.part(1, 3)
    assert torch.equal(part.held_out, rows.held_out[:, 1:3])
    torch.testing.assert_close(part.shares(), rows.shares()[:, 1:3])
    assert part.init is None


def make_members(threads=1, **settings):
    problem = make_problem(threads)
    parts = problem.net, problem.grid, problem.grid, problem.rows, problem.loss
    return Members(*parts, Settings(**settings))


def hold_all(grid, rows):
    """The pool of a single process."""
    return Pool(grid, rows.target, rows.shares(), rows.init, rows.copies)


def make_pool():
    problem = make_problem()
    return hold_all(problem.grid, problem.rows)


@pytest.mark.parametrize(("n_members", "error"), [(2, KeyboardInterrupt), (3, RuntimeError)])  # members of a group
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_in_a_group_is_raised_and_ends_all_threads(n_jobs, n_members, error):
    evaluated, before = Counter(), threading.active_count()

    def fail(basis):
        evaluated[basis.n_copies] += 1
        if basis.n_copies == n_members and evaluated[n_members] > 5:
            raise error("out of luck")

    with pytest.raises(error, match="out of luck"):
        fit(Watched.make(fail), max_steps=50, n_jobs=n_jobs)
    assert threading.active_count() == before
    assert {2, 3} <= set(evaluated)
    seen = evaluated.total()
    time.sleep(0.05)
    assert evaluated.total() == seen


def test_groups_train_at_the_same_time():
    """Each waits for the other: on one thread they would wait for ever."""
    meeting, seen = threading.Barrier(2, timeout=20), set()

    def meet(basis):
        if basis.training and threading.get_ident() not in seen:
            seen.add(threading.get_ident())
            meeting.wait()

    fit(Watched.make(meet), max_steps=5, n_jobs=2)
    assert len(seen) == 2
    alone = set()
    fit(Watched.make(lambda _basis: alone.add(threading.get_ident())), max_steps=5, n_jobs=1)
    assert alone == {threading.get_ident()}


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


def test_a_time_limit_ends_all_members_at_one_step():
    steps = Counter()

    def count(basis):
        steps[id(basis)] += basis.training and torch.is_grad_enabled()

    options = {"max_steps": 10**6, "n_jobs": 1, "time_limit": 0.3, "boosted_steps": False}
    model = fit(Watched.make(count), **options)
    assert model.history_.stopped_by == "time_limit"
    assert [count for count in steps.values() if count] == [model.history_.steps[-1]] * 2
    assert model.history_.steps[-1] > 10


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
    config = make_config(outer_bags=3, network__tied_classes=tied, network__n_subnets=2)
    net, batch = make_net(config, grid, loss_function, None, n_rows, rng), rng.integers(0, n_rows, 40)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn(parameter.shape) / 3)
    penalty = Penalty(grid, 50.0, {1: (0.7, 0.2), 2: (2.0, 0.5)}, output_penalty=0.3)
    penalty.refresh(net.table(grid.points).detach(), 0.5)
    group = MemberGroup(net, grid, rows, penalty, loss_function, Settings(), np.empty(0, dtype=int))
    group.pool = hold_all(grid, rows)
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
    ridges = [(mix.square() / (size + 0.02)).sum() for mix, size in zip(net.mixes.values(), sizes, strict=True)]
    (loss + (table * pull).sum() + net.ridge / 2 * sum(ridges)).backward()
    for mine, parameter in zip(found, net.parameters(), strict=True):
        torch.testing.assert_close(mine, parameter.grad, rtol=1e-3, atol=2e-5)
