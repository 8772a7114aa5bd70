"""Shares: the optimum of a posterior on held-out rows, within [0, 1], that never raises the held-out loss."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag
from scipy.optimize import minimize

from neuralbasis import NeuralBasisRegressor
from neuralbasis.data import Sample
from neuralbasis.losses import choose_loss
from neuralbasis.training import Proposal, choose_shares, place_rows

TASKS = ("regression", "binary", "multiclass")


@dataclass
class Contributions:
    """A LookUp whose rows contribute (N, T, M · K) whatever the table is."""

    values: torch.Tensor
    n_taken: list[int] = field(default_factory=list)  # rows of every look-up

    def take(self, rows):
        self.n_taken.append(len(rows))
        return rows

    def gather(self, taken, _table, per_term):
        assert per_term
        return self.values[taken]


class Choice:
    """Proposals that each have the true terms plus an error of their own.

    errors : standard deviation for each proposal; true terms have 1
    """

    def __init__(self, task="regression", n_rows=400, n_terms=2, errors=(0.5, 0.5), usual=0.5, n_members=3, seed=0):
        rng, n_outputs = np.random.default_rng(seed), 3 if task == "multiclass" else 1
        terms = rng.normal(size=(n_rows, n_terms, n_outputs))
        score = terms.sum(axis=1)
        if task == "regression":
            y = score[:, 0] + rng.normal(size=n_rows)
        else:
            logits = score if n_outputs > 1 else np.c_[np.zeros(n_rows), score]
            y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
        sample = Sample(y, np.ones(n_rows))
        self.loss = choose_loss(sample, None if task == "regression" else np.unique(y))
        self.rows = place_rows(sample, self.loss, n_members, 1 / 3, rng, torch.device("cpu"))
        self.start = torch.zeros(n_rows, n_members, n_outputs)
        shape = n_rows, n_terms, n_members, n_outputs
        self.proposals = [
            self.propose((terms[:, :, None] + error * rng.normal(size=shape)) / self.loss.unit, usual)
            for error in errors
        ]

    def propose(self, values, usual):
        values = torch.from_numpy(values).flatten(2).float()
        constant, table = 0.1 * torch.ones(values.shape[2]), torch.empty(0)
        return Proposal(table, constant, Contributions(values), np.full(1 + values.shape[1], usual))

    def choose(self, **changed):
        return choose_shares(self.proposals, self.start, changed.get("rows", self.rows), self.loss)

    def held_out_loss(self, chosen):
        """By its definition, over all rows."""
        scores = self.start.double()
        for proposal, part in zip(self.proposals, np.split(chosen, len(self.proposals)), strict=True):
            values = proposal.lookup.values.double()
            whole = torch.cat([proposal.constant.double().expand(len(values), 1, -1), values], dim=1)
            scores = scores + torch.einsum("ntc,t->nc", whole, torch.from_numpy(part)).view_as(scores)
        return float((self.loss.loss(scores, self.rows.target).double() * self.rows.validation_parts()).sum())

    def cost(self, chosen):
        """Minus the log posterior."""
        usual = np.concatenate([proposal.usual for proposal in self.proposals])
        blocks = [0.25**2 + 0.2**2 * np.eye(len(proposal.usual)) for proposal in self.proposals]
        away, n_rows = chosen - usual, int(self.rows.held_out.any(dim=1).sum())
        loss = self.held_out_loss(chosen)
        fit = n_rows / 2 * np.log(loss) if self.loss.link == "identity" else n_rows * loss
        return fit + away @ np.linalg.solve(block_diag(*blocks), away) / 2


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 2**32 - 1), st.sampled_from(TASKS), st.sampled_from([20, 60, 400]), st.integers(1, 4),
    st.lists(st.floats(0, 20), min_size=1, max_size=3), st.floats(0, 1),
)  # fmt: skip
def test_shares_lie_in_their_bounds_and_the_held_out_loss_never_rises(seed, task, n_rows, n_terms, errors, usual):
    choice = Choice(task, n_rows, n_terms, errors, usual, seed=seed)
    fit = choice.choose()
    chosen = np.concatenate(fit.shares)
    assert [len(part) for part in fit.shares] == [1 + n_terms] * len(errors)
    assert chosen.min() >= 0
    assert chosen.max() <= 1
    assert fit.after <= fit.before
    assert fit.gains == bool(chosen.any())
    assert fit.before == pytest.approx(choice.held_out_loss(np.zeros_like(chosen)), rel=1e-6)
    assert fit.after == pytest.approx(choice.held_out_loss(chosen), rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_rows", [60, 600])
@pytest.mark.parametrize("task", TASKS)
def test_the_posterior_is_the_largest(task, n_rows, seed):
    choice = Choice(task, n_rows, errors=(0.3, 1.5), usual=0.4, seed=seed)
    chosen = np.concatenate(choice.choose().shares)
    best = minimize(choice.cost, np.full(len(chosen), 0.4), bounds=[(0, 1)] * len(chosen), method="L-BFGS-B").x
    best[best < 0.05 * 0.4] = 0.0  # shares that cannot be seen
    near = task == "multiclass"  # steps with an upper bound of the curvature are short
    assert choice.cost(chosen) <= choice.cost(best) + (0.1 if near else 0.01)
    np.testing.assert_allclose(chosen, best, atol=0.05 if near else 0.02)


@pytest.mark.parametrize("task", TASKS)
def test_two_identical_proposals_share_evenly(task):
    choice = Choice(task, errors=(0.3,))
    choice.proposals *= 2
    first, second = choice.choose().shares
    np.testing.assert_allclose(first, second, atol=1e-4)
    assert (first[1:] + second[1:]).min() > 0.6


def test_the_better_proposal_has_the_larger_share():
    """The mean of two proposals with independent errors of 1 and 2 is best with four fifths of the first."""
    choice = Choice(n_rows=60_000, n_terms=1, errors=(1.0, 2.0), n_members=1)
    first, second = choice.choose().shares
    assert first[1] / (first[1] + second[1]) == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(("n_rows", "low", "high"), [(45, 0.5, 0.8), (30_000, 0.0, 0.05)])
@pytest.mark.parametrize("task", TASKS)
def test_noise_keeps_the_usual_share_of_few_rows_and_none_of_many(task, n_rows, low, high):
    noise = []
    for seed in range(4 if n_rows > 1000 else 20):
        choice = Choice(task, n_rows, errors=(0.0,), usual=0.7, n_members=1, seed=seed)
        values = choice.proposals[0].lookup.values
        generator = torch.Generator().manual_seed(seed)
        values[:, 1] = (0.3 if n_rows < 1000 else 1.0) * torch.randn(values[:, 1].shape, generator=generator)
        fit = choice.choose()
        noise += [fit.shares[0][2]] if fit.gains else []
    assert len(noise) >= (4 if n_rows > 1000 else 15)
    assert low <= np.mean(noise) <= high


def test_a_proposal_that_is_wrong_is_dropped():
    choice = Choice(n_rows=3000, errors=(0.0,), usual=1.0)
    (proposal,) = choice.proposals
    proposal.constant[:] = 0
    fit = choice.choose(rows=replace(choice.rows, target=-proposal.lookup.values[:, :, 0].sum(dim=1)))
    assert not fit.gains
    assert not fit.shares[0].any()
    assert fit.after == fit.before


def test_the_share_of_a_wrong_term_is_exactly_0():
    """Terms whose tables are 0 are dropped from the model."""
    choice = Choice(n_rows=3000, errors=(0.1,))
    choice.proposals[0].lookup.values[:, 0] *= -1
    fit = choice.choose()
    assert fit.gains
    assert fit.shares[0][1] == 0
    assert fit.shares[0][2] > 0.8


@pytest.mark.parametrize("task", TASKS)
def test_more_than_500_terms_have_one_share_per_proposal(task):
    own, pooled = (Choice(task, errors=(0.3, 1.5), n_terms=count).choose() for count in (3, 250))
    assert [len(part) for part in pooled.shares] == [251, 251]
    assert [len(np.unique(part)) for part in pooled.shares] == [1, 1]
    assert all(len(np.unique(part)) > 2 for part in own.shares)
    assert pooled.shares[0][0] > pooled.shares[1][0]
    assert pooled.after < pooled.before


def test_only_held_out_rows_count():
    choice = Choice(n_rows=90)
    chosen = np.concatenate(choice.choose().shares)
    for proposal in choice.proposals:
        values = proposal.lookup.values.view(90, 2, 3)
        values.transpose(1, 2)[~choice.rows.held_out] = 1e3
    np.testing.assert_array_equal(np.concatenate(choice.choose().shares), chosen)


def test_blocks_of_rows_give_the_same_shares():
    """Rows in the opposite order are in other blocks."""
    choice = Choice("multiclass", n_rows=20_000, n_terms=3, n_members=10)
    expected = choice.choose()
    assert 10_000 < max(choice.proposals[0].lookup.n_taken) < 20_000
    assert expected.after == pytest.approx(choice.held_out_loss(np.concatenate(expected.shares)), rel=1e-6)
    for proposal in choice.proposals:
        proposal.lookup.values = proposal.lookup.values.flip(0)
    rows = replace(choice.rows, target=choice.rows.target.flip(0), held_out=choice.rows.held_out.flip(0))
    found = choice.choose(rows=rows)
    np.testing.assert_allclose(np.concatenate(found.shares), np.concatenate(expected.shares), atol=1e-9)
    assert found.after == pytest.approx(expected.after, rel=1e-12)


def test_a_part_of_many_held_out_rows_is_enough():
    few, many = Choice(n_rows=20_000), Choice(n_rows=50_000)
    expected, found = (np.concatenate(choice.choose().shares)[[1, 2, 4, 5]] for choice in (few, many))
    assert max(few.proposals[0].lookup.n_taken) == 20_000 > max(many.proposals[0].lookup.n_taken) > 10_000
    np.testing.assert_allclose(found, expected, atol=0.05)


def test_a_perfect_fit_is_kept_whole():
    """A target without noise: the loss is 0 at full shares."""
    X = np.random.default_rng(0).random((300, 2))
    model = NeuralBasisRegressor(interactions=0, outer_bags=2, random_state=0, max_steps=300).fit(X, X[:, 0])
    assert model.score(X, X[:, 0]) > 0.999


def test_narrower_priors_keep_shares_nearer_to_the_usual():
    choice = Choice(n_rows=60, errors=(0.3,), usual=0.2)
    fits = [choose_shares(choice.proposals, choice.start, choice.rows, choice.loss, width) for width in (1.0, 0.2)]
    wide, narrow = (np.abs(fit.shares[0][1:] - 0.2).max() for fit in fits)
    assert narrow < 0.5 * wide
