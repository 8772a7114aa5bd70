"""Bases: the network against torch's layers, splines against SciPy's, copies, dropout, and custom bases."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import BSpline
from torch import nn

from neuralbasis import NeuralBasisRegressor
from neuralbasis.networks import Basis, MLPBasis, SplineBasis

pytestmark = pytest.mark.usefixtures("one_torch_thread")
seeds = st.integers(0, 2**31 - 1)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def draw_points(n_points, n_inputs=1, seed=0):
    """Points and how often each counts."""
    generator = seeded(seed)
    points = torch.rand(n_points, n_inputs, generator=generator, dtype=torch.float64)
    return points, torch.randint(1, 6, (n_points,), generator=generator).double()


def reference_network(basis, copy):
    """One copy as torch.nn writes it: Linear, BatchNorm1d by the batch's moments, ReLU; no activation at the end."""
    layers = []
    last = len(basis.weights) - 1
    for layer, (weight, bias) in enumerate(zip(basis.weights, basis.biases, strict=True)):
        linear = nn.Linear(*weight.shape[1:]).double()
        linear.weight.data, linear.bias.data = weight[copy].T.clone(), bias[copy, 0].clone()
        layers.append(linear)
        if len(basis.gains):
            norm = nn.BatchNorm1d(weight.shape[2], track_running_stats=False).double()
            norm.weight.data, norm.bias.data = basis.gains[layer][copy, 0].clone(), basis.shifts[layer][copy, 0].clone()
            layers.append(norm)
        if layer < last:
            layers.append(nn.ReLU())
    return nn.Sequential(*layers)


def shake(module, seed=0):
    """Random parameters, batch norm's included."""
    generator = seeded(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))


# The paper's network


@settings(deadline=None, max_examples=25)
@given(seeds, st.integers(1, 3), st.integers(1, 3), st.integers(2, 30), st.booleans())
def test_network_is_torch_on_repeated_points(seed, n_inputs, n_copies, n_points, batch_norm):
    basis = MLPBasis(n_inputs, 5, n_copies, hidden=(7, 6), fourier=0, batch_norm=batch_norm).double()
    shake(basis, seed)
    points, weight = draw_points(n_points, n_inputs, seed)
    values = basis(points, weight)
    assert values.shape == (n_copies, n_points, 5)
    times = weight.long()
    first = torch.cumsum(times, 0) - times
    for copy in range(n_copies):
        repeated = reference_network(basis, copy)(2 * points.repeat_interleave(times, dim=0) - 1)
        torch.testing.assert_close(values[copy], repeated[first], rtol=1e-6, atol=1e-6)


def test_gradients_are_torch_on_repeated_points():
    basis = MLPBasis(1, 4, 1, hidden=(6,), fourier=0).double()
    shake(basis)
    points, weight = draw_points(9)
    reference = reference_network(basis, 0)
    slope = torch.randn(9, 4, generator=seeded(3), dtype=torch.float64)
    basis(points, weight)[0].backward(slope * weight[:, None])
    times = weight.long()
    reference(2 * points.repeat_interleave(times, 0) - 1).backward(slope.repeat_interleave(times, 0))
    torch.testing.assert_close(basis.weights[0].grad[0].T, reference[0].weight.grad, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(basis.gains[1].grad[0, 0], reference[4].weight.grad, rtol=1e-6, atol=1e-8)


def test_only_shares_of_the_weight_matter():
    basis = MLPBasis(1, 3, 1, generator=seeded()).double()
    points, weight = draw_points(12)
    torch.testing.assert_close(basis(points, weight), basis(points, 1000 * weight), rtol=1e-9, atol=1e-9)
    plain = MLPBasis(1, 3, 1, batch_norm=False, generator=seeded()).double()
    torch.testing.assert_close(plain(points, weight), plain(points, torch.ones(12).double()), rtol=0, atol=0)


@pytest.mark.parametrize("n_copies", [1, 3])
def test_number_of_parameters(n_copies):
    hidden = (256, 128, 128)
    assert MLPBasis(1, 100, n_copies, hidden, fourier=0, batch_norm=False).count_parameters() == 62_820
    assert MLPBasis(1, 100, n_copies, hidden, fourier=0).count_parameters() == 62_820 + 1_224
    sizes = [2, *hidden, 200]
    weights = sum((before + 1) * after for before, after in pairwise(sizes))
    assert weights == 75_976
    norms = 2 * (256 + 128 + 128 + 200)
    assert MLPBasis(2, 200, n_copies, hidden, fourier=0).count_parameters() == weights + norms
    # Frequencies are fixed, but they widen the first layer.
    assert MLPBasis(2, 200, n_copies, hidden, fourier=16).count_parameters() == weights + norms + 32 * 256


def test_copies_are_independent():
    basis = MLPBasis(2, 4, 3, hidden=(8, 8), fourier=3, generator=seeded()).double()
    points, weight = draw_points(10, 2)
    before = basis(points, weight).detach()
    assert not torch.allclose(before[0], before[1])
    with torch.no_grad():
        for parameter in basis.parameters():
            parameter[1] += 0.5
    after = basis(points, weight).detach()
    torch.testing.assert_close(after[[0, 2]], before[[0, 2]], rtol=0, atol=0)
    assert not torch.allclose(after[1], before[1])
    basis(points, weight)[2].sum().backward()
    for parameter in basis.parameters():
        assert parameter.grad[:2].abs().max() == 0


# Fourier inputs


def test_without_frequencies_the_input_is_the_place():
    basis = MLPBasis(2, 3, 2, fourier=0, generator=seeded())
    points = torch.tensor([[0.0, 0.5], [1.0, 0.25]])
    torch.testing.assert_close(basis._inputs(points), torch.tensor([[-1.0, 0.0], [1.0, -0.5]]).expand(2, 2, 2))
    assert basis.weights[0].shape == (2, 2, 64)
    # Range and decay of frequencies that are not there change nothing.
    other = MLPBasis(2, 3, 2, fourier=0, max_frequency=3.0, decay=0.5, generator=seeded())
    weight = torch.ones(2)
    torch.testing.assert_close(basis(points, weight), other(points, weight), rtol=0, atol=0)


def test_inputs_are_sines_and_cosines_of_the_place():
    basis = MLPBasis(2, 3, 2, fourier=4, generator=seeded()).double()
    points, _ = draw_points(5, 2)
    inputs = basis._inputs(points)
    assert inputs.shape == (2, 5, 2 + 8)
    for copy in range(2):
        angle = points @ basis.frequency[copy] + basis.phase[copy]
        expected = torch.cat([angle.sin(), angle.cos()], dim=1) * basis.amplitude[copy].repeat(1, 2)
        torch.testing.assert_close(inputs[copy, :, 2:], expected)
        length = basis.frequency[copy].norm(dim=0) / (2 * math.pi)
        torch.testing.assert_close(basis.amplitude[copy, 0], (1 + length) ** -2.0)
    assert not torch.allclose(basis.frequency[0], basis.frequency[1])


def test_frequencies_are_spread_on_a_log_scale_up_to_the_highest():
    basis = MLPBasis(1, 3, 1, fourier=16, max_frequency=32.0, generator=seeded())
    step = 128 ** (1 / 15)
    centre = 0.25 * step ** np.arange(16)
    periods = (basis.frequency[0, 0].abs() / (2 * math.pi)).numpy()
    assert (periods > 0.999 * centre / math.sqrt(step)).all()
    assert (periods < 1.001 * centre * math.sqrt(step)).all()


def test_kept_inputs_follow_the_points():
    def make():
        return MLPBasis(1, 4, 2, fourier=3, generator=seeded()).double()

    basis = make()
    (one, weight), (other, _) = draw_points(6, seed=1), draw_points(6, seed=2)
    expected = [make()(one, weight), make()(other, weight)]  # each sees its points for the first time
    assert not torch.allclose(*expected)
    for choice in (0, 0, 1, 0, 1, 1):
        torch.testing.assert_close(basis((one, other)[choice], weight), expected[choice], rtol=0, atol=0)
    torch.testing.assert_close(basis(one[:2], weight[:2]), make()(one[:2], weight[:2]), rtol=0, atol=0)


# Randomness


def test_a_generator_makes_the_weights_reproducible():
    def draw(seed):
        return MLPBasis(2, 4, 2, fourier=3, generator=seeded(seed)).state_dict()

    torch.manual_seed(0)
    first = draw(5)
    torch.manual_seed(1)  # must not matter
    second, third = draw(5), draw(6)
    assert first.keys() == second.keys()
    for name in first:
        assert torch.equal(first[name], second[name])
    assert not torch.equal(first["weights.0"], third["weights.0"])
    assert not torch.equal(first["phase"], third["phase"])


def test_first_weights_are_as_wide_as_torch_s():
    basis = MLPBasis(1, 100, 1, hidden=(256, 128, 128), fourier=0, generator=seeded())
    for weight, bias in zip(basis.weights, basis.biases, strict=True):
        bound = 1 / math.sqrt(weight.shape[1])
        assert weight.abs().max() <= bound
        assert bias.abs().max() <= bound
        assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1)


def test_dropout_drops_in_training_only():
    basis = MLPBasis(1, 50, 1, hidden=(200,), dropout=0.4, batch_norm=False, generator=seeded())
    whole = MLPBasis(1, 50, 1, hidden=(200,), dropout=0.0, batch_norm=False, generator=seeded())
    points, weight = torch.rand(20, 1, generator=seeded(1)), torch.ones(20)
    basis.eval()
    torch.testing.assert_close(basis(points, weight), whole(points, weight), rtol=0, atol=0)
    basis.train()
    torch.manual_seed(0)
    draws = torch.stack([basis(points, weight).detach() for _ in range(200)])
    assert not torch.equal(draws[0], draws[1])
    # Without a norm behind it, what is kept is scaled up: the mean stays.
    spread = draws.std(0) / math.sqrt(200)
    assert ((draws.mean(0) - whole(points, weight)).abs() < 6 * spread).all()


# Splines


@pytest.mark.parametrize("n_bases", [4, 5, 8, 33])
def test_splines_are_scipy_s(n_bases):
    basis = SplineBasis(1, n_bases, 2)
    place = np.linspace(0, 1, 101)
    pieces = n_bases - 3
    knots = np.arange(-3, n_bases + 1) / pieces
    reference = np.stack([BSpline(knots, row, 3)(place) for row in np.eye(n_bases)], axis=1)
    values = basis(torch.from_numpy(place)[:, None], torch.ones(101))
    assert values.shape == (2, 101, n_bases)
    for copy in values.numpy():
        np.testing.assert_allclose(copy, reference, atol=1e-12)


@settings(deadline=None)
@given(st.integers(1, 3), st.integers(1, 70), st.lists(st.floats(0, 1), min_size=3, max_size=30))
def test_splines_are_a_partition_of_unity_with_compact_support(n_inputs, n_bases, places):
    rows = len(places) // n_inputs
    points = torch.tensor(places[: rows * n_inputs], dtype=torch.float64).reshape(rows, n_inputs)
    basis = SplineBasis(n_inputs, n_bases, 1)
    values = basis(points, torch.ones(rows))[0]
    assert values.shape == (rows, basis.n_bases)
    assert (values >= 0).all()
    torch.testing.assert_close(values.sum(1), torch.ones(rows).double(), rtol=1e-12, atol=1e-12)
    assert ((values > 0).sum(1) <= 4**n_inputs).all()


def test_splines_of_pairs_are_products():
    pair, along = SplineBasis(2, 25, 1), SplineBasis(1, 5, 1)
    points, weight = draw_points(20, 2)
    first, second = (along(points[:, [axis]], weight)[0] for axis in (0, 1))
    expected = torch.einsum("pi,pj->pij", first, second).reshape(20, 25)
    torch.testing.assert_close(pair(points, weight)[0], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("n_inputs", "requested", "given"), [(1, 2, 4), (1, 32, 32), (2, 32, 36), (2, 9, 16), (3, 32, 64)]
)
def test_splines_have_at_least_four_functions_an_axis(n_inputs, requested, given):
    basis = SplineBasis(n_inputs, requested, 3)
    assert basis.n_bases == given
    assert basis.count_parameters() == 0


# Custom bases


class CosineBasis(Basis):
    """cos(π k x) for k = 1 … B, one input."""

    def forward(self, points, weight):
        rank = torch.arange(1, self.n_bases + 1, dtype=points.dtype)
        return torch.cos(math.pi * points * rank).expand(self.n_copies, -1, -1)


def test_the_interface_requires_forward():
    with pytest.raises(NotImplementedError):
        Basis(1, 2, 3)(torch.zeros(1, 1), torch.ones(1))


def test_a_custom_basis_fits():
    requests = []

    def make_basis(n_inputs, n_bases, n_copies, generator):
        requests.append((n_inputs, n_bases, n_copies, isinstance(generator, torch.Generator)))
        return CosineBasis(n_inputs, n_bases, n_copies)

    X = np.random.default_rng(0).random((400, 2))
    y = 5 + 3 * np.cos(4 * X[:, 0]) + X[:, 1]
    model = NeuralBasisRegressor(
        network={"basis": make_basis, "n_bases": 12, "n_subnets": 2, "scaling": "minmax"}, outer_bags=3, smoothness=0,
        max_steps=300, interactions=0,
    ).fit(X, y)  # fmt: skip
    assert requests == [(1, 12, 6, True)]
    assert model.score(X, y) > 0.999


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_custom_basis_must_be_finite(value):
    """A logarithm, for example, is not at 0."""

    class HoleBasis(CosineBasis):
        def forward(self, points, weight):
            return torch.where(points[:, :1] > 0, super().forward(points, weight), value)

    X = np.random.default_rng(0).random((200, 2))
    model = NeuralBasisRegressor(network__basis=lambda order, n, copies, _: HoleBasis(order, n, copies), interactions=0)
    words = r"the basis HoleBasis of order 1 returned values that are not finite, such as at the point \(0\); all its"
    with pytest.raises(ValueError, match=words):
        model.fit(X, X[:, 0])


class ProductBasis(Basis):
    """Products of powers of the inputs."""

    def forward(self, points, weight):
        powers = torch.stack([(points ** (k + 1)).prod(dim=1) for k in range(self.n_bases)], dim=1)
        return powers.expand(self.n_copies, -1, -1)


def test_a_custom_basis_of_pairs_and_triples():
    requests = []

    def make_basis(n_inputs, n_bases, n_copies, generator):
        requests.append((n_inputs, n_bases, n_copies))
        return ProductBasis(n_inputs, n_bases, n_copies)

    X = np.random.default_rng(0).random((400, 3))
    y = X[:, 0] * X[:, 1] + X.prod(axis=1)
    model = NeuralBasisRegressor(
        network={
            "basis": make_basis, "n_bases": 3, "n_interaction_bases": 2, "scaling": "minmax", "staged": False,
        }, outer_bags=2, max_steps=200, interactions=[(0, 1), (0, 1, 2)], smoothness=0, learning_rate=0.05,
    ).fit(X, y)  # fmt: skip
    assert sorted(requests) == [(1, 3, 2), (2, 2, 2), (3, 2, 2)]
    assert model.score(X, y) > 0.98


def test_splines_fit():
    X = np.random.default_rng(0).random((400, 2))
    y = np.sin(6 * X[:, 0]) + X[:, 1] ** 2
    spline = {"network": {"basis": "spline", "n_bases": 12}, "max_steps": 300, "outer_bags": 2}
    assert NeuralBasisRegressor(**spline, interactions=0).fit(X, y).score(X, y) > 0.99
    product = NeuralBasisRegressor(**spline, interactions=[(0, 1)]).fit(X, X[:, 0] * X[:, 1])
    assert product.score(X, X[:, 0] * X[:, 1]) > 0.99
