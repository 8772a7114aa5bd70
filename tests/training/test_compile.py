"""compile: tables are purified, members become mean and spread, classes sum to zero, the target's unit is restored."""

import numpy as np
import pytest
import torch

import neuralbasis.training.compile
from neuralbasis.encoding import Encoder, continuous_axis, lay_out, level_axis
from neuralbasis.losses import CrossEntropy, LogLoss, SquaredError, inverse_link
from neuralbasis.model.density import smooth_density
from neuralbasis.model.purify import Table, purify
from neuralbasis.model.shapes import Shape, TiedShape
from neuralbasis.networks import BasisNet, MLPBasis
from neuralbasis.training import GridEngine, Stage, compile_model
from tests.models import draw_numbers, name_columns

TERMS = [(0,), (1,), (2,), (3,), (0, 2), (1, 3), (0, 1, 2)]
ADDED = [(0, 1), (1, 2)]  # pairs of the triple that the net does not have: purification adds them
ALL_TERMS = sorted([*TERMS, *ADDED], key=lambda term: (len(term), term))
LOSSES = {"regression": SquaredError(1, 40.0, 2.5), "binary": LogLoss(), "multiclass": CrossEntropy(3)}


def make_axes(rng, names):
    return (
        continuous_axis(names[0], rng.normal(size=9)),
        level_axis(names[1], "nominal", ["u", "v", "w", "x", "y", "z"], np.array([3.0, 9.0, 5.0, 1.0, 2.0, 8.0])),
        continuous_axis(names[2], rng.normal(size=6)),
        level_axis(names[3], "ordinal", ["low", "high"]),
    )


def make_stage(axes, terms, numbers, weights, loss, n_members=3, seed=0, tied=False, n_subnets=1):
    """A net with random parameters and its grid."""
    layout = lay_out(axes, terms, {2: 4, 3: 3})
    grid = GridEngine(layout, layout.encode(numbers), weights, threads=1)
    generator, orders = torch.Generator().manual_seed(seed), sorted({len(term) for term in terms})
    bases = {o: MLPBasis(o, 5, n_members * n_subnets, (8,), fourier=3, generator=generator) for o in orders}
    counts = {o: sum(len(term) == o for term in terms) for o in bases}
    net = BasisNet(bases, counts, grid.cells.n_free, n_members, loss.n_outputs, n_subnets, tied)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return Stage(grid, net.intercept.detach(), net=net)


def make_stages(task="regression", seed=0, names="dbca", n_rows=80, terms=(TERMS,), **options):
    """Stages of terms over four columns whose names are not in order, and raw rows."""
    rng, loss = np.random.default_rng(seed), LOSSES[task]
    axes = make_axes(rng, names)
    numbers, weights = draw_numbers(rng, axes, n_rows), rng.random(n_rows) + 0.1
    stages = [make_stage(axes, part, numbers, weights, loss, seed=seed + k, **options) for k, part in enumerate(terms)]
    return stages, Encoder(axes), loss, numbers


def member_scores(stages, loss):
    """(N, M, K) scores of the training rows in the target's unit, straight from the nets."""
    total = 0.0
    for stage in stages:
        net, lookup = stage.net.eval(), stage.grid.lookup
        with torch.no_grad():
            taken = lookup.take(np.arange(len(stage.grid.positions)))
            total = total + net.combine(lookup.gather(taken, net.table(stage.grid.points), net.tied)).double().numpy()
    return total * loss.unit + loss.shift


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("task", ["regression", "binary"])
def test_model_scores_are_the_mean_of_the_members(task, tied):
    stages, encoder, loss, numbers = make_stages(task, tied=tied, n_subnets=2 if tied else 1)
    model = compile_model(stages, encoder, loss)
    expected = member_scores(stages, loss).mean(axis=1)
    scores = model.scores(name_columns(encoder.axes, numbers))
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-4)
    assert model.link == loss.link


STAGES = {
    "by order": ([(0,), (1,), (2,), (3,)], [(0, 2), (1, 3)], [(0, 1, 2)]),
    "corrected": ([(0,), (1,), (2,), (3,)], TERMS),
    "absent parents": ([(0,), (2,)], [(0, 1), (2, 3)]),
}


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("task", LOSSES)
@pytest.mark.parametrize("kind", STAGES)
def test_scores_of_stages_add_up(kind, task, tied):
    stages, encoder, loss, numbers = make_stages(task, terms=STAGES[kind], tied=tied)
    model = compile_model(stages, encoder, loss)
    scores, expected = model.scores(name_columns(encoder.axes, numbers)), member_scores(stages, loss).mean(axis=1)
    if task == "multiclass":  # only differences between classes matter
        expected = expected - expected.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-4)
    assert len(set(model.terms)) == len(model.terms)
    np.testing.assert_allclose([stage.add_scores(None).double().numpy() for stage in stages], [
        member_scores([stage], SquaredError()) for stage in stages
    ], rtol=1e-6, atol=1e-6)  # fmt: skip


def test_stages_start_from_given_scores():
    (stage,), _, _, _ = make_stages(n_members=3)
    given = torch.arange(80.0)[:, None, None]
    torch.testing.assert_close(stage.add_scores(given), stage.add_scores(None) + given)
    members = torch.randn(80, 3, 1, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(stage.add_scores(members), stage.add_scores(None) + members)


def test_the_unit_of_the_target_is_undone():
    stages, encoder, _, _ = make_stages()
    plain = compile_model(stages, encoder, SquaredError())
    scaled = compile_model(stages, encoder, SquaredError(1, 40.0, 2.5))
    np.testing.assert_allclose(scaled.intercept, 40 + 2.5 * plain.intercept)
    for one, other in zip(plain.shapes, scaled.shapes, strict=True):
        np.testing.assert_allclose(other.scores, 2.5 * one.scores, atol=1e-12)
        np.testing.assert_allclose(other.spread, 2.5 * one.spread, atol=1e-12)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("task", LOSSES)
def test_shapes_have_weighted_mean_zero_along_every_axis(task, tied):
    stages, encoder, loss, _ = make_stages(task, tied=tied)
    grid = stages[0].grid
    for shape in compile_model(stages, encoder, loss).shapes:
        scale = np.abs(shape.scores).max()
        for axis in range(len(shape.term)):
            along = (smooth_density(shape.axes, shape.weights)[..., None] * shape.scores).sum(axis=axis)
            np.testing.assert_allclose(along, 0, atol=1e-9 * scale * shape.weights.sum())
        assert shape.weights.sum() == pytest.approx(grid.cell_weight[grid.layout.cells_of(0)].sum(), rel=1e-5)


def read_member(stage, member, loss):
    """One member's tables with a channel for each class, without `compile`."""
    net, grid = stage.net.eval(), stage.grid
    with torch.no_grad():
        flat = net.table(grid.points).double().numpy().reshape(-1, net.n_members, net.n_outputs)[:, member]
    for index, term in enumerate(grid.layout.terms):
        cells, order = grid.layout.cells_of(index), np.argsort(term)
        values = flat[cells] - (flat[cells].mean(axis=1, keepdims=True) if net.n_outputs > 1 else 0)
        shape = grid.layout.table_shape(index)
        yield Table(
            tuple(sorted(term)), tuple(grid.layout.axes_of(index)[d] for d in order),
            values.reshape(*shape, -1).transpose(*order, len(shape)) * loss.unit,
            grid.cell_weight[cells].reshape(shape).transpose(order),
        )  # fmt: skip


@pytest.mark.parametrize("task", LOSSES)
def test_mean_and_spread_are_over_purified_members(task):
    stages, encoder, loss, _ = make_stages(task, n_members=4)
    model = compile_model(stages, encoder, loss)
    members = [
        {t.term: t for t in purify(list(read_member(stages[0], m, loss)), np.zeros(loss.n_outputs), smooth_density)[0]}
        for m in range(4)
    ]
    for shape in model.shapes:
        tables = np.stack([member[shape.term].values for member in members])
        # Missing and unseen values and nominal levels without a row are 0.
        knots = tuple(slice(1, -1) for _ in shape.axes)
        is_zero = shape.weights == 0
        if len(shape.term) > 1 or shape.axes[0].kind != "nominal":
            is_zero[knots] = False
        assert (shape.scores[is_zero] == 0).all()
        tables[:, is_zero] = 0
        np.testing.assert_allclose(shape.scores, tables.mean(axis=0), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(shape.spread, tables.std(axis=0, ddof=1), rtol=1e-6, atol=1e-9)


def test_missing_and_unseen_values_without_a_row_contribute_nothing():
    """Except where a coarse axis keeps only some levels: the others are read as unseen, and that cell has rows."""
    stages, encoder, loss, numbers = make_stages(n_rows=300)
    axes = encoder.axes
    known = np.where(np.isnan(numbers) | (numbers < 0), [axis.knots[0] for axis in axes], numbers)  # none is absent
    stages = [make_stage(axes, TERMS, known, np.ones(300), loss)]
    model = compile_model(stages, encoder, loss)
    raw = name_columns(axes, known[:4])
    for feature, name in enumerate(encoder.names):
        for value in (None, "never seen") if axes[feature].is_level else (np.nan,):
            table = {**raw, name: np.array([value] * 4, dtype=object if axes[feature].is_level else float)}
            contributions = model.contributions(table)
            for index, shape in enumerate(model.shapes):
                axis = dict(zip(shape.term, shape.axes, strict=True)).get(feature)
                has_rows = axis is None or (value == "never seen" and len(axis.knots) < len(axes[feature].knots))
                assert (contributions[:, index] == 0).all() == (not has_rows)


def test_one_member_has_no_spread():
    stages, encoder, loss, _ = make_stages("multiclass", n_members=1)
    for shape in compile_model(stages, encoder, loss).shapes:
        assert shape.spread.shape == shape.scores.shape
        assert (shape.spread == 0).all()


def test_equal_members_have_no_spread():
    stages, encoder, loss, _ = make_stages(n_members=2)
    net = stages[0].net
    with torch.no_grad():
        for tensor in [*net.bases.state_dict().values(), *net.coefficients.values()]:
            tensor[1] = tensor[0]
        net.free[:, 1], net.intercept[1] = net.free[:, 0], net.intercept[0]
    model = compile_model(stages, encoder, loss)
    assert max(shape.spread.max() for shape in model.shapes) < 1e-5
    assert max(np.ptp(shape.scores) for shape in model.shapes) > 1


@pytest.mark.parametrize("tied", [False, True])
def test_classes_sum_to_zero_and_probabilities_stay(tied):
    stages, encoder, loss, numbers = make_stages("multiclass", n_members=1, tied=tied)
    classes = np.array(["x", "y", "z"])
    model = compile_model(stages, encoder, loss, classes)
    for shape in model.shapes:
        np.testing.assert_allclose(shape.scores.sum(axis=-1), 0, atol=1e-10 * np.abs(shape.scores).max())
    assert model.intercept.sum() == pytest.approx(0, abs=1e-12)
    expected = inverse_link("mlogit", member_scores(stages, loss)[:, 0])
    proba = model.predict_proba(name_columns(encoder.axes, numbers))
    np.testing.assert_allclose(proba, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(model.classes, classes)


@pytest.mark.parametrize("names", ["abcd", "dcba", "dbca", "cadb"])
def test_terms_come_in_the_order_of_the_features(names):
    stages, encoder, loss, numbers = make_stages(names=names)
    model = compile_model(stages, encoder, loss)
    assert list(model.terms) == ALL_TERMS
    for shape in model.shapes:
        assert tuple(axis.name for axis in shape.axes) == tuple(names[feature] for feature in shape.term)
        assert shape.scores.shape == (*(axis.n_cells for axis in shape.axes), 1)
        assert shape.weights.shape == shape.scores.shape[:-1]
    # Scores are the nets', whatever the order of a term's inputs was.
    expected = member_scores(stages, loss).mean(axis=1)
    np.testing.assert_allclose(model.scores(name_columns(encoder.axes, numbers)), expected, rtol=1e-5, atol=1e-4)


def test_compiling_leaves_the_net_as_it_is():
    stages, encoder, loss, _ = make_stages()
    before = {name: value.clone() for name, value in stages[0].net.state_dict().items()}
    first = compile_model(stages, encoder, loss, n_jobs=2)
    second = compile_model(stages, encoder, loss)
    assert first.n_jobs == 2
    assert all(torch.equal(before[name], value) for name, value in stages[0].net.state_dict().items())
    for one, other in zip(first.shapes, second.shapes, strict=True):
        np.testing.assert_array_equal(one.scores, other.scores)


def test_the_order_of_stages_does_not_matter():
    stages, encoder, loss, numbers = make_stages(terms=STAGES["by order"])
    first, second = (compile_model(order, encoder, loss) for order in (stages, stages[::-1]))
    assert first.terms == second.terms
    for one, other in zip(first.shapes, second.shapes, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-9, atol=1e-12)
    table = name_columns(encoder.axes, numbers)
    np.testing.assert_allclose(first.scores(table), second.scores(table), rtol=1e-12)


# Low-rank tables of tied classes


@pytest.mark.parametrize("n_subnets", [1, 3])
@pytest.mark.parametrize("kind", STAGES)
def test_low_rank_and_dense_models_are_equal(kind, n_subnets, monkeypatch):
    stages, encoder, loss, numbers = make_stages("multiclass", terms=STAGES[kind], tied=True, n_subnets=n_subnets)
    dense = compile_model(stages, encoder, loss)
    assert all(isinstance(shape, Shape) for shape in dense.shapes)
    monkeypatch.setattr(neuralbasis.training.compile, "MAX_NUMBERS", 0)
    low_rank = compile_model(stages, encoder, loss)
    assert any(isinstance(shape, TiedShape) for shape in low_rank.shapes)
    assert low_rank.terms == dense.terms
    np.testing.assert_allclose(low_rank.intercept, dense.intercept, atol=1e-10)
    for one, other in zip(low_rank.shapes, dense.shapes, strict=True):
        scale = np.abs(other.scores).max()
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-8, atol=1e-10 * scale)
        np.testing.assert_allclose(one.spread, other.spread, rtol=1e-7, atol=1e-10 * scale)
        np.testing.assert_array_equal(one.weights, other.weights)
    table = name_columns(encoder.axes, numbers)
    np.testing.assert_allclose(low_rank.contributions(table), dense.contributions(table), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(low_rank.scores(table), dense.scores(table), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("kind", STAGES)
def test_a_small_stage_may_be_dense_beside_a_large_low_rank_one(kind, monkeypatch):
    stages, encoder, loss, numbers = make_stages("multiclass", terms=STAGES[kind], tied=True)
    table = name_columns(encoder.axes, numbers)
    dense = compile_model(stages, encoder, loss).scores(table)
    sizes = sorted(stage.grid.layout.n_cells * 3 * 3 for stage in stages)
    for limit in sizes[:-1]:
        monkeypatch.setattr(neuralbasis.training.compile, "MAX_NUMBERS", limit)
        np.testing.assert_allclose(compile_model(stages, encoder, loss).scores(table), dense, atol=1e-9)


def test_free_classes_are_never_low_rank(monkeypatch):
    monkeypatch.setattr(neuralbasis.training.compile, "MAX_NUMBERS", 0)
    stages, encoder, loss, _ = make_stages("multiclass")
    assert all(isinstance(shape, Shape) for shape in compile_model(stages, encoder, loss).shapes)
