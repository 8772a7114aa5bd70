"""Explanations of a model and of single rows, as records that figures and the HTML page show.

    score = intercept + Σ_terms contribution          importance of a term = mean |contribution| over training rows

    explain_global     every term: table, standard errors, importance; the terms that raise or lower each class
    explain_class      one class: the shapes of the terms that raise or lower its score
    explain_local      rows: the contribution of every term
    explain_picture    one row of concepts, and where in a picture they were found
    evidence           every term: standard error of the importance, test, concurvity
    readability        every curve: its turns, and its variation beyond two turns
    stability          how much the shapes of several models differ

In: an AdditiveModel or a fitted estimator. Out: frozen records. `.data(key)` and `.visualize(key)` follow InterpretML.
"""

from ..model.shapes import Evidence
from .classes import ClassExplanation, explain_class
from .comparison import Stability, stability
from .explanation import Value
from .pictures import PictureExplanation, PictureTerm, explain_picture
from .readability import Readability, TermReadability, readability
from .rows import LocalExplanation, RowView, explain_local
from .significance import ModelEvidence, TermEvidence, evidence
from .terms import ClassView, GlobalExplanation, Leaning, TermView, explain_global

__all__ = [
    "ClassExplanation", "ClassView", "Evidence", "GlobalExplanation", "Leaning", "LocalExplanation", "ModelEvidence",
    "PictureExplanation", "PictureTerm", "Readability", "RowView", "Stability", "TermEvidence", "TermReadability",
    "TermView", "Value", "evidence", "explain_class", "explain_global", "explain_local", "explain_picture",
    "readability", "stability",
]  # fmt: skip
