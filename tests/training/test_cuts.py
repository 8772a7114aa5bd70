"""cut: the best cut of a table, rows that move as their table says, edges of pairs found, noise left alone; weak pairs:
each member's own choice, fairly judged, and only so many kept."""

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
from neuralbasis.encoding.axis import Axis, continuous_axis, level_axis
from neuralbasis.encoding.layout import Anchor, lay_out
from neuralbasis.losses.loss import choose_loss
from neuralbasis.training.boosting import Booster, find_tables
from neuralbasis.training.cuts import BY_CHANCE, BY_GAIN, cut, cut_weak, keep_strongest
from neuralbasis.training.engines import GridEngine
from neuralbasis.training.history import History
from neuralbasis.training.loop import training_threads
from neuralbasis.training.rows import place_rows
from neuralbasis.training.schedule import Trainer
from neuralbasis.training.stage import Stage
from tests.laws.fit_together import draw_weak_pairs

seeds = st.integers(0, 2**32 - 1)
TASKS = ("regression", "binary", "multiclass")
QUICK = {"hidden": (16, 16), "n_bases": 8, "outer_bags": 2, "random_state": 0, "max_steps": 5}


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with training_threads():
        yield


# One table


def gain_of(steep, weight, ridge):
    return steep.sum() ** 2 / (weight.sum() + ridge)


def slow_cut(steep, weight, ridge, least):
    """All cuts along the first axis, with all cuts of both sides."""
    best, places = 0.0, (0, 0, 0)
    for i in range(1, len(steep)):
        total, found = 0.0, [i]
        for side in (slice(None, i), slice(i, None)):
            gains = {0: gain_of(steep[side], weight[side], ridge)}
            for j in range(1, steep.shape[1]):
                if min(weight[side, :j].sum(), weight[side, j:].sum()) >= least:
                    near, far = (side, slice(None, j)), (side, slice(j, None))
                    gains[j] = gain_of(steep[near], weight[near], ridge) + gain_of(steep[far], weight[far], ridge)
            found.append(max(gains, key=gains.get))
            total += gains[found[-1]]
        if min(weight[:i].sum(), weight[i:].sum()) >= least and total > best:
            best, places = total, tuple(found)
    return best, places


@settings(deadline=None)
@given(seeds, st.integers(2, 7), st.integers(2, 7), st.floats(0.1, 5), st.floats(0, 6))
def test_the_best_cut_is_found(seed, rows, columns, ridge, least):
    rng = np.random.default_rng(seed)
    steep, weight = rng.normal(size=(rows, columns)), rng.random((rows, columns))
    sums = [np.pad(cells.cumsum(0).cumsum(1), ((1, 0), (1, 0))) for cells in (steep, weight)]
    places = np.zeros(3, np.int64)
    gain = kernels.boosting._cut_table(*sums, ridge, least, places)
    expected, where = slow_cut(steep, weight, ridge, least)
    assert gain == pytest.approx(expected)
    assert tuple(places) == where


def make_round(rng, sizes=(6, 5, 4), nominal=(False, True, False), n_rows=200):
    """Positions on three axes, the slopes of the rows and their weights."""
    positions = np.stack(
        [
            rng.integers(0, size - 1, n_rows) if level else rng.choice([0, *rng.uniform(1, size - 2, 60)], n_rows)
            for size, level in zip(sizes, nominal, strict=True)
        ]
    ).astype(np.float32)
    return positions, np.rint(positions).astype(np.uint16), rng.normal(size=n_rows), rng.random(n_rows) + 0.1


def interpolate(table, positions):
    """Read a table between its cells."""
    total = np.zeros(positions.shape[1])
    for corner in np.ndindex(2, 2):
        share, cells = np.ones(positions.shape[1]), []
        for d, upper in enumerate(corner):
            whole = np.floor(positions[d]).astype(int)
            part = positions[d] - whole
            share *= part if upper else 1 - part
            cells.append(np.minimum(whole + upper, table.shape[d] - 1))
        total += share * table[tuple(cells)]
    return total


@settings(deadline=None)
@given(seeds, st.sampled_from([0, 1, 2, 3]))
def test_rows_move_as_the_tables_say(seed, chance):
    rng = np.random.default_rng(seed)
    positions, cells, slope, curvature = make_round(rng)
    pairs, sizes, nominal = np.array([[0, 1], [1, 2], [0, 2]]), np.array([6, 5, 4]), np.array([False, True, False])
    offsets, n_cells = np.array([0, 30, 50]), 74
    tables, moved, before = np.zeros(n_cells), np.zeros(len(slope)), slope.copy()
    kernels.cut_pairs(
        positions, cells, pairs, sizes, nominal, 1.0, 2.0, 0.3, slope, curvature, tables, offsets, moved, chance
    )  # fmt: skip
    expected = np.zeros(len(slope))
    for pair, first in zip(pairs, offsets, strict=True):
        shape = sizes[pair]
        expected += interpolate(tables[first : first + shape.prod()].reshape(shape), positions[pair])
    assert np.abs(moved).max() > 0 or chance
    np.testing.assert_allclose(moved, expected, atol=1e-6)
    np.testing.assert_allclose(slope, before + curvature * moved, atol=1e-12)
    # One step of each pair where it gains most lowers the quadratic model of the loss; by chance it nearly always does.
    assert chance or before @ moved + (curvature * moved**2).sum() / 2 < 0


def test_chance_cuts_anywhere_along_either_axis():
    """Of many single rounds the first cuts are spread over both axes, and no piece is too small."""
    rng = np.random.default_rng(0)
    positions = rng.uniform(1, 8, (2, 500)).astype(np.float32)
    cells, first = np.rint(positions).astype(np.uint16), {0: set(), 1: set()}
    for seed in range(1, 400):
        tables, moved = np.zeros(100), np.zeros(500)
        kernels.cut_pairs(
            positions, cells, np.array([[0, 1]]), np.array([10, 10]), np.array([False, False]), 0.0, 10.0, 1.0,
            rng.normal(size=500), np.ones(500), tables, np.array([0]), moved, seed,
        )  # fmt: skip
        table = tables.reshape(10, 10)
        values, counts = np.unique(np.round(table[cells[0], cells[1]], 9), return_counts=True)
        assert len(values) <= 4
        assert counts.min() >= 10
        for axis, lines in enumerate((table, table.T)):
            changed = np.flatnonzero((np.diff(lines, axis=0) != 0).all(axis=1))
            first[axis] |= set(changed.tolist())
    assert first[0] >= set(range(1, 7))
    assert first[1] >= set(range(1, 7))


def test_levels_are_cut_in_the_order_of_what_they_say():
    """Levels 1 and 3 are high: no cut along their numbers says that, one along their order does."""
    rng = np.random.default_rng(0)
    positions = np.stack([rng.integers(1, 5, 400), rng.uniform(1, 4, 400)]).astype(np.float32)
    target = 2.0 * np.isin(positions[0], [1, 3]) * (positions[1] > 2.5)
    tables, moved = np.zeros(36), np.zeros(400)
    kernels.cut_pairs(
        positions, np.rint(positions).astype(np.uint16), np.array([[0, 1]]), np.array([6, 6]), np.array([True, False]),
        0.0, 5.0, 1.0, -target, np.ones(400), tables, np.array([0]), moved, 0,
    )  # fmt: skip
    high, low = tables.reshape(6, 6)[[1, 3], 4], tables.reshape(6, 6)[[2, 4], 4]
    assert high.min() > 1.7
    assert np.abs(low).max() < 0.1


# A stage


def draw_corner(task="regression", n_rows=1500, seed=0, height=3.0):
    """A corner of two columns, and a column that says nothing."""
    rng = np.random.default_rng(seed)
    X = rng.random((n_rows, 3))
    corner = height * ((X[:, 0] > 0.4) & (X[:, 1] > 0.6))
    if task == "regression":
        return X, corner + 0.3 * rng.normal(size=n_rows)
    scores = np.stack([corner, np.full(n_rows, height / 2), np.zeros(n_rows)][: 3 if task == "multiclass" else 2], 1)
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def make_stage(numbers, y, task="regression", axes: list[Axis] | None = None, n_members=2, anchors=None, **parameters):
    """A stage of untrained, silent nets of all pairs."""
    rng = np.random.default_rng(0)
    axes = axes or [continuous_axis(f"x{index}", column) for index, column in enumerate(numbers.T)]
    sample = Sample(y, np.ones(len(y)))
    terms = [(0,), (0, 1), (0, 2), (1, 2)]
    layout = lay_out(axes, terms, {2: 17}, anchors or {})
    objective = choose_loss(sample, None if task == "regression" else np.unique(y))
    grid = GridEngine(layout, layout.encode(numbers), sample.weights, threads=1)
    kind = NeuralBasisRegressor if task == "regression" else NeuralBasisClassifier
    net = make_net(kind(**{**QUICK, "outer_bags": n_members, **parameters}), grid, objective, sample, len(y), rng)
    return Stage(net, grid), place_rows(sample, objective, n_members, 0.15, rng, grid.device), objective


def run(stage, rows, objective, threads=1):
    history = History()
    return cut(stage, rows, objective, history, threads), history


@pytest.mark.parametrize("task", TASKS)
def test_a_corner_is_found(task):
    stage, rows, objective = make_stage(*draw_corner(task), task)
    found, history = run(stage, rows, objective)
    assert (history.stage, history.steps, history.best) == (["cuts"], [0], 0)
    scores = found.add_scores(None)
    held = rows.held_out
    losses = [(objective.loss(s, rows.target) * held).sum() / held.sum() for s in (stage.add_scores(None), scores)]
    assert history.validation == [pytest.approx(float(losses[1]), rel=1e-4)]
    assert losses[1] < 0.9 * losses[0]
    # Main effects and the nets have not changed.
    assert not found.rest[found.grid.layout.cells_of(0)].any()
    torch.testing.assert_close(found.table(), stage.table() + found.rest)


def test_noise_is_left_alone():
    rng = np.random.default_rng(0)
    kept = 0
    for _ in range(10):
        stage, rows, objective = make_stage(rng.random((400, 3)), rng.normal(size=400))
        found, history = run(stage, rows, objective)
        kept += found is not stage
        assert (found is stage) == (history.stage == [])
    assert kept <= 1


def test_threads_do_not_matter():
    stage, rows, objective = make_stage(*draw_corner(), n_members=3)
    one, _ = run(stage, rows, objective, 1)
    three, _ = run(stage, rows, objective, 3)
    assert torch.equal(one.rest, three.rest)


@pytest.mark.parametrize("pace", [BY_CHANCE, BY_GAIN])
def test_a_member_does_not_see_the_rows_it_holds_out(pace):
    """Whatever its held-out rows say, a member cuts its tables alike; what the others say matters."""
    stage, rows, objective = make_stage(*draw_corner())
    held, scores = rows.held_out[:, 0], stage.add_scores(None)

    def cut_thrice(target):
        member = Booster(
            find_tables(stage.grid, 2), scores[:, 0].clone(), replace(rows, target=target).part(0, 1), objective, pace
        )
        for seed in range(1, 4):
            member.cut(seed)
        return member.found

    found = cut_thrice(rows.target)
    assert np.abs(found).max() > 0
    np.testing.assert_array_equal(cut_thrice(torch.where(held, -rows.target, rows.target)), found)
    assert not np.array_equal(cut_thrice(torch.where(held, rows.target, -rows.target)), found)


@pytest.mark.parametrize("why", ["no rows held out", "tied", "anchored", "no pairs"])
def test_what_cannot_be_cut_stays(why):
    X, y = draw_corner("multiclass" if why == "tied" else "regression")
    task, parameters = ("multiclass", {"tied_classes": True}) if why == "tied" else ("regression", {})
    anchors = {f: Anchor(float(X[0, f]), 0.9) for f in range(3)} if why == "anchored" else None
    stage, rows, objective = make_stage(X, y, task, anchors=anchors, **parameters)
    if why == "no rows held out":
        rows = replace(rows, held_out=torch.zeros_like(rows.held_out))
    if why == "no pairs":
        axes = [continuous_axis(f"x{index}", column) for index, column in enumerate(X.T)]
        layout = lay_out(axes, [(0,), (1,)], {})
        stage = Stage(stage.net, GridEngine(layout, layout.encode(X), np.ones(len(X)), threads=1))
    assert run(stage, rows, objective)[0] is stage


def test_axes_of_all_kinds_are_described():
    rng = np.random.default_rng(0)
    numbers = np.stack([rng.random(300), rng.integers(0, 5, 300), rng.integers(0, 3, 300)], axis=1)
    axes = [
        continuous_axis("a", numbers[:, 0]),
        level_axis("b", "nominal", list("vwxyz"), np.ones(5)),
        level_axis("c", "ordinal", list("pqr"), np.ones(3)),
    ]
    stage, _, _ = make_stage(numbers, rng.random(300), axes=axes)
    pairs = find_tables(stage.grid, 2)
    assert pairs.terms == [1, 2, 3]
    assert sorted(zip(pairs.sizes.tolist(), pairs.nominal.tolist(), strict=True)) == [
        (5, False),
        (7, True),
        (19, False),
    ]
    shapes = [stage.grid.layout.table_shape(index) for index in pairs.terms]
    assert [tuple(pairs.sizes[axes]) for axes in pairs.axes] == shapes
    assert pairs.offsets.tolist() == [stage.grid.layout.cells_of(index).start for index in pairs.terms]


# Weak pairs


def run_weak(stage, rows, objective, choices, threads=1):
    rows, history = replace(rows, init=stage.add_scores(None)), History()
    return cut_weak(stage.grid, choices, rows, objective, history, threads), history


@pytest.mark.parametrize("task", TASKS)
def test_each_member_cuts_the_pairs_of_its_choice(task):
    stage, rows, objective = make_stage(*draw_corner(task), task)
    layout = stage.grid.layout
    assert layout.terms == ((0,), (0, 1), (0, 2), (1, 2))
    choices = np.array([[False, False], [True, True], [True, False], [False, True]])
    found, history = run_weak(stage, rows, objective, choices)
    assert found.shape == (2, objective.n_outputs, layout.n_cells)
    for index, chosen in enumerate(choices):
        assert found[:, :, layout.cells_of(index)].any(axis=(1, 2)).tolist() == chosen.tolist()
    assert set(history.stage) == {"cuts"}
    # The scores that the history judges are those of the tables.
    scores = stage.add_part(found).add_scores(None)
    assert history.validation[-1] == pytest.approx(
        float(rows.validate(objective.loss(scores, rows.target)).sum()), rel=1e-4
    )


def test_weak_pairs_of_noise_are_left_alone():
    rng, kept = np.random.default_rng(0), 0
    for _ in range(10):
        stage, rows, objective = make_stage(rng.random((400, 3)), rng.normal(size=400))
        found, history = run_weak(stage, rows, objective, np.ones((4, 2), bool))
        kept += found is not None
        assert (found is None) == (history.stage == [])
    assert kept <= 1


def test_members_without_held_out_rows_cut_no_weak_pairs():
    stage, rows, objective = make_stage(*draw_corner())
    rows = replace(rows, held_out=torch.zeros_like(rows.held_out))
    assert run_weak(stage, rows, objective, np.ones((4, 2), bool))[0] is None


def test_the_strongest_pairs_are_kept_and_silent_ones_never():
    stage, _, _ = make_stage(*draw_corner())
    layout, rng = stage.grid.layout, np.random.default_rng(0)
    tables = np.zeros((2, 1, layout.n_cells))
    for index, size in ((1, 0.3), (3, 1.0)):
        cells = layout.cells_of(index)
        tables[:, :, cells] = size * rng.normal(size=(1, 1, cells.stop - cells.start))
    tables[:, :, layout.cells_of(2)] = 5.0  # the same in all cells: a constant says nothing of a pair
    terms, kept = keep_strongest(stage.grid, tables, 1)
    assert terms == [(1, 2)]
    np.testing.assert_array_equal(kept, tables[:, :, layout.cells_of(3)])
    assert keep_strongest(stage.grid, tables, 9)[0] == [(0, 1), (1, 2)]
    tables[:, :, layout.cells_of(1)] *= 0.1  # a thousandth of the variance
    assert keep_strongest(stage.grid, tables, 9)[0] == [(1, 2)]


# Whole fits


def draw_stairs(n_rows=3000, seed=0):
    """Corners of a pair that a small smooth network does not follow."""
    rng = np.random.default_rng(seed)
    X = rng.random((n_rows, 2))
    corners = [(0.2, 0.7), (0.45, 0.3), (0.8, 0.55)]
    y = sum(2.0 * ((X[:, 0] > a) & (X[:, 1] < b)) for a, b in corners) + 0.2 * rng.normal(size=n_rows)
    return X, y


def test_steps_of_a_pair_gain_on_new_rows():
    (X, y), (T, truth) = draw_stairs(), draw_stairs(2000, 1)
    options = {"interactions": [(0, 1)], "n_interaction_bases": 8, "max_interaction_bins": 49, "max_steps": 60}
    models = [NeuralBasisRegressor(**{**QUICK, **options, "refine": wish}).fit(X, y) for wish in (True, False)]
    assert ["cuts" in model.history_.stage for model in models] == [True, False]
    errors = [np.sqrt(np.mean((model.predict(T) - truth) ** 2)) for model in models]
    assert errors[0] < 0.8 * errors[1]
    scores = models[0].eval_terms(T).sum(axis=1) + models[0].intercept_
    np.testing.assert_allclose(scores, models[0].predict(T), atol=1e-9)


def count_pairs(model):
    return sum(len(term) == 2 for term in model.term_features_)


WEAK = {**QUICK, "outer_bags": 5, "max_steps": 60}


def test_weak_pairs_gain_on_new_rows_and_are_told(monkeypatch):
    (X, y), (T, truth) = draw_weak_pairs(), draw_weak_pairs(4000, seed=1)
    model = NeuralBasisRegressor(**WEAK).fit(X, y)
    monkeypatch.setattr("neuralbasis.training.schedule.FEW_ROWS", len(y) - 1)  # a table of more rows has none
    plain = NeuralBasisRegressor(**WEAK).fit(X, y)
    errors = [np.mean((each.predict(T) - truth) ** 2) for each in (model, plain)]
    assert errors[0] < 0.9 * errors[1]
    assert count_pairs(plain) + 5 < count_pairs(model) <= 28
    pairs = {term for term in model.term_features_ if len(term) == 2}
    assert pairs == {ranked.features for ranked in model.interaction_ranking_ if ranked.chosen}
    scores = model.eval_terms(T).sum(axis=1) + model.intercept_
    np.testing.assert_allclose(scores, model.predict(T), atol=1e-9)


@pytest.mark.parametrize("n_pairs", [0, 2])
def test_a_number_of_pairs_is_kept(n_pairs):
    X, y = draw_weak_pairs()
    assert count_pairs(NeuralBasisRegressor(**WEAK, interactions=n_pairs).fit(X, y)) == n_pairs


def test_listed_pairs_stay_alone():
    X, y = draw_weak_pairs()
    model = NeuralBasisRegressor(**WEAK, interactions=[(0, 1)]).fit(X, y)
    assert [term for term in model.term_features_ if len(term) == 2] == [(0, 1)]


def test_excluded_pairs_stay_out():
    X, y = draw_weak_pairs()
    model = NeuralBasisRegressor(**WEAK, exclude=[(0, 1), "feature_0005"]).fit(X, y)
    pairs = [term for term in model.term_features_ if len(term) == 2]
    assert len(pairs) > 8
    assert (0, 1) not in pairs
    assert not any(5 in term for term in pairs)


def test_weak_pairs_of_a_seed_are_the_same():
    X, y = draw_weak_pairs()
    one, two = (NeuralBasisRegressor(**WEAK, n_jobs=n).fit(X, y) for n in (1, 2))
    assert one.term_features_ == two.term_features_
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


def test_a_member_chooses_without_the_rows_it_holds_out(monkeypatch):
    """Other targets there leave its choice as it was; the rows it learns from change it."""
    choose, found = Trainer._choose_by_members, []

    def watch(trainer, candidates, count):
        rows, held = trainer.listen(), trainer.rows.held_out[:, 0]
        for changed in (torch.zeros_like(held), held, ~held):
            trainer.rows = replace(rows, target=torch.where(changed, -rows.target, rows.target))
            found.append(choose(trainer, candidates, 5)[0])
        trainer.rows = rows
        return choose(trainer, candidates, count)

    monkeypatch.setattr(Trainer, "_choose_by_members", watch)
    NeuralBasisRegressor(**WEAK).fit(*draw_weak_pairs())
    plain, blind, learned = found
    assert len(plain) == 5
    assert blind == plain
    assert learned != plain


def test_too_many_candidates_are_not_looked_at(monkeypatch):
    X, y = draw_weak_pairs()
    monkeypatch.setattr("neuralbasis.training.schedule.MAX_WEAK", 400 * 28 * 5 - 1)  # rows × pairs × members
    monkeypatch.setattr("neuralbasis.training.schedule.cut_weak", None)  # would be called
    NeuralBasisRegressor(**WEAK).fit(X, y)


def test_pairs_that_would_fill_memory_are_not_cut(monkeypatch):
    X, y = draw_weak_pairs()
    monkeypatch.setattr("neuralbasis.training.schedule.MAX_NUMBERS", 100)
    monkeypatch.setattr("neuralbasis.training.schedule.cut_weak", None)  # would be called
    NeuralBasisRegressor(**WEAK).fit(X, y)


def test_without_refinement_there_are_no_weak_pairs():
    X, y = draw_weak_pairs()
    model = NeuralBasisRegressor(**WEAK, refine=False).fit(X, y)
    assert "cuts" not in model.history_.stage
