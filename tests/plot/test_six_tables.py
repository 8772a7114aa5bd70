"""Every kind of figure of six tables: no text is cut at the edge of a figure, and no two texts overlap.

Small, large, heavy tails with point masses and special codes, long names of levels, 45 terms, and ten classes.
"""

import numpy as np
import pytest

from neuralbasis import plot
from neuralbasis.encoding import level_axis
from tests.plot.figures import additive, evidence, knots, shape
from tests.plot.overlaps import find_cut_texts

PLACES = ["Exec-managerial", "Farming-fishing", "Handlers-cleaners", "Machine-op-inspct", "Priv-house-serv"]
MARITAL = ["Married-civ-spouse", "Married-spouse-absent", "Married-AF-spouse", "Never-married", "Widowed"]


def make_main(rng, feature, axis, n_outputs=1, weights=10.0):
    scores = np.cumsum(rng.normal(0, 0.2, (len(axis.knots), n_outputs)), axis=0)
    return shape((feature,), [axis], scores, 0.1, weights, evidence=evidence(n_outputs=n_outputs))


def make_pair(rng, first, second, axes, n_outputs=1):
    own = [axes[first], axes[second]]
    scores = rng.normal(0, 0.1, (*(len(axis.knots) for axis in own), n_outputs))
    return shape((first, second), own, scores, 0.05, 1.0, evidence=evidence(0.2, n_outputs=n_outputs))


def assemble(axes, pairs, weights=None, n_outputs=1, **kwargs):
    rng, weights = np.random.default_rng(0), weights or {}
    mains = [make_main(rng, i, axis, n_outputs, weights.get(i, 10.0)) for i, axis in enumerate(axes)]
    return additive(axes, [*mains, *(make_pair(rng, *pair, axes, n_outputs) for pair in pairs)], **kwargs)


def make_small():
    axes = [knots("bmi", np.linspace(18, 42, 30)), knots("sex", [1.0, 2.0]), knots("s4", np.linspace(2, 9, 40))]
    return assemble(axes, [(0, 1)])


def make_large():
    axes = [knots("hour", np.arange(24.0)), knots("year", [0.0, 1.0]), knots("price", np.linspace(0, 2e5, 60))]
    return assemble(axes, [(0, 1), (0, 2)], dict.fromkeys(range(3), 400.0))


def make_codes():
    days = knots("days since the last delinquency", np.r_[-9.0, -8.0, -7.0, np.arange(60.0)])
    gain = knots("capital gain", np.r_[0.0, np.exp(np.linspace(5, 11, 60)), 99999.0])
    weights = {0: np.r_[200.0, 50.0, 300.0, np.full(60, 9.0)], 1: np.r_[9000.0, np.full(60, 8.0), 60.0]}
    return assemble([days, gain, level_axis("occupation", "nominal", PLACES)], [(0, 1), (0, 2)], weights)


def make_names():
    axes = [level_axis("marital status of the applicant", "nominal", MARITAL), knots("age", np.linspace(17, 90, 40))]
    return assemble([*axes, level_axis("occupation", "nominal", PLACES)], [(0, 1), (0, 2)])


def make_many():
    axes = [
        knots(f"{what} of account {i}", np.linspace(-3, 3, 30))
        for i in range(10)
        for what in ("mean", "error", "worst")
    ]
    return assemble(axes, [(i, i + 1) for i in range(0, 30, 2)])


def make_classes():
    axes = [knots(f"pixel {i}", np.arange(17.0)) for i in range(4)]
    return assemble(axes, [(0, 1)], n_outputs=10, link="mlogit", classes=np.array([f"digit {k}" for k in range(10)]))


TABLES = {
    "small": make_small, "large": make_large, "codes": make_codes, "long names": make_names, "45 terms": make_many,
    "ten classes": make_classes,
}  # fmt: skip


def first_pair(model):
    return next(names for names, term in zip(model.term_names, model.terms, strict=True) if len(term) == 2)


KINDS = {
    "shapes": plot.shapes,
    "narrow": lambda model: plot.shapes(model, 3, width=3.3),
    "maps": lambda model: plot.shapes(model, 4, pairs="map"),
    "grid": plot.grid,
    "slices": lambda model: plot.slices(model, first_pair(model)),
    "map": lambda model: plot.shape(model, first_pair(model), pairs="map"),
    "importances": plot.importances,
    "waterfall": lambda model: plot.waterfall(model, dict.fromkeys(model.encoder.names)),
    "compare": lambda model: plot.compare({"first": model, "second": model}, model.term_names[0]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table", TABLES)
def test_no_text_is_cut_or_overlaps(table, kind):
    if (table, kind) == ("45 terms", "maps"):
        pytest.skip("the grid has all terms")
    cut, pairs = find_cut_texts(KINDS[kind](TABLES[table]()))
    assert cut == []
    assert pairs == []


@pytest.mark.parametrize("kind", ["by_class", "push", "leanings", "class_shapes"])
def test_figures_of_ten_classes(kind):
    model = make_classes()
    draw = {
        "by_class": lambda: plot.by_class(model, "pixel 0"), "push": lambda: plot.push(model, first_pair(model)),
        "leanings": lambda: plot.leanings(model), "class_shapes": lambda: plot.class_shapes(model, "digit 3"),
    }  # fmt: skip
    assert find_cut_texts(draw[kind]()) == ([], [])
