"""neuralbasis with its defaults, main effects only."""

from __future__ import annotations

from typing import Any

import neuralbasis.fitting  # noqa: F401  the first fit would import torch; imports are not part of any learner's time
from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor


def fit(X: Any, y: Any, task: str, seed: int, quick: bool = False) -> Any:
    kind = NeuralBasisRegressor if task == "regression" else NeuralBasisClassifier
    options = {"max_steps": 20} if quick else {}
    return kind(interactions=0, random_state=seed, **options).fit(X, y)
