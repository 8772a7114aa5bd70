"""Random and hand-written models with rows to predict."""

import numpy as np

from neuralbasis import AdditiveModel
from neuralbasis.encoding import Axis, Encoder, level_axis
from neuralbasis.model.shapes import Shape
from tests.models import build_model, draw_numbers, name_columns, tie_model

NAN = float("nan")

CLASSES = {"logit": np.array(["no", "yes"]), "mlogit": np.array(["a", "b", "c"])}


def make_case(seed=0, n_rows=60, **options):
    """A model, rows as numbers, and the same rows as a table of raw columns."""
    rng = np.random.default_rng(seed)
    model = build_model(rng, **options)
    numbers = draw_numbers(rng, model.encoder.axes, n_rows)
    return model, numbers, name_columns(model.encoder.axes, numbers)


def make_tiny(link="identity", classes=None):
    """score = 10 + f(size) + g(colour) + h(size, colour), written out."""
    size = Axis("size", "continuous", np.array([0.0, 2.0, 3.0]), np.array([0.0, 0.5, 1.0]))
    colour = level_axis("colour", "nominal", ["blue", "red"])
    coarse = size.coarsen(2)
    f = Shape(
        (0,), (size,), np.array([[9.0], [-1.0], [1.0], [3.0], [0.0]]), np.zeros((5, 1)), np.array([0, 1, 2, 1, 0.0])
    )
    g = Shape((1,), (colour,), np.array([[5.0], [-2.0], [2.0], [0.0]]), np.zeros((4, 1)), np.array([1.0, 1, 2, 0]))
    h_scores = np.zeros((4, 4, 1))
    h_scores[1:3, 1:3, 0] = [[0.5, -0.5], [-1.5, 4.5]]
    h_weights = np.zeros((4, 4))
    h_weights[1:3, 1:3] = [[1, 2], [1, 0]]
    h = Shape((0, 1), (coarse, colour), h_scores, np.zeros((4, 4, 1)), h_weights)
    return AdditiveModel(Encoder((size, colour)), np.array([10.0]), (f, g, h), link, classes)


def make_tied(which="all", seed=0, n_rows=60, **options):
    """A model with tied terms, the same model with plain tables, rows as numbers and as a table."""
    options = {"link": "mlogit", "classes": CLASSES["mlogit"], "n_outputs": 3, **options}
    model, numbers, table = make_case(seed, n_rows, **options)
    every = range(len(model.shapes))
    tied = tie_model(np.random.default_rng(seed), model, every if which == "all" else every[::2])
    dense = [Shape(s.term, s.axes, s.scores, s.spread, s.weights) for s in tied.shapes]
    return tied, AdditiveModel(model.encoder, model.intercept, tuple(dense), model.link, model.classes), numbers, table


def as_rows(table):
    """A table of columns as a list of dicts of plain values."""
    columns = [values.tolist() for values in table.values()]
    return [dict(zip(table, values, strict=True)) for values in zip(*columns, strict=True)]


def assert_same_model(one, other, table):
    assert (one.term_names, one.link, one.terms) == (other.term_names, other.link, other.terms)
    np.testing.assert_array_equal(one.scores(table), other.scores(table))
    np.testing.assert_array_equal(one.contributions(table), other.contributions(table))
    np.testing.assert_array_equal(one.predict(table), other.predict(table))
    for kind in ("avg_weight", "min_max"):
        np.testing.assert_array_equal(one.importances(kind), other.importances(kind))
