"""The paper's models against plain PyTorch written from its text: NBM, NB²M, NB³M, tied classes, subnets, sparse.

The reference scales every column to [0, 1], evaluates the shared network at every value of the batch, row by row, and
differentiates the loss with the output penalty.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from torch.nn import functional

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, paper_settings
from neuralbasis.config import FitConfig
from neuralbasis.data import Sample, read_columns
from neuralbasis.encoding import Encoder, lay_out
from neuralbasis.losses import choose_loss
from neuralbasis.training import ExactEngine, GridEngine, make_net, place_rows
from neuralbasis.training.batches import Pool
from neuralbasis.training.defaults import make_settings
from neuralbasis.training.members import MemberGroup, compute_gradients
from neuralbasis.training.penalties import Penalty, adapt_smoothness
from tests.sparse_tables import store

N_ROWS, N_COLUMNS, PENALTY = 60, 4, 0.7


def evaluate_network(own, order, copy, inputs):
    """PAPER §3.2: linear layers with batch norm and ReLU, the bases included; inputs (n, o) -> (n, B)."""
    values, n_layers = inputs, sum(name.startswith(f"bases.{order}.weights") for name in own)
    for layer in range(n_layers):
        key = f"bases.{order}."
        values = functional.linear(values, own[f"{key}weights.{layer}"][copy].T, own[f"{key}biases.{layer}"][copy, 0])
        gain, shift = own[f"{key}gains.{layer}"][copy, 0], own[f"{key}shifts.{layer}"][copy, 0]
        values = functional.relu(functional.batch_norm(values, None, None, gain, shift, training=True))
    return values


def evaluate_model(own, terms, n_subnets, X):
    """f_t = Σ_k h_k(x) a_tk + a constant, g_l = f_0l + Σ_t f_t w_tl: scores (N, K), values of the terms (S, N, T)."""
    scores, found = own["intercept"][0], []
    for copy in range(n_subnets):
        shapes, mixes = [], []
        for order in sorted({len(term) for term in terms}):
            same = [list(term) for term in terms if len(term) == order]
            inputs = torch.cat([X[:, term] for term in same])  # one batch of all terms
            bases = evaluate_network(own, order, copy, 2 * inputs - 1).unflatten(0, (len(same), len(X)))
            a, constant = own[f"coefficients.{order}"][copy], own[f"offsets.{order}"][copy]
            shapes.append(torch.einsum("tnb,bt->nt", bases, a) + constant)
            mixes.append(own[f"mixes.{order}"][copy])
        found.append(torch.cat(shapes, dim=1))
        scores = scores + found[-1] @ torch.cat(mixes)
    return scores, torch.stack(found)


def measure_loss(scores, target, n_classes):
    if n_classes == 0:
        return 0.5 * functional.mse_loss(scores[:, 0], target.double())
    if n_classes == 2:
        return functional.binary_cross_entropy_with_logits(scores[:, 0], target.double())
    return functional.cross_entropy(scores, target)


def draw(rng, is_sparse):
    if is_sparse:
        return np.where(rng.random((N_ROWS, N_COLUMNS)) < 0.4, rng.integers(1, 30, (N_ROWS, N_COLUMNS)) / 10, 0.0)
    X = rng.random((N_ROWS, N_COLUMNS))
    X[:, 1] = np.exp(4 * rng.normal(size=N_ROWS))  # nearly all rows are in the first thousandth of the axis
    return X


def make_group(config, table, is_sparse, terms, loss, sample, knots=(20, 7, 4)):
    """A net with random parameters, and what trains it by the exact engine."""
    encoder = Encoder.fit(read_columns(table), None, None, config.network.axis_scaling, knots[0])
    layout, rng = lay_out(encoder.axes, terms, {2: knots[1], 3: knots[2]}, moves=False), np.random.default_rng(0)
    grid = GridEngine(layout, layout.encode(store(table) if is_sparse else table), np.ones(len(table)), 1)
    rows = place_rows(sample, loss, 1, 0, rng, "cpu", copies=False)
    net, generator = make_net(config, grid, loss, None, len(table), rng), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) / 3)
    settings = make_settings(config, N_ROWS, N_ROWS, n_terms=len(terms))
    smoothness = adapt_smoothness(settings.smoothness, N_ROWS, 1.0)
    penalty = Penalty(grid, N_ROWS, smoothness, settings.output_penalty)
    group = MemberGroup(net, grid, rows, penalty, loss, settings, np.empty(0, dtype=int))
    group.pool = Pool(ExactEngine(grid), rows.target, rows.shares(), None, rows.copies)
    group.refresh(1.0)
    return group


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("n_classes", [0, 2, 3])
@pytest.mark.parametrize(("order", "n_subnets"), [(1, 1), (1, 3), (2, 1), (3, 2)])
def test_scores_and_gradients_are_those_of_plain_torch(order, n_subnets, n_classes, is_sparse):
    rng = np.random.default_rng(order + 10 * n_classes)
    table, batch = draw(rng, is_sparse), rng.permutation(N_ROWS)[:40]
    settings = paper_settings("covertype", order)
    settings["network"] |= {"hidden": (9, 8), "n_bases": 5, "n_interaction_bases": 6, "n_subnets": n_subnets}
    settings["network"]["output_penalty"] = PENALTY
    kind = NeuralBasisClassifier if n_classes else NeuralBasisRegressor
    config = FitConfig.read(kind(**settings)).resolve(N_ROWS)
    sample = Sample(np.arange(N_ROWS) % n_classes if n_classes else rng.normal(size=N_ROWS), np.ones(N_ROWS))
    loss = choose_loss(sample, np.arange(n_classes) if n_classes else None)
    terms = [term for size in range(1, order + 1) for term in combinations(range(N_COLUMNS), size)]
    group = make_group(config, table, is_sparse, terms, loss, sample)
    net, engine = group.net, group.pool.engine
    compute_gradients([group], batch)

    own = {name: parameter.detach().double().requires_grad_() for name, parameter in net.named_parameters()}
    low, high = table.min(axis=0), table.max(axis=0)
    X = torch.from_numpy((table[batch] - low) / (high - low))
    scores, values = evaluate_model(own, group.grid.layout.terms, n_subnets, X)
    points, lookup, index = engine.batch(batch)
    with torch.no_grad():
        found = net.combine(lookup.gather(lookup.take(index), net.table(points), net.tied).to(lookup.sums))[:, 0]
    size = float(scores.detach().abs().max())
    torch.testing.assert_close(found.double(), scores.detach(), rtol=0, atol=1e-4 * size)

    # All in single precision; biases before batch norm have no effect.
    # The penalty is on the mean square over rows and terms, half of it beside half of the squared error.
    penalty = (0.5 if n_classes == 0 else 1.0) * PENALTY * values.square().mean(dim=1).sum() / len(terms)
    (measure_loss(scores, group.rows.target[batch], n_classes) + penalty).backward()
    used = {name: p for name, p in net.named_parameters() if p.numel() and not name.startswith("free")}
    largest = max(float(own[name].grad.abs().max()) for name in used)  # biases before batch norm have no effect
    for name, parameter in used.items():
        expected = own[name].grad
        limit = 1e-3 * float(expected.abs().max()) + 1e-4 * largest
        torch.testing.assert_close(parameter.grad.double(), expected, rtol=0, atol=limit, msg=name)


@pytest.mark.parametrize("order", [1, 2])
def test_tables_agree_with_the_network(order):
    """At the knots that `paper_settings` asks for; in columns with tails as well."""
    rng = np.random.default_rng(order)
    table = np.exp(rng.normal(size=(N_ROWS * 50, 3)) * [0.1, 1.0, 2.0])
    settings = paper_settings("ca_housing", order)
    knots = settings["max_bins"], settings["max_interaction_bins"], 0
    settings["network"] |= {"hidden": (16, 8), "n_bases": 8, "n_interaction_bases": 8}
    config = FitConfig.read(NeuralBasisRegressor(**settings)).resolve(len(table))
    sample = Sample(rng.normal(size=len(table)), np.ones(len(table)))
    terms = [term for size in range(1, order + 1) for term in combinations(range(3), size)]
    group = make_group(config, table, False, terms, choose_loss(sample, None), sample, knots)
    net, grid, rows = group.net.eval(), group.grid, np.arange(len(table))
    points, lookup, index = ExactEngine(grid).batch(rows)
    with torch.no_grad():
        exact = net.combine(lookup.gather(lookup.take(index), net.table(points), net.tied).to(lookup.sums))
        own = grid.lookup
        read = net.combine(own.gather(own.take(rows), net.table(grid.points), net.tied).to(own.sums))
    gap = (read - exact).double()
    # Random networks bend more than trained ones: after an epoch on CA Housing, pairs differ by 0.0007.
    assert float(gap.square().mean().sqrt()) < (1e-3 if order == 1 else 0.02) * float(exact.std())
