"""blend: rows that move as their tables say, finer knots where shapes jump, a share chosen by held-out rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, kernels
from neuralbasis.config import make_net
from neuralbasis.data.target import Sample
from neuralbasis.encoding.axis import continuous_axis, level_axis
from neuralbasis.encoding.layout import lay_out
from neuralbasis.losses.loss import bound_curvature, choose_loss
from neuralbasis.training.blend import BY_CHANCE, BY_GAIN, PARTS, blend, subdivide, thin_axes
from neuralbasis.training.boosting import Booster, boost_members, find_tables
from neuralbasis.training.engines import GridEngine
from neuralbasis.training.history import History
from neuralbasis.training.loop import training_threads
from neuralbasis.training.rows import place_rows
from neuralbasis.training.stage import Stage

seeds = st.integers(0, 2**32 - 1)
TASKS = ("regression", "binary", "multiclass")
QUICK = {"hidden": (16, 16), "n_bases": 8, "outer_bags": 3, "random_state": 0, "interactions": 0, "max_steps": 30}


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with training_threads():
        yield


# A round


class Round:
    """Rows on an ordered axis of 9 cells and one of 6 levels, with missing and unseen, and what a round does."""

    def __init__(self, seed, n_rows=200):
        rng = np.random.default_rng(seed)
        line = np.where(rng.random(n_rows) < 0.1, 0, rng.uniform(1, 7, n_rows))
        self.positions = np.stack([line, rng.integers(0, 6, n_rows)]).astype(np.float32)
        self.cells, self.sizes = np.rint(self.positions).astype(np.uint16), np.array([9, 6])
        self.first, self.curvature = rng.normal(size=n_rows), rng.random(n_rows) * (rng.random(n_rows) < 0.8)
        self.first *= self.curvature > 0
        self.slope, self.moved, self.tables = self.first.copy(), np.zeros(n_rows), np.zeros(15)

    def cut(self, kernel=kernels.cut_columns, rate=0.3, least=2.0, seed=0):
        kernel(
            self.positions, self.cells, np.array([[0], [1]]), self.sizes, np.array([False, True]), 1.0, least, rate,
            self.slope, self.curvature, self.tables, np.array([0, 9]), self.moved, seed,
        )  # fmt: skip


@settings(deadline=None)
@given(seeds, st.sampled_from([0, 1, 77]))
def test_rows_move_as_the_tables_say(seed, chance):
    found = Round(seed)
    found.cut(seed=chance)
    line = np.interp(found.positions[0], np.arange(9), found.tables[:9])
    np.testing.assert_allclose(found.moved, line + found.tables[9:][found.cells[1]], atol=1e-6)
    np.testing.assert_allclose(found.slope, found.first + found.curvature * found.moved, atol=1e-12)
    assert np.abs(found.moved).max() > 0
    # The quadratic model of the loss is lower.
    assert found.first @ found.moved + (found.curvature * found.moved**2).sum() / 2 < 0


@pytest.mark.skipif(not kernels.NUMBA, reason="there is one loop only")
@pytest.mark.parametrize("seed", [0, 5])
def test_a_round_is_the_same_without_numba(monkeypatch, seed):
    compiled, plain = Round(0), Round(0)
    compiled.cut(seed=seed)
    for name in ("_order_cells", "_cut_line", "_cut_column", "_scramble", "_draw", "_shuffle_cells"):
        monkeypatch.setattr(kernels.boosting, name, getattr(kernels.boosting, name).py_func)
    with np.errstate(over="ignore"):
        plain.cut(kernels.cut_columns.py_func, seed=seed)
    np.testing.assert_allclose(plain.tables, compiled.tables, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(plain.moved, compiled.moved, rtol=1e-9, atol=1e-12)


def test_a_step_is_cut_where_it_is():
    """The first cut takes the whole step, and those after it find nothing."""
    positions = np.linspace(1, 7, 301, dtype=np.float32)[None]
    target, tables, moved = np.where(np.rint(positions[0]) >= 5, 3.0, -1.0), np.zeros(9), np.zeros(301)
    kernels.cut_columns(
        positions, np.rint(positions).astype(np.uint16), np.array([[0]]), np.array([9]), np.array([False]), 0.0, 1.0,
        1.0, -target, np.ones(301), tables, np.array([0]), moved, 0,
    )  # fmt: skip
    np.testing.assert_allclose(tables, np.where(np.arange(9) >= 5, 3.0, -1.0))


def test_pieces_need_their_rows():
    found = Round(3)
    found.cut(least=1e9)
    assert not found.tables.any()
    np.testing.assert_array_equal(found.slope, found.first)


def test_cuts_by_chance_are_anywhere_among_the_rows():
    """Of a line of even weights, a cut stands behind every cell alike, and levels come to either side alike."""
    drawn = np.array([kernels.boosting._draw(seed, cut, 0) for seed in range(1, 501) for cut in range(4)])
    assert np.histogram(drawn, 5, (0, 1))[0].min() > 340  # 400 ± 18 of 2,000
    first = [Round(0) for _ in range(60)]
    for seed, found in enumerate(first, 1):
        found.cut(seed=seed, rate=0.1, least=0.0)
    assert len({found.tables[:9].tobytes() for found in first}) == 60
    whole = np.mean([found.tables[9:] for found in first], axis=0)
    greedy = Round(0)
    greedy.cut(rate=0.1, least=0.0)
    assert np.corrcoef(whole, greedy.tables[9:])[0, 1] > 0.9


# Knots


@settings(deadline=None)
@given(seeds, st.integers(5, 600))
def test_knots_are_added_at_values_between_two(seed, n_rows):
    rng = np.random.default_rng(seed)
    values = np.where(rng.random(n_rows) < 0.1, np.nan, rng.normal(size=n_rows).round(2))
    values[0] = 0.0
    axis = continuous_axis("a", values, max_knots=17)
    fine = subdivide(axis, values)
    assert np.isin(axis.knots, fine.knots).all()
    assert np.isin(np.setdiff1d(fine.knots, axis.knots), values).all()
    np.testing.assert_allclose(fine.places, np.interp(fine.knots, axis.knots, axis.places))
    assert (np.diff(fine.places) > 0).all()
    assert (np.diff(fine.knots) > 0).all()
    distinct = np.setdiff1d(values[~np.isnan(values)], axis.knots)
    for left, right in zip(axis.knots[:-1], axis.knots[1:], strict=True):
        there, added = (((knots > left) & (knots < right)).sum() for knots in (distinct, fine.knots))
        assert added == min(there, PARTS)


def test_levels_have_no_knots_between_them():
    axis = level_axis("a", "ordinal", list("uvw"))
    assert subdivide(axis, np.array([0.0, 1.0, 2.0, np.nan, -1.0])) is axis


# A stage


def draw_steps(task="regression", n_rows=1200, seed=0):
    """Steps of column 0, a line of column 1 (some values missing), levels in column 2."""
    rng = np.random.default_rng(seed)
    X = np.c_[rng.random((n_rows, 2)), rng.integers(0, 4, n_rows)]
    score = 2.0 * (X[:, 0] > 0.37) - 3.0 * (X[:, 0] > 0.71) + X[:, 1] + np.cos(2 * X[:, 2])
    X[rng.random(n_rows) < 0.1, 1] = np.nan
    if task == "regression":
        return X, score + 0.3 * rng.normal(size=n_rows)
    scores = np.stack([2 * score, np.full(n_rows, 1.5), 3 * X[:, 0]][: 3 if task == "multiclass" else 2], axis=1)
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


class Problem:
    """An untrained stage of main effects whose net says a little, the rows and the objective."""

    def __init__(self, X, y, task="regression", n_members=3, terms=((0,), (1,), (2,)), held=0.2, **parameters):
        rng = np.random.default_rng(0)
        axes = [*(continuous_axis(f"x{f}", X[:, f]) for f in range(2)), level_axis("x2", "nominal", list("uvwx"))]
        self.numbers, sample = X, Sample(y, np.ones(len(y)))
        self.objective = choose_loss(sample, None if task == "regression" else np.unique(y))
        grid = self.make_grid(lay_out(axes, terms, {2: 9}))
        kind = NeuralBasisRegressor if task == "regression" else NeuralBasisClassifier
        net = make_net(
            kind(**{**QUICK, "outer_bags": n_members, **parameters}), grid, self.objective, sample, len(y), rng
        )
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.add_(0.02 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
        self.stage = Stage(net, grid)
        self.rows = place_rows(sample, self.objective, n_members, held, rng, grid.device)

    def make_grid(self, layout):
        return GridEngine(layout, layout.encode(self.numbers), np.ones(len(self.numbers)), threads=1)

    def blend(self, stage=None, rows=None, threads=1):
        self.history = History()
        return blend(
            stage or self.stage, self.numbers, self.make_grid, rows or self.rows, self.objective, self.history, threads
        )

    def validate(self, stage, init=None):
        losses = self.objective.loss(stage.add_scores(init), self.rows.target)
        return float(self.rows.validate(losses).sum())


@pytest.mark.parametrize("task", TASKS)
def test_steps_are_found(task):
    problem = Problem(*draw_steps(task), task)
    stage, found = problem.stage, problem.blend()
    assert (problem.history.stage, problem.history.steps, problem.history.best) == (["blend", "blend"], [0, 0], 1)
    assert problem.validate(found) < 0.9 * problem.validate(stage)
    # Knots that were left out change it a little.
    assert problem.history.validation[1] == pytest.approx(problem.validate(found), rel=1e-2)
    assert problem.history.validation[1] < problem.history.validation[0] < problem.validate(stage)
    assert found.net is stage.net
    assert 0 < found.share < 1
    axis, before = (each.grid.layout.axes[0].knots for each in (found, stage))
    new = np.setdiff1d(axis, before)
    assert len(new)
    assert np.isin(before, axis).all()
    if task == "regression":  # knots come where the steps are
        assert (np.abs(new[:, None] - [0.37, 0.71]).min(axis=1) < 0.02).mean() > 0.6
        shape = problem.objective.unit * found.table()[found.grid.layout.cells_of(0)][1:-1].mean(dim=1).numpy()
        assert np.interp(0.39, axis, shape) - np.interp(0.35, axis, shape) == pytest.approx(2, abs=0.3)
        assert np.interp(0.69, axis, shape) - np.interp(0.73, axis, shape) == pytest.approx(3, abs=0.3)


def test_the_stage_says_its_share():
    problem = Problem(*draw_steps())
    found = problem.blend()
    net = found.net.table(found.grid.points)
    torch.testing.assert_close(found.table(), found.share * net + found.rest)
    refined = problem.stage.add_part(np.ones((3, 1, problem.stage.grid.layout.n_cells)))
    mixed = refined.mix(0.25, np.full((3, 1, problem.stage.grid.layout.n_cells), 2.0))
    torch.testing.assert_close(mixed.table(), 0.25 * refined.table() + 1.5)


def test_a_stage_moves_to_other_knots():
    """Onto finer knots and back, rows read the free part as before."""
    problem = Problem(*draw_steps())
    stage, rng = problem.stage, np.random.default_rng(1)
    part = rng.normal(size=(3, 1, stage.grid.layout.n_cells))
    axes = [subdivide(axis, problem.numbers[:, index]) for index, axis in enumerate(stage.grid.layout.axes)]
    fine = problem.make_grid(lay_out(axes, stage.grid.layout.terms, {}))
    free = replace(stage.add_part(part), share=0.0)
    moved = free.move(fine)
    torch.testing.assert_close(moved.add_scores(None), free.add_scores(None), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(moved.move(stage.grid).rest, free.rest)
    assert stage.move(fine).rest is None


def test_axes_keep_the_knots_that_shapes_need():
    problem = Problem(*draw_steps())
    stage = problem.stage
    axes = [subdivide(axis, problem.numbers[:, index]) for index, axis in enumerate(stage.grid.layout.axes)]
    fine = replace(stage.move(problem.make_grid(lay_out(axes, stage.grid.layout.terms, {}))), share=0.0)
    tables = np.zeros((3, 1, fine.grid.layout.n_cells))
    plain, line = thin_axes(fine.add_part(tables), stage.grid.layout.axes), fine.grid.layout.axes[0]
    assert [axis.knots.tolist() for axis in plain] == [axis.knots.tolist() for axis in stage.grid.layout.axes]
    tables[..., 1 : 1 + len(line.knots)] = line.knots > 0.5
    thin = thin_axes(fine.add_part(tables), stage.grid.layout.axes)
    left, right = (knots := stage.grid.layout.axes[0].knots)[knots <= 0.5].max(), knots[knots > 0.5].min()
    new = np.setdiff1d(thin[0].knots, knots)
    assert len(new) > 0
    assert ((new > left) & (new < right)).all()
    assert [len(axis.knots) for axis in thin[1:]] == [len(axis.knots) for axis in stage.grid.layout.axes[1:]]


def test_noise_stays_low():
    """Where there is nothing to find, what a blend adds is less than a hundredth of the target's variance."""
    rng = np.random.default_rng(0)
    for _ in range(10):
        X, _ = draw_steps(n_rows=300)
        problem = Problem(X, rng.normal(size=300))
        found = problem.blend()
        assert (found is problem.stage) == (problem.history.stage == [])
        assert float((found.add_scores(None).mean(dim=1) ** 2).mean()) < 0.01


@pytest.mark.parametrize("pace", [BY_CHANCE, BY_GAIN])
def test_sure_scores_are_cut_further(pace):
    """Where all rows together tell less than a piece needs at first, pieces need less."""
    X, y = draw_steps("binary", n_rows=150)
    problem = Problem(X, y, "binary")
    tables = find_tables(problem.stage.grid, 1)
    start = torch.zeros(150, 1)
    sure, unsure = (
        Booster(tables, start.clone(), problem.rows.part(0, 1), problem.objective, replace(pace, least=each))
        for each in (pace.least, 1e9)
    )
    for booster in (sure, unsure):
        booster.scores[:] = torch.from_numpy(np.where(y, 5.0, -5.0))[:, None] * (0.5 if booster is sure else 1.0)
    told = sure._find_curvature().sum()
    assert told < min(sure.told_first) / 3
    before = sure.loss()
    for number in range(1, 6):
        sure.cut(number)
        unsure.cut(number)
    assert sure.found.any()
    assert not unsure.found.any()
    assert sure.loss() != before


@given(st.floats(-12, 12), st.floats(-30, 30))
def test_a_parabola_of_the_bounding_curvature_is_nowhere_below_the_loss(here, there):
    here, there = torch.tensor([here, there], dtype=torch.float64)
    loss, share = torch.nn.functional.softplus, here.sigmoid()
    curvature = bound_curvature(share * (1 - share))
    assert 0 < curvature <= 0.25 + 1e-12
    parabola = loss(here) + share * (there - here) + curvature * (there - here) ** 2 / 2
    assert loss(there) <= parabola + 1e-6 * (1 + parabola.abs())


def draw_rare(n_rows=6000, n_columns=12, seed=0):
    """Half a percent of the rows are high in all columns at once."""
    rng = np.random.default_rng(seed)
    y = (np.arange(n_rows) % 200 == 0).astype(int)
    return rng.normal(size=(n_rows, n_columns)) + 2.5 * y[:, None], y


@pytest.mark.parametrize("pace", [BY_CHANCE, BY_GAIN])
def test_a_rare_class_is_boosted_with_care(pace):
    """Newton steps of all columns together go far beyond; with a bound of the curvature the loss falls by half."""
    X, y = draw_rare()
    axes = [continuous_axis(f"x{f}", X[:, f]) for f in range(X.shape[1])]
    layout = lay_out(axes, [(f,) for f in range(len(axes))], {})
    grid, sample = GridEngine(layout, layout.encode(X), np.ones(len(X)), threads=1), Sample(y, np.ones(len(y)))
    objective = choose_loss(sample, np.unique(y))
    rows = place_rows(sample, objective, 3, 0.3, np.random.default_rng(0), grid.device)
    start = torch.from_numpy(objective.first_score(sample)).float().expand(len(y), 3, 1)
    booster = Booster(find_tables(grid, 1), start[:, 0].clone(), rows.part(0, 1), objective, pace)
    before = booster._learned_loss()
    booster.cut(1)
    assert booster.is_careful
    assert booster._learned_loss() < before
    found, scores = boost_members([find_tables(grid, 1)] * start.shape[1], start, rows, objective, pace, 1)
    assert found.any()
    losses = [float(rows.validate(objective.loss(each, rows.target)).sum()) for each in (start, scores)]
    assert losses[1] < 0.5 * losses[0]


@pytest.mark.parametrize("task", TASKS)
def test_common_classes_need_no_care(task):
    problem = Problem(*draw_steps(task), task)
    start = torch.zeros(1200, problem.objective.n_outputs)
    booster = Booster(
        find_tables(problem.stage.grid, 1), start, problem.rows.part(0, 1), problem.objective, BY_GAIN
    )  # fmt: skip
    booster.cut(1)
    assert booster.rounds == 1
    assert not booster.is_careful


def test_threads_do_not_matter():
    problem = Problem(*draw_steps())
    one, three = problem.blend(threads=1), problem.blend(threads=3)
    assert one.share == three.share
    assert torch.equal(one.rest, three.rest)


@pytest.mark.parametrize("pace", [BY_CHANCE, BY_GAIN])
def test_a_member_does_not_see_the_rows_it_holds_out(pace):
    problem = Problem(*draw_steps())
    rows, held = problem.rows, problem.rows.held_out[:, 0]

    def cut_thrice(target):
        tables, part = find_tables(problem.stage.grid, 1), replace(rows, target=target).part(0, 1)
        member = Booster(tables, torch.zeros(len(target), 1), part, problem.objective, pace)
        for seed in range(1, 4):
            member.cut(seed)
        return member.found

    found = cut_thrice(rows.target)
    assert np.abs(found).max() > 0
    np.testing.assert_array_equal(cut_thrice(torch.where(held, -rows.target, rows.target)), found)
    assert not np.array_equal(cut_thrice(torch.where(held, rows.target, -rows.target)), found)


def test_given_scores_are_not_learned_again():
    problem = Problem(*draw_steps())
    found = problem.blend()
    steps = np.abs(found.rest.numpy()).max()
    again = problem.blend(rows=replace(problem.rows, init=found.add_scores(None)))
    assert again.share == 1 or np.abs(again.rest.numpy()).max() < 0.2 * steps


@pytest.mark.parametrize("why", ["no rows held out", "tied", "pairs"])
def test_what_is_not_blended(why):
    task = "multiclass" if why == "tied" else "regression"
    options = {"tied": {"tied_classes": True}, "pairs": {"terms": ((0,), (1,), (0, 1))}}.get(why, {"held": 0})
    problem = Problem(*draw_steps(task), task, **options)
    assert problem.blend() is problem.stage
    assert problem.history.stage == []


# Whole fits


def draw_stairs(task="regression", n_rows=8000, seed=0):
    """Stairs of two columns (some values of the second missing), up and down, and levels."""
    rng = np.random.default_rng(seed)
    X = np.c_[rng.random((n_rows, 2)), rng.integers(0, 4, n_rows)]
    stairs = [
        sum((-1) ** k * (x > place) for k, place in enumerate((0.11, 0.23, 0.37, 0.52, 0.71, 0.86))) for x in X.T[:2]
    ]
    score = 2.0 * stairs[0] + 1.5 * stairs[1] + np.cos(2 * X[:, 2])
    X[rng.random(n_rows) < 0.1, 1] = np.nan
    if task == "regression":
        return X, score + 0.1 * rng.normal(size=n_rows)
    scores = np.stack([3 * score, np.full(n_rows, 1.5), 3 * X[:, 0]][: 3 if task == "multiclass" else 2], axis=1)
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def make_estimator(task="regression", **parameters):
    kind = NeuralBasisRegressor if task == "regression" else NeuralBasisClassifier
    return kind(**{**QUICK, **parameters})


@pytest.mark.parametrize("task", TASKS)
def test_the_compiled_model_says_what_the_stage_says(task, trainers):
    model = make_estimator(task, n_jobs=1).fit(*draw_stairs(task))
    (stage,) = trainers[0].stages
    assert "blend" in model.history_.stage
    assert stage.share < 1
    numbers = trainers[0].numbers  # the rows in the order of the stage, which reads positions in single precision
    scores = stage.add_scores(None).mean(dim=1).double().numpy()
    if task == "regression":
        expected = trainers[0].objective.unit * scores[:, 0] + trainers[0].objective.shift
        np.testing.assert_allclose(model.predict(numbers), expected, atol=1e-4)
    elif task == "binary":
        np.testing.assert_allclose(model.decision_function(numbers), scores[:, 0], atol=1e-4)
    else:
        expected = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(model.predict_proba(numbers), expected, atol=1e-4)
    assert [axis.knots.tolist() for axis in model.model_.encoder.axes] == [
        axis.knots.tolist() for axis in stage.grid.layout.axes
    ]


def test_pairs_go_on_from_the_blend(trainers):
    X, y = draw_stairs()
    y = y + (X[:, 0] - 0.5) * (X[:, 2] > 1)
    options = {"interactions": [(0, 2)], "n_interaction_bases": 8, "max_interaction_bins": 9, "n_jobs": 1}
    model = make_estimator(**options).fit(X, y)
    first, second = trainers[0].stages
    stages = list(dict.fromkeys(model.history_.stage))
    assert stages.index("main effects") < stages.index("blend") < stages.index("pairs")
    assert first.share < 1
    scores = second.add_scores(first.add_scores(None)).mean(dim=1).double().numpy()[:, 0]
    objective, numbers = trainers[0].objective, trainers[0].numbers
    expected = objective.unit * scores + objective.shift
    np.testing.assert_allclose(model.predict(numbers), expected, atol=1e-4)


def test_stairs_are_sharper_on_new_rows():
    (X, y), (T, truth) = draw_stairs(), draw_stairs(n_rows=3000, seed=1)
    models = [make_estimator(refine=wish, max_steps=100).fit(X, y) for wish in (True, False)]
    assert ["blend" in model.history_.stage for model in models] == [True, False]
    known = ~np.isnan(T[:, 1])
    errors = [np.sqrt(np.mean((model.predict(T) - truth)[known] ** 2)) for model in models]
    assert errors[0] < 0.6 * errors[1]
