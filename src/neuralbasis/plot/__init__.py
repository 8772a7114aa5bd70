"""Figures of a model, drawn with matplotlib.

    shapes, shape, grid     the strongest terms, one term, a whole model
    by_class, push, slices  a term for each class, the class that a pair favours, a pair as curves
    importances, waterfall  which terms matter, how a row gets its prediction
    leanings, class_shapes  the terms that raise or lower the score of each class, or of one class with their shapes
    picture                 how a picture gets its prediction, and where its concepts were found
    compare, stability      the same term of several models, how much their shapes differ
    bound                   the number of bases that theory recommends

In: an AdditiveModel, a fitted estimator or an explanation. Out: a matplotlib `Figure`. A `path` also writes it to a
PNG, SVG or PDF file. Figures are made without pyplot, and matplotlib is imported when the first one is drawn.
"""

from .bars import importances, leanings, stability, waterfall
from .bases import bound
from .canvas import COLOURS
from .comparison import compare
from .pairs import push, slices
from .panels import by_class, grid, shape, shapes
from .pictures import class_shapes, picture

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
