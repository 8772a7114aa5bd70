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

from typing import TYPE_CHECKING, Any

from ._moved import MOVED, install
from .lazy import find_name

if TYPE_CHECKING:  # what `__getattr__` finds, for editors and type checkers
    from . import distributed as distributed
    from . import explain as explain
    from . import export as export
    from . import plot as plot
    from . import report as report
    from . import vision as vision
    from .estimators import NeuralBasisClassifier as NeuralBasisClassifier
    from .estimators import NeuralBasisRegressor as NeuralBasisRegressor
    from .estimators import update as update
    from .model.additive_model import AdditiveModel as AdditiveModel
    from .model.additive_model import load as load
    from .model.merge import merge as merge
    from .paper import paper_settings as paper_settings
    from .settings import NetworkConfig as NetworkConfig
    from .settings import StorageConfig as StorageConfig
    from .tuning.tuner import tune as tune

    __version__: str

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


def _find_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(__name__)
    except PackageNotFoundError:  # a folder of source code that was never installed
        return "0+unknown"


if not TYPE_CHECKING:  # otherwise every name would exist

    def __getattr__(name: str) -> Any:
        if name == "__version__":  # importlib.metadata would double the time of an import
            return _find_version()
        return find_name(__name__, _HOME | dict.fromkeys(MOVED) if name in MOVED else _HOME, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME, "__version__"])
