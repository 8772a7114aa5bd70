"""Stage: the same scores on other knots, and tables of some of the terms."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from neuralbasis.encoding import continuous_axis, lay_out, level_axis
from neuralbasis.training import GridEngine, Stage
from neuralbasis.training.step_learner import subdivide

RNG = np.random.default_rng(0)
X = np.c_[np.where(RNG.random(500) < 0.1, np.nan, RNG.random(500)), RNG.integers(0, 4, 500)]
AXES = [continuous_axis("a", X[:, 0], max_knots=17), level_axis("b", "nominal", list("uvwx"))]


def make_grid(axes, terms):
    layout = lay_out(axes, terms, {2: 9})
    return GridEngine(layout, layout.encode(X), np.ones(len(X)), threads=1)


def make_stage(terms):
    grid = make_grid(AXES, terms)
    values = torch.from_numpy(RNG.normal(size=(grid.layout.n_cells, 2)).astype(np.float32))
    return Stage(grid, torch.tensor([[0.5], [-1.0]]), values)


def test_main_effects_keep_their_scores_on_finer_knots():
    stage = make_stage([(0,), (1,)])
    fine = make_grid([subdivide(axis, X[:, index]) for index, axis in enumerate(AXES)], [(0,), (1,)])
    assert fine.layout.n_cells > 2 * stage.grid.layout.n_cells
    moved = stage.move(fine)
    torch.testing.assert_close(moved.add_scores(None), stage.add_scores(None), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(moved.move(stage.grid).table(), stage.table())


def test_selected_terms_keep_their_tables():
    stage = make_stage([(0,), (1,), (0, 1)])
    part = stage.select({(0, 1), (1,)}, make_grid(AXES, [(1,), (0, 1)]))
    for index, term in enumerate(part.grid.layout.terms):
        before = stage.grid.layout.cells_of(stage.grid.layout.terms.index(term))
        torch.testing.assert_close(part.table()[part.grid.layout.cells_of(index)], stage.table()[before])


def test_scores_are_added_to_given_ones():
    stage, given = make_stage([(0,), (1,)]), torch.from_numpy(RNG.normal(size=(500, 2, 1))).float()
    torch.testing.assert_close(stage.add_scores(given), stage.add_scores(None) + given, rtol=1e-5, atol=1e-5)
    zero = Stage(stage.grid, stage.intercept, torch.zeros_like(stage.table()))
    torch.testing.assert_close(zero.add_scores(None), stage.intercept.expand(500, 2, 1))


def test_the_strength_of_a_main_effect_does_not_depend_on_its_mean():
    stage = make_stage([(0,), (1,)])
    strengths = stage.measure_main_effects()
    shifted = Stage(stage.grid, stage.intercept, stage.table() + 100).measure_main_effects()
    assert shifted == pytest.approx(strengths, rel=1e-4)
    cells = stage.grid.layout.cells_of(1)
    levels = stage.table()[cells].numpy()[1:-1][X[:, 1].astype(int)]
    assert strengths[1] == pytest.approx(levels.var(axis=0).mean(), rel=1e-5)
