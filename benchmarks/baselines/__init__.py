"""Learners to compare, one file each: `fit(X, y, task, seed, quick=False, validation=None, **options) -> model`.

`task` is "regression" or "classification"; `quick` fits as little as possible, to try the benchmark itself. Networks
stop by the rows of `validation`, (X, y); what holds out rows on its own, or stops by none, leaves them unread. Learners
with estimators take parameters of these as options, `interactions=0` say, the others what their `fit` names. Those with
terms also have `contributions(model, X)`, what each term adds to the score of each row. A learner is imported only when
it is used, so that none of them weighs on another's process.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

# learner -> the package it comes from
LIBRARIES = {
    "ours": "neuralbasis", "ebm": "interpret", "xgboost": "xgboost", "hist_gradient_boosting": "sklearn",
    "linear": "sklearn", "linear_svc": "sklearn", "logistic": "sklearn", "softmax": "torch", "nam": "torch",
    "mlp": "torch", "node_gam": "nodegam", "nbm": "neuralbasis",
}  # fmt: skip
WITH_TERMS = ("ours", "ebm")  # and take `interactions`
OF_NUMBERS = ("nam", "mlp")  # of tables without levels and gaps
OF_STORED = ("linear_svc", "logistic", "softmax")  # for classes and sparse matrices, without scaling


def get(name: str) -> ModuleType:
    """The module of a learner."""
    if name not in LIBRARIES:
        raise ValueError(f"a learner is one of {sorted(LIBRARIES)}, not {name!r}")
    return import_module(f".{name}", __name__)


def is_installed(name: str) -> bool:
    return find_spec(LIBRARIES[name]) is not None
