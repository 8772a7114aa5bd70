"""What must hold for every task, order of terms and kind of input (see the laws in CONTRIBUTING)."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, load
from neuralbasis.config import FitConfig
from neuralbasis.data import Sample, read_columns
from neuralbasis.encoding import Encoder, lay_out
from neuralbasis.losses import CrossEntropy, LogLoss, SquaredError, inverse_link
from neuralbasis.model.density import smooth_density
from neuralbasis.model.shapes import TiedShape
from neuralbasis.training import ExactEngine, GridEngine, Stage, compile_model, make_net

TASKS = ("regression", "binary", "multiclass")
CASES = (*TASKS, "tied")  # the classes of the last share their shapes
ORDERS = {1: 0, 2: [("size", "age")], 3: [("size", "age"), ("size", "age", "colour")]}
QUICK = {"max_steps": 30, "outer_bags": 2, "random_state": 1}


def make_table(n_rows: int = 240, seed: int = 0) -> pd.DataFrame:
    """Continuous, few-valued, constant, nominal and ordinal columns, with missing values."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "size": rng.normal(size=n_rows),
            "age": rng.integers(0, 9, n_rows).astype(float),
            "flat": np.where(rng.random(n_rows) < 0.3, 0.0, rng.exponential(size=n_rows)),
            "same": np.ones(n_rows),
            "colour": rng.choice(["red", "green", "blue"], n_rows),
            "grade": pd.Categorical(rng.choice(["low", "mid", "high"], n_rows), ["low", "mid", "high"], ordered=True),
        }
    )
    table.loc[rng.random(n_rows) < 0.1, "size"] = np.nan
    table.loc[rng.random(n_rows) < 0.1, "colour"] = None
    return table


def make_target(table: pd.DataFrame, task: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    red = table["colour"] == "red"
    score = np.sin(2 * table["size"].fillna(0)) + 0.2 * table["age"] + red
    score = score + table["size"].fillna(0) * (table["age"] - 4) * (0.5 + red)  # pairs and triples
    score = (score + 0.3 * rng.normal(size=len(table))).to_numpy()
    if task == "regression":
        return 100 + 10 * score
    cuts = np.quantile(score, [0.5] if task == "binary" else [0.3, 0.7])
    return np.array(["a", "b", "c"])[np.digitize(score, cuts)]


def make_estimator(task: str, **parameters):
    kind = NeuralBasisRegressor if task == "regression" else NeuralBasisClassifier
    return kind(**{**QUICK, "network__tied_classes": task == "tied", **parameters})


@pytest.fixture(scope="module", params=[(task, order) for task in CASES for order in ORDERS], ids=str)
def fitted(request):
    task, order = request.param
    table = make_table()
    # Without held-out rows interactions stay, whether they help or not.
    estimator = make_estimator(task, interactions=ORDERS[order], validation_size=0)
    return task, order, estimator.fit(table, make_target(table, task))


def make_odd_table() -> pd.DataFrame:
    """Rows outside the training range, with missing values and levels never seen."""
    table = make_table(50, seed=9)
    table["size"] *= 10
    table.loc[::3, "age"] = np.nan
    table["colour"] = table["colour"].where(table.index % 4 > 0, "violet")
    return table


def test_contributions_and_intercept_sum_to_the_score(fitted):
    _, _, estimator = fitted
    table = make_odd_table()
    total = estimator.eval_terms(table).sum(axis=1) + np.squeeze(estimator.intercept_)
    np.testing.assert_allclose(total, np.squeeze(estimator.model_.scores(table)), atol=1e-9, rtol=1e-12)


def test_prediction_is_the_inverse_link_of_the_score(fitted):
    task, _, estimator = fitted
    table = make_odd_table()
    expected = inverse_link(estimator.link_, estimator.model_.scores(table))
    if task == "regression":
        np.testing.assert_array_equal(estimator.predict(table), expected)
    else:
        np.testing.assert_array_equal(estimator.predict_proba(table), expected)
        np.testing.assert_array_equal(estimator.predict(table), estimator.classes_[expected.argmax(axis=1)])


def test_a_saved_and_loaded_model_predicts_bit_for_bit_the_same(fitted, tmp_path):
    _, _, estimator = fitted
    estimator.save(tmp_path / "model.nbm")
    assert_same_predictions(load(tmp_path / "model.nbm"), estimator.model_)


@pytest.mark.parametrize("order", ORDERS)
def test_a_saved_and_loaded_model_of_factored_classes_predicts_bit_for_bit_the_same(order, tmp_path, monkeypatch):
    monkeypatch.setattr("neuralbasis.training.compile.MAX_NUMBERS", 0)
    table = make_table()
    estimator = make_estimator("tied", interactions=ORDERS[order]).fit(table, make_target(table, "tied"))
    assert any(isinstance(shape, TiedShape) for shape in estimator.model_.shapes)
    estimator.save(tmp_path / "model.nbm")
    assert_same_predictions(load(tmp_path / "model.nbm"), estimator.model_)


def assert_same_predictions(loaded, model):
    assert (loaded.terms, loaded.summary) == (model.terms, model.summary)
    for table in (make_table(), make_odd_table()):
        for name in ("scores", "contributions", "predict"):
            np.testing.assert_array_equal(getattr(loaded, name)(table), getattr(model, name)(table))
    for one, other in zip(loaded.shapes, model.shapes, strict=True):
        np.testing.assert_array_equal(one.scores, other.scores)
        np.testing.assert_array_equal(one.weights, other.weights)
    np.testing.assert_array_equal(loaded.importances(), model.importances())


def test_main_effects_have_mean_zero_over_the_training_rows(fitted):
    """Interactions have mean zero over a smooth density of the rows, see `test_shapes_are_purified`."""
    _, _, estimator = fitted
    contributions = estimator.model_.contributions(make_table())
    scale, mains = np.abs(contributions).max(), [len(term) == 1 for term in estimator.term_features_]
    np.testing.assert_allclose(contributions[:, mains].mean(axis=0), 0, atol=2e-5 * scale)


def test_importances_are_mean_absolute_contributions_of_the_training_rows(fitted):
    _, _, estimator = fitted
    contributions = np.abs(estimator.model_.contributions(make_table())).mean(axis=0)
    np.testing.assert_allclose(estimator.term_importances(), contributions.mean(axis=1), rtol=1e-9, atol=1e-12)
    for term, sizes in zip(estimator.explain_global().terms, contributions, strict=True):
        np.testing.assert_allclose(term.importances, sizes, rtol=1e-9, atol=1e-12)


def test_shapes_are_purified(fitted):
    """Over the density of the rows every interaction is zero on average along each axis, a main effect altogether."""
    _, order, estimator = fitted
    orders = set()
    for shape in estimator.model_.shapes:
        orders.add(len(shape.term))
        scale = max(np.abs(shape.scores).max(), 1e-9) * shape.weights.sum()
        for axis in range(len(shape.term)):
            along = (smooth_density(shape.axes, shape.weights)[..., None] * shape.scores).sum(axis=axis)
            np.testing.assert_allclose(along, 0, atol=1e-8 * scale)
    assert orders == set(range(1, order + 1))


def test_every_part_of_an_interaction_has_a_term(fitted):
    _, _, estimator = fitted
    terms = set(estimator.term_features_)
    for term in terms:
        assert all(part in terms for size in range(1, len(term)) for part in combinations(term, size))


def test_missing_values_without_training_rows_and_unseen_levels_contribute_nothing(fitted):
    _, _, estimator = fitted
    row = make_table().iloc[:1].assign(colour="violet", age=np.nan)
    contributions = dict(zip(estimator.term_names_, estimator.eval_terms(row)[0], strict=True))
    for name, contribution in contributions.items():  # `age` was never missing in training
        assert np.all(contribution == 0) or not {"age", "colour"} & set(name.split(" & ")), name


@pytest.mark.parametrize("order", ORDERS)
def test_factored_classes_equal_their_tables(order, monkeypatch):
    table, odd = make_table(), make_odd_table()
    y = make_target(table, "tied")
    dense = make_estimator("tied", interactions=ORDERS[order]).fit(table, y)
    monkeypatch.setattr("neuralbasis.training.compile.MAX_NUMBERS", 0)
    factored = make_estimator("tied", interactions=ORDERS[order]).fit(table, y)
    assert any(isinstance(shape, TiedShape) for shape in factored.model_.shapes)
    assert not any(isinstance(shape, TiedShape) for shape in dense.model_.shapes)
    assert factored.term_names_ == dense.term_names_
    np.testing.assert_allclose(factored.eval_terms(odd), dense.eval_terms(odd), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(factored.predict_proba(odd), dense.predict_proba(odd), rtol=1e-8)
    np.testing.assert_array_equal(factored.predict(odd), dense.predict(odd))
    np.testing.assert_allclose(factored.intercept_, dense.intercept_, atol=1e-10)
    for one, other in zip(factored.term_scores_, dense.term_scores_, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)
    for one, other in zip(factored.standard_deviations_, dense.standard_deviations_, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(factored.term_importances(), dense.term_importances(), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(("task", "order"), [*product(TASKS, ORDERS), ("tied", 3)])
def test_weight_equals_repetition(task, order):
    table = make_table(120)
    y = make_target(table, task)
    weights = np.random.default_rng(3).integers(0, 4, len(table))
    weights[[np.flatnonzero(y == label)[0] for label in np.unique(y)[:3]]] = 1
    weighted = make_estimator(task, interactions=ORDERS[order]).fit(table, y, sample_weight=weights)
    repeated = make_estimator(task, interactions=ORDERS[order])
    repeated.fit(table.loc[table.index.repeat(weights)], np.repeat(y, weights))
    np.testing.assert_array_equal(weighted.model_.scores(table), repeated.model_.scores(table))


@pytest.mark.parametrize("task", TASKS)
def test_weight_zero_is_a_row_absent_also_with_fractional_weights(task):
    table = make_table(150)
    y = make_target(table, task)
    rng = np.random.default_rng(4)
    weights = np.where(rng.random(len(table)) < 0.3, 0.0, rng.random(len(table)))
    full = make_estimator(task, interactions=2).fit(table, y, sample_weight=weights)
    keep = weights > 0
    part = make_estimator(task, interactions=2).fit(table[keep], y[keep], sample_weight=weights[keep])
    np.testing.assert_array_equal(full.model_.scores(table), part.model_.scores(table))
    assert full.interaction_ranking_ == part.interaction_ranking_


@pytest.mark.parametrize(("task", "order"), [*product(TASKS, ORDERS), ("tied", 3), *product(TASKS, ["searched"])])
def test_order_of_columns_and_rows_does_not_matter(task, order):
    table, interactions = make_table(150), ORDERS.get(order, 3)
    y = make_target(table, task)
    shuffled = np.random.default_rng(5).permutation(len(table))
    first = make_estimator(task, interactions=interactions).fit(table, y)
    second = make_estimator(task, interactions=interactions)
    second.fit(table[table.columns[::-1]].iloc[shuffled], y[shuffled])
    assert set(map(frozenset, split_names(first))) == set(map(frozenset, split_names(second)))
    np.testing.assert_allclose(first.model_.scores(table), second.model_.scores(table), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("task", "order"), [*product(CASES, ORDERS), *product(TASKS, ["searched"])])
def test_a_seed_gives_the_same_bits_on_any_number_of_threads(task, order):
    table = make_table(150)
    y, interactions = make_target(table, task), ORDERS.get(order, "auto")
    one, two = (make_estimator(task, interactions=interactions, n_jobs=n_jobs).fit(table, y) for n_jobs in (1, 2))
    assert one.term_names_ == two.term_names_
    np.testing.assert_array_equal(one.model_.scores(table), two.model_.scores(table))


def split_names(estimator):
    return [name.split(" & ") for name in estimator.term_names_]


def make_sparse(absent: float, n_rows: int = 200, seed: int = 0) -> tuple[sp.csr_array, np.ndarray]:
    """Mostly absent columns, one of counts, one without an absent value, one with nothing else; and the same dense."""
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((n_rows, 5)) < 0.3, rng.normal(size=(n_rows, 5)).round(1), absent)
    dense[:, 1] = rng.integers(0, 5, n_rows)
    dense[:, 2] = rng.normal(size=n_rows)
    dense[:, 3] = 1.0 if np.isnan(absent) else absent
    dense[5:20, 0] = np.nan
    is_stored = ~((dense == absent) | (np.isnan(dense) & np.isnan(absent)))
    return sp.csr_array((dense[is_stored], np.nonzero(is_stored)), shape=dense.shape), dense


SPARSE_ORDERS = {1: 0, 3: [(0, 1), (1, 4), (0, 1, 4)], "searched": 2}


def make_sparse_target(dense: np.ndarray, task: str) -> np.ndarray:
    known = np.nan_to_num(dense)
    score = np.sin(2 * known[:, 0]) + 0.4 * known[:, 1] * (1 + known[:, 4])
    score = score + 0.3 * np.random.default_rng(0).normal(size=len(dense))
    return 10 * score if task == "regression" else np.digitize(score, [0.5] if task == "binary" else [0.2, 1.0])


@pytest.mark.parametrize(("engine", "weighted"), [("grid", False), ("grid", True), ("exact", True)])
@pytest.mark.parametrize("order", SPARSE_ORDERS)
@pytest.mark.parametrize("task", CASES)
def test_sparse_equals_dense(task, order, engine, weighted):
    sparse, dense = make_sparse(0.0, 100)
    y = make_sparse_target(dense, task)
    weights = np.random.default_rng(1).random(len(y)) + 0.1 if weighted else None
    parameters = {"interactions": SPARSE_ORDERS[order], "network__engine": engine, "max_steps": 6}
    one = make_estimator(task, **parameters).fit(sparse, y, sample_weight=weights)
    other = make_estimator(task, **parameters).fit(dense, y, sample_weight=weights)
    assert one.term_names_ == other.term_names_
    assert one.interaction_ranking_ == other.interaction_ranking_
    np.testing.assert_allclose(one.model_.scores(dense), other.model_.scores(dense), rtol=0, atol=1e-6)
    np.testing.assert_allclose(one.model_.scores(sparse), one.model_.scores(dense), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(one.model_.contributions(sparse), one.model_.contributions(dense))


@pytest.mark.parametrize("absent", [1.0, -0.35, np.nan])
def test_sparse_equals_dense_whatever_is_absent(absent, tmp_path):
    sparse, dense = make_sparse(absent)
    y = make_sparse_target(dense, "regression")
    parameters = {"interactions": SPARSE_ORDERS[3]}
    one = make_estimator("regression", storage__absent_value=absent, **parameters).fit(sparse, y)
    other = make_estimator("regression", **parameters).fit(dense, y)
    np.testing.assert_allclose(one.predict(sparse), other.predict(dense), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(one.predict(dense), other.predict(dense), rtol=1e-9, atol=1e-9)
    one.save(tmp_path / "model.nbm")
    np.testing.assert_array_equal(load(tmp_path / "model.nbm").predict(sparse), one.predict(sparse))


def test_the_order_of_rows_and_columns_of_a_sparse_table_does_not_matter():
    sparse, dense = make_sparse(0.0)
    y = make_sparse_target(dense, "binary")
    names, moved = [f"column {index}" for index in range(5)], [3, 0, 4, 2, 1]
    rows = np.random.default_rng(0).permutation(len(y))
    first = make_estimator("binary", interactions=3, feature_names=names).fit(sparse, y)
    second = make_estimator("binary", interactions=3, feature_names=[names[index] for index in moved])
    second.fit(sparse[:, moved][rows], y[rows])
    np.testing.assert_allclose(
        second.model_.scores(sparse[:, moved]), first.model_.scores(sparse), rtol=1e-9, atol=1e-9
    )


def make_engines(task: str, order: int, seed: int = 0):
    """A double-precision net with random coefficients, and both engines on rows that stand on knots."""
    table = make_table(90, seed)
    rng = np.random.default_rng(seed)
    for column in ("size", "flat"):  # few enough values for every one to be a knot, in triples too
        table[column] = table[column].round().clip(-3, 5)
    estimator = make_estimator(task, interactions=0, network__tied_classes=seed == 1, network__n_subnets=1 + seed)
    columns = read_columns(table)
    encoder = Encoder.fit(columns)
    terms = [(feature,) for feature in range(table.shape[1])]
    terms += [tuple(sorted(map(table.columns.get_loc, term))) for term in ORDERS[order] or ()]
    layout = lay_out(encoder.axes, terms, {2: 33, 3: 11})
    positions = layout.encode(encoder.numbers(columns))
    sample = Sample(rng.normal(size=len(table)), np.ones(len(table)))
    objective = {"regression": SquaredError(), "binary": LogLoss(), "multiclass": CrossEntropy(3)}[task]
    grid = GridEngine(layout, positions, sample.weights, threads=1)
    if task != "regression":
        sample = Sample((np.arange(len(table)) % objective.n_outputs if task == "multiclass" else
                         (sample.y > 0)).astype(int), sample.weights)  # fmt: skip
    config = FitConfig.read(estimator).resolve(len(table))
    net = make_net(config, grid, objective, sample, len(sample.y), rng).double()
    with torch.no_grad():
        for parameter in [*net.coefficients.parameters(), *net.offsets.parameters(), *net.mixes.parameters(), net.free]:
            parameter.copy_(torch.from_numpy(rng.normal(size=parameter.shape)))
    return net, grid, ExactEngine(grid), positions


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("order", ORDERS)
def test_grid_and_exact_engine_agree_on_knots_in_scores_and_gradients(task, order, seed):
    net, grid, exact, positions = make_engines(task, order, seed)
    assert (positions == np.floor(positions)).all()
    rows = np.arange(len(positions))
    slope = torch.from_numpy(np.random.default_rng(0).normal(size=(len(rows), net.n_members, net.n_outputs)))
    results = []
    for engine in (grid, exact):
        points, lookup, index = engine.batch(rows)
        points = to_double(points)
        table = net.table(points)
        taken = lookup.take(index)
        parts = lookup.gather(taken, table.detach(), net.tied).requires_grad_()
        net.zero_grad()
        scores = net.combine(parts)
        scores.backward(slope)
        table.backward(lookup.scatter(taken, parts.grad, len(table)))
        gradients = [p.grad.clone() for p in net.parameters() if p.grad is not None]
        results.append((scores.detach(), gradients))
    (scores, gradients), (other_scores, other_gradients) = results
    # Places are kept in single precision.
    torch.testing.assert_close(scores, other_scores, rtol=1e-9, atol=1e-9)
    for mine, other in zip(gradients, other_gradients, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-7, atol=1e-8)


def to_double(points):
    from neuralbasis.networks import OrderPoints, Points

    orders = {
        order: OrderPoints(chosen.places.double(), chosen.weight.double(), chosen.term, chosen.point)
        for order, chosen in points.orders.items()
    }
    return Points(orders, points.source)


@pytest.mark.parametrize("task", TASKS)
def test_table_is_the_net_on_the_knots(task):
    net, grid, _, _ = make_engines(task, 1)
    objective = {"regression": SquaredError(), "binary": LogLoss(), "multiclass": CrossEntropy(3)}[task]
    net.float()
    model = compile_model([Stage(grid, net.intercept.detach(), net=net)], encoder_of(grid), objective)
    net.eval()
    chosen = grid.points.orders[1]
    with torch.no_grad():
        values = net.bases["1"](chosen.places, chosen.weight)
    for rank, index in enumerate(i for i, t in enumerate(grid.layout.terms) if len(t) == 1):
        axis = grid.layout.axes_of(index)[0]
        if axis.kind == "nominal":
            continue
        where = [int(np.abs(chosen.places[:, 0].numpy() - place).argmin()) for place in axis.places]
        coefficients = net.coefficients["1"].detach().unflatten(2, (-1, net.n_outputs))[:, :, rank]
        direct = torch.einsum("mpb,mbk->mpk", values[:, where], coefficients).double().numpy().mean(axis=0)
        if net.n_outputs > 1:
            direct = direct - direct.mean(axis=1, keepdims=True)
        shape = next(s for s in model.shapes if s.term == grid.layout.terms[index])
        difference = shape.scores[1:-1] - direct  # purifying moves a main effect by a constant
        np.testing.assert_allclose(difference, np.broadcast_to(difference[:1], difference.shape), atol=1e-5)


def encoder_of(grid):
    return Encoder(grid.layout.axes[: int(grid.layout.axis_column.max()) + 1])


def test_fourier_free_net_has_the_published_number_of_parameters():
    """CA Housing NBM: 64,861 = 62,820 (network) + 1,224 (batch norm) + 808 (coefficients) + 9 (output weights)."""
    from neuralbasis.networks import BasisNet, MLPBasis

    basis = MLPBasis(1, 100, 1, hidden=(256, 128, 128), fourier=0)
    assert BasisNet({1: basis}, {1: 8}, n_free=0, n_members=1, n_outputs=1, tied=True).count_parameters() == 64_861
