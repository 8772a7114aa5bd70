"""NBM, NB²M and NB³M: the paper's model and training, `network="paper"`.

Options have the paper's names and units: its printed hyperparameters can be used directly. Training runs to the end of
the cosine schedule; validation rows are not used, and none are held out.
DIFF: neuralbasis drops hidden units and bases for all rows of a point at once, not for each row.
"""

from __future__ import annotations

from typing import Any

import neuralbasis.training.fit  # noqa: F401  import torch before the timed fit
from neuralbasis import NetworkConfig, NeuralBasisClassifier, NeuralBasisRegressor
from neuralbasis.settings import nest

PAPER = {
    **NetworkConfig.PRESETS["paper"], "outer_bags": 1, "smoothness": 0.0, "boosted_steps": False, "max_terms": None,
    "validation_size": 0,
}  # fmt: skip
N_BASES = {1: 100, 2: 200, 3: 200}


def fit(
    X: Any, y: Any, task: str, seed: int, quick: bool = False, validation: tuple[Any, Any] | None = None,
    order: int = 1, engine: str = "exact", scaling: str = "minmax", n_bases: int | None = None, n_subnets: int = 1,
    epochs: float = 1000, batch_size: int = 1024, learning_rate: float = 2e-3, weight_decay: float = 1e-5,
    dropout: float = 0.0, basis_dropout: float = 0.05, output_penalty: float = 1e-4, **options: Any,
) -> Any:  # fmt: skip
    """Other `options` are parameters of the estimator and override the paper's."""
    size = n_bases or N_BASES[order]
    settings = {
        **PAPER,
        "random_state": seed,
        "engine": engine,
        "scaling": scaling,
        "interactions": {2: "all" if order > 1 else 0, 3: "all" if order > 2 else 0},
        "n_bases": size,
        "n_interaction_bases": size,
        "n_subnets": n_subnets,
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "dropout": dropout,
        "basis_dropout": basis_dropout,
        "output_penalty": output_penalty,
        "batch_size": batch_size,
        "max_epochs": 2 if quick else epochs,
        **options,
    }
    kind = NeuralBasisRegressor if task == "regression" else NeuralBasisClassifier
    return kind(**nest(settings)).fit(X, y)


def contributions(model: Any, X: Any) -> Any:
    """(N, T), with three classes or more (N, T, K)."""
    return model.eval_terms(X)
