"""Learners: networks have the published form and size, and they learn."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from torch import nn
from torch.nn import functional

from benchmarks import baselines
from benchmarks.baselines import linear, mlp, nam, nbm, node_gam
from benchmarks.baselines.network_training import (
    EarlyStopping,
    Training,
    compute_batch_loss,
    draw_batches,
    fit_network,
)
from benchmarks.baselines.networks import (
    ExuNets,
    NeuralAdditive,
    PaperNetwork,
    ReluNets,
    count_numbers,
    count_parameters,
    list_terms,
    make_layers,
    make_network,
)
from benchmarks.paper.throughput import MODELS, SIZES, find_obstacle, fit_batch, measure_throughput, time_runs

ROOT = Path(__file__).resolve().parents[2]

# PAPER tab. params_and_throughput and num_subnets: data set -> columns and outputs, and what is printed
DATA = {"ca": (8, 1), "fico": (39, 1), "covertype": (54, 7), "news": (146_016, 20), "birds": (278, 1486)}
PUBLISHED = [
    ("nam", "ca", {}, "54K"), ("nam", "fico", {}, "262K"), ("nam", "covertype", {}, "363K"),
    ("nam", "news", {}, "984M"), ("nam", "birds", {}, "2.3M"), ("nam", "covertype", {"n_subnets": 5}, "1.8M"),
    ("nbm", "ca", {}, "65K"), ("nbm", "fico", {}, "68K"), ("nbm", "covertype", {}, "70K"),
    ("nbm", "news", {}, "18M"), ("nbm", "birds", {}, "0.5M"),
    ("nam", "fico", {"order": 2}, "5.3M"), ("nam", "covertype", {"order": 2}, "10M"),
    ("nbm", "ca", {"order": 2}, "161K"), ("nbm", "fico", {"order": 2}, "0.3M"),
    ("nbm", "covertype", {"order": 2}, "463K"), ("nbm", "covertype", {"order": 2}, "0.5M"),
    ("nbm", "birds", {"order": 2}, "66M"),
]  # fmt: skip
CUT = [("nam", "ca", {"order": 2}, 243_785, "243K"), ("nam", "birds", {"order": 2}, 320_741_345, "320M")]


def make_table(n_rows: int = 400, n_columns: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((n_rows, n_columns)).astype(np.float32)


def write_count(count: int, like: str) -> str:
    """The count in the unit and with the places of the published text."""
    places = len(like[:-1].partition(".")[2])
    return f"{count / {'K': 1e3, 'M': 1e6}[like[-1]]:.{places}f}{like[-1]}"


@pytest.mark.parametrize(("learner", "data", "options", "printed"), PUBLISHED)
def test_parameters_are_as_many_as_published(learner: str, data: str, options: dict, printed: str) -> None:
    assert write_count(count_parameters(learner, *DATA[data], **options), printed) == printed


@pytest.mark.parametrize(("learner", "data", "options", "count", "printed"), CUT)
def test_two_published_counts_are_cut_not_rounded(learner, data, options, count, printed) -> None:
    assert count_parameters(learner, *DATA[data], **options) == count
    unit = {"K": 1000, "M": 1_000_000}[printed[-1]]
    assert count // unit == int(printed[:-1]) == round(count / unit) - 1


def test_five_subnets_are_published_in_two_digits() -> None:
    assert count_parameters("nbm", *DATA["covertype"], n_subnets=5) == 348_387  # 350K


@pytest.mark.parametrize("learner", ["nam", "nbm"])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_counts_follow_the_paper_s_formulas(learner: str, order: int) -> None:
    """Counted without memory, on a real module, and by formula."""
    n_columns, n_outputs = 7, 3
    counts = [len(terms) for terms in list_terms(n_columns, order)]
    if learner == "nam":
        each = [6401 + 320 + 64 * extra for extra in range(order)]
        expected = sum(count * (size + n_outputs) for count, size in zip(counts, each, strict=True)) + n_outputs
    else:
        size = 100 if order == 1 else 200
        nets = [62_820 + (size - 100) * 129 + 2 * (256 + 128 + 128) + 256 * extra for extra in range(order)]
        expected = sum(nets) + sum(counts) * (size + 1 + n_outputs) + n_outputs
    assert count_parameters(learner, n_columns, n_outputs, order=order) == expected
    assert count_numbers(make_network(learner, n_columns, n_outputs, order=order)) == expected


def test_counts_of_the_other_networks() -> None:
    assert count_parameters("linear", 8, 1) == 9
    assert count_parameters("nam", 8, 1, units="exu") == 8 * (3 * 1024 + 1) + 8 + 1
    assert count_parameters("mlp", 8, 1, shape=2, batch_norm=False) == 9 * 2048 + 2049 * 1024 + 1025
    with pytest.raises(ValueError, match="learner must be one of"):
        count_parameters("tree", 8, 1)


@given(st.integers(1, 7), st.integers(1, 3))
def test_terms_are_all_combinations(n_columns: int, order: int) -> None:
    from itertools import combinations

    for size, terms in enumerate(list_terms(n_columns, order), start=1):
        assert [tuple(term) for term in terms] == list(combinations(range(n_columns), size))


@pytest.mark.parametrize(("kind", "n_inputs"), [(ReluNets, 1), (ReluNets, 2), (ExuNets, 1), (ExuNets, 2)])
def test_nets_side_by_side_are_single_nets(kind: type, n_inputs: int) -> None:
    """Values and gradients, batch norm included."""
    torch.manual_seed(0)
    nets, values = kind(4, n_inputs).double(), torch.rand(4, n_inputs, 50, dtype=torch.double)
    target = torch.rand(4, 50, dtype=torch.double)
    together = nets(values)
    (together * target).sum().backward()
    for q in range(4):
        single = kind(1, n_inputs).double()
        own = {
            name: value if value.dim() == 0 else value.unflatten(0, (4, -1))[q].clone()
            for name, value in nets.state_dict().items()
        }
        single.load_state_dict({name: value.view_as(single.state_dict()[name]) for name, value in own.items()})
        alone = single(values[q : q + 1])
        torch.testing.assert_close(alone[0], together[q])
        (alone * target[q]).sum().backward()
        for (name, mine), (_, theirs) in zip(single.named_parameters(), nets.named_parameters(), strict=True):
            torch.testing.assert_close(mine.grad, theirs.grad.unflatten(0, (4, -1))[q].view_as(mine), msg=name)


def test_a_net_of_one_term_is_a_plain_network() -> None:
    """64-64-32 with batch norm, as torch's own layers have it."""
    torch.manual_seed(0)
    nets, plain = ReluNets(1, 1), make_layers([1, 64, 64, 32, 1], batch_norm=True)
    layers = [layer for layer in plain if isinstance(layer, nn.Linear)]
    for layer, weight, bias in zip(layers, nets.weights, nets.biases, strict=True):
        layer.weight.data, layer.bias.data = weight[0].detach(), bias[0, :, 0].detach()
    x = torch.rand(30, 1)
    torch.testing.assert_close(plain(x)[:, 0], nets(x.T[None])[0])
    torch.testing.assert_close(plain.eval()(x)[:, 0], nets.eval()(x.T[None])[0])  # the running averages


def test_exu_units_by_hand() -> None:
    nets = ExuNets(1, 1)
    nets.exponents.data.fill_(np.log(2.0))
    nets.centres.data.fill_(0.25)
    nets.weight.data.fill_(1 / 1024)
    found = nets(torch.tensor([[[0.0, 0.25, 0.5, 1.0]]]))
    assert found[0].tolist() == pytest.approx([0, 0, 0.5, 1.0], abs=1e-6)  # 2 (x - ¼), between 0 and 1


def test_gradients_are_derivatives() -> None:
    torch.manual_seed(0)
    net, rows = NeuralAdditive(2, 2, order=2).double(), torch.rand(20, 2, dtype=torch.double)
    target = torch.randint(2, (20,))
    loss = compute_batch_loss(net, rows, target, output_penalty=0.3)
    loss.backward()
    weight = net.nets[1].weights[1]
    step = 1e-6 * torch.randn_like(weight)
    expected = float((weight.grad * step).sum())
    with torch.no_grad():
        weight += step
        above = compute_batch_loss(net, rows, target, output_penalty=0.3)
        weight -= 2 * step
        below = compute_batch_loss(net, rows, target, output_penalty=0.3)
    assert float(above - below) / 2 == pytest.approx(expected, rel=1e-3)


@torch.no_grad()
def test_the_output_penalty_is_the_mean_square_of_the_shapes() -> None:
    torch.manual_seed(0)
    net, rows, target = NeuralAdditive(3, 1), torch.rand(10, 3), torch.rand(10)
    free = compute_batch_loss(net, rows, target, 0.0)
    assert float(compute_batch_loss(net, rows, target, 2.0) - free) == pytest.approx(
        2 * float(net.shapes(rows).square().mean()), rel=1e-5
    )
    assert float(free) == pytest.approx(float(functional.mse_loss(net(rows)[:, 0], target)), rel=1e-5)


@pytest.mark.parametrize("kind", [NeuralAdditive, PaperNetwork])
@pytest.mark.parametrize("order", [1, 2])
def test_contributions_sum_to_the_score(kind: type, order: int) -> None:
    torch.manual_seed(0)
    net, rows = kind(4, 3, order=order, n_subnets=2).eval(), torch.rand(20, 4)
    contributions = net.contributions(rows)
    assert contributions.shape == (20, 4 if order == 1 else 10, 3)
    torch.testing.assert_close(contributions.sum(dim=1) + net.classes.bias, net(rows))


@pytest.mark.parametrize("kind", [NeuralAdditive, PaperNetwork])
def test_a_term_depends_on_its_columns_only(kind: type) -> None:
    torch.manual_seed(0)
    net, rows = kind(4, 2, order=2).eval(), torch.rand(20, 4)
    moved = rows.clone()
    moved[:, 1] = torch.rand(20)
    change = (net.contributions(moved) - net.contributions(rows)).abs().amax(dim=(0, 2))
    terms = [tuple(term) for part in net.terms for term in part]
    assert [float(value) > 0 for value in change] == [1 in term for term in terms]


def test_the_published_basis_is_shared() -> None:
    """Two columns with equal coefficients have equal shapes."""
    torch.manual_seed(0)
    net = PaperNetwork(2, 1).eval()
    net.coefficients[0].data[0, 1] = net.coefficients[0].data[0, 0]
    value = torch.rand(10, 1)
    shapes = net.shapes(value.expand(-1, 2))
    torch.testing.assert_close(shapes[0], shapes[1])


@settings(max_examples=20)
@given(st.integers(2, 50), st.integers(1, 60))
def test_an_epoch_has_every_row_once(n_rows: int, size: int) -> None:
    batches = list(draw_batches(n_rows, min(size, n_rows), 2))
    half = len(batches) // 2
    for epoch in (batches[:half], batches[half:]):
        assert sorted(torch.cat(epoch).tolist()) == list(range(n_rows))
        lengths = [len(batch) for batch in epoch]
        assert max(lengths) - min(lengths) <= 1
        assert max(lengths) <= min(size, n_rows)


@pytest.mark.parametrize("learner", [nam, mlp])
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_a_seed_gives_one_model(learner, task: str) -> None:
    X = make_table(200)
    y = X[:, 0] if task == "regression" else np.where(X[:, 0] > 0.5, "yes", "no")
    state = torch.get_rng_state()
    first, again, other = (
        learner.fit(X, y, task, seed, epochs=3, batch_size=64, dropout=0.2).scores(X) for seed in (1, 1, 2)
    )
    assert (first == again).all()
    assert not np.allclose(first, other)
    assert torch.equal(torch.get_rng_state(), state)  # the caller's


@pytest.mark.parametrize("units", ["relu", "exu"])
def test_nam_learns_what_a_line_cannot(units: str) -> None:
    X, new = make_table(1500), make_table(500, seed=1)

    def truth(X: np.ndarray) -> np.ndarray:
        return np.sin(8 * X[:, 0]) + (X[:, 1] > 0.5)

    y = truth(X) + 0.1 * np.random.default_rng(2).normal(size=len(X))
    rate, epochs = {"relu": (0.01, 30), "exu": (0.003, 15)}[units]
    model = nam.fit(X, y, "regression", 0, units=units, epochs=epochs, batch_size=128, learning_rate=rate)
    line = linear.fit(X, y, "regression", 0)
    error, of_line = (np.sqrt(np.mean((fitted.predict(new) - truth(new)) ** 2)) for fitted in (model, line))
    assert of_line > 0.6
    assert error < 0.25
    contributions = nam.contributions(model, new)
    assert model.term_features_ == [(0,), (1,), (2,)]
    np.testing.assert_allclose(
        contributions.sum(axis=1) + model.shift + model.unit * model.net.classes.bias.item(), model.predict(new),
        rtol=1e-4, atol=1e-4,
    )  # fmt: skip
    assert contributions.std(axis=0)[2] < 0.1 < contributions.std(axis=0)[:2].min()


def test_pairs_and_the_black_box_learn_a_product() -> None:
    X, new = make_table(1500), make_table(500, seed=1)
    y, truth = ((table[:, 0] > 0.5) ^ (table[:, 1] > 0.5) for table in (X, new))
    known = {"epochs": 15, "batch_size": 128, "learning_rate": 0.01}
    alone = nam.fit(X, y, "classification", 0, **known)
    pairs = nam.fit(X, y, "classification", 0, order=2, **known)
    black = mlp.fit(X, y, "classification", 0, **known)
    accuracy = [(model.predict(new) == truth).mean() for model in (alone, pairs, black)]
    assert accuracy[0] < 0.65
    assert min(accuracy[1:]) > 0.93


def test_classes_have_weights_of_their_own() -> None:
    """Three classes along one column: one shape, weighed for each class."""
    X = make_table(900, 1)
    y = np.array(["low", "middle", "top"])[np.digitize(X[:, 0], [0.33, 0.66])]
    model = nam.fit(X, y, "classification", 0, epochs=40, batch_size=128, learning_rate=0.01)
    assert (model.predict(X) == y).mean() > 0.9
    assert model.classes_.tolist() == ["low", "middle", "top"]
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert nam.contributions(model, X).shape == (900, 1, 3)


def test_validation_rows_choose_the_state() -> None:
    """Noise cannot be learned: the kept state is an early one, better on the held rows than the last."""
    rng = np.random.default_rng(0)
    X, y, held = make_table(60), rng.normal(size=60), (make_table(200, seed=1), rng.normal(size=200))
    training, errors = Training(epochs=150, batch_size=60, learning_rate=0.02), []
    for known in (held, None):
        model = fit_network("mlp", {"shape": 0}, training, X, y, "regression", 0, known)
        errors.append(np.mean((model.predict(held[0]) - held[1]) ** 2))
    assert errors[0] < 0.9 * errors[1]


@pytest.mark.parametrize("patience", [0, 2])
def test_patience_ends_training(patience: int) -> None:
    torch.manual_seed(0)
    net, training = make_network("mlp", 3, 1).eval(), Training(epochs=1, patience=patience)
    stopping = EarlyStopping(net, make_table(20), np.ones(20), training)
    assert [stopping.check() for _ in range(3)] == [False, False, patience == 2]  # the first is the best


def test_sparse_rows_are_read_like_dense_ones() -> None:
    X = make_table(100, 6) * (make_table(100, 6, seed=1) > 0.7)
    y = X[:, 0] > 0
    known = {"epochs": 2, "batch_size": 32}
    dense, sparse = (mlp.fit(table, y, "classification", 0, **known) for table in (X, csr_matrix(X)))
    np.testing.assert_array_equal(dense.predict_proba(X), sparse.predict_proba(csr_matrix(X)))


def test_networks_need_numbers() -> None:
    X = make_table(10)
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="finite numbers, but the table has levels or missing values"):
        nam.fit(X, X[:, 0], "regression", 0)
    with pytest.raises(ValueError, match="units must be 'relu' or 'exu'"):
        nam.fit(make_table(10), X[:, 0], "regression", 0, units="tanh")


@pytest.mark.parametrize("engine", ["exact", "grid"])
def test_the_paper_s_model_learns(engine: str) -> None:
    X, new = make_table(800), make_table(300, seed=1)
    y, truth = (np.sin(6 * table[:, 0]) + table[:, 1] for table in (X, new))
    model = nbm.fit(X, y, "regression", 0, engine=engine, epochs=15, batch_size=128, n_jobs=1)
    assert np.sqrt(np.mean((model.predict(new) - truth) ** 2)) < 0.12
    assert model.term_features_ == [(0,), (1,), (2,)]
    assert (model.network.n_bases, model.network.hidden, model.validation_size) == (100, (256, 128, 128), 0)


def test_the_paper_s_model_has_all_terms() -> None:
    X = make_table(60)
    model = nbm.fit(X, X[:, 0] > 0.5, "classification", 0, order=3, engine="grid", quick=True, n_jobs=1)
    assert sorted(model.term_features_) == sorted(tuple(map(int, term)) for terms in list_terms(3, 3) for term in terms)
    assert model.network.n_bases == model.network.n_interaction_bases == 200


@pytest.mark.parametrize("name", ["linear", "xgboost"])
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_validation_rows_are_used(name: str, task: str) -> None:
    """Many columns of noise: what is chosen by held rows is no worse on new rows than the default."""
    if not baselines.is_installed(name):
        pytest.skip(f"needs the package {baselines.LIBRARIES[name]}")
    parts = [make_table(150, 40, seed) for seed in range(3)]
    rng = np.random.default_rng(5)
    scores = [3 * part[:, 0] + rng.normal(size=150) for part in parts]
    targets = scores if task == "regression" else [score > 1.5 for score in scores]
    known = {} if name == "linear" else {"n_jobs": 1}
    learner = baselines.get(name)
    default = learner.fit(parts[0], targets[0], task, 0, **known)
    chosen = learner.fit(parts[0], targets[0], task, 0, validation=(parts[1], targets[1]), **known)

    def lose(model) -> float:
        found = model.predict(parts[2]) if task == "regression" else model.predict_proba(parts[2])[:, 1]
        return float(np.mean((found - targets[2]) ** 2))

    assert lose(chosen) <= lose(default) + 0.01


def test_a_missing_package_raises_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nodegam", None)
    with pytest.raises(ImportError, match=r"pip install nodegam"):
        node_gam.fit(make_table(10), make_table(10)[:, 0], "regression", 0)


@pytest.mark.parametrize("model", ["nam", "nbm", "na2m", "nb2m", "compiled", "compiled2"])
def test_throughput(model: str) -> None:
    record = measure_throughput(model, "ca_housing", quick=True)
    assert record["rows_per_second"] == pytest.approx(record["batch"] / record["seconds"])
    assert (record["batch"], record["runs"], record["n_columns"]) == (64, 3, 8)
    assert record["order"] == MODELS[model].order
    assert (record["published"] is None) == model.startswith("compiled")


def test_throughput_limits() -> None:
    calls = []
    seconds, runs, _ = time_runs(lambda: calls.append(1), 1, max_runs=100, limit=0.0)
    assert (runs, len(calls)) == (1, 2)  # the first does not count
    assert seconds >= 0
    with pytest.raises(ValueError, match="the networks read dense rows"):
        measure_throughput("nam", "newsgroups")
    open_cells = {data: [model for model in MODELS if find_obstacle(model, data) is None] for data in SIZES}
    assert open_cells["newsgroups"] == ["compiled"]
    assert open_cells["covertype"] == list(MODELS)


def test_batches_fit_into_memory() -> None:
    with torch.device("meta"):
        small, large = NeuralAdditive(8, 1), NeuralAdditive(278, 5, order=2)
    assert fit_batch(small, 8192) == 8192
    assert fit_batch(large, 8192) == 128
