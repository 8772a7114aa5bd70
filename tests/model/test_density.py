"""The density of interactions: between the joint distribution and the product of the margins, and smooth."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

from neuralbasis import NeuralBasisRegressor
from neuralbasis.encoding import continuous_axis, level_axis
from neuralbasis.model.density import smooth_density


def draw_counts(rng, n_rows, correlation, size=20):
    """(axes, counts) of two columns with uniform margins."""
    normal = rng.normal(size=(n_rows, 2))
    normal[:, 1] = correlation * normal[:, 0] + np.sqrt(1 - correlation**2) * normal[:, 1]
    ranks = np.argsort(np.argsort(normal, axis=0), axis=0) * size // n_rows
    counts = np.zeros((size + 2, size + 2))
    np.add.at(counts, (ranks[:, 0] + 1, ranks[:, 1] + 1), 1.0)
    axes = tuple(continuous_axis(name, np.arange(float(size))) for name in "ab")
    return axes, counts


def test_independent_columns_have_the_product_of_the_margins():
    axes, counts = draw_counts(np.random.default_rng(0), 400, 0.0)
    density = smooth_density(axes, counts)[1:-1, 1:-1]
    assert density.std() < 0.25 * counts[1:-1, 1:-1].std()  # counts of a cell have mean 1 and deviation 1
    assert density.sum() == pytest.approx(400, rel=0.02)


def test_dependent_columns_keep_their_dependence():
    axes, counts = draw_counts(np.random.default_rng(1), 20_000, 0.8)
    density = smooth_density(axes, counts)[1:-1, 1:-1]
    assert np.corrcoef(density.ravel(), counts[1:-1, 1:-1].ravel())[0, 1] > 0.97
    assert density[0, 19] < 0.2 * density[0, 0]


def test_levels_are_shrunk_to_the_product_by_one_row():
    axes = tuple(level_axis(name, "nominal", ["no", "yes"]) for name in "ab")
    weights = np.zeros((4, 4))
    weights[1:3, 1:3] = [[3.0, 1.0], [1.0, 3.0]]
    density = smooth_density(axes, weights)
    np.testing.assert_allclose(density[1:3, 1:3], [[2 * 4 / 3, 2 * 2 / 3], [2 * 2 / 3, 2 * 4 / 3]])
    np.testing.assert_allclose(smooth_density(axes, 10 * weights, n_rows=8), density)  # the unit of weights is free


def test_main_effects_and_empty_tables_keep_their_weights():
    axes, counts = draw_counts(np.random.default_rng(2), 50, 0.0, 5)
    np.testing.assert_array_equal(smooth_density(axes[:1], counts.sum(axis=1)), counts.sum(axis=1))
    assert not smooth_density(axes, 0 * counts).any()


def test_combinations_of_missing_values_without_rows_have_no_density():
    axes, counts = draw_counts(np.random.default_rng(3), 200, 0.0, 5)
    counts[0, 1] = counts[1, 0] = 4.0  # each column has missing values, but never both
    density = smooth_density(axes, counts)
    assert density[0, 0] == 0
    assert density[0, 1] > 0


def test_pairs_of_a_small_table_leave_its_main_effects_smooth():
    """Purified by counts of cells, the effect of age varies eight times as much: few rows have each age and sex."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    model = NeuralBasisRegressor(interactions=[("age", "sex")], max_steps=200).fit(X, y)
    age = model.term_scores_[model.term_names_.index("age")][1:-1]
    assert np.abs(np.diff(age)).sum() < 3 * np.ptp(age)
