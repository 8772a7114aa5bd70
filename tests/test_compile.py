"""compile: tables are centred, members become mean and spread, classes sum to zero, the target's unit comes back."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis.axis import continuous_axis, level_axis
from neuralbasis.bases import MLPBasis
from neuralbasis.compile import centre, compile_model
from neuralbasis.encoder import Encoder
from neuralbasis.layout import lay_out
from neuralbasis.link import inverse_link
from neuralbasis.net import BasisNet
from neuralbasis.objective import CrossEntropy, LogLoss, SquaredError
from neuralbasis.train import GridEngine, training_threads
from tests.models import draw_numbers, name_columns, slow_look_up, slow_position

TERMS = [(0,), (1,), (2,), (3,), (0, 2), (1, 3), (0, 1, 2)]
OBJECTIVES = {"regression": SquaredError(1, 40.0, 2.5), "binary": LogLoss(), "multiclass": CrossEntropy(3)}


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with training_threads():
        yield


def make_parts(task="regression", n_members=3, seed=0, names="dbca", n_rows=80):
    """A net with random parameters over four columns whose names are not in order, its grid, and raw rows."""
    rng, objective = np.random.default_rng(seed), OBJECTIVES[task]
    axes = (
        continuous_axis(names[0], rng.normal(size=9)),
        level_axis(names[1], "nominal", ["u", "v", "w"]),
        continuous_axis(names[2], rng.normal(size=6)),
        level_axis(names[3], "ordinal", ["low", "high"]),
    )
    layout = lay_out(axes, TERMS, {2: 4, 3: 3})
    numbers = draw_numbers(rng, axes, n_rows)
    grid = GridEngine(layout, layout.encode(numbers), rng.random(n_rows) + 0.1, threads=1)
    generator = torch.Generator().manual_seed(seed)
    bases = {o: MLPBasis(o, 5, n_members, (8,), fourier=3, generator=generator) for o in (1, 2, 3)}
    counts = {o: sum(len(term) == o for term in TERMS) for o in bases}
    net = BasisNet(bases, counts, grid.cells.n_free, n_members, objective.n_outputs)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return net, Encoder(axes), grid, objective, numbers


def member_scores(net, grid, objective):
    """(N, M, K) scores of the training rows in the target's unit, straight from the net."""
    net.eval()
    with torch.no_grad():
        flat = grid.lookup.scores(np.arange(len(grid.positions)), net.table(grid.points))
        scores = flat.view(len(flat), net.n_members, net.n_outputs) + net.intercept
    return scores.double().numpy() * objective.unit + objective.shift


@pytest.mark.parametrize("task", ["regression", "binary"])
def test_model_scores_are_the_mean_of_the_members(task):
    net, encoder, grid, objective, numbers = make_parts(task)
    model = compile_model(net, encoder, grid, objective)
    # Rows on cells that no training row reached would be set to zero, but these are the training rows.
    expected = member_scores(net, grid, objective).mean(axis=1)
    scores = model.scores(name_columns(encoder.axes, numbers))
    rows = ~unseen_rows(encoder, numbers)
    assert rows.sum() > 30
    np.testing.assert_allclose(scores[rows], expected[rows], rtol=1e-5, atol=1e-4)
    assert model.link == objective.link


def unseen_rows(encoder, numbers):
    return np.any([axis.is_level & (numbers[:, f] < 0) for f, axis in enumerate(encoder.axes)], axis=0)


def test_the_unit_of_the_target_is_undone():
    net, encoder, grid, _, _ = make_parts()
    plain = compile_model(net, encoder, grid, SquaredError())
    scaled = compile_model(net, encoder, grid, SquaredError(1, 40.0, 2.5))
    np.testing.assert_allclose(scaled.intercept, 40 + 2.5 * plain.intercept)
    for one, other in zip(plain.shapes, scaled.shapes, strict=True):
        np.testing.assert_allclose(other.scores, 2.5 * one.scores, atol=1e-12)
        np.testing.assert_allclose(other.spread, 2.5 * one.spread, atol=1e-12)


@pytest.mark.parametrize("task", OBJECTIVES)
def test_shapes_have_weighted_mean_zero(task):
    net, encoder, grid, objective, _ = make_parts(task)
    for shape in compile_model(net, encoder, grid, objective).shapes:
        mean = np.tensordot(shape.weights, shape.scores, shape.weights.ndim) / shape.weights.sum()
        np.testing.assert_allclose(mean, 0, atol=1e-12)
        assert shape.weights.sum() == pytest.approx(grid.cell_weight[grid.layout.cells_of(0)].sum(), rel=1e-5)


@pytest.mark.parametrize("task", OBJECTIVES)
def test_mean_and_spread_are_over_members(task):
    net, encoder, grid, objective, _ = make_parts(task, n_members=4)
    model = compile_model(net, encoder, grid, objective)
    with torch.no_grad():
        flat = net.table(grid.points).double().numpy().reshape(-1, 4, net.n_outputs) * objective.unit
    for index, term in enumerate(grid.layout.terms):
        cells = grid.layout.cells_of(index)
        weight = grid.cell_weight[cells]
        shape = next(s for s in model.shapes if s.term == tuple(sorted(term)))
        order = np.argsort(term)
        members = []
        for member in range(4):
            table = flat[cells, member]
            table = table - table.mean(axis=1, keepdims=True) if net.n_outputs > 1 else table
            table = table - np.average(table, axis=0, weights=weight)
            table[~grid.cells.based[cells] & (weight == 0)] = 0
            members.append(table.reshape(*grid.layout.table_shape(index), -1).transpose(*order, len(term)))
        np.testing.assert_allclose(shape.scores, np.mean(members, axis=0), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(shape.spread, np.std(members, axis=0, ddof=1), rtol=1e-6, atol=1e-9)


def test_one_member_has_no_spread():
    net, encoder, grid, objective, _ = make_parts("multiclass", n_members=1)
    for shape in compile_model(net, encoder, grid, objective).shapes:
        assert shape.spread.shape == shape.scores.shape
        assert (shape.spread == 0).all()


def test_equal_members_have_no_spread():
    net, encoder, grid, objective, _ = make_parts(n_members=2)
    with torch.no_grad():
        for tensor in [*net.bases.state_dict().values(), *net.coefficients.values()]:
            tensor[1] = tensor[0]
        net.free[:, 1], net.intercept[1] = net.free[:, 0], net.intercept[0]
    model = compile_model(net, encoder, grid, objective)
    assert max(shape.spread.max() for shape in model.shapes) < 1e-5
    assert max(np.ptp(shape.scores) for shape in model.shapes) > 1


def test_classes_sum_to_zero_and_probabilities_stay():
    net, encoder, grid, objective, numbers = make_parts("multiclass", n_members=1)
    classes = np.array(["x", "y", "z"])
    model = compile_model(net, encoder, grid, objective, classes)
    for shape in model.shapes:
        np.testing.assert_allclose(shape.scores.sum(axis=-1), 0, atol=1e-12)
    assert model.intercept.sum() == pytest.approx(0, abs=1e-12)
    rows = ~unseen_rows(encoder, numbers)
    expected = inverse_link("mlogit", member_scores(net, grid, objective)[:, 0])
    proba = model.predict_proba(name_columns(encoder.axes, numbers))
    np.testing.assert_allclose(proba[rows], expected[rows], rtol=1e-4, atol=1e-5)
    assert model.classes is classes


@pytest.mark.parametrize("names", ["abcd", "dcba", "dbca", "cadb"])
def test_terms_come_in_the_order_of_the_features(names):
    net, encoder, grid, objective, numbers = make_parts(names=names)
    model = compile_model(net, encoder, grid, objective)
    assert list(model.terms) == TERMS
    for shape in model.shapes:
        assert tuple(axis.name for axis in shape.axes) == tuple(names[feature] for feature in shape.term)
        assert shape.scores.shape == (*(axis.n_cells for axis in shape.axes), 1)
        assert shape.weights.shape == shape.scores.shape[:-1]
    # A term's contribution is the net's, whatever the order of its inputs was.
    with torch.no_grad():
        flat = net.table(grid.points).double().numpy().mean(axis=1) * objective.unit
    for index, term in enumerate(grid.layout.terms):
        shape = model.shapes[TERMS.index(tuple(sorted(term)))]
        table = flat[grid.layout.cells_of(index)].reshape(*grid.layout.table_shape(index), 1)
        difference = []
        for row in numbers[~unseen_rows(encoder, numbers)][:20]:
            mine = [slow_position(row[f], axis) for f, axis in zip(shape.term, shape.axes, strict=True)]
            net_s = [slow_position(row[f], axis) for f, axis in zip(term, grid.layout.axes_of(index), strict=True)]
            difference.append(slow_look_up(shape.scores, mine) - slow_look_up(table, net_s))
        np.testing.assert_allclose(difference, np.broadcast_to(difference[0], (20, 1)), atol=1e-6)


def test_compiling_leaves_the_net_as_it_is():
    net, encoder, grid, objective, _ = make_parts()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    first = compile_model(net, encoder, grid, objective, n_jobs=2)
    second = compile_model(net, encoder, grid, objective)
    assert first.n_jobs == 2
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    for one, other in zip(first.shapes, second.shapes, strict=True):
        np.testing.assert_array_equal(one.scores, other.scores)


# Centring


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 3), st.integers(1, 3))
def test_centring_moves_the_mean_and_nothing_else(seed, n_cells, n_members, n_outputs):
    rng = np.random.default_rng(seed)
    table = rng.normal(5, 1, (n_cells, n_members, n_outputs))
    weight = rng.random(n_cells) * (rng.random(n_cells) < 0.7)
    weight[0] = 1.0
    based = rng.random(n_cells) < 0.5
    given = table.copy()
    centred, mean = centre(table, weight, based)
    np.testing.assert_array_equal(table, given)
    np.testing.assert_allclose(np.average(table, axis=0, weights=weight), mean)
    np.testing.assert_allclose(np.tensordot(weight, centred, 1), 0, atol=1e-10)
    speaks = based | (weight > 0)
    np.testing.assert_allclose((centred + mean)[speaks], table[speaks])
    assert (centred[~speaks] == 0).all()


def test_centring_by_hand():
    table = np.array([[[9.0]], [[1.0]], [[4.0]], [[7.0]]])
    centred, mean = centre(table, np.array([0.0, 2.0, 1.0, 0.0]), np.array([False, True, True, True]))
    assert mean.tolist() == [[2.0]]
    assert centred[:, 0, 0].tolist() == [0.0, -1.0, 2.0, 5.0]
