"""Training on present values: scores and gradients are those of plain torch and of the dense exact engine."""

from __future__ import annotations

import tracemalloc
from copy import deepcopy

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.metrics import log_loss

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, load
from neuralbasis.config import FitConfig
from neuralbasis.data import Columns, Sample
from neuralbasis.encoding import Encoder, lay_out
from neuralbasis.losses import CrossEntropy, LogLoss, SquaredError
from neuralbasis.training import ExactEngine, GridEngine, Settings, make_net, place_rows
from neuralbasis.training.present import PresentMembers, PresentValues
from tests.sparse_tables import store

LOSSES = {"classes": CrossEntropy(3), "two": LogLoss(), "numbers": SquaredError()}
PAPER = {"network": "paper", "network__hidden": (16, 8), "network__n_bases": 6, "outer_bags": 2}


def draw_values(seed: int, n_rows: int = 40, n_columns: int = 7, absent: float = 0.0) -> np.ndarray:
    """Columns from 0 to 8, whose places are eighths; one with values on both sides of 0, one with missing values."""
    rng = np.random.default_rng(seed)
    table = np.where(rng.random((n_rows, n_columns)) < 0.4, rng.integers(1, 9, (n_rows, n_columns)), absent)
    table[:2] = [[8.0], [0.0]] * np.ones(n_columns)
    table[:, 1] = np.where(rng.random(n_rows) < 0.5, table[:, 1] - 4, absent)
    table[3:6, 2] = np.nan
    return table


def make_members(table, loss, absent=0.0, settings=None, **options):
    """Members with random parameters, and their grid and axes."""
    stored, rng = store(table, absent), np.random.default_rng(0)
    columns = Columns(tuple(f"x{d}" for d in range(table.shape[1])), len(table), sparse=stored)
    config = FitConfig.read(NeuralBasisRegressor(**{**PAPER, **options}))
    axes = Encoder.fit(columns, None, None, "minmax", 33).axes
    layout = lay_out(axes, [(feature,) for feature in range(table.shape[1])], {})
    grid = GridEngine(layout, layout.encode(stored), np.ones(len(table)), 1)
    y = np.arange(len(table)) % max(2, loss.n_outputs)
    sample = Sample(y, rng.random(len(table)) + 0.5)
    rows = place_rows(sample, loss, config.outer_bags, 0.2, rng, torch.device("cpu"))
    net = make_net(config, grid, loss, sample, len(y), rng, bare=True)
    settings = settings or Settings(output_penalty=config.network.output_penalty, weight_decay=0.0, max_steps=50)
    members = PresentMembers(net, PresentValues.of(grid), rows, loss, settings, torch.Generator().manual_seed(0), 1)
    members.coefficients[:] = rng.normal(size=members.coefficients.shape)
    if net.tied:
        members.mix[:] = rng.normal(size=members.mix.shape)
    return members, grid, axes


def find_places(table, axes) -> torch.Tensor:
    """(N, T) places, NaN where a value is missing."""
    found = [np.interp(column, axis.knots, axis.places) for column, axis in zip(table.T, axes, strict=True)]
    return torch.from_numpy(np.stack(found, axis=1).astype(np.float32))


def evaluate_plainly(basis, places, points, weight) -> torch.Tensor:
    """(Q, …, B) the network at places, normalised over weighted points, one layer after the other."""
    values, known = (2 * places.nan_to_num(0.0) - 1)[..., None], (2 * points - 1)[:, None]
    found = []
    for copy in range(basis.n_copies):
        here, there = values, known
        for layer, (matrix, bias) in enumerate(zip(basis.weights, basis.biases, strict=True)):
            here, there = (each @ matrix[copy] + bias[copy, 0] for each in (here, there))
            if len(basis.gains):
                mean = (weight[:, None] * there).sum(0) / weight.sum()
                scale = (
                    basis.gains[layer][copy, 0]
                    / ((weight[:, None] * (there - mean) ** 2).sum(0) / weight.sum() + 1e-5).sqrt()
                )
                here, there = ((each - mean) * scale + basis.shifts[layer][copy, 0] for each in (here, there))
            if layer < len(basis.weights) - 1 or basis.relu_bases:
                here, there = here.relu(), there.relu()
        found.append(here)
    return torch.stack(found)


@pytest.mark.parametrize("absent", [0.0, np.nan])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", LOSSES)
def test_a_step_follows_the_gradients_of_plain_dense_torch(kind, tied, absent):
    loss = LOSSES[kind]
    if not tied and loss.n_outputs > 1:
        return
    table = draw_values(1, absent=absent)
    options = {"network__tied_classes": tied, "network__n_subnets": 2, "network__output_penalty": 0.7}
    members, _, axes = make_members(table, loss, absent, **options)
    net, batch = members.net, np.arange(5, 31)
    places, at_absent = find_places(table[batch], axes), find_places(np.full((1, 7), absent), axes)[0]
    coefficients, mix = (torch.from_numpy(each.copy()).requires_grad_() for each in (members.coefficients, members.mix))
    is_absent = np.isnan(table[batch]) if np.isnan(absent) else table[batch] == absent
    is_present = torch.from_numpy(~is_absent)
    has_place = is_present & ~places.isnan()
    once = at_absent[is_present.any(dim=0)]
    once = once[~once.isnan()].unique()
    points, weight = torch.cat([places[has_place], once]), torch.ones(int(has_place.sum()) + len(once))

    def contribute(place: torch.Tensor) -> torch.Tensor:  # (…, T) -> (Q, …, T)
        bases = evaluate_plainly(net.bases["1"], place, points, weight)
        found = torch.einsum("q...tb,qtb->q...t", bases, coefficients[..., :-1])
        missing = (5 * coefficients[..., -1]).view(len(coefficients), *[1] * (place.dim() - 1), -1)
        return torch.where(place.isnan(), missing, found)

    values = torch.where(is_present, contribute(places) - contribute(at_absent[None]), 0.0)  # (Q, b, T)
    scores = torch.einsum("qnt,qtk->qnk", values, mix).unflatten(0, (2, 2)).sum(1).transpose(0, 1) + net.intercept
    parts = loss.loss(scores, members.rows.target[batch]) * members.shares[batch] / len(batch)
    penalty = 0.7 * values.square().sum() / len(batch)
    leaves = [coefficients, mix, *net.parameters()]
    leaves = [leaf for leaf in leaves if leaf.numel()]
    expected = torch.autograd.grad(parts.sum() + penalty, leaves, allow_unused=True)
    local = members.values.take(batch, members.work)
    _, bases, local = members.evaluate(local)
    found = members._score(local, members.contribute(local, bases), len(batch))
    np.testing.assert_allclose(found, scores.detach(), rtol=1e-4, atol=1e-4)

    kept = {}
    members.optimizer.step = lambda _rate: kept.update({p: p.grad.clone() for p in net.parameters() if p.numel()})
    members.step(batch, 0.0)
    scale = float(expected[0].abs().max())
    largest = max(
        float(grad.abs().max()) for grad in expected if grad is not None
    )  # biases before batch norm have none
    np.testing.assert_allclose(members.mean / 0.1, expected[0], rtol=1e-3, atol=1e-5 * scale)
    if tied:
        np.testing.assert_allclose(members.mix_mean / 0.1, expected[1], rtol=1e-3, atol=1e-5 * scale)
    for parameter, grad in zip(leaves[2:], expected[2:], strict=True):
        grad = torch.zeros_like(parameter) if grad is None else grad
        np.testing.assert_allclose(kept[parameter], grad, rtol=2e-3, atol=2e-5 * largest)


def test_scores_and_gradients_are_those_of_the_dense_exact_engine():
    """The dense scores differ by one constant, and gradients by the slope of that constant."""
    table, loss = draw_values(2), CrossEntropy(3)
    members, sparse, _ = make_members(table, loss, network__batch_norm=False)
    grid = GridEngine(sparse.layout, sparse.layout.encode(table), np.ones(len(table)), 1)
    config = FitConfig.read(NeuralBasisRegressor(**PAPER, network__batch_norm=False))
    net = make_net(config, grid, loss, None, len(table), np.random.default_rng(0))
    net.bases.load_state_dict(members.net.bases.state_dict())
    with torch.no_grad():
        net.coefficients["1"].copy_(torch.from_numpy(members.coefficients[..., :-1]).transpose(1, 2))
        net.mixes["1"].copy_(torch.from_numpy(members.mix))
        net.free.copy_(torch.from_numpy(members.coefficients[..., -1]).T)
    batch = np.arange(6, 36)
    points, lookup, index = ExactEngine(grid).batch(batch)
    dense, taken = net.table(points), lookup.take(index)
    parts = lookup.gather(taken, dense.detach(), True).double()
    place = find_places(np.zeros((1, 7)), [sparse.layout.axes[t] for t in range(7)])[0]
    own = net.bases["1"](place[:, None], torch.ones(7)).detach()  # (Q, T, B)
    f_absent = torch.einsum("qtb,qbt->qt", own, net.coefficients["1"].detach())
    constant = torch.einsum("qt,qtk->qk", f_absent, net.mixes["1"].detach())
    scores = net.combine(parts).detach()
    with torch.no_grad():
        members.net.intercept.copy_(net.intercept + constant)
    _, bases, local = members.evaluate(members.values.take(batch, members.work))
    found = members._score(local, members.contribute(local, bases), len(batch))
    np.testing.assert_allclose(found.detach(), scores, rtol=1e-4, atol=1e-4)

    slope = loss.slope(scores, members.rows.target[batch]) * (members.shares[batch] / len(batch))[..., None]
    pull, (of_intercept, of_mix) = net.pull(parts, slope)
    dense.backward(lookup.scatter(taken, pull, len(dense)).float())
    moved = net.coefficients["1"].grad.transpose(1, 2) - pull.sum(0).T[..., None].float() * own
    kept = []
    members.optimizer.step = lambda _rate: kept.append(members.net.intercept.grad.clone())
    members.step(batch, 0.0)
    np.testing.assert_allclose(members.mean[..., :-1] / 0.1, moved, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(kept[0], of_intercept, rtol=1e-3, atol=1e-5)
    mixed = of_mix - f_absent[..., None] * slope.sum(0)[:, None]
    np.testing.assert_allclose(members.mix_mean / 0.1, mixed, rtol=1e-3, atol=1e-4)


def test_weight_decay_applied_late_is_that_of_every_step():
    table = draw_values(3)
    settings = Settings(weight_decay=0.5, max_steps=50)
    options = {"settings": settings, "network__relu_bases": False}  # rounding could move a base across 0
    late, early = (make_members(table, CrossEntropy(3), **options)[0] for _ in range(2))
    batches = np.random.default_rng(0).integers(0, 40, (12, 3))
    for batch in batches:
        late.step(batch, 0.1)
        early.step(batch, 0.1)
        early._shrink(np.arange(7))
    late._shrink(np.arange(7))
    np.testing.assert_allclose(late.coefficients, early.coefficients, rtol=2e-4, atol=1e-6)
    np.testing.assert_allclose(late.mix, early.mix, rtol=2e-4, atol=1e-6)
    assert late.clock == pytest.approx(12 * np.log1p(-0.05))


def test_terms_that_a_batch_lacks_do_not_move():
    table = draw_values(4)
    table[2:, 5] = 0.0
    members, *_ = make_members(table, CrossEntropy(3))
    before, mix = members.coefficients.copy(), members.mix.copy()
    for _ in range(3):
        members.step(np.arange(5, 30), 0.01)
    np.testing.assert_array_equal(members.coefficients[:, 5], before[:, 5])
    np.testing.assert_array_equal(members.mix[:, 5], mix[:, 5])
    assert (members.coefficients[:, 0, :-1] != before[:, 0, :-1]).all()
    assert members.count.tolist() == [3, 3, 3, 3, 3, 0, 3]


@pytest.mark.parametrize(
    ("kind", "tied", "n_columns"), [("classes", True, 7), ("classes", True, 1100), ("two", False, 7)]
)
def test_tables_are_the_network_at_the_knots(kind, tied, n_columns):
    table = draw_values(7, 30, n_columns)
    options = {"network__tied_classes": tied, "network__n_subnets": 2}
    members, grid, _ = make_members(table, LOSSES[kind], **options)
    rows = np.arange(len(table))
    batch = members.values.take(rows, members.work)
    expected = members._score(batch, members.contribute(batch, members.find_table()), len(rows)).detach()
    scale = float(expected.abs().max())
    np.testing.assert_allclose(members.make_stage(grid).add_scores(None), expected, rtol=1e-4, atol=1e-5 * scale)


def test_bits_do_not_depend_on_threads():
    members = [make_members(draw_values(5, 400, 900), CrossEntropy(3))[0] for _ in range(2)]
    members[1].threads = 3
    for each in members:
        for _ in range(2):
            each.step(np.arange(300), 0.01)
    np.testing.assert_array_equal(members[0].coefficients, members[1].coefficients)
    np.testing.assert_array_equal(members[0].optimizer.values, members[1].optimizer.values)


def test_memory_of_a_step_follows_its_present_values():
    rng, n_rows, n_columns = np.random.default_rng(0), 64, 300_000
    term = np.sort(rng.integers(0, n_columns, (n_rows, 10)), axis=1).astype(np.int32)
    n_points, bases = 50, 16
    values = PresentValues(
        np.arange(n_rows + 1) * 10, term.ravel(), rng.integers(1, n_points, term.size).astype(np.int32),
        np.zeros(n_columns, np.int32), np.arange(n_columns + 1), np.zeros(n_columns, np.int32),
        np.linspace(0, 1, n_points, dtype=np.float32), np.ones(n_points, np.float32),
    )  # fmt: skip
    small, *_ = make_members(draw_values(6), CrossEntropy(3), network__n_bases=bases, outer_bags=1)
    rows = place_rows(Sample(np.arange(64) % 3, np.ones(64)), small.loss, 1, 0.2, rng, torch.device("cpu"))
    members = PresentMembers(small.net, values, rows, small.loss, small.settings, torch.Generator(), 1)
    members.step(np.arange(64), 0.01)
    tracemalloc.start()
    members.step(np.arange(64), 0.01)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000, "coefficients of all columns would be 19 MB"
    assert (members.count > 0).sum() == len(np.unique(term))


def draw_documents(n_rows: int, seed: int, n_columns: int = 1500) -> tuple[csr_array, np.ndarray]:
    """Rare noise words, and words of four classes whose effect is a bump of their value."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, n_rows)
    row, column, value = (np.repeat(np.arange(n_rows), 12), rng.integers(40, n_columns, n_rows * 12),
                          rng.random(n_rows * 12) + 0.1)  # fmt: skip
    own = 10 * y[:, None] + rng.integers(0, 10, (n_rows, 3))
    other = rng.integers(0, 40, (n_rows, 3))  # words of any class, with values that tell nothing
    row = np.concatenate([row, np.repeat(np.arange(n_rows), 6)])
    column = np.concatenate([column, np.hstack([own, other]).ravel()])
    numbers = np.hstack([0.4 + 0.2 * rng.random(own.shape), np.where(rng.random(other.shape) < 0.5, 0.1, 1.0)])
    table = csr_array((np.concatenate([value, numbers.ravel()]), (row, column)), shape=(n_rows, n_columns))
    table.sum_duplicates()
    return table, y


def make_paper(kind=NeuralBasisClassifier, **options):
    usual = {
        "network": "paper", "network__hidden": (32, 16), "network__n_bases": 16, "network__batch_size": 128,
        "learning_rate": 5e-3, "network__output_penalty": 0.01, "network__dropout": 0.1,
        "network__basis_dropout": 0.1, "max_steps": 400, "n_jobs": 1,
    }  # fmt: skip
    return kind(**{**usual, "random_state": 0, **options})


@pytest.fixture(scope="module")
def fitted():
    X, y = draw_documents(1500, 0)
    return X, y, make_paper().fit(X, y)


def test_a_fit_learns_shapes_of_present_values(fitted):
    X, _, model = fitted
    new, labels = draw_documents(1000, 1)
    assert model.score(new, labels) > 0.75
    assert len(model.term_names_) == X.shape[1], "columns are not selected, and there are no automatic pairs"
    losses = model.history_.validation
    assert min(losses) < 0.7 * losses[0]
    assert len(model.model_.residuals) == 4


def test_a_dense_table_gives_the_same_model(fitted):
    X, y, _ = fitted
    one, other = (make_paper(max_steps=30).fit(table, y) for table in (X, X.toarray()))
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    np.testing.assert_allclose(one.predict_proba(X.toarray()), one.predict_proba(X), rtol=1e-9)


def test_two_classes_numbers_and_a_saved_model(tmp_path):
    X, y = draw_documents(1500, 0)
    binary = make_paper(network__n_subnets=2).fit(X, y < 2)
    assert binary.score(*[part if k == 0 else part < 2 for k, part in enumerate(draw_documents(1000, 1))]) > 0.8
    options = {"outer_bags": 2, "network__tied_classes": False, "max_steps": 150, "boosted_steps": False}
    model = make_paper(NeuralBasisRegressor, **options)
    model.fit(X, np.where(y < 2, 5.0, -5.0))
    new, labels = draw_documents(1000, 1)
    assert model.score(new, np.where(labels < 2, 5.0, -5.0)) > 0.3
    model.save(tmp_path / "model.nbm")
    np.testing.assert_array_equal(load(tmp_path / "model.nbm").predict(new), model.predict(new))


def test_an_update_lowers_the_loss(fitted):
    X, y, _ = fitted
    first = make_paper(max_steps=60).fit(X[:300], y[:300])
    new, labels = draw_documents(1000, 1)
    updated = deepcopy(first).set_params(max_steps=200, boosted_steps=False).update(X[300:], y[300:])
    losses = [log_loss(labels, each.predict_proba(new)) for each in (first, updated)]
    assert losses[1] < 0.95 * losses[0]
