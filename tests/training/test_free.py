"""free: how much of another model to take, by what held-out rows say and what is usual."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis.data.target import Sample
from neuralbasis.losses.loss import choose_loss
from neuralbasis.training.free import WHOLE, WIDTH, choose_share
from neuralbasis.training.history import History
from neuralbasis.training.rows import place_rows

seeds = st.integers(0, 2**32 - 1)
TASKS = ("regression", "binary", "multiclass")


class Choice:
    """Two models of the same rows, each the truth and an error of its own."""

    def __init__(self, task="regression", n_rows=400, errors=(1.0, 1.0), n_members=3, seed=0):
        rng = np.random.default_rng(seed)
        n_outputs = 3 if task == "multiclass" else 1
        truth = 1.5 * rng.normal(size=(n_rows, n_outputs))
        if task == "regression":
            y = truth[:, 0] + 0.5 * rng.normal(size=n_rows)
        else:
            logits = truth if n_outputs > 1 else np.c_[np.zeros(n_rows), truth]
            y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
        sample = Sample(y, np.ones(n_rows))
        self.objective = choose_loss(sample, None if task == "regression" else np.unique(y))
        self.rows = place_rows(sample, self.objective, n_members, 1 / 3, rng, torch.device("cpu"))
        truth = (truth - self.objective.shift) / self.objective.unit
        shape = n_rows, n_members, n_outputs
        self.scores, self.others = (
            torch.from_numpy(truth[:, None] + error * rng.normal(size=shape)).float() for error in errors
        )

    def choose(self, usual, scores=None, others=None):
        self.history = History()
        scores, others = (own if one is None else one for own, one in ((self.scores, scores), (self.others, others)))
        return choose_share("part", scores, others, self.rows, self.objective, self.history, usual)

    def cost(self, share, usual):
        """By its definition, over all rows."""
        losses = self.objective.loss(share * self.scores + (1 - share) * self.others, self.rows.target)
        loss = float(self.rows.validate(losses).sum())
        n_rows = int(self.rows.held_out.any(dim=1).sum())
        unlikely = n_rows / 2 * np.log(loss) if self.objective.link == "identity" else n_rows * loss
        return unlikely + (share - usual) ** 2 / (2 * WIDTH**2)


@settings(deadline=None, max_examples=25)
@given(seeds, st.sampled_from(TASKS), st.floats(0, 1), st.sampled_from([20, 60, 400]))
def test_the_share_costs_least(seed, task, usual, n_rows):
    choice = Choice(task, n_rows, seed=seed)
    share = choice.choose(usual)
    costs = {each: choice.cost(each, usual) for each in np.linspace(0, 1, 51)}
    if share < 1:
        assert choice.cost(share, usual) <= min(costs.values()) + 1e-3
        mixed = share * choice.scores + (1 - share) * choice.others
        loss = choice.rows.validate(choice.objective.loss(mixed, choice.rows.target)).sum()
        assert choice.history.validation == pytest.approx([float(loss)], rel=1e-5)
        assert (choice.history.stage, choice.history.steps) == (["part"], [0])
    else:
        assert min(costs, key=costs.get) >= WHOLE - 0.02
        assert choice.history.stage == []


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("usual", [0.2, 0.6, 0.9])
def test_where_rows_tell_nothing_the_share_is_the_usual_one(task, usual):
    choice = Choice(task)
    assert choice.choose(usual, others=choice.scores) == pytest.approx(usual, abs=1e-3)


def test_a_model_is_left_alone_where_nothing_speaks_for_another():
    choice = Choice()
    assert choice.choose(1.0, others=choice.scores) == 1
    assert choice.history.stage == []


def test_many_rows_have_the_last_word():
    """Two models with independent errors of 1 and 2: the mean is best with 4/5 of the first, whatever is usual."""
    shares = [Choice(n_rows=20_000, errors=(1.0, 2.0)).choose(usual) for usual in (0.0, 0.5, 1.0)]
    np.testing.assert_allclose(shares, 0.8, atol=0.02)
    few = [Choice(n_rows=12, errors=(1.0, 2.0)).choose(usual) for usual in (0.0, 0.8)]
    assert few[1] - few[0] > 0.1


def test_shares_differ_less_from_seed_to_seed_than_those_that_fit_best():
    """Forty tables of 60 rows, two models that are as good as each other."""
    choices = [Choice(n_rows=60, errors=(0.1, 0.1), seed=seed) for seed in range(40)]
    shares = [choice.choose(0.6) for choice in choices]
    grid = np.linspace(0, 1, 101)
    best = [min(grid, key=lambda share, choice=choice: choice.cost(share, share)) for choice in choices]
    assert np.std(shares) < 0.5 * np.std(best)


def test_rows_that_no_member_holds_out_have_no_say():
    choice = Choice(n_rows=90)
    choice.rows = replace(choice.rows, held_out=choice.rows.held_out & (torch.arange(90) < 45)[:, None])
    assert choice.rows.n_validated == 45
    share = choice.choose(0.5)
    other = choice.others.clone()
    other[~choice.rows.held_out] = 1e3
    assert choice.choose(0.5, others=other) == share


@pytest.mark.parametrize("broken", ["scores", "others"])
def test_a_model_that_went_wrong_is_not_mixed(broken):
    choice = Choice()
    assert choice.choose(0.5, **{broken: torch.full_like(choice.scores, torch.nan)}) == 1
    assert choice.history.stage == []
