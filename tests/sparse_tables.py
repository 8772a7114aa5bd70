"""Small sparse tables, and low-rank models built by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from neuralbasis import AdditiveModel
from neuralbasis.data import SparseMatrix
from neuralbasis.encoding import Axis, CodeFinder, Encoder, coarsen_axis, pool_axis
from neuralbasis.model.factors import Factors
from neuralbasis.model.shapes import Shape, make_shapes

PAIRS = [(0, 1), (4, 2), (1, 3)]


def draw_table(seed: int, n_rows: int = 40, n_columns: int = 6, share: float = 0.4) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n_rows, n_columns)) < share, rng.integers(1, 30, (n_rows, n_columns)) / 10, 0.0)


def store(table: np.ndarray, absent: float = 0.0) -> SparseMatrix:
    """The same table as a sparse one, by definition."""
    present = ~((table == absent) | (np.isnan(table) & np.isnan(absent)))
    starts = np.r_[0, np.cumsum(present.sum(axis=1))]
    values = table[present].astype(float)
    return SparseMatrix(starts, np.nonzero(present)[1].astype(np.int32), values, absent, table.shape[1])


def count_rows(finder: CodeFinder, table: np.ndarray) -> np.ndarray:
    """(T, cells) rows in every cell of each term."""
    codes, shape = finder.find(store(table)), (len(finder.features), *[finder.side] * finder.features.shape[1])
    keys = np.ravel_multi_index((codes.term, *np.rint(codes.position).astype(int).T), shape)
    return np.bincount(keys, minlength=np.prod(shape)).reshape(shape[0], -1)


def build_factors(table: np.ndarray, terms, order: int = 1, n_outputs: int = 3, seed: int = 0) -> Factors:
    axis, rng = pool_axis(store(table), max_knots=9), np.random.default_rng(seed)
    finder = CodeFinder.of(axis if order == 1 else coarsen_axis(axis, 0.0, 5), 0.0, terms, table.shape[1])
    bases = rng.normal(size=[finder.side] * order + [2]).astype(np.float32)
    for d in range(order):
        np.moveaxis(bases, d, 0)[[finder.absent_cell, finder.side - 1]] = 0
    coefficients = rng.normal(size=(len(terms), 2, n_outputs)).astype(np.float32)
    counts = count_rows(finder, table)
    term, cell = np.nonzero(counts)
    cells = cell, counts[term, cell].astype(float), np.searchsorted(term, np.arange(len(terms) + 1))
    return Factors(finder, bases.reshape(-1, 2), coefficients, np.abs(coefficients) / 10, *cells, float(len(table)))


def build_models(table: np.ndarray, n_outputs: int = 3) -> tuple[AdditiveModel, AdditiveModel]:
    """A low-rank model, and the same model with dense tables."""
    mains = build_factors(table, [(f,) for f in range(table.shape[1])], 1, n_outputs)
    encoder = Encoder(tuple(name_axis(mains.finder.axis, f"word_{f}") for f in range(table.shape[1])))
    shapes = make_shapes([mains, build_factors(table, PAIRS, 2, n_outputs)], encoder)
    tables = tuple(Shape(s.term, s.axes, s.scores, s.spread, s.weights) for s in shapes)
    link, classes = ("mlogit", np.array(["a", "b", "c"])) if n_outputs == 3 else ("identity", None)
    intercept = np.arange(n_outputs, dtype=float)
    return AdditiveModel(encoder, intercept, shapes, link, classes), AdditiveModel(
        encoder, intercept, tables, link, classes
    )


def build_wide(n_columns: int, n_outputs: int = 3, n_bases: int = 2, seed: int = 0) -> AdditiveModel:
    """Main effects of very many columns "word_000000", …, each present in few of 1,000 rows; built without a table."""
    rng = np.random.default_rng(seed)
    knots = np.linspace(0.0, 1.0, 33)
    axis = Axis("", "continuous", knots, knots)
    finder = CodeFinder(axis, 0.0, np.arange(n_columns)[:, None], n_columns)
    bases = rng.normal(size=(finder.side, n_bases)).astype(np.float32)
    bases[[finder.absent_cell, finder.side - 1]] = 0
    coefficients = rng.normal(size=(n_columns, n_bases, n_outputs)).astype(np.float32)
    cells = rng.integers(2, 8, (n_columns, 4)) + 6 * np.arange(4)  # four distinct cells per term
    weights = rng.integers(1, 9, 4 * n_columns).astype(float)
    counted = cells.ravel(), weights, 4 * np.arange(n_columns + 1)
    factors = Factors(finder, bases, coefficients, np.abs(coefficients) / 10, *counted, 1000.0)
    encoder = Encoder(tuple(name_axis(axis, f"word_{f:06d}") for f in range(n_columns)))
    classes = np.array([f"class {k}" for k in range(n_outputs)])
    return AdditiveModel(encoder, np.zeros(n_outputs), make_shapes([factors], encoder), "mlogit", classes)


def name_axis(axis, name):
    return replace(axis, name=name)


def rows_of_every_kind(n_columns: int = 6) -> np.ndarray:
    """Rows with values at, between and beyond knots, and with absent and missing values."""
    rng = np.random.default_rng(1)
    rows = np.where(rng.random((300, n_columns)) < 0.5, rng.normal(1.0, 2.0, (300, n_columns)), 0.0)
    rows[rng.random(rows.shape) < 0.05] = np.nan
    rows[0], rows[1] = 0.0, np.nan
    return rows
