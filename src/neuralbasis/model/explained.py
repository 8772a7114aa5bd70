"""What fitted estimators and loaded models share: explanations, scorecards and the card of a notebook.

`explain` builds on the model, so it is imported when an explanation is requested.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..explain import GlobalExplanation, LocalExplanation, ModelEvidence
    from .scorecard import Scorecard


class ExplainedModel:
    """Methods that describe a fitted model."""

    def _fitted_model(self) -> Any:
        """The AdditiveModel."""
        return self

    def _read_table(self, X: Any) -> Any:
        """A table at prediction."""
        return X

    def explain_global(self) -> GlobalExplanation:
        """Every term with its table, standard errors and importance; see `explain.explain_global`."""
        from ..explain import explain_global

        return explain_global(self._fitted_model())

    def explain_local(self, X: Any, y: Any = None) -> LocalExplanation:
        """Contributions of all terms to the predictions of these rows; see `explain.explain_local`."""
        from ..explain import explain_local

        return explain_local(self._fitted_model(), self._read_table(X), y)

    def visualize(self, key: Any = None) -> Any:
        """An interactive plotly figure: the importances, or the term of the key; see `explain_global`."""
        return self.explain_global().visualize(key)

    def evidence(self) -> ModelEvidence:
        """Standard error of the importance, test and concurvity of every term; see `explain.evidence`."""
        from ..explain import evidence

        return evidence(self._fitted_model())

    def scorecard(self, term: Any = None, max_rows: int | None = None) -> Scorecard:
        """The tables of one or all terms, for predicting by hand; see `scorecard.scorecard`."""
        from .scorecard import scorecard

        return scorecard(self._fitted_model(), term, max_rows)
