"""Roughness penalties and their gradients against the definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis import kernels

seeds = st.integers(0, 2**32 - 1)


@settings(deadline=None, max_examples=25)
@given(seeds, st.integers(0, 40), st.integers(1, 3))
def test_roughness_and_its_gradient_are_those_of_the_definition(seed, n_edges, n_channels):
    rng = np.random.default_rng(seed)
    left, right = rng.integers(0, 12, (2, n_edges))
    term, inverse = rng.integers(0, 3, n_edges), (rng.random(n_edges) + 0.1).astype(np.float32)
    table, strength = rng.normal(size=(12, n_channels)), rng.random((3, n_channels))
    rough = np.ones((3, n_channels))
    assert kernels.measure_roughness(left, right, term, inverse, table, rough) == -1
    square = inverse[:, None] * (table[right] - table[left]) ** 2
    expected = 1 + np.array([square[term == index].sum(axis=0) for index in range(3)])
    np.testing.assert_allclose(rough, expected, rtol=1e-12, atol=1e-12)
    grad = np.ones_like(table)
    assert kernels.pull_edges(left, right, term, inverse, strength, table, grad) == -1

    def energy(values):
        change = inverse[:, None] * (values[right] - values[left]) ** 2
        return (strength[term] * change).sum() / 2

    for cell in np.ndindex(*table.shape):
        moved = [table.copy(), table.copy()]
        moved[0][cell] -= 0.5
        moved[1][cell] += 0.5  # a quadratic: central differences are exact
        assert grad[cell] - 1 == pytest.approx(energy(moved[1]) - energy(moved[0]), rel=1e-9, abs=1e-9)
