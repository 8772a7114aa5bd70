"""NBM, NB²M and NB³M with the paper's settings, trained by the engines of neuralbasis.

Options have the paper's names and units: its printed hyperparameters can be used directly. Training runs to the end of
the cosine schedule; validation rows are not used, and none are held out.
DIFF: neuralbasis warms up, averages the last weights, also normalises the bases, and drops a basis for all rows of a
point at once, not for each row.
"""

from __future__ import annotations

import math
from typing import Any

import neuralbasis.training.fit  # noqa: F401  import torch before the timed fit
from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor
from neuralbasis.settings import nest

# PAPER §4.3: one model, a network of the scaled value, batch norm, shapes shared by the classes, all terms at once, no
# smoothing and no refinement.
PAPER = {
    "hidden": (256, 128, 128), "fourier": 0, "batch_norm": True, "tied_classes": True, "staged": False,
    "outer_bags": 1, "smoothness": 0.0, "boosted_steps": False, "max_terms": None, "validation_size": 0,
}  # fmt: skip
N_BASES = {1: 100, 2: 200, 3: 200}
MAX_BINS = 20_000  # exact engine: the tables store the network's output for every training value
MAX_ACTIVE = 40  # neuralbasis lowers the learning rate above this number of interactions; the paper does not


def fit(
    X: Any, y: Any, task: str, seed: int, quick: bool = False, validation: tuple[Any, Any] | None = None,
    order: int = 1, engine: str = "exact", scaling: str = "minmax", n_bases: int | None = None, n_subnets: int = 1,
    epochs: float = 1000, batch_size: int = 1024, learning_rate: float = 2e-3, weight_decay: float = 1e-5,
    dropout: float = 0.0, basis_dropout: float = 0.05, output_penalty: float = 1e-4, **options: Any,
) -> Any:  # fmt: skip
    """Other `options` are parameters of the estimator and override the paper's."""
    n_terms, size = count_terms(X.shape[1], order), n_bases or N_BASES[order]
    settings = {
        **PAPER,
        "random_state": seed,
        "engine": engine,
        **({"max_bins": MAX_BINS} if engine == "exact" else {}),
        "scaling": scaling,
        "interactions": {2: "all" if order > 1 else 0, 3: "all" if order > 2 else 0},
        "n_bases": size,
        "n_interaction_bases": size,
        "n_subnets": n_subnets,
        "learning_rate": learning_rate * math.sqrt(max(1.0, (n_terms - X.shape[1]) / MAX_ACTIVE)),
        "weight_decay": weight_decay,
        "dropout": dropout,
        "basis_dropout": basis_dropout,
        "output_penalty": convert_penalty(output_penalty, task, n_terms),
        "batch_size": batch_size,
        "max_epochs": 2 if quick else epochs,
        **options,
    }
    kind = NeuralBasisRegressor if task == "regression" else NeuralBasisClassifier
    return kind(**nest(settings)).fit(X, y)


def convert_penalty(output_penalty: float, task: str, n_terms: int) -> float:
    """The paper's penalty in the units of neuralbasis.

    The paper adds the mean of f² over rows and terms to the squared error or cross-entropy; neuralbasis adds its mean
    over rows and sum over terms to half the squared error, or to the cross-entropy.
    """
    return output_penalty / n_terms * (0.5 if task == "regression" else 1.0)


def count_terms(n_columns: int, order: int) -> int:
    return sum(math.comb(n_columns, size) for size in range(1, order + 1))


def contributions(model: Any, X: Any) -> Any:
    """(N, T), with three classes or more (N, T, K)."""
    return model.eval_terms(X)
