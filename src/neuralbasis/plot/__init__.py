"""Plot: figures of a model, drawn from the records of `explain` and nothing else. The home of matplotlib.

    shapes, shape, grid     the strongest terms, one term, a whole model
    by_class, push, slices  a term class by class, which class a pair pushes to, a pair as curves
    importances, waterfall  what matters in a model, why a row has its prediction
    leanings, class_shapes  the terms, or words, that speak for each class; one class with the shapes of its strongest
    picture                 why a picture has its prediction, and where in it the reasons were seen
    compare, stability      the same term of several models, how far their shapes lie from each other
    bound                   how many bases theory asks for, of no model in particular

In: an AdditiveModel, a fitted estimator or an explanation. Out: a matplotlib `Figure`, also written to a PNG, SVG or
PDF file if a path is given. Figures are made without pyplot: no global state, no display.
"""

from .bars import importances, leanings, stability, waterfall
from .bases import bound
from .canvas import COLOURS
from .classes import class_shapes
from .comparison import compare
from .contrasts import push, slices
from .overlays import picture
from .panels import by_class, grid, shape, shapes

__all__ = [
    "COLOURS",
    "bound",
    "by_class",
    "class_shapes",
    "compare",
    "grid",
    "importances",
    "leanings",
    "picture",
    "push",
    "shape",
    "shapes",
    "slices",
    "stability",
    "waterfall",
]
