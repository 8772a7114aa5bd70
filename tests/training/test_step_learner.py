"""StepLearner: steps of columns and pairs where they are, stopped by held-out rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor
from neuralbasis.data import Sample
from neuralbasis.encoding import Anchor, continuous_axis, lay_out, level_axis
from neuralbasis.losses import bound_curvature, choose_loss
from neuralbasis.training import GridEngine, learn_steps, place_rows
from neuralbasis.training.step_learner import Booster, find_step_tables, subdivide
from tests.sparse_tables import store

TASKS = ("regression", "binary", "multiclass")


class Problem:
    """Rows of two continuous columns and one of four levels, a grid of some terms, and scores to start from."""

    def __init__(self, X, y, task="regression", order=1, n_members=3, held=0.2, anchors=None, numbers=None):
        axes = [*(continuous_axis(f"x{f}", X[:, f]) for f in range(2)), level_axis("x2", "nominal", list("uvwx"))]
        self.terms = [(0,), (1,), (2,)] if order == 1 else [(0,), (0, 1), (0, 2), (1, 2)]
        self.layout, self.order = lay_out(axes, self.terms, {2: 17}, anchors or {}), order
        self.grid = self.make_grid(X if numbers is None else numbers)
        sample = Sample(y, np.ones(len(y)))
        self.loss = choose_loss(sample, None if task == "regression" else np.unique(y))
        self.rows = place_rows(sample, self.loss, n_members, held, np.random.default_rng(0), torch.device("cpu"))
        first = torch.from_numpy(self.loss.first_score(sample)).float()
        self.start = first.expand(len(y), n_members, self.loss.n_outputs)

    def make_grid(self, numbers):
        return GridEngine(self.layout, self.layout.encode(numbers), np.ones(len(numbers)), threads=1)

    def learn(self, threads=1, **changed):
        given = {"grid": self.grid, "scores": self.start, "rows": self.rows} | changed
        return learn_steps(given["grid"], self.order, given["scores"], given["rows"], self.loss, threads)

    def boost(self, target=None, member=0):
        """A member before its first round."""
        rows = self.rows if target is None else replace(self.rows, target=target)
        tables, start = find_step_tables(self.grid, self.order), self.start[:, member].clone()
        return Booster(tables, start, rows.part(member, member + 1), self.loss)

    def add_scores(self, values):
        lookup, shape = self.grid.lookup, self.start.shape
        return self.start + lookup.gather(lookup.take(np.arange(shape[0])), values).view(shape)

    def held_out_loss(self, scores):
        return float((self.loss.loss(scores, self.rows.target).double() * self.rows.validation_parts()).sum())

    def shape(self, values, term):
        """Mean over the members of a term's table, in the unit of the target."""
        index = self.layout.terms.index(term)
        table = values[self.layout.cells_of(index)].mean(dim=1).numpy() * self.loss.unit
        return table.reshape(self.layout.table_shape(index))


def draw_score(task, score, n_rows, rng):
    if task == "regression":
        return score + 0.3 * rng.normal(size=n_rows)
    scores = np.stack([2 * score, np.full(n_rows, 1.5), np.zeros(n_rows)][: 3 if task == "multiclass" else 2], axis=1)
    return (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def draw_steps(task="regression", n_rows=1200, seed=0):
    """Jumps of column 0, a line of column 1 with missing values, and levels of which 0 and 2 are high."""
    rng = np.random.default_rng(seed)
    X = np.c_[rng.random((n_rows, 2)), rng.integers(0, 4, n_rows)]
    score = 2.0 * (X[:, 0] > 0.37) - 3.0 * (X[:, 0] > 0.71) + X[:, 1] + 1.5 * (X[:, 2] % 2 == 0)
    X[rng.random(n_rows) < 0.1, 1] = np.nan
    return X, draw_score(task, score, n_rows, rng)


def draw_corner(task="regression", n_rows=1500, seed=0):
    """A corner of columns 0 and 1, and an edge of column 0 for two of the levels."""
    rng = np.random.default_rng(seed)
    X = np.c_[rng.random((n_rows, 2)), rng.integers(0, 4, n_rows)]
    score = 3.0 * ((X[:, 0] > 0.4) & (X[:, 1] > 0.6)) + 2.0 * np.isin(X[:, 2], [1, 3]) * (X[:, 0] > 0.7)
    return X, draw_score(task, score, n_rows, rng)


DRAW = {1: draw_steps, 2: draw_corner}


# What is learned


@pytest.mark.parametrize("order", DRAW)
@pytest.mark.parametrize("task", TASKS)
def test_steps_lower_the_held_out_loss_of_every_task(task, order):
    problem = Problem(*DRAW[order](task), task, order)
    values = problem.learn()
    assert values.shape == (problem.layout.n_cells, 3 * problem.loss.n_outputs)
    assert problem.held_out_loss(problem.add_scores(values)) < 0.9 * problem.held_out_loss(problem.start)
    if order == 2:  # main effects stay 0
        assert not values[problem.layout.cells_of(0)].any()


def test_jumps_and_levels_are_found_where_they_are():
    problem = Problem(*draw_steps())
    values = problem.learn()
    knots, shape = problem.layout.axes[0].knots, problem.shape(values, (0,))[1:-1]
    assert np.interp(0.44, knots, shape) - np.interp(0.3, knots, shape) == pytest.approx(2, abs=0.3)
    assert np.interp(0.64, knots, shape) - np.interp(0.78, knots, shape) == pytest.approx(3, abs=0.3)
    assert shape[(knots > 0.44) & (knots < 0.64)].std() < 0.1
    rise = np.diff(shape)
    assert knots[rise.argmax()] == pytest.approx(0.37, abs=0.01)
    assert knots[rise.argmin()] == pytest.approx(0.71, abs=0.01)
    knots, shape = problem.layout.axes[1].knots, problem.shape(values, (1,))[1:-1]
    assert np.interp(0.9, knots, shape) - np.interp(0.1, knots, shape) == pytest.approx(0.8, abs=0.2)
    levels = problem.shape(values, (2,))[1:-1]
    np.testing.assert_allclose(levels - levels.mean(), [0.75, -0.75, 0.75, -0.75], atol=0.1)


def test_edges_of_pairs_are_found():
    problem = Problem(*draw_corner(n_rows=3000), order=2)
    values = problem.learn()
    corner, (first, second) = problem.shape(values, (0, 1)), problem.layout.axes_of(problem.layout.terms.index((0, 1)))
    means = [
        [corner[1:-1, 1:-1][np.ix_(near, far)].mean() for far in (second.knots < 0.55, second.knots > 0.65)]
        for near in (first.knots < 0.35, first.knots > 0.45)
    ]
    contrast = means[1][1] - means[1][0] - means[0][1] + means[0][0]  # what no other table can hold
    assert contrast == pytest.approx(3, abs=0.2)
    edge, (axis, _) = problem.shape(values, (0, 2)), problem.layout.axes_of(problem.layout.terms.index((0, 2)))
    right, left = edge[1:-1][axis.knots > 0.8].mean(axis=0), edge[1:-1][axis.knots < 0.6].mean(axis=0)
    rise = (right - left)[1:-1]
    np.testing.assert_allclose(rise - rise.mean(), [-1, 1, -1, 1], atol=0.15)


def test_given_scores_are_not_learned_again():
    problem = Problem(*draw_steps())
    values = problem.learn()
    again = problem.learn(scores=problem.add_scores(values))
    assert again.abs().max() < 0.25 * values.abs().max()


def test_weights_are_repeated_rows():
    X, y = draw_steps(n_rows=300)
    times = np.random.default_rng(1).integers(1, 4, 300)
    problem, index = Problem(X, y), torch.from_numpy(np.repeat(np.arange(300), times))
    weighted = problem.learn(rows=replace(problem.rows, weights=torch.from_numpy(times).float()))
    rows = replace(
        problem.rows, target=problem.rows.target[index], held_out=problem.rows.held_out[index],
        weights=torch.ones(len(index)),
    )  # fmt: skip
    repeated = problem.learn(grid=problem.make_grid(X[index]), scores=problem.start[index], rows=rows)
    assert weighted.abs().max() > 0.5
    torch.testing.assert_close(weighted, repeated, rtol=0, atol=1e-4)


@pytest.mark.parametrize("order", DRAW)
def test_threads_do_not_change_a_bit(order):
    problem = Problem(*DRAW[order](), order=order)
    assert torch.equal(problem.learn(1), problem.learn(2))


@pytest.mark.parametrize("order", DRAW)
def test_sparse_rows_give_the_tables_of_dense_rows(order):
    X, y = DRAW[order](n_rows=400)
    X[np.random.default_rng(2).random(X.shape) < 0.6] = 0.0
    dense = Problem(X, y, order=order)
    sparse = Problem(X, y, order=order, numbers=store(X, 0.0))
    assert not isinstance(sparse.grid.positions, np.ndarray)
    assert torch.equal(sparse.learn(), dense.learn())


# Held-out rows


@pytest.mark.parametrize("order", DRAW)
def test_a_member_does_not_learn_from_the_rows_it_holds_out(order):
    problem = Problem(*DRAW[order](), order=order)
    target, held = problem.rows.target, problem.rows.held_out[:, 0]

    def cut_thrice(target):
        member = problem.boost(target)
        for seed in range(1, 4):
            member.cut(seed)
        return member.values

    found = cut_thrice(target)
    assert np.abs(found).max() > 0
    np.testing.assert_array_equal(cut_thrice(torch.where(held, -target, target)), found)
    assert not np.array_equal(cut_thrice(torch.where(held, target, -target)), found)


def test_the_round_with_the_lowest_held_out_loss_is_kept():
    X, y = draw_steps(n_rows=300)
    problem = Problem(X, y + np.random.default_rng(1).normal(0, 2, len(y)), held=0.4)
    members, losses, values = [problem.boost(member=m) for m in range(3)], [], []
    for seed in range(3, 3 * 100, 3):
        for m, member in enumerate(members):
            member.cut(seed + m)
        losses.append(sum(member.held_out_loss() for member in members))
        values.append(np.concatenate([member.values for member in members]).T.astype(np.float32))
    best, found = int(np.argmin(losses)), problem.learn()
    assert 0 < best < 50
    np.testing.assert_array_equal(found, values[best])
    assert problem.held_out_loss(problem.add_scores(found)) < problem.held_out_loss(problem.start)


def test_noise_gives_small_tables():
    rng = np.random.default_rng(0)
    for seed in range(5):
        problem = Problem(draw_steps(n_rows=600, seed=seed)[0], rng.normal(size=600))
        scores = problem.add_scores(problem.learn())
        assert float((scores - problem.start).mean(dim=1).square().mean()) < 0.02


# Classes


def test_confident_scores_are_cut_further():
    """The least curvature of a piece shrinks with the curvature of all rows."""
    X, y = draw_steps("binary", n_rows=150)
    booster = Problem(X, y, "binary").boost()
    booster.scores[:] = torch.from_numpy(np.where(y, 3.5, -3.5))[:, None]
    assert booster._find_curvature().sum() < 4 * booster.unit * 4
    booster.cut(1)
    assert booster.values.any()


@given(st.floats(-12, 12), st.floats(-30, 30))
def test_a_parabola_with_the_bounding_curvature_is_nowhere_below_the_loss(here, there):
    here, there = torch.tensor([here, there], dtype=torch.float64)
    loss, share = torch.nn.functional.softplus, here.sigmoid()
    curvature = bound_curvature(share * (1 - share))
    assert 0 < curvature <= 0.25 + 1e-12
    parabola = loss(here) + share * (there - here) + curvature * (there - here) ** 2 / 2
    assert loss(there) <= parabola + 1e-6 * (1 + parabola.abs())


def test_a_rare_class_is_boosted_with_bounded_curvature():
    """Half a percent of the rows are high in all columns at once: plain Newton steps raise the loss."""
    rng, n_rows = np.random.default_rng(0), 6000
    y = (np.arange(n_rows) % 200 == 0).astype(int)
    X = rng.normal(size=(n_rows, 12)) + 2.5 * y[:, None]
    problem = Problem(np.c_[X[:, :2], np.zeros(n_rows)], y, "binary")
    axes = [continuous_axis(f"x{f}", column) for f, column in enumerate(X.T)]
    problem.layout = lay_out(axes, [(f,) for f in range(12)], {})
    problem.grid = problem.make_grid(X)
    booster = problem.boost()
    before = booster._training_loss()
    booster.cut(1)
    assert booster.is_bounded
    assert booster._training_loss() < before
    after = problem.held_out_loss(problem.add_scores(problem.learn()))
    assert after < 0.5 * problem.held_out_loss(problem.start)


@pytest.mark.parametrize("task", TASKS)
def test_common_classes_need_no_bound(task):
    booster = Problem(*draw_steps(task), task).boost()
    booster.cut(1)
    assert not booster.is_bounded


# What is not boosted


def test_too_much_work_is_not_done():
    problem = Problem(*draw_steps(n_rows=200))
    assert problem.learn() is not None
    assert problem.learn(scores=torch.zeros(1).expand(200, 166_667, 1)) is None  # 1e8 rows × terms × members


def test_anchored_pairs_and_other_orders_are_not_boosted():
    X, y = draw_corner(n_rows=200)
    anchored = Problem(X, y, order=2, anchors={0: Anchor(float(X[0, 0]), 0.9)})
    assert len(find_step_tables(anchored.grid, 2).axes) == 1  # columns 1 and 2
    assert find_step_tables(Problem(X, y).grid, 2) is None
    problem = Problem(X, y)
    problem.order = 2
    assert problem.learn() is None


def test_tables_describe_all_kinds_of_axes():
    problem = Problem(*draw_corner(n_rows=300), order=2)
    tables = find_step_tables(problem.grid, 2)
    pairs = [index for index, term in enumerate(problem.layout.terms) if len(term) == 2]
    assert [tuple(tables.sizes[axes]) for axes in tables.axes] == [problem.layout.table_shape(i) for i in pairs]
    assert tables.offsets.tolist() == [problem.layout.cells_of(index).start for index in pairs]
    assert sorted(zip(tables.sizes.tolist(), tables.nominal.tolist(), strict=True)) == [
        (6, True), (19, False), (19, False),
    ]  # fmt: skip


# Knots


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(5, 600))
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
    distinct = np.setdiff1d(values[~np.isnan(values)], axis.knots)
    for left, right in zip(axis.knots[:-1], axis.knots[1:], strict=True):
        there, added = (((knots > left) & (knots < right)).sum() for knots in (distinct, fine.knots))
        assert added == min(there, 8)


def test_levels_have_no_knots_between_them():
    axis = level_axis("a", "ordinal", list("uvw"))
    assert subdivide(axis, np.array([0.0, 1.0, 2.0, np.nan, -1.0])) is axis


# Whole fits


def fit(draw, task="regression", **options):
    kind = NeuralBasisRegressor if task == "regression" else NeuralBasisClassifier
    quick = {
        "network__hidden": (16, 16),
        "network__n_bases": 8,
        "outer_bags": 3,
        "random_state": 0,
        "interactions": 0,
        "max_steps": 60,
    }
    return kind(**quick | options).fit(*draw(task, n_rows=2500))


@pytest.mark.parametrize("task", TASKS)
def test_jumps_gain_on_new_rows(task):
    T, truth = draw_steps(task, 3000, seed=1)
    scores = [fit(draw_steps, task, boosted_steps=flag).score(T, truth) for flag in (True, False)]
    assert scores[0] > scores[1] + (0.03 if task == "regression" else 0.01)


def test_edges_of_a_pair_gain_on_new_rows():
    T, truth = draw_corner(n_rows=3000, seed=1)
    options = {"interactions": [(0, 1), (0, 2)], "network__n_interaction_bases": 8}
    errors = [
        np.mean((fit(draw_corner, **options, boosted_steps=flag).predict(T) - truth) ** 2) for flag in (True, False)
    ]
    assert errors[0] < 0.9 * errors[1]


@pytest.mark.parametrize("share", [0.03, 0.1])
def test_a_spike_at_a_frequent_value_does_not_touch_its_neighbours(share):
    rng = np.random.default_rng(0)
    x = np.where(rng.random(2000) < share, 0.5, rng.random(2000))
    y = np.sin(3 * x) + 3 * (x == 0.5) + 0.2 * rng.normal(size=2000)
    model = NeuralBasisRegressor(network__hidden=(32, 32), network__n_bases=16, outer_bags=3, random_state=0)
    here, *around = model.fit(x[:, None], y).predict([[0.5], [0.49], [0.51]])
    assert here == pytest.approx(np.sin(1.5) + 3, abs=0.1)
    np.testing.assert_allclose(around, np.sin([1.47, 1.53]), atol=0.1)


def test_a_smooth_shape_costs_little():
    errors = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.random((500, 2))
        truth = np.sin(3 * X[:, 0]) + X[:, 1]
        y = truth + 0.5 * rng.normal(size=500)
        options = {
            "random_state": 0,
            "interactions": 0,
            "network__hidden": (32, 32),
            "network__n_bases": 16,
            "max_steps": 100,
        }
        models = [NeuralBasisRegressor(**options, boosted_steps=flag).fit(X, y) for flag in (True, False)]
        errors.append([((model.predict(X) - truth) ** 2).mean() for model in models])
    with_steps, without = np.mean(errors, axis=0)
    assert with_steps < without + 0.02 * 0.5**2
