"""Explain: a model, or some rows, as records. Figures and pages show what stands here and compute nothing anew.

    score = intercept + Σ_terms contribution          importance of a term = mean |contribution| over training rows

In: an AdditiveModel, or an estimator that holds one as `model_`. Out: `explain_global`, every term with its table,
spread and importance, and the terms that speak for each class; `explain_class`, one class and the shapes that speak for
it and against it; `explain_local`, rows with the contribution of every term; `explain_picture`, one row of concepts and
where in a picture they were seen; `stability`, how far the shapes of several models lie from each other. `.data(key)`
and `.visualize(key)` are spelled as in InterpretML.
"""

from .classes import ClassExplanation, explain_class
from .comparison import Stability, stability
from .explanation import Value
from .pictures import PictureExplanation, Sight, explain_picture
from .rows import LocalExplanation, RowView, explain_local
from .terms import ClassView, GlobalExplanation, Leaning, TermView, explain_global

__all__ = [
    "ClassExplanation", "ClassView", "GlobalExplanation", "Leaning", "LocalExplanation", "PictureExplanation",
    "RowView", "Sight", "Stability", "TermView", "Value",
    "explain_class", "explain_global", "explain_local", "explain_picture", "stability",
]  # fmt: skip
