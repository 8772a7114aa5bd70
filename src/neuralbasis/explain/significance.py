"""Evidence of a model: for each term its importance with a standard error, a test and its concurvity.

The numbers were computed by the fit and are stored with the model (`shapes.Evidence`). In: a model. Out: a record with
one line per term, most important first.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..data.frames import write_frame
from ..model.additive_model import AdditiveModel, find_model
from ..model.scorecard import MAX_TERMS, align, find_term, number_format, shorten
from ..model.shapes import Evidence, TiedShape, have_evidence
from ..terms.term import term_name
from .explanation import Explanation

LEGEND = "± standard error; p-value of no effect; concurvity: share that other terms could express, the partner most"


def evidence(model: Any) -> ModelEvidence:
    """What the training rows say about each term: error of its importance, test, concurvity.

    Parameters
    ----------
    model : AdditiveModel or fitted estimator; a ModelEvidence is returned unchanged

    Returns
    -------
    ModelEvidence
        One line for each term, most important first. A model without evidence raises a ValueError: wide, tied, merged
        and updated models, and those of rows that did not fit in memory.

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisRegressor
    >>> rng = np.random.default_rng(0)
    >>> table = {"size": rng.random(300), "noise": rng.random(300)}
    >>> fitted = NeuralBasisRegressor(max_steps=50, interactions=0).fit(table, table["size"] + rng.normal(0, 0.1, 300))
    >>> found = evidence(fitted)
    >>> [line.term for line in found.lines], found.lines[0].p_value < 1e-6
    (['size', 'noise'], True)
    >>> print(found)
    term   importance  ...  p-value  concurvity  partner
    size  ...
    """
    if isinstance(model, ModelEvidence):
        return model
    found = find_model(model)
    if not have_evidence(found.shapes):
        raise ValueError(f"this model has no evidence of its terms: {_explain_absence(found)}")
    return ModelEvidence(found)


@dataclass(frozen=True)
class TermEvidence:
    """One term.

    Parameters
    ----------
    term : its name
    importance : mean |contribution| over the training rows; the mean over the classes, if there are several
    importance_error : standard error of the importance; the mean over the classes
    p_value : chance of as strong an effect if the term had none; the smallest of the classes times their number, at
        most 1
    concurvity : share of the term that all other terms together could express, 0 to 1
    partner : name of the main effect that could express most of it, None if there is none
    partner_concurvity : the share that the partner could express

    Examples
    --------
    >>> from neuralbasis import NeuralBasisRegressor
    >>> table = {"size": [1.0, 2.0, 3.0, 4.0] * 9, "colour": ["red", "blue"] * 18}
    >>> model = NeuralBasisRegressor(max_steps=20, interactions=0).fit(table, table["size"])
    >>> line = evidence(model).lines[0]
    >>> line.term, line.p_value < 0.05, 0 <= line.concurvity <= 1
    ('size', True, True)
    """

    term: str
    importance: float
    importance_error: float
    p_value: float
    concurvity: float
    partner: str | None
    partner_concurvity: float


@dataclass(frozen=True, eq=False, repr=False)
class ModelEvidence(Explanation):
    """The evidence of all terms. `print` shows it as a table.

    Parameters
    ----------
    model : the model

    Examples
    --------
    >>> from neuralbasis import NeuralBasisRegressor
    >>> table = {"size": [1.0, 2.0, 3.0, 4.0] * 9, "colour": ["red", "blue"] * 18}
    >>> model = NeuralBasisRegressor(max_steps=20, interactions=0).fit(table, table["size"])
    >>> found = evidence(model)
    >>> found.lines[0].term, sorted(found.data("colour"))[:2]
    ('size', ['concurvity', 'importance'])
    """

    @cached_property
    def lines(self) -> tuple[TermEvidence, ...]:
        """One line for each term, most important first."""
        order = np.argsort(-self._importances, kind="stable")
        return tuple(self._describe(int(index)) for index in order)

    @cached_property
    def _importances(self) -> np.ndarray:
        return self.model.importances()

    def _find(self, index: int) -> Evidence:
        found = self.model.shapes[index].evidence
        assert found is not None
        return found

    def _describe(self, index: int) -> TermEvidence:
        found = self._find(index)
        return TermEvidence(
            term=self.names[index],
            importance=float(self._importances[index]),
            importance_error=float(found.importance_errors.mean()),
            p_value=min(1.0, float(found.p_values.min()) * len(found.p_values)),
            concurvity=found.concurvity,
            partner=None if found.partner is None else term_name(found.partner, self.columns),
            partner_concurvity=found.partner_concurvity,
        )

    def data(self, key: Any = None) -> dict[str, Any]:
        """Plain values.

        The key None returns a list for each field of the lines; a name, index or tuple of columns returns the line of
        a term, with its p-value, the multiplier of its simultaneous 95 % band and the error of its importance for each
        class.
        """
        if key is None:
            lines = [asdict(line) for line in self.lines]
            return {name: [line[name] for line in lines] for name in TermEvidence.__dataclass_fields__}
        index = find_term(self.model, key)
        found = self._find(index)
        by_class = {name: getattr(found, name).tolist() for name in ("p_values", "multipliers", "importance_errors")}
        return asdict(self._describe(index)) | by_class | self._describe_classes()

    def to_pandas(self) -> Any:
        """A pandas data frame: one line for each term, most important first."""
        return write_frame([asdict(line) for line in self.lines])

    def __str__(self) -> str:
        shown, hidden = self.lines[:MAX_TERMS], len(self.lines) - MAX_TERMS
        spec = number_format(max((line.importance for line in shown), default=0.0), 4)
        rows = [("term", "importance", "±", "p-value", "concurvity", "partner")]
        for line in shown:
            sizes = (f"{line.importance:{spec}}", f"{line.importance_error:{spec}}")
            chance = "<0.001" if line.p_value < 0.001 else f"{line.p_value:.3f}"
            partner = "" if line.partner is None else f"{shorten(line.partner)} ({line.partner_concurvity:.2f})"
            rows.append((shorten(line.term), *sizes, chance, f"{line.concurvity:.2f}", partner))
        more = [f"… and {hidden:,} more"] if hidden > 0 else []
        return "\n".join([*align(rows, "<>>>><"), *more, LEGEND])

    def __repr__(self) -> str:
        return f"ModelEvidence({len(self.lines)} terms)"


def _explain_absence(model: AdditiveModel) -> str:
    """Why a model has no evidence, and what to do."""
    parameters = {} if model.summary is None else model.summary.parameters
    if model.is_wide:
        return "its table is wide and sparse; fit a model of fewer columns, as a dense table"
    if any(isinstance(shape, TiedShape) for shape in model.shapes):
        return "its classes share their shapes; fit it with tied_classes=False"
    if model.summary is None:
        return "it was built by hand; fit it to rows"
    if "merged" in parameters:
        return "it was merged, without the rows of its parts; fit one model to all rows"
    if "updates" in parameters:
        return "it was updated, without the rows of the first fit; fit a new model to all rows"
    if not model.shapes:
        return "it has no terms"
    return (
        "it has too many terms, its rows did not fit in memory, or an older version fitted it; fit it with this "
        "version to rows in memory, such as a random sample, or with fewer columns"
    )
