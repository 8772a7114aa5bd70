"""Learners to compare, one file each: `fit(X, y, task, seed, quick=False, validation=None, **options) -> model`.

`task` is "regression" or "classification"; `quick` fits as little as possible. Networks stop early by the rows of
`validation`, (X, y); learners that hold out rows themselves, or do not stop early, ignore them. Options are parameters
of the learner's estimator, or the named arguments of its `fit`. Learners with terms also have `contributions(model,
X)`. A learner is imported only when it is used and does not affect the memory of another's process.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

# learner -> package
LIBRARIES = {
    "ours": "neuralbasis", "ebm": "interpret", "xgboost": "xgboost", "hist_gradient_boosting": "sklearn",
    "linear": "sklearn", "linear_svc": "sklearn", "logistic": "sklearn", "softmax": "torch", "nam": "torch",
    "mlp": "torch", "node_gam": "nodegam", "nbm": "neuralbasis",
}  # fmt: skip
WITH_TERMS = ("ours", "ebm")  # take `interactions`
NUMBERS_ONLY = ("nam", "mlp")  # no levels, no missing values
SPARSE_CLASSIFIERS = ("linear_svc", "logistic", "softmax")  # without scaling


def get(name: str) -> ModuleType:
    """The module of a learner."""
    if name not in LIBRARIES:
        raise ValueError(f"learner must be one of {sorted(LIBRARIES)}, got {name!r}")
    return import_module(f".{name}", __name__)


def is_installed(name: str) -> bool:
    return find_spec(LIBRARIES[name]) is not None
