"""Purify: margins are zero, scores do not change, and effects of one feature end up in its main effect."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from neuralbasis import AdditiveModel
from neuralbasis.encoding import Axis, continuous_axis
from neuralbasis.model.purify import Table, purify
from neuralbasis.model.shapes import Shape
from tests.model.purify_cases import (
    WEIGHTS,
    assert_same_tables,
    draw_table,
    draw_tables,
    draw_weights,
    levels,
    project,
    score,
    seeds,
    thin,
    worst_mean,
)
from tests.models import build_model, draw_numbers, name_columns


def test_a_pair_by_hand():
    # Weights 3 1 / 1 3. Of the values 8 0 / 0 0 the mean is 3; rows a, -a and columns b, -b solve
    # 4 a + 2 b = 3 · 5 - 1 · 3 = 12 and 2 a + 4 b = 12: a = b = 2. What remains is 8 - 3 - 4 = 1, -3, -3 and 1.
    axes = (levels("x0", 2), levels("x1", 2))
    weights, values = np.zeros((4, 4)), np.zeros((4, 4, 1))
    weights[1:3, 1:3] = [[3.0, 1.0], [1.0, 3.0]]
    values[1, 1] = 8.0
    (pair, first, second), intercept = purify([Table((0, 1), axes, values, weights)], np.array([10.0]))
    assert [pair.term, first.term, second.term] == [(0, 1), (0,), (1,)]
    np.testing.assert_allclose(intercept, [13.0], atol=1e-12)
    for main in (first, second):  # cells without weight stay 0
        np.testing.assert_allclose(main.values[:, 0], [0.0, 2.0, -2.0, 0.0], atol=1e-12)
        assert main.weights.tolist() == [0.0, 4.0, 4.0, 0.0]
    expected = [[-3, -5, -1, -3], [-5, 1, -3, -5], [-1, -3, 1, -1], [-3, -5, -1, -3]]
    np.testing.assert_allclose(pair.values[..., 0], expected, atol=1e-12)


def test_a_main_effect_is_centred():
    table = Table((3,), (levels("x", 1),), np.array([[1.0, 0.0], [5.0, 2.0], [9.0, 7.0]]), np.array([1.0, 3.0, 0.0]))
    (pure,), intercept = purify([table], np.array([0.5, -1.0]))
    np.testing.assert_allclose(intercept, [4.5, 0.5])
    np.testing.assert_allclose(pure.values, [[-3.0, -1.5], [1.0, 0.5], [5.0, 5.5]])


def test_tables_without_weight_are_unchanged():
    rng = np.random.default_rng(0)
    axes = (levels("x0", 3), levels("x1", 2))
    tables = [draw_table(rng, (0,), axes[:1], kind="none"), draw_table(rng, (0, 1), axes, kind="none")]
    pure, intercept = purify(tables, np.array([1.0, 2.0]))
    assert intercept.tolist() == [1.0, 2.0]
    assert_same_tables(pure[:2], tables)
    assert pure[2].term == (1,)
    assert not pure[2].values.any()


def test_no_tables():
    pure, intercept = purify([], np.array([1.0, 2.0]))
    assert pure == []
    assert intercept.tolist() == [1.0, 2.0]


@settings(deadline=None)
@given(seeds, st.integers(1, 9), st.integers(1, 9), st.sampled_from((*WEIGHTS, "extreme")))
def test_pairs_have_zero_margins(seed, n_rows, n_columns, kind):
    rng = np.random.default_rng(seed)
    table = draw_table(rng, (2, 5), (levels("x2", n_rows), levels("x5", n_columns)), kind=kind)
    pure, _ = purify([table], np.zeros(2))
    assert max(map(worst_mean, pure)) < 1e-9


@settings(deadline=None, max_examples=50)
@given(seeds, st.sampled_from((*WEIGHTS, "extreme")))
@example(220, "extreme")  # steps along directions of no curvature would lead far away
def test_triples_have_zero_margins(seed, kind):
    rng = np.random.default_rng(seed)
    axes = [levels(f"x{d}", rng.integers(1, 6)) for d in range(3)]
    pure, _ = purify([draw_table(rng, (0, 1, 2), axes, kind=kind)], np.zeros(2))
    assert [table.term for table in pure] == [(0, 1, 2), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    assert max(map(worst_mean, pure)) < 1e-9


def test_terms_of_four_features_have_zero_margins():
    rng = np.random.default_rng(1)
    pure, _ = purify([draw_table(rng, (0, 1, 2, 3), [levels(f"x{d}", 2 + d % 2) for d in range(4)])], np.zeros(2))
    assert len(pure) == 15
    assert max(map(worst_mean, pure)) < 1e-9


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("order", [2, 3])
def test_what_remains_is_the_least_squares_residual(order, kind):
    rng = np.random.default_rng(2)
    table = draw_table(rng, tuple(range(order)), [levels(f"x{d}", 3 + d) for d in range(order)], kind=kind)
    pure, _ = purify([table], np.zeros(2))
    expected, used = project(table.values, table.weights, order - 1), table.weights > 0
    np.testing.assert_allclose(pure[0].values[used], expected[used], atol=1e-8)


def test_columns_that_nearly_repeat_each_other():
    # 20,000 rows, correlation 0.9999, a fine grid: plain alternation would need thousands of sweeps.
    rng = np.random.default_rng(3)
    common = rng.normal(size=20_000)
    cells = [np.clip(np.rint(common * 10 + rng.normal(0, 0.1, 20_000)).astype(int) + 31, 0, 61) for _ in range(2)]
    weights = np.zeros((62, 62))
    np.add.at(weights, tuple(cells), 1.0)
    table = draw_table(rng, (0, 1), (levels("x0", 60), levels("x1", 60)))
    pure, _ = purify([replace(table, weights=weights)], np.zeros(2))
    assert max(map(worst_mean, pure)) < 1e-9


@pytest.mark.parametrize("order", [2, 3])
def test_weights_below_rounding_do_no_harm(order):
    rng = np.random.default_rng(22)
    table = draw_table(rng, tuple(range(order)), [levels(f"x{d}", 4) for d in range(order)], kind="extreme")
    weights = table.weights**4  # 48 orders of magnitude
    pure, _ = purify([replace(table, weights=weights)], np.zeros(2))
    assert max(np.abs(other.values).max() for other in pure) < 10 * np.abs(table.values).max()
    heavy = np.where(weights < 1e-12 * weights.max(), 0.0, weights)
    for d in range(order):
        margins = (heavy[..., None] * pure[0].values).sum(axis=d) / heavy.max()
        assert np.abs(margins).max() < 1e-10


@settings(deadline=None, max_examples=40)
@given(seeds)
def test_no_score_changes(seed):
    rng = np.random.default_rng(seed)
    axes, tables = draw_tables(rng)
    intercept = rng.normal(size=2)
    pure, constant = purify(tables, intercept)
    numbers = draw_numbers(rng, axes, 300)
    np.testing.assert_allclose(score(pure, constant, numbers), score(tables, intercept, numbers), rtol=0, atol=1e-9)
    assert max(map(worst_mean, pure)) < 1e-9


@settings(deadline=None, max_examples=20)
@given(seeds)
def test_no_score_changes_where_smaller_terms_are_absent(seed):
    rng = np.random.default_rng(seed)
    axes, tables = draw_tables(rng, n_outputs=3, orders=(2, 3) if seed % 2 else (3,), mixed=True)
    pure, constant = purify(tables, np.zeros(3))
    numbers = draw_numbers(rng, axes, 300)
    np.testing.assert_allclose(score(pure, constant, numbers), score(tables, np.zeros(3), numbers), rtol=0, atol=1e-9)


def test_a_model_predicts_the_same():
    rng = np.random.default_rng(4)
    model = build_model(rng, n_outputs=2)
    tables = [Table(shape.term, shape.axes, shape.scores, shape.weights) for shape in model.shapes]
    pure, intercept = purify(tables, model.intercept)
    shapes = tuple(Shape(t.term, t.axes, t.values, np.zeros_like(t.values), t.weights) for t in pure)
    other = AdditiveModel(model.encoder, intercept, shapes, "identity", n_jobs=1)
    rows = name_columns(model.encoder.axes, draw_numbers(rng, model.encoder.axes, 500))
    np.testing.assert_allclose(other.scores(rows), model.scores(rows), rtol=0, atol=1e-9)
    assert np.abs(other.contributions(rows) - model.contributions(rows)).max() > 0.1


def test_knots_near_the_largest_double():
    rng = np.random.default_rng(5)
    fine = Axis("x0", "continuous", np.array([-1.7e308, -1.0, 0.0, 1e308, 1.7e308]), np.linspace(0, 1, 5))
    tables = [draw_table(rng, (0,), [fine]), draw_table(rng, (0, 1), [thin(fine, [0, 4]), levels("x1", 2)])]
    pure, intercept = purify(tables, np.zeros(2))
    for cell, share in [(2, 0.5), (3, 0.5), (4, 1 / 3.4 + 0.5)]:  # between the pair's knots -1.7e308 and 1.7e308
        for other in range(4):
            ends = tables[1].values[1:3, other]
            before = tables[0].values[cell] + (1 - share) * ends[0] + share * ends[1]
            ends = pure[1].values[1:3, other]
            after = pure[0].values[cell] + (1 - share) * ends[0] + share * ends[1] + pure[2].values[other] + intercept
            np.testing.assert_allclose(after, before, atol=1e-12)


def test_an_additive_pair_moves_to_the_main_effects():
    rng = np.random.default_rng(6)
    fine = continuous_axis("x0", rng.normal(size=9))
    axes = (thin(fine, [0, 2, 5, 8]), levels("x1", 4))
    rows, columns = rng.normal(size=(6, 1, 2)), rng.normal(size=(1, 6, 2))
    weights = draw_weights(rng, (6, 6), "band")
    main = Table((0,), (fine,), np.zeros((11, 2)), rng.random(11))
    (main, pair, other), intercept = purify([main, Table((0, 1), axes, 7 + rows + columns, weights)], np.zeros(2))
    assert np.abs(pair.values[:-1]).max() < 1e-12  # also in cells without weight, if their row has weight
    inner = np.array([np.interp(fine.knots, axes[0].knots, rows[1:5, 0, c]) for c in range(2)]).T
    expected = np.r_[rows[0], inner]  # missing, knots
    np.testing.assert_allclose(main.values[:-1] - main.values[0], expected - expected[0], atol=1e-12)
    np.testing.assert_allclose(main.weights @ main.values, 0.0, atol=1e-12)
    mean = np.average(columns[0], axis=0, weights=weights.sum(axis=0))
    np.testing.assert_allclose(other.values, columns[0] - mean, atol=1e-12)
    np.testing.assert_allclose(intercept + main.values[1] + other.values[1], 7 + rows[1, 0] + columns[0, 1], atol=1e-12)


def test_an_additive_triple_moves_to_the_main_effects():
    rng = np.random.default_rng(7)
    axes = tuple(levels(f"x{d}", 3) for d in range(3))
    a, b, c = rng.normal(size=(5, 1, 1, 1)), rng.normal(size=(1, 5, 1, 1)), rng.normal(size=(1, 1, 5, 1))
    weights = draw_weights(rng, (5, 5, 5), "band")
    pure, _ = purify([Table((0, 1, 2), axes, 3 + a + b + c, weights)], np.zeros(1))
    by_term = {table.term: table.values for table in pure}
    assert np.abs(by_term[0, 1, 2][:-1]).max() < 1e-9
    # Pairs are zero, even in cells without weight.
    assert max(np.abs(by_term[pair]).max() for pair in [(0, 1), (0, 2), (1, 2)]) < 1e-9
    for d, values in enumerate([a.ravel(), b.ravel(), c.ravel()]):
        margin = weights.sum(axis=tuple({0, 1, 2} - {d}))
        expected = (values - np.average(values, weights=margin)) * (margin > 0)
        np.testing.assert_allclose(by_term[d,][:, 0], expected, atol=1e-9)


def test_a_pair_inside_a_triple_moves_to_the_pair():
    rng = np.random.default_rng(8)
    axes = tuple(levels(f"x{d}", 3) for d in range(3))
    weights = rng.integers(1, 5, (5, 5, 5)).astype(float)
    inside = purify([Table((0, 2), axes[::2], rng.normal(size=(5, 5, 1)), weights.sum(axis=1))], np.zeros(1))[0][0]
    pure, _ = purify([Table((0, 1, 2), axes, np.tile(inside.values[:, None], (1, 5, 1, 1)), weights)], np.zeros(1))
    by_term = {table.term: table.values for table in pure}
    np.testing.assert_allclose(by_term.pop((0, 2)), inside.values, atol=1e-9)
    assert max(np.abs(values).max() for values in by_term.values()) < 1e-9


def test_means_of_disconnected_blocks_are_split_equally():
    # The block means are 6 and -2 with weights 1 : 3, so their average is 0: each axis gets half of each.
    axes = (levels("x0", 2), levels("x1", 2))
    weights, values = np.zeros((4, 4)), np.zeros((4, 4, 1))
    weights[1, 1], weights[2, 2], values[1, 1], values[2, 2] = 1.0, 3.0, 6.0, -2.0
    (pair, first, second), intercept = purify([Table((0, 1), axes, values, weights)], np.zeros(1))
    np.testing.assert_allclose(intercept, 0.0, atol=1e-15)
    for main in (first, second):
        np.testing.assert_allclose(main.values[:, 0], [0.0, 3.0, -1.0, 0.0], atol=1e-15)
    np.testing.assert_allclose(pair.values[1:3, 1:3, 0], [[0.0, -2.0], [-2.0, 0.0]], atol=1e-15)


@settings(deadline=None, max_examples=20)
@given(seeds)
def test_purifying_twice_changes_nothing(seed):
    rng = np.random.default_rng(seed)
    _, tables = draw_tables(rng, n_outputs=3, mixed=bool(seed % 2))
    pure, intercept = purify(tables, rng.normal(size=3))
    again, constant = purify(pure, intercept)
    np.testing.assert_allclose(constant, intercept, rtol=0, atol=1e-9)
    assert_same_tables(again, pure, atol=1e-9)


@settings(deadline=None, max_examples=20)
@given(seeds)
def test_the_order_of_tables_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    _, tables = draw_tables(rng, orders=(1, 2, 3) if seed % 2 else (2, 3))
    pure, intercept = purify(tables, np.ones(2))
    order = rng.permutation(len(tables))
    shuffled, constant = purify([tables[k] for k in order], np.ones(2))
    assert [table.term for table in shuffled[: len(order)]] == [tables[k].term for k in order]
    assert constant.tolist() == intercept.tolist()
    by_term = {table.term: table for table in shuffled}
    assert_same_tables([by_term[table.term] for table in pure], pure)


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("order", [2, 3])
def test_the_order_of_columns_does_not_matter(order, kind):
    rng = np.random.default_rng(9)
    table = draw_table(rng, tuple(range(order)), [levels(f"x{d}", 2 + d) for d in range(order)], kind=kind)
    pure, intercept = purify([table], np.zeros(2))
    for turn in permutations(range(order)):
        turned = Table(
            table.term, tuple(table.axes[d] for d in turn), table.values.transpose(*turn, order),
            table.weights.transpose(turn),
        )  # fmt: skip
        found, constant = purify([turned], np.zeros(2))
        np.testing.assert_allclose(constant, intercept, atol=1e-9)
        by_name = {tuple(axis.name for axis in other.axes): other.values for other in found}
        for other in pure:
            names = tuple(axis.name for axis in other.axes)
            seen = next(key for key in by_name if sorted(key) == sorted(names))
            values = by_name[seen].transpose(*(seen.index(name) for name in names), len(names))
            np.testing.assert_allclose(values, other.values, atol=1e-9)


def test_stacked_tables_equal_single_tables():
    rng = np.random.default_rng(10)
    axes = [levels(f"x{d}", 3) for d in range(6)]
    tables = [draw_table(rng, pair, [axes[f] for f in pair], kind=WEIGHTS[k % 6])
              for k, pair in enumerate(combinations(range(6), 2))]  # fmt: skip
    pure, _ = purify(tables, np.zeros(2))
    alone = [purify([table], np.zeros(2))[0][0] for table in tables]
    assert_same_tables(alone, pure[: len(tables)], atol=1e-12)


def test_nothing_is_changed_in_place():
    rng = np.random.default_rng(18)
    _, tables = draw_tables(rng, n_outputs=3, mixed=True)
    intercept = np.ones(3)
    arrays = [intercept] + [array for t in tables for array in (t.values, t.weights, t.mix) if array is not None]
    copies = [array.copy() for array in arrays]
    pure, constant = purify(tables, intercept)
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
    assert not any(np.shares_memory(new.values, old.values) for new, old in zip(pure, tables, strict=False))
    assert not np.shares_memory(constant, intercept)


def test_single_precision_and_integers_are_converted_to_double():
    rng = np.random.default_rng(19)
    table = draw_table(rng, (0, 1), (levels("x0", 3), levels("x1", 2)))
    single = replace(table, values=table.values.astype(np.float32), weights=table.weights.astype(int))
    double = replace(table, values=single.values.astype(float))
    pure, _ = purify([single], np.zeros(2, dtype=np.float32))
    assert all(other.values.dtype == np.float64 for other in pure)
    assert_same_tables(pure, purify([double], np.zeros(2))[0])
