"""neuralbasis: additive models whose shapes are combinations of a few basis functions shared by all features.

    score(x) = f0 + Σ_i f_i(x_i) + Σ_ij f_ij(x_i, x_j)             prediction = link⁻¹(score)
    f_i(x_i) = Σ_k a_ik h_k(x_i)                                   h: one small network for all features

A fit reads a table, places its columns on axes, encodes the rows, trains, and compiles an AdditiveModel: one table per
term. Predictions, plots, explanations and exports read these tables. A default fit also adds boosted steps to the
tables, where held-out rows confirm them.

Dimensions: N rows, D features, T terms, G knots, P points, B bases, M members, K outputs, A axes, C = M · K channels.
Importing the package imports neither torch nor scikit-learn; a name is loaded when it is first used.
"""

from __future__ import annotations

from typing import Any

from ._moved import MOVED, install
from .lazy import find_name

__version__ = "0.2.0.dev0"

_HOME = {
    "NeuralBasisRegressor": "estimators",
    "NeuralBasisClassifier": "estimators",
    "NetworkConfig": "settings",
    "StorageConfig": "settings",
    "AdditiveModel": "model.additive_model",
    "load": "model.additive_model",
    "merge": "model.merge",
    "paper_settings": "paper",
    "tune": "tuning.tuner",
    "update": "estimators",
    "distributed": None,
    "explain": None,
    "export": None,
    "plot": None,
    "report": None,
    "vision": None,
}
__all__ = sorted(_HOME)
install()


def __getattr__(name: str) -> Any:
    return find_name(__name__, _HOME | dict.fromkeys(MOVED) if name in MOVED else _HOME, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
