"""refine: the chain's solver, sweeps that lower the penalised objective, jumps and spikes found, noise left alone."""

from __future__ import annotations

import math
from dataclasses import replace
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, kernels
from neuralbasis.config import make_net
from neuralbasis.data.target import Sample
from neuralbasis.encoding.axis import continuous_axis, level_axis
from neuralbasis.encoding.layout import lay_out
from neuralbasis.losses.loss import choose_loss
from neuralbasis.training.engines import GridEngine
from neuralbasis.training.free import SURE
from neuralbasis.training.history import History
from neuralbasis.training.loop import training_threads
from neuralbasis.training.refine import MIN_KNOTS, MIN_SPIKE, WIDTH, _Path, find_chains, refine
from neuralbasis.training.rows import place_rows, standard_error
from neuralbasis.training.stage import Stage

BLEND = import_module("neuralbasis.training.blend")  # the package has a function of this name
seeds = st.integers(0, 2**32 - 1)
TASKS = ("regression", "binary", "multiclass")
QUICK = {"hidden": (16, 16), "n_bases": 8, "outer_bags": 2, "random_state": 0, "interactions": 0, "max_steps": 5}


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with training_threads():
        yield


# The solver


@settings(deadline=None)
@given(seeds, st.integers(1, 40))
def test_a_chain_is_solved_like_its_matrix(seed, count):
    rng = np.random.default_rng(seed)
    outer, right = rng.normal(size=count - 1), rng.normal(size=count)
    inner = np.abs(np.r_[outer, 0]) + np.abs(np.r_[0, outer]) + 0.1 + rng.random(count)
    x = np.empty(count)
    kernels.boosting._solve_chain(inner, outer, right, x)
    matrix = np.diag(inner) + np.diag(outer, 1) + np.diag(outer, -1)
    np.testing.assert_allclose(x, np.linalg.solve(matrix, right), rtol=1e-9, atol=1e-9)


def price_jump(step, width):
    """|step|, rounded below `width`: its derivative is step / (|step| + width)."""
    return np.abs(step) - width * np.log1p(np.abs(step) / width)


@settings(deadline=None)
@given(seeds, st.integers(2, 30), st.floats(0.01, 10))
def test_fusing_goes_down_to_the_minimum(seed, count, level):
    rng = np.random.default_rng(seed)
    design = rng.random((60, count)) * (np.abs(np.arange(count) - rng.uniform(0, count, (60, 1))) < 1)
    inner, outer = (design**2).sum(axis=0) + 0.5, (design[:, 1:] * design[:, :-1]).sum(axis=0)
    matrix = np.diag(inner) + np.diag(outer, 1) + np.diag(outer, -1)
    right, price, x, width = rng.normal(size=count), level * rng.random(count), np.zeros(count), 0.01

    def value():
        return x @ matrix @ x / 2 - right @ x + (price[:-1] * price_jump(np.diff(x), width)).sum()

    values = [value()]
    for _ in range(60):
        kernels.boosting._fuse(inner, np.r_[outer, 0.0], right, price, width, x)
        values.append(value())
    assert (np.diff(values) <= 1e-12).all()
    pull = price[:-1] * np.diff(x) / (np.abs(np.diff(x)) + width)
    slope = matrix @ x - right + np.r_[0, pull] - np.r_[pull, 0]
    assert np.abs(slope).max() < 1e-3 * (1 + np.abs(right).max())


# Sweeps


class Sweeps:
    """Random columns for `kernels.refine_columns`, and what it minimises in plain NumPy."""

    def __init__(self, seed, n_columns=3, n_rows=300):
        rng = np.random.default_rng(seed)
        self.sizes = rng.integers(3, 13, n_columns)
        most = self.sizes.max()
        self.positions = np.empty((n_columns, n_rows), np.float32)
        for f, size in enumerate(self.sizes):  # missing 0, on and between knots, unseen size + 1
            place = np.where(rng.random(n_rows) < 0.5, rng.integers(1, size + 1, n_rows), rng.uniform(1, size, n_rows))
            self.positions[f] = np.select([rng.random(n_rows) < 0.1, rng.random(n_rows) < 0.1], [0, size + 1], place)
        self.curvature = rng.random(n_rows) * (rng.random(n_rows) < 0.8)  # the others are held out
        signal = sum(np.sin(3 * place) + (place == 2) for place in self.positions) + rng.normal(size=n_rows)
        self.first = -self.curvature * (signal - np.average(signal, weights=self.curvature))
        self.jump, self.height = np.ones((n_columns, most)), np.full((n_columns, most), np.inf)
        self.height[:, 1] = rng.random(n_columns) + 0.2
        self.slope, self.moved = self.first.copy(), np.zeros(n_rows)
        self.chain, self.spike = np.zeros((n_columns, most)), np.zeros((n_columns, most))

    def sweep(self, price):
        kernels.refine_columns(
            self.positions, self.sizes, price * self.jump, price * self.height, WIDTH, self.slope, self.curvature,
            self.chain, self.spike, self.moved,
        )  # fmt: skip

    def read(self):
        """(N,): what the parts say of every row, by the definition of a position."""
        total = np.zeros(len(self.moved))
        for f, size in enumerate(self.sizes):
            place, table = self.positions[f].astype(float), (self.chain + self.spike)[f, :size]
            known = (place >= 1) & (place <= size)
            total[known] += np.interp(place[known], np.arange(1, size + 1), table)
        return total

    def value(self, price):
        moved = self.read()
        total = (self.first * moved).sum() + (self.curvature * moved**2).sum() / 2
        for f, size in enumerate(self.sizes):
            total += price * (self.jump[f, : size - 1] * price_jump(np.diff(self.chain[f, :size]), WIDTH)).sum()
        finite = np.isfinite(self.height)
        return total + price * (self.height[finite] * np.abs(self.spike[finite])).sum()


@settings(deadline=None, max_examples=50)
@given(seeds, st.sampled_from([0.1, 1.0, 5.0]))
def test_sweeps_lower_the_penalised_objective(seed, price):
    problem = Sweeps(seed)
    values = [problem.value(price)]
    assert values == [0.0]
    for _ in range(6):
        problem.sweep(price)
        values.append(problem.value(price))
    assert values[1] < 0
    assert (np.diff(values) <= 1e-3 * abs(values[-1])).all()


@settings(deadline=None, max_examples=50)
@given(seeds)
def test_rows_follow_the_parts(seed):
    problem = Sweeps(seed)
    for price in (3.0, 0.3):
        problem.sweep(price)
        np.testing.assert_allclose(problem.moved, problem.read(), atol=1e-6)
        np.testing.assert_allclose(problem.slope, problem.first + problem.curvature * problem.moved, atol=1e-6)
    outside = (problem.positions == 0) | (problem.positions == problem.sizes[:, None] + 1)
    assert outside.all(axis=0).sum() == (problem.moved[outside.all(axis=0)] == 0).sum()
    beyond = np.arange(problem.chain.shape[1]) >= problem.sizes[:, None]
    assert not problem.chain[beyond].any()
    assert not problem.spike[np.isinf(problem.height)].any()


@settings(deadline=None, max_examples=50)
@given(seeds)
def test_a_huge_price_lets_nothing_through(seed):
    problem = Sweeps(seed)
    for _ in range(4):
        problem.sweep(1e9)
    assert np.abs(problem.chain).max() < 1e-5
    assert not problem.spike.any()
    np.testing.assert_allclose(problem.slope, problem.first, atol=1e-5)


def test_columns_without_a_row_to_learn_from_stay_zero():
    problem = Sweeps(0)
    problem.positions[1] = 0.0
    problem.sweep(0.1)
    assert not problem.chain[1].any()
    assert problem.chain[0].any()
    assert problem.chain[2].any()
    silent = Sweeps(0)
    silent.curvature[:], silent.slope[:] = 0.0, 0.0
    silent.sweep(0.1)
    assert not silent.chain.any()
    assert not silent.moved.any()


# A free part beside bases that say nothing yet


def make_stage(numbers, y, axes=None, task="regression", n_members=2, validation_size=0.25, seed=0, **parameters):
    """An untrained stage of main effects, the rows and the objective."""
    rng = np.random.default_rng(seed)
    numbers = numbers if numbers.ndim == 2 else numbers[:, None]
    axes = axes or [continuous_axis(f"x{index}", column) for index, column in enumerate(numbers.T)]
    classes = None if task == "regression" else np.unique(y)
    sample = Sample(y, np.ones(len(y)))
    layout, objective = lay_out(axes, [(f,) for f in range(len(axes))], {}), choose_loss(sample, classes)
    grid = GridEngine(layout, layout.encode(numbers), sample.weights, threads=1)
    kind = NeuralBasisRegressor if task == "regression" else NeuralBasisClassifier
    net = make_net(kind(**{**QUICK, "outer_bags": n_members, **parameters}), grid, objective, sample, len(y), rng)
    rows = place_rows(sample, objective, n_members, validation_size, rng, grid.device)
    return Stage(net, grid), rows, objective


def run(stage, rows, objective, threads=1):
    history = History()
    return refine(stage, rows, objective, history, threads), history


def table_of(stage, index=0):
    """(knots, M · K) of a term, without missing and unseen."""
    return stage.table()[stage.grid.layout.cells_of(index)][1:-1].numpy()


def draw_jump(n_rows=800, seed=0, height=2.0, noise=0.3):
    """A jump of column 0 at 0.37, and a column that says nothing."""
    rng = np.random.default_rng(seed)
    X = rng.random((n_rows, 2))
    return X, height * (X[:, 0] > 0.37) + noise * rng.normal(size=n_rows)


def draw_task(task, n_rows=900, seed=0):
    """Jumps in the scores of every task."""
    rng = np.random.default_rng(seed)
    X = rng.random((n_rows, 2))
    step = 4.0 * (X[:, 0] > 0.37) - 2
    if task == "regression":
        return X, step + 0.3 * rng.normal(size=n_rows)
    scores = np.stack([step, 2 * (X[:, 1] > 0.6), np.zeros(n_rows)][: 3 if task == "multiclass" else 2], axis=1)
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def test_a_jump_is_found_where_it_is():
    X, y = draw_jump()
    stage, rows, objective = make_stage(X, y)
    refined, history = run(stage, rows, objective)
    assert history.stage == ["refinement"]
    assert (history.steps, history.best) == ([0], 0)
    knots = stage.grid.layout.axes_of(0)[0].knots
    shape = objective.unit * table_of(refined)  # of both members
    left, right = shape[knots < 0.36], shape[knots > 0.38]
    assert np.abs(right.mean(axis=0) - left.mean(axis=0) - 2).max() < 0.2
    assert max(left.std(axis=0).max(), right.std(axis=0).max()) < 0.12
    assert np.abs(table_of(refined, 1)).max() * objective.unit < 0.15
    # The net itself has not changed.
    assert table_of(stage).max() == 0
    torch.testing.assert_close(refined.table(), refined.rest)


@pytest.mark.parametrize("task", TASKS)
def test_the_history_holds_the_validation_loss_and_it_has_surely_fallen(task):
    X, y = draw_task(task)
    stage, rows, objective = make_stage(X, y, task=task)
    refined, history = run(stage, rows, objective)
    parts = []
    for one in (stage, refined):
        losses = objective.loss(one.add_scores(None), rows.target).double()
        weights = rows.held_out / rows.held_out.sum(0) / 2
        parts.append((losses * weights).sum(1))
    assert history.validation == pytest.approx([float(parts[1].sum())], rel=1e-5)
    gain = parts[0] - parts[1]
    assert float(gain.sum()) > SURE * standard_error(gain)
    assert refined.rest.shape == (stage.grid.layout.n_cells, 2 * objective.n_outputs)


@pytest.mark.parametrize("task", TASKS)
def test_scores_are_those_of_the_net_and_the_free_part(task):
    X, y = draw_task(task)
    stage, rows, objective = make_stage(X, y, task=task)
    with torch.no_grad():
        for parameter in stage.net.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    refined, _ = run(stage, rows, objective)
    assert refined.net is stage.net
    lookup = stage.grid.lookup
    extra = lookup.gather(lookup.take(np.arange(len(X))), refined.rest)[:, 0].reshape(len(X), 2, objective.n_outputs)
    assert extra.abs().max() > 0.5
    torch.testing.assert_close(refined.add_scores(None), stage.add_scores(None) + extra, rtol=1e-5, atol=1e-5)
    init = torch.randn(len(X), 2, objective.n_outputs, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(refined.add_scores(init), refined.add_scores(None) + init, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("task", TASKS)
def test_pure_noise_is_left_alone(task):
    """At least two standard errors are asked for: chance passes rarely, and never with a higher loss."""
    passed = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        y = rng.normal(size=300) if task == "regression" else np.arange(300) % (2 if task == "binary" else 3)
        stage, rows, objective = make_stage(rng.random((300, 2)), y, task=task)
        refined, history = run(stage, rows, objective)
        if refined is stage:
            assert (history.stage, refined.rest) == ([], None)
        else:
            passed += 1
    assert passed <= 1


def test_what_is_given_before_is_not_learned_again():
    X, y = draw_jump()
    stage, rows, objective = make_stage(X, y)
    given = torch.from_numpy(2.0 * (X[:, :1, None] > 0.37) / objective.unit).float()
    given = (given - given.mean()).expand(-1, 2, -1)
    refined, history = run(stage, replace(rows, init=given), objective)
    assert refined is stage
    assert history.stage == []


def test_the_number_of_threads_changes_nothing():
    X, y = draw_jump()
    stage, rows, objective = make_stage(X, y, n_members=5)
    one, *others = (run(stage, rows, objective, threads) for threads in (1, 2, 5))
    for refined, history in others:
        assert torch.equal(refined.rest, one[0].rest)
        assert history.validation == one[1].validation


def test_held_out_rows_teach_their_member_nothing():
    X, y = draw_jump(300)
    stage, rows, objective = make_stage(X, y)
    target = rows.target.clone()
    target[rows.held_out[:, 0]] += 50.0
    chains, scores = find_chains(stage), stage.add_scores(None)
    paths = [_Path(chains, scores, one, objective) for one in (rows, replace(rows, target=target))]
    for path in paths:
        path.descend_all(0.2, 1)
    np.testing.assert_array_equal(paths[0].chain[0], paths[1].chain[0])
    assert np.abs(paths[0].chain[1] - paths[1].chain[1]).max() > 0.1
    assert np.abs(paths[0].chain[0]).max() > 0.1


def test_weights_are_repetitions_on_the_way_down():
    X, y = draw_jump(200)
    times = np.random.default_rng(1).integers(1, 4, 200)
    stage, rows, objective = make_stage(X, y)
    again, more, _ = make_stage(np.repeat(X, times, axis=0), np.repeat(y, times), axes=stage.grid.layout.axes)
    rows = replace(rows, weights=torch.from_numpy(times).float())
    more = replace(
        more,
        held_out=torch.from_numpy(np.repeat(rows.held_out.numpy(), times, axis=0)),
        target=torch.from_numpy(np.repeat(rows.target.numpy(), times)),
    )
    paths = [_Path(find_chains(one), one.add_scores(None), of, objective) for one, of in ((stage, rows), (again, more))]
    jump = np.ones_like(paths[0].chains.jump)
    for path in paths:
        path.chains = replace(path.chains, jump=jump)
        slope = objective.slope(path.scores, path.rows.target)[:, 0, 0].numpy() * path.weights[:, 0]
        path.descend(0, 20.0 / float(np.sqrt((slope**2).sum())))  # prices follow the rows: the same one for both
    assert np.abs(paths[0].chain[0]).max() > 0.1
    np.testing.assert_allclose(paths[0].chain, paths[1].chain, atol=1e-6)
    np.testing.assert_allclose(float(paths[0].validation_losses().sum()), float(paths[1].validation_losses().sum()))


# Which cells it reaches


def make_mixed(n_rows=900, seed=0):
    """A line, an order of levels, levels, two values; rows with missing values and unseen levels in all of them."""
    rng = np.random.default_rng(seed)
    axes = [
        continuous_axis("a", rng.random(400)),
        level_axis("b", "ordinal", list("uvwxyz")),
        level_axis("c", "nominal", list("uvwxyz")),
        continuous_axis("d", np.array([0.0, 1.0])),
    ]
    numbers = np.c_[
        rng.random(n_rows), rng.integers(0, 6, n_rows), rng.integers(0, 6, n_rows), rng.integers(0, 2, n_rows)
    ].astype(float)
    y = 3.0 * (numbers[:, 0] > 0.6) + 2.0 * (numbers[:, 1] > 2) + (numbers[:, 2] > 3) + 0.3 * rng.normal(size=n_rows)
    numbers[rng.random(n_rows) < 0.1, 0] = np.nan
    numbers[rng.random(n_rows) < 0.1, 1] = np.nan
    numbers[rng.random(n_rows) < 0.1, 1] = -1.0  # never seen
    numbers[:40, 0], numbers[:20, 1], numbers[20:40, 1] = np.nan, np.nan, -1.0
    return axes, numbers, y


def test_only_columns_with_an_order_and_three_values_are_refined():
    axes, numbers, y = make_mixed()
    stage, rows, objective = make_stage(numbers, y, axes)
    chains = find_chains(stage)
    assert chains.terms == [0, 1]
    assert chains.sizes.tolist() == [len(axes[0].knots), 6]
    np.testing.assert_array_equal(chains.positions, stage.grid.positions[:, :2].T)
    refined, history = run(stage, rows, objective)
    assert history.stage == ["refinement"]
    layout = stage.grid.layout
    for index in (0, 1):
        rest = refined.rest[layout.cells_of(index)]
        assert rest[1:-1].abs().max() > 0.5
        assert not rest[[0, -1]].any()  # missing, unseen
    for index in (2, 3):
        assert not refined.rest[layout.cells_of(index)].any()


def test_rows_with_missing_values_and_unseen_levels_keep_their_scores():
    axes, numbers, y = make_mixed()
    stage, rows, objective = make_stage(numbers, y, axes)
    refined, _ = run(stage, rows, objective)
    before, after = stage.add_scores(None), refined.add_scores(None)
    silent = np.isnan(numbers[:, 0]) & (np.isnan(numbers[:, 1]) | (numbers[:, 1] < 0))
    assert silent[:40].all()
    torch.testing.assert_close(after[silent], before[silent], rtol=0, atol=0)
    assert ((after[~silent] - before[~silent]).abs().amax(dim=(1, 2)) > 0.01).float().mean() > 0.95


@pytest.mark.parametrize(
    "axis", [level_axis("a", "nominal", list("uvw")), continuous_axis("a", np.array([0.0, 1.0]))], ids=lambda a: a.kind
)
def test_without_such_columns_nothing_is_refined(axis):
    numbers = np.tile([0.0, 1.0], 50)
    stage, rows, objective = make_stage(numbers, 5 * numbers, [axis])
    assert find_chains(stage) is None
    refined, history = run(stage, rows, objective)
    assert refined is stage
    assert history.stage == []


def test_shares_of_the_prices_by_hand():
    values = np.repeat([0.0, 1.0, 2.0, 3.0], [10, 20, 30, 40])
    stage, _, _ = make_stage(values, values)
    chains = find_chains(stage)
    np.testing.assert_allclose(chains.jump, [[math.sqrt(0.1 * 0.9), math.sqrt(0.3 * 0.7), math.sqrt(0.6 * 0.4), 0]])
    assert np.isinf(chains.spike).all()  # too few knots to tell a spike from a jump
    n_knots = MIN_KNOTS + 20
    values = np.r_[np.arange(float(n_knots)), np.full(n_knots, 7.0)]  # one value has half of the rows
    stage, _, _ = make_stage(values, values)
    spike = find_chains(stage).spike[0]
    share = (n_knots + 1) / (2 * n_knots)
    assert share > max(5 / n_knots, MIN_SPIKE)
    assert np.flatnonzero(np.isfinite(spike)).tolist() == [7]
    assert spike[7] == pytest.approx(math.sqrt(share * (1 - share)), rel=1e-5)


@pytest.mark.parametrize("task", TASKS)
def test_what_leaves_it_out(task):
    X, y = draw_task(task)
    tied = [{"tied_classes": True}] if task == "multiclass" else []
    for options in [{"validation_size": 0}, *tied]:
        stage, rows, objective = make_stage(X, y, task=task, **options)
        refined, history = run(stage, rows, objective)
        assert refined is stage
        assert history.stage == []


# Spikes


def draw_spike(n_rows=1500, share=0.06, height=3.0, seed=0):
    """A smooth column with a frequent value in its middle that says something else."""
    rng = np.random.default_rng(seed)
    x = rng.random(n_rows)
    x[rng.random(n_rows) < share] = 0.5
    return x, np.sin(3 * x) + height * (x == 0.5) + 0.2 * rng.normal(size=n_rows)


@pytest.mark.parametrize("seed", range(3))
def test_a_spike_at_a_frequent_value_does_not_touch_its_neighbours(seed):
    """Without bases, from what a smooth model leaves: a spike alone."""
    x, y = draw_spike(seed=seed)
    stage, rows, objective = make_stage(x, y - np.sin(3 * x))
    refined, _ = run(stage, rows, objective)
    axis = stage.grid.layout.axes_of(0)[0]
    shape = objective.unit * table_of(refined).mean(axis=1)
    at = int(np.flatnonzero(axis.knots == 0.5)[0])
    around = np.interp([0.49, 0.51], axis.knots, shape)
    far = shape[np.abs(axis.knots - 0.5) > 0.1].mean()
    assert shape[at] - far == pytest.approx(3, rel=0.1)
    np.testing.assert_allclose(around, far, atol=0.3)


@pytest.mark.parametrize("share", [0.03, 0.1])
def test_a_fitted_shape_has_the_spike_and_its_neighbours(share):
    x, y = draw_spike(2000, share)
    model = NeuralBasisRegressor(**{**QUICK, "hidden": (32, 32), "n_bases": 16, "max_steps": 120}).fit(x[:, None], y)
    here, *around = model.predict([[0.5], [0.49], [0.51]])
    assert here == pytest.approx(math.sin(1.5) + 3, abs=0.3)
    np.testing.assert_allclose(around, np.sin([1.47, 1.53]), atol=0.3)


# Whole fits


def make_estimator(task="regression", **parameters):
    kind = NeuralBasisRegressor if task == "regression" else NeuralBasisClassifier
    return kind(**{**QUICK, **parameters})


@pytest.mark.parametrize("task", TASKS)
def test_the_compiled_model_says_what_the_stages_say(task, trainers):
    X, y = draw_task(task)
    X[::17, 0] = np.nan
    model = make_estimator(task).fit(X, y)
    (stage,) = trainers[0].stages
    blended = ["blend"] * model.history_.stage.count("blend")
    assert model.history_.stage == ["main effects"] * 5 + ["refinement"] + blended
    assert model.history_.best == len(model.history_.stage) - 1
    assert stage.rest is not None
    scores = stage.add_scores(None).mean(dim=1).double().numpy()
    X = trainers[0].numbers  # the rows in the order of the stage
    if task == "regression":
        objective = trainers[0].objective
        expected = objective.unit * scores[:, 0] + objective.shift
        np.testing.assert_allclose(model.predict(X), expected, atol=1e-5 * np.ptp(expected))
    elif task == "binary":
        np.testing.assert_allclose(model.decision_function(X), scores[:, 0], atol=1e-5)
    else:
        expected = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-5)


def test_interactions_go_on_from_the_refined_main_effects(trainers):
    X, y = draw_task("regression")
    y = y + 4 * (X[:, 0] - 0.5) * (X[:, 1] - 0.5)
    options = {"interactions": [(0, 1)], "n_interaction_bases": 8, "max_interaction_bins": 9}
    model = make_estimator(**options, max_steps=40, n_jobs=1).fit(X, y)
    first, second = trainers[0].stages
    assert first.rest is not None
    assert list(dict.fromkeys(model.history_.stage))[:4] == ["main effects", "refinement", "blend", "pairs"]
    assert model.history_.stage.count("refinement") == 1
    scores = second.add_scores(first.add_scores(None)).mean(dim=1).double().numpy()[:, 0]
    objective, numbers = trainers[0].objective, trainers[0].numbers
    expected = objective.unit * scores + objective.shift
    np.testing.assert_allclose(model.predict(numbers), expected, atol=1e-5 * np.ptp(expected))


def test_all_terms_together_are_refined_too(trainers):
    X, y = draw_task("regression")
    options = {"interactions": [(0, 1)], "n_interaction_bases": 8, "max_interaction_bins": 9, "staged": False}
    model = make_estimator(**options).fit(X, y)
    (stage,) = trainers[0].stages
    assert model.history_.stage == ["all terms"] * 5 + ["refinement"]
    pair = stage.grid.layout.terms.index((0, 1))
    assert not stage.rest[stage.grid.layout.cells_of(pair)].any()


@pytest.mark.parametrize("task", TASKS)
def test_new_rows_of_every_task_gain(task):
    (X, y), (T, truth) = draw_task(task), draw_task(task, 2000, seed=1)
    scores = [make_estimator(task, refine=wish).fit(X, y).score(T, truth) for wish in (True, False)]
    assert scores[0] > scores[1] + 0.02


def test_a_sharp_jump_is_sharper():
    X, y = draw_jump(1200, noise=0.1)
    T = np.random.default_rng(1).random((2000, 2))
    truth, errors = 2.0 * (T[:, 0] > 0.37), []
    for wish in (True, False):
        model = make_estimator(refine=wish, hidden=(32, 32), n_bases=16, max_steps=100).fit(X, y)
        shape = model.eval_terms(T)[:, 0]
        errors.append(np.std(shape - truth))
        assert ("refinement" in model.history_.stage) == wish
    assert errors[0] < 0.9 * errors[1]


def test_a_smooth_shape_gets_no_jumps(monkeypatch):
    """A refinement has nothing to add; a blend costs less than a fiftieth of the noise, in the mean of three draws."""
    errors = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.random((500, 2))
        truth = np.sin(3 * X[:, 0]) + X[:, 1]
        y = truth + 0.5 * rng.normal(size=500)
        options = {"hidden": (32, 32), "n_bases": 16, "max_steps": 100, "outer_bags": 7}
        blended, without = (make_estimator(refine=wish, **options).fit(X, y) for wish in (True, False))
        assert "refinement" not in blended.history_.stage
        errors.append([((model.predict(X) - truth) ** 2).mean() for model in (blended, without)])
        with monkeypatch.context() as patch:
            patch.setattr(BLEND, "MAX_WORK", 0)
            np.testing.assert_array_equal(make_estimator(**options).fit(X, y).predict(X), without.predict(X))
    blended_error, error = np.mean(errors, axis=0)
    assert blended_error < error + 0.02 * 0.5**2


LEFT_OUT = {
    "refine": {"refine": False},
    "validation": {"validation_size": 0},
    "output penalty": {"output_penalty": 1e-6},
    "callback": {"callbacks": [lambda history: True]},
    "time": {"time_limit": 1e-6},
}


@pytest.mark.parametrize("reason", LEFT_OUT)
def test_fits_without_a_free_part(reason, trainers):
    X, y = draw_task("binary", 400)
    model = make_estimator("binary", **LEFT_OUT[reason]).fit(X, y)
    assert set(model.history_.stage) == {"main effects"}
    assert [stage.rest for stage in trainers[0].stages] == [None]


def test_tied_classes_have_no_free_part(trainers):
    X, y = draw_task("multiclass", 400)
    model = make_estimator("multiclass", tied_classes=True).fit(X, y)
    assert set(model.history_.stage) == {"main effects"}
    assert trainers[0].stages[0].rest is None


@pytest.mark.parametrize("engine", ["grid", "exact"])
def test_a_model_with_a_free_part_reads_missing_values_as_the_stage_does(engine, trainers, monkeypatch):
    """What the model says of a missing value does not hang on the free part of its column."""
    monkeypatch.setattr(BLEND, "MAX_WORK", 0)  # boosted models speak of missing values too
    _, numbers, y = make_mixed()
    names = np.array([*"uvwxyz", None], dtype=object)

    def name(numbers):
        levels = names[np.where(np.isnan(numbers[:, 1]), -1, np.maximum(numbers[:, 1], 0)).astype(int)]
        return pd.DataFrame({"a": numbers[:, 0], "b": levels, "d": numbers[:, -1]})

    table = name(numbers)
    model = make_estimator(engine=engine, feature_types=["continuous", list("uvwxyz"), "continuous"]).fit(table, y)
    assert model.history_.stage[-1] == "refinement"
    stage, objective, table = trainers[0].stages[0], trainers[0].objective, name(trainers[0].numbers)
    expected = objective.unit * stage.add_scores(None).mean(dim=1)[:, 0].double().numpy() + objective.shift
    np.testing.assert_allclose(model.predict(table), expected, atol=2e-5)
    plain = Stage(stage.net, stage.grid).add_scores(None)
    silent = table["a"].isna().to_numpy() & table["b"].isna().to_numpy()
    torch.testing.assert_close(stage.add_scores(None)[silent], plain[silent], rtol=0, atol=0)
    assert silent.any()
