"""neuralbasis with its defaults."""

from __future__ import annotations

from typing import Any

import neuralbasis.training.fit  # noqa: F401  import torch before the timed fit
from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor
from neuralbasis.settings import nest


def fit(
    X: Any, y: Any, task: str, seed: int, quick: bool = False, validation: tuple[Any, Any] | None = None, **options: Any
) -> Any:
    kind = NeuralBasisRegressor if task == "regression" else NeuralBasisClassifier
    limits = {"max_steps": 20, "max_epochs": None} if quick else {}
    if triples := options.pop("triples", 0):
        options["interactions"] = {2: options.get("interactions", "auto"), 3: triples}
    return kind(**nest({"random_state": seed, **options, **limits})).fit(X, y)


def contributions(model: Any, X: Any) -> Any:
    """(N, T), with three classes or more (N, T, K)."""
    return model.eval_terms(X)
