"""Small models and rows for the tests of explanations."""

import numpy as np

from neuralbasis import AdditiveModel
from neuralbasis.encoding import Encoder, continuous_axis, level_axis
from neuralbasis.model.shapes import Shape
from tests.models import build_model, draw_numbers, name_columns, tie_model

CLASSES = {"identity": None, "logit": np.array(["no", "yes"]), "mlogit": np.array(["a", "b", "c"])}


N_OUTPUTS = {"identity": 1, "logit": 1, "mlogit": 3}


def make_model(seed=0, link="identity", tied=(), **options):
    rng = np.random.default_rng(seed)
    model = build_model(rng, n_outputs=N_OUTPUTS[link], link=link, classes=CLASSES[link], **options)
    return tie_model(rng, model, tied) if tied else model


def make_rows(model, n_rows=20, seed=0):
    return name_columns(model.encoder.axes, draw_numbers(np.random.default_rng(seed), model.encoder.axes, n_rows))


def make_curve(axis, scores, weights=None, members=None):
    """A model of one column with the scores of all cells; by default, each knot or level has weight 1."""
    table = np.asarray(scores, dtype=float)[:, None]
    weights = np.pad(np.ones(axis.n_cells - 2), 1) if weights is None else np.asarray(weights, dtype=float)
    members = None if members is None else np.asarray(members, dtype=float)[..., None]
    shape = Shape((0,), (axis,), table, np.zeros_like(table), weights, members)
    return AdditiveModel(Encoder((axis,)), np.zeros(1), (shape,), "identity")


def knots(*values, name="size"):
    return continuous_axis(name, np.array(values, dtype=float), scaling="minmax")


COLOURS = level_axis("colour", "nominal", ["01", "blue", "red"])
