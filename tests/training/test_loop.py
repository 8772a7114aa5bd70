"""The training loop: early stopping, the kept state, later stages, callbacks, time limits and threads."""

import math
import time
from dataclasses import replace
from itertools import repeat
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis import NeuralBasisRegressor
from neuralbasis.networks import BasisNet, MLPBasis, SplineBasis
from neuralbasis.training import History, Settings, Stage, make_net, train_net
from neuralbasis.training.batches import Batches
from neuralbasis.training.loop import run_loop
from neuralbasis.training.rows import standard_error
from tests.training.problems import NOT_SMOOTH, SMALL, draw_additive, draw_noisy, make_config, make_problem

seeds = st.integers(0, 2**32 - 1)


def run(problem, **options):
    history = History()
    assert train_net(**vars(problem), settings=Settings(**options), history=history)
    return history


def look_up(grid, table):
    """Sums over the terms (N, 1, C) for all rows."""
    return grid.lookup.gather(grid.lookup.take(np.arange(len(grid.positions))), table)


def slow_validation_loss(problem):
    """Mean over members of the weighted loss of the held-out rows."""
    net, grid, rows = problem.net, problem.grid, problem.rows
    with torch.no_grad():
        scores = net.combine(look_up(grid, net.table(grid.points)))
        losses = problem.loss.loss(scores, rows.target).double().numpy()
    held, weights = rows.held_out.numpy(), rows.weights.double().numpy()
    means = [np.average(losses[held[:, m], m], weights=weights[held[:, m]]) for m in range(net.n_members)]
    return float(np.mean(means))


@pytest.mark.parametrize("tolerance", [None, 0.0])
def test_training_stops_some_rounds_after_the_best_checkpoint(tolerance):
    problem = make_problem(*draw_noisy())
    history = run(
        problem, max_steps=200, learning_rate=0.1, smoothness=NOT_SMOOTH, early_stopping_rounds=4, batch_size=64,
        early_stopping_tolerance=tolerance,
    )  # fmt: skip
    assert history.stopped_by == "early_stopping"
    assert int(np.argmin(history.validation)) <= history.best == len(history.steps) - 5
    assert history.steps == [8 * (k + 1) for k in range(len(history.steps))]
    assert slow_validation_loss(problem) == pytest.approx(history.validation[history.best], rel=1e-5)
    assert not problem.net.training


def test_a_checkpoint_within_the_tolerance_is_not_better():
    problem = make_problem(*draw_noisy())
    history = run(problem, max_steps=100, early_stopping_rounds=3, early_stopping_tolerance=100.0)
    assert (history.best, len(history.steps), history.stopped_by) == (0, 4, "early_stopping")


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


class PlannedLosses:
    """Learners whose validation losses are given: before training, and at every checkpoint, a step each."""

    validates = True

    def __init__(self, losses):
        self.losses, self.steps, self.kept, self.restored = losses, 0, None, False

    def advance(self, _pool, batches, _noise):
        self.steps += len(batches)

    def validation_losses(self):
        return self.losses[self.steps]

    def keep(self):
        self.kept = self.steps

    def restore(self):
        self.restored = True


def run_planned(losses, tolerance, history=None):
    """The learners and the history of a run with these losses, and whether it improved."""
    learners, history, n_steps = PlannedLosses(losses), history or History(), len(losses) - 1
    options = Settings(
        max_steps=n_steps, n_checkpoints=n_steps, early_stopping_rounds=0, early_stopping_tolerance=tolerance
    )
    pools = repeat(SimpleNamespace(copies=np.ones(4, int)))
    improved = run_loop(learners, Batches(pools, 4, n_steps, np.random.default_rng(0)), options, history)
    assert learners.restored
    assert learners.steps == n_steps
    return learners, history, improved


@settings(deadline=None)
@given(seeds, st.integers(1, 30), st.sampled_from([None, 0.0, 0.1]), st.sampled_from([0.0, 0.01, 0.1, 1.0]))
def test_the_kept_checkpoint_follows_the_documented_rule(seed, n_checkpoints, tolerance, noise):
    rng = np.random.default_rng(seed)
    rows, fall = rng.random(20) / 20, np.cumsum(rng.normal(-0.02, 0.1, n_checkpoints))
    losses = [torch.from_numpy(rows * (1 + part) + noise * rng.normal(size=20) / 20) for part in fall]
    learners, history, improved = run_planned([losses[0] + 1, *losses], tolerance)
    best, lowest = keep_slowly(losses, tolerance), int(np.argmin(history.validation))
    assert improved
    assert (history.best, learners.kept) == (best, best + 1)
    assert history.validation == [float(parts.sum()) for parts in losses]
    assert best == lowest if tolerance == 0 else tolerance is not None or best >= lowest


def test_a_loss_that_is_no_number_is_never_kept():
    losses = [torch.full((4,), value) for value in (1.0, 0.5, math.nan, math.inf, 0.4, math.nan)]
    for tolerance in (None, 0.0):
        learners, history, _ = run_planned(losses, tolerance)
        assert (learners.kept, history.best) == (4, 3)


@pytest.mark.parametrize(("gain", "improved"), [(-1.0, False), (0.0, False), (0.01, True)])
def test_a_later_stage_must_lower_the_held_out_loss(gain, improved):
    history, losses = History(), torch.from_numpy(np.random.default_rng(0).random(100))
    history.add("main effects", 8, float(losses.sum()), keep=True)
    learners, history, found = run_planned([losses, losses - gain / 100], 0.0, history)
    assert found is improved
    assert (learners.kept, history.best) == ((1, 1) if improved else (0, 0))


@pytest.mark.parametrize("tolerance", [None, 0.0])
def test_a_run_keeps_the_state_of_its_rule(tolerance):
    problem = make_problem(*draw_noisy())
    history = run(
        problem, max_steps=200, learning_rate=0.05, smoothness=NOT_SMOOTH, batch_size=64, early_stopping_rounds=0,
        early_stopping_tolerance=tolerance,
    )  # fmt: skip
    assert (history.stopped_by, history.steps[-1], len(history.steps)) == ("schedule", 200, 25)
    lowest = int(np.argmin(history.validation))
    assert history.best == lowest if tolerance == 0 else lowest < history.best < 24
    assert slow_validation_loss(problem) == pytest.approx(history.validation[history.best], rel=1e-5)


def test_checkpoints_are_added_to_the_history():
    history = History()
    history.add("main effects", 8, 0.5, keep=True)
    history.add("main effects", 8, 0.6, keep=False)
    assert (history.steps, history.validation, history.best) == ([8, 16], [0.5, 0.6], 0)
    history.add("shares", 0, 0.4, keep=True)
    assert (history.steps, history.stage[-1], history.best) == ([8, 16, 16], "shares", 2)
    assert 0 <= history.seconds[0] <= history.seconds[1] <= history.seconds[2] < 5


def test_without_validation_the_last_state_is_kept():
    problem = make_problem(*draw_noisy(), validation_size=0)
    history = run(problem, max_steps=60, early_stopping_rounds=1)
    assert np.isnan(history.validation).all()
    assert history.best == len(history.steps) - 1
    assert history.stopped_by == "schedule"


def add_net(problem, seed=7):
    """The problem of a second stage: a new net on what the trained one leaves."""
    scores = Stage(problem.grid, problem.net.intercept.detach(), net=problem.net).add_scores(problem.rows.init)
    net = make_net(make_config(), problem.grid, problem.loss, None, len(scores), np.random.default_rng(seed))
    rows, rng = replace(problem.rows, init=scores), np.random.default_rng(seed)
    return SimpleNamespace(**vars(problem) | {"net": net, "rows": rows, "rng": rng})


def test_a_later_stage_without_gain_changes_nothing():
    problem, history = make_problem(*draw_noisy()), History()
    assert train_net(**vars(problem), settings=Settings(max_steps=100, batch_size=64), history=history)
    before = replace(history, stage=list(history.stage), steps=list(history.steps))
    later = add_net(problem)
    given = Stage(problem.grid, problem.net.intercept.detach(), net=problem.net).add_scores(None)
    wild = Settings(max_steps=60, learning_rate=3.0, smoothness=NOT_SMOOTH, early_stopping_rounds=4, stage="pairs")
    assert not train_net(**vars(later), settings=wild, history=history)
    assert later.net.table(later.grid.points).abs().max() == 0
    torch.testing.assert_close(
        Stage(later.grid, later.net.intercept.detach(), net=later.net).add_scores(later.rows.init), given
    )
    assert (history.best, history.constant, history.stopped_by) == (before.best, before.constant, "early_stopping")
    first = len(before.steps)
    assert history.stage == ["main effects"] * first + ["pairs"] * 4  # it waits for four checkpoints of its own
    assert history.steps == before.steps + [before.steps[-1] + 2 * (k + 1) for k in range(4)]
    assert min(history.validation[first:]) >= history.validation[history.best]


def test_a_later_stage_improves_on_the_first():
    X, y = draw_additive(300)
    problem, history = make_problem(X, y), History()
    assert train_net(**vars(problem), settings=Settings(max_steps=20), history=history)  # too few
    constant, half = history.constant, history.validation[history.best]
    assert constant == pytest.approx(0.5, rel=0.2)  # half the variance of the target, in its own unit
    later = add_net(problem)
    assert train_net(**vars(later), settings=Settings(max_steps=200, stage="pairs"), history=history)
    assert history.best > history.stage.index("pairs")
    assert history.validation[history.best] == min(history.validation) < half / 5
    assert history.constant == constant
    with torch.no_grad():
        scores = later.rows.init + later.net.combine(look_up(later.grid, later.net.table(later.grid.points)))
    error = problem.loss.loss(scores, later.rows.target)
    held = later.rows.held_out
    expected = np.mean([error[held[:, m], m].mean().item() for m in range(2)])
    assert history.validation[history.best] == pytest.approx(expected, rel=1e-4)
    assert history.seconds == sorted(history.seconds)


def test_without_validation_a_later_stage_is_kept():
    problem, history = make_problem(*draw_noisy(), validation_size=0), History()
    assert train_net(**vars(problem), settings=Settings(max_steps=20), history=history)
    later = add_net(problem)
    assert train_net(**vars(later), settings=Settings(max_steps=20, stage="pairs"), history=history)
    assert history.best == len(history.steps) - 1
    assert later.net.table(later.grid.points).abs().max() > 0


def test_members_do_not_learn_from_rows_they_hold_out():
    X, y = draw_noisy(60)
    problems = [make_problem(X, y, outer_bags=3), make_problem(X, y, outer_bags=3)]
    held = problems[1].rows.held_out[:, 0]
    target = problems[1].rows.target.clone()
    target[held] += 50.0
    problems[1].rows = replace(problems[1].rows, target=target)
    for problem in problems:
        # One checkpoint, at the end: all other decisions depend on the validation loss of all members.
        run(problem, max_steps=5, n_checkpoints=1, smoothness=NOT_SMOOTH, batch_size=64)
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
    run(problem, max_steps=1500, batch_size=300, smoothness=NOT_SMOOTH, weight_decay=0.0, learning_rate=0.05)
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


def test_torch_trains_on_one_thread_and_gets_its_threads_back():
    X, y = draw_noisy(60)
    before, seen = torch.get_num_threads(), []

    def look(history):
        seen.append((history.stage[-1], torch.get_num_threads()))

    def fail(history):
        raise RuntimeError("from the callback")

    try:
        torch.set_num_threads(2)
        options = {**SMALL, "interactions": [(0, 1)], "network__n_interaction_bases": 4, "max_interaction_bins": 5}
        NeuralBasisRegressor(**options, n_jobs=2, max_steps=4, callbacks=[look]).fit(X, y)
        assert torch.get_num_threads() == 2
        with pytest.raises(RuntimeError, match="from the callback"):
            NeuralBasisRegressor(**SMALL, max_steps=5, callbacks=[fail]).fit(X, y)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert set(seen) == {("main effects", 1), ("pairs", 1)}


def test_a_run_that_diverges_keeps_its_last_good_state():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = X[:, 0] + rng.normal(size=400) * 0.1
    steps = []

    class Exploding(MLPBasis):
        def forward(self, points, weight):
            steps.append(self.training)
            values = super().forward(points, weight)
            return values * float("nan") if self.training and sum(steps) > 150 else values

    def explode(n_inputs, n_bases, n_copies, generator):
        return Exploding(n_inputs, n_bases, n_copies, generator=generator)

    options = {"max_steps": 200, "outer_bags": 1, "early_stopping_rounds": 0, "interactions": 0}
    model = NeuralBasisRegressor(network__basis=explode, **options).fit(X, y)
    trained = [
        loss
        for loss, stage in zip(model.history_.validation, model.history_.stage, strict=True)
        if stage == "main effects"
    ]
    assert np.isnan(trained[-1])
    assert not np.isnan(model.history_.validation[model.history_.best])
    assert np.isfinite(model.predict(X)).all()
