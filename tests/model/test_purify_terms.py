"""Purify: absent terms, nested axes, mixed channels and invalid tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from neuralbasis.encoding import continuous_axis
from neuralbasis.model.purify import Table, purify
from tests.model.purify_cases import (
    assert_same_tables,
    draw_table,
    draw_tables,
    levels,
    outputs,
    score,
    seeds,
    thin,
)
from tests.models import draw_numbers


def test_absent_terms_are_created():
    rng = np.random.default_rng(11)
    axes = tuple(levels(f"x{d}", 2 + d) for d in range(4))
    tables = [draw_table(rng, (0, 1, 3), [axes[0], axes[1], axes[3]]), draw_table(rng, (1,), axes[1:2])]
    pure, _ = purify(tables, np.zeros(2))
    assert [table.term for table in pure] == [(0, 1, 3), (1,), (0,), (3,), (0, 1), (0, 3), (1, 3)]
    for table in pure:
        assert all(axis is axes[f] for f, axis in zip(table.term, table.axes, strict=True))
        assert table.values.shape == (*(axes[f].n_cells for f in table.term), 2)
    weights = {table.term: table.weights for table in pure}
    np.testing.assert_array_equal(weights[0, 3], tables[0].weights.sum(axis=1))
    np.testing.assert_array_equal(weights[3,], tables[0].weights.sum(axis=(0, 1)))
    assert weights[1,] is tables[1].weights


def test_an_absent_term_is_created_on_the_finest_axis():
    rng = np.random.default_rng(12)
    fine = continuous_axis("x1", np.arange(6.0))
    axes = levels("x0", 2), fine, levels("x2", 2)
    coarse, fitting = (
        draw_table(rng, (0, 1), (axes[0], thin(fine, [0, 2, 5])), kind="full"),
        draw_table(rng, (1, 2), axes[1:], kind="full"),
    )
    for tables in ([coarse, fitting], [fitting, coarse]):
        pure, intercept = purify(tables, np.zeros(2))
        made = next(table for table in pure if table.term == (1,))
        assert made.axes == (fine,)
        np.testing.assert_array_equal(made.weights, fitting.weights.sum(axis=1))
        numbers = draw_numbers(rng, axes, 200)
        np.testing.assert_allclose(score(pure, intercept, numbers), score(tables, np.zeros(2), numbers), atol=1e-9)


@pytest.mark.parametrize("keep", [[0, 1, 3], [0, 2]])
def test_axes_that_do_not_nest_are_refused(keep):
    rng = np.random.default_rng(13)
    wide = continuous_axis("width", np.arange(5.0))
    tables = [draw_table(rng, (0, 1), (levels("x0", 2), thin(wide, keep))),
              draw_table(rng, (1, 2), (thin(wide, [0, 1, 4]), levels("x2", 2)))]  # fmt: skip
    with pytest.raises(ValueError, match="column 'width' in a larger term are not among those in a smaller term"):
        purify(tables, np.zeros(2))


def test_levels_do_not_nest_in_numbers():
    rng = np.random.default_rng(14)
    tables = [draw_table(rng, (0,), [continuous_axis("x0", np.arange(3.0))]),
              draw_table(rng, (0, 1), [levels("x0", 3), levels("x1", 2)])]  # fmt: skip
    with pytest.raises(ValueError, match="nested"):
        purify(tables, np.zeros(2))


def test_levels_that_a_pair_does_not_keep_use_its_unseen_cell():
    axis, other = levels("x0", 5), levels("x1", 2)
    coarse = thin(axis, [0, 3])
    values = np.array([10.0, 1.0, 2.0, -4.0])[:, None] + np.zeros(4)  # missing, levels 0 and 3, all others
    weights = np.outer([1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 1.0, 0.0])
    main = Table((0,), (axis,), np.zeros((7, 1)), np.ones(7))
    (main, pair, second), intercept = purify([main, Table((0, 1), (coarse, other), values[..., None], weights)], [0.0])
    np.testing.assert_allclose(pair.values, 0.0, atol=1e-12)
    np.testing.assert_allclose(second.values, 0.0, atol=1e-12)
    np.testing.assert_allclose(main.values[:, 0] + intercept, [10.0, 1.0, -4.0, -4.0, 2.0, -4.0, -4.0], atol=1e-12)


@pytest.mark.parametrize(("pair_channels", "main_channels", "expected"), [
    (None, None, (3, None)),
    (1, None, (3, None)),
    (1, 1, (2, (2, 3))),
    (1, 2, (3, (3, 3))),
    (2, 2, (3, None)),  # more channels than outputs
    (None, 1, (3, None)),
])  # fmt: skip
def test_parts_of_mixed_terms(pair_channels, main_channels, expected):
    rng = np.random.default_rng(15)
    axes = (levels("x0", 3), levels("x1", 2))

    def table(term, channels):
        mix = None if channels is None else rng.normal(size=(channels, 3))
        return draw_table(rng, term, [axes[f] for f in term], channels or 3, mix=mix)

    tables = [table((0,), main_channels), table((0, 1), pair_channels)]
    pure, intercept = purify(tables, np.ones(3))
    channels, shape = expected
    assert pure[0].values.shape == (5, channels)
    assert (None if pure[0].mix is None else pure[0].mix.shape) == shape
    assert pure[1].mix is tables[1].mix
    plain = [replace(t, values=outputs(t), mix=None) for t in tables]
    same, constant = purify(plain, np.ones(3))
    np.testing.assert_allclose(intercept, constant, atol=1e-12)
    assert_same_tables(pure, same, atol=1e-12)


def test_a_plain_pair_adds_channels_to_a_mixed_main_effect():
    rng = np.random.default_rng(16)
    axes = (levels("x0", 3), levels("x1", 2))
    mixes = np.zeros((0, 2)), np.array([[1.0, 2.0]])
    tables = [Table((0,), axes[:1], np.zeros((5, 0)), np.ones(5), mixes[0]),
              draw_table(rng, (1,), axes[1:], 1, mix=mixes[1]),
              draw_table(rng, (0, 1), axes)]  # fmt: skip
    pure, _ = purify(tables, np.zeros(2))
    assert pure[0].values.shape == (5, 2)
    np.testing.assert_array_equal(pure[0].mix, np.eye(2))
    assert pure[1].mix is None  # one channel and two more are more than two outputs
    plain, _ = purify([replace(t, values=outputs(t), mix=None) for t in tables], np.zeros(2))
    assert_same_tables(pure, plain, atol=1e-12)


def test_created_terms_take_the_mix_of_their_child():
    rng = np.random.default_rng(17)
    axes = (levels("x0", 3), levels("x1", 2))
    mix = rng.normal(size=(1, 4))
    (_, first, second), _ = purify([draw_table(rng, (0, 1), axes, 1, mix=mix)], np.zeros(4))
    assert (first.values.shape, second.values.shape) == ((5, 1), (4, 1))
    np.testing.assert_array_equal(first.mix, mix)
    np.testing.assert_array_equal(second.mix, mix)


@settings(deadline=None, max_examples=20)
@given(seeds)
def test_mixed_tables_are_purified_like_their_outputs(seed):
    rng = np.random.default_rng(seed)
    _, tables = draw_tables(rng, n_outputs=3, orders=(1, 2, 3) if seed % 2 else (2, 3), mixed=True)
    pure, intercept = purify(tables, np.zeros(3))
    plain, constant = purify([replace(t, values=outputs(t), mix=None) for t in tables], np.zeros(3))
    np.testing.assert_allclose(intercept, constant, rtol=0, atol=1e-8)
    assert_same_tables(pure, plain, atol=1e-8)


def test_a_term_has_one_table():
    table = draw_table(np.random.default_rng(20), (0,), [levels("x0", 2)])
    with pytest.raises(ValueError, match="two tables have the same features"):
        purify([table, table], np.zeros(2))


@pytest.mark.parametrize("mix", [None, np.ones((1, 2)), np.ones((2, 3))], ids=["plain", "outputs", "channels"])
def test_channels_must_fit_the_intercept(mix):
    table = draw_table(np.random.default_rng(21), (4,), [levels("x4", 2)], n_channels=1, mix=mix)
    with pytest.raises(ValueError, match=r"term \(4,\) has 1 channels and the intercept 3; expected 3 channels"):
        purify([table], np.zeros(3))
