"""Models and tables for the tests of figures, and functions that read what a figure shows."""

from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.collections import LineCollection

from neuralbasis import AdditiveModel
from neuralbasis.encoding import Encoder, continuous_axis, level_axis
from neuralbasis.explain import Evidence, explain_global
from neuralbasis.model.shapes import Shape

N_ROWS = 300


CITIES = ["Bern", "Lima", "Oslo"]


ABC = np.array(["a", "b", "c"])


def evidence(p_value=0.001, multiplier=3.0, error=0.0, n_outputs=1):
    return Evidence(*(np.full(n_outputs, value) for value in (p_value, multiplier, error)))


def drop_evidence(estimator):
    """The model as one whose training rows are not described."""
    shapes = tuple(replace(shape, evidence=None) for shape in estimator.model_.shapes)
    return replace(estimator.model_, shapes=shapes)


def shape(term, axes, scores, spread=0.0, weights=1.0, members=None, evidence=None):
    """A shape given at the knots; the missing and unseen cells have score 0 and weight 0."""
    scores = np.asarray(scores, dtype=float)
    scores = scores[..., None] if scores.ndim == len(axes) else scores
    full = np.zeros((*(axis.n_cells for axis in axes), scores.shape[-1]))
    inner = (slice(1, -1),) * len(axes)
    full[inner] = scores
    weight = np.zeros(full.shape[:-1])
    weight[inner] = weights
    return Shape(term, tuple(axes), full, np.full_like(full, spread), weight, members, evidence=evidence)


def additive(axes, shapes, link="identity", classes=None, intercept=0.0):
    n_outputs = shapes[0].scores.shape[-1]
    return AdditiveModel(Encoder(tuple(axes)), np.full(n_outputs, intercept), tuple(shapes), link, classes)


def knots(name, values):
    return continuous_axis(name, np.asarray(values, dtype=float), scaling="minmax")


def ramp(n_outputs=1, name="age", link="identity", classes=None, intercept=0.0, **kwargs):
    """A model of one continuous column with 50 knots, 0.5, 1.5, …"""
    axis = knots(name, np.arange(50) + 0.5)
    scores = np.linspace(-1, 1, 50)[:, None] * np.arange(1, n_outputs + 1)
    return additive([axis], [shape((0,), [axis], scores, **kwargs)], link, classes, intercept)


def table(seed=0):
    """A frame with a number, a long-tailed number and a text column, all with missing values, and a score."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.uniform(20, 80, N_ROWS),
            "income": np.exp(rng.normal(8, 2, N_ROWS)),
            "city": rng.choice(CITIES, N_ROWS),
        }
    )
    score = frame["age"] / 20 + frame["city"].map({"Bern": -1.0, "Lima": 0.0, "Oslo": 1.0})
    for column in frame:
        frame.loc[rng.random(N_ROWS) < 0.1, column] = None
    return frame, score.to_numpy()


def fit(kind, y, **parameters):
    frame, _ = table()
    return kind(max_steps=15, outer_bags=2, n_jobs=1, **parameters).fit(frame, y)


def panel(figure, name):
    return next(axes for axes in figure.axes if axes.get_title().startswith(f"{name} ("))


def lines_of(axes):
    """The lines through knots, without the zero line and the marker of the missing value."""
    return [line for line in axes.lines if len(line.get_xdata()) > 2]


def member_lines_of(axes):
    """The faint lines of the members, without error bars."""
    return [c for c in axes.collections if isinstance(c, LineCollection) and c.get_alpha() is not None]


def bands_of(axes):
    """Opacity of each band, and its (low, high) ends at the left end of the curve, the lightest band first."""
    found = {}
    for collection in axes.collections:
        if type(collection).__name__ in ("FillBetweenPolyCollection", "PolyCollection") and collection.get_alpha():
            corners = collection.get_paths()[0].vertices
            left = corners[corners[:, 0] == corners[:, 0].min(), 1]
            found[collection.get_alpha()] = (left.min(), left.max())
    return dict(sorted(found.items()))


def bars_of(axes):
    """Lengths of the bars of levels, one array per class."""
    containers = [c for c in axes.containers if type(c).__name__ == "BarContainer"]
    return [np.array([bar.get_width() for bar in container]) for container in containers]


def background_of(axes):
    """Centres and grey values of the density bars in the background."""
    bars = axes.collections[0]
    middles = [path.vertices[:, 0].min() / 2 + path.vertices[:, 0].max() / 2 for path in bars.get_paths()]
    return np.array(middles), 1 - bars.get_facecolor()[:, 0]


def view_of(estimator, name):
    return explain_global(estimator).find(name)


def tick_texts(line):
    return [text.get_text() for text in line.get_ticklabels()]


def strip_texts(line):
    """The ticks of missing values and special codes, with their shares of the rows."""
    return [text.get_text().replace("\n", ": ") for text in line.get_ticklabels(minor=True)]


def legend_texts(figure):
    return [text.get_text().replace("\n", " ") for text in figure.legends[0].get_texts()]


def legend_title(figure):
    return figure.legends[0].get_title().get_text().replace("\n", " ")


def pair_legend(axes):
    """Title and entries of the legend above the curves of a pair."""
    legend = axes.get_legend()
    return legend.get_title().get_text(), [text.get_text() for text in legend.get_texts()]


def pair_model(n_outputs=1, weights=1.0, **kwargs):
    """Two weak main effects and a strong pair of a continuous and a nominal column."""
    axes = [knots("age", [0.5, 1.5, 2.5, 4.5]), level_axis("city", "nominal", CITIES)]
    scores = (np.arange(12.0).reshape(4, 3, 1) - 5.5) * np.arange(1, n_outputs + 1)
    weak = [0.1, 0.09]  # age before city
    mains = [shape((d,), [axis], np.full((len(axis.knots), n_outputs), weak[d])) for d, axis in enumerate(axes)]
    return additive(axes, [*mains, shape((0, 1), axes, scores, weights=weights)], **kwargs)


def triple_model(**kwargs):
    axes = [knots("x", [0, 1, 2]), level_axis("city", "nominal", CITIES), knots("z", [0.5, 1.5])]
    triple = shape((0, 1, 2), axes, np.arange(18.0).reshape(3, 3, 2) - 8.5)
    mains = [shape((d,), [axis], np.linspace(-1, 1, len(axis.knots))) for d, axis in enumerate(axes)]
    return additive(axes, [*mains, triple], **kwargs)
