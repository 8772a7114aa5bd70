"""Predictions as named columns, for tables written by the command line and by Ray.

In: a model and rows. Out: names and (N,) arrays of predictions, probabilities, contributions and scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..data.columns import level_text
from .additive_model import AdditiveModel

OUTPUTS = ("prediction", "probability", "contributions", "score")


def output_names(model: AdditiveModel, outputs: Sequence[str]) -> list[str]:
    """Names of the columns that `output_arrays` returns.

    prediction : "prediction"
    probability : "probability_<class>"; models of classes only
    contributions : "contribution_<term>" for all terms, and "intercept"; with a suffix "_<class>" if K > 1
    score : "score", with a suffix "_<class>" if K > 1
    """
    labels = [] if model.classes is None else [level_text(label) for label in model.classes]
    suffixes = [""] if model.n_outputs == 1 else [f"_{label}" for label in labels]
    names = {
        "prediction": ["prediction"],
        "probability": [f"probability_{label}" for label in labels],
        "contributions": [f"contribution_{term}{suffix}" for term in model.term_names for suffix in suffixes],
        "score": [f"score{suffix}" for suffix in suffixes],
    }
    names["contributions"] += [f"intercept{suffix}" for suffix in suffixes]
    return [name for output in outputs for name in names[output]]


def output_arrays(model: AdditiveModel, rows: Any, outputs: Sequence[str]) -> list[np.ndarray]:
    """One (N,) array per name in `output_names`."""
    compute: dict[str, Callable[[], list[np.ndarray]]] = {
        "prediction": lambda: [model.predict(rows)],
        "probability": lambda: list(model.predict_proba(rows).T),
        "contributions": lambda: _list_contributions(model, model.contributions(rows)),
        "score": lambda: list(model.scores(rows).T),
    }
    return [array for output in outputs for array in compute[output]()]


def _list_contributions(model: AdditiveModel, found: np.ndarray) -> list[np.ndarray]:
    intercept = np.broadcast_to(model.intercept, (len(found), model.n_outputs))
    return [*found.reshape(len(found), -1).T, *intercept.T]
