"""Factors: a low-rank model predicts like the same model with plain tables, and its shapes read as tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from neuralbasis.encoding import Encoder
from neuralbasis.model.shapes import make_shapes
from tests.sparse_tables import build_factors, build_models, draw_table, name_axis, rows_of_every_kind, store


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_factors_and_tables_predict_the_same(n_outputs):
    factored, plain = build_models(draw_table(0), n_outputs)
    # Between the absent value and the next knot, both forms of a pair are linear and 0 at the absent value.
    rows = rows_of_every_kind()
    np.testing.assert_allclose(factored.scores(rows), plain.scores(rows), atol=2e-6)
    np.testing.assert_allclose(factored.contributions(rows), plain.contributions(rows), atol=2e-6)


@pytest.mark.parametrize("n_bases", [1, 2, 3])
def test_sorted_codes_give_the_same_scores(monkeypatch, n_bases):
    factors = build_factors(draw_table(5), [(f,) for f in range(6)], 1, 3)
    factors = replace(
        factors,
        bases=np.ascontiguousarray(np.tile(factors.bases, (1, 2))[:, :n_bases]),
        coefficients=np.ascontiguousarray(np.tile(factors.coefficients, (1, 2, 1))[:, :n_bases]),
    )
    rows = store(np.nan_to_num(rows_of_every_kind()))
    expected, found, alone = np.zeros((3, len(rows), 3))
    factors.add_scores(rows, expected)
    monkeypatch.setattr("neuralbasis.model.factors.SORTED_NUMBERS", 0)
    factors.add_scores(rows, found)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    for i in range(len(rows)):  # a row's score does not depend on the other rows
        factors.add_scores(rows[i : i + 1], alone[i : i + 1])
    np.testing.assert_array_equal(alone, found)


def test_absent_values_contribute_zero():
    factored, _ = build_models(draw_table(0))
    nothing = np.zeros((2, 6))
    assert not factored.contributions(nothing).any()
    np.testing.assert_array_equal(factored.scores(nothing)[0], factored.intercept)


def test_contributions_and_intercept_are_the_score():
    factored, _ = build_models(draw_table(2))
    rows = rows_of_every_kind()
    total = factored.contributions(rows).sum(axis=1) + factored.intercept
    np.testing.assert_allclose(total, factored.scores(rows), atol=1e-5)


def test_importances_are_those_of_the_tables():
    factored, plain = build_models(draw_table(3))
    np.testing.assert_allclose(factored.importances("min_max"), plain.importances("min_max"), rtol=1e-5)
    means = [np.average(s.scores, axis=tuple(range(len(s.axes))), weights=s.weights) for s in plain.shapes]
    shapes = [replace(s, scores=s.scores - mean) for s, mean in zip(plain.shapes, means, strict=True)]
    np.testing.assert_allclose(factored.importances(), replace(plain, shapes=tuple(shapes)).importances(), rtol=1e-5)


def test_a_shape_reads_as_a_table_of_its_columns_in_order():
    table = draw_table(4)
    factors = build_factors(table, [(4, 2)], 2)
    shape = make_shapes([factors], Encoder(tuple(name_axis(factors.finder.axis, str(f)) for f in range(6))))[0]
    assert shape.factors is factors
    assert shape.term == (2, 4)
    assert [axis.name for axis in shape.axes] == ["2", "4"]
    side = factors.finder.side
    first = (factors.bases @ factors.coefficients[0]).reshape(side, side, 3)  # along column 4, then 2
    np.testing.assert_allclose(shape.scores, first.transpose(1, 0, 2), rtol=1e-6)
    assert shape.weights.sum() == len(table)
    both = ((table[:, 2] > 0) & (table[:, 4] > 0)).sum()
    assert len(table) - shape.weights[factors.finder.absent_cell, factors.finder.absent_cell] == both


def test_an_infinite_value_names_its_column():
    factored, _ = build_models(draw_table(0))
    rows = np.zeros((3, 6))
    rows[1, 4] = np.inf
    with pytest.raises(ValueError, match="'word_4' holds an infinite value"):
        factored.scores(rows)
