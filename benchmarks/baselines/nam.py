"""NAM and NA²M: one network for every column and every pair (`networks.NeuralAdditive`).

The paper publishes no settings for it. Ours are the better of two trials on the validation rows of California Housing
(no dropout, 0.5746; dropout 0.1, 0.5756), trained twice as long; learning rate and penalties were not varied. The table
must contain numbers only, scaled as in the paper.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .network_training import Fitted, Training, fit_network


def fit(
    X: Any, y: Any, task: str, seed: int, quick: bool = False, validation: tuple[Any, Any] | None = None,
    order: int = 1, units: str = "relu", n_subnets: int = 1, dropout: float = 0.0, feature_dropout: float = 0.0,
    epochs: int = 200, batch_size: int = 1024, learning_rate: float = 0.01, weight_decay: float = 1e-5,
    output_penalty: float = 1e-3,
) -> Any:  # fmt: skip
    """With validation rows, the state with the lowest validation loss is kept."""
    options = {
        "order": order, "units": units, "n_subnets": n_subnets, "dropout": dropout, "feature_dropout": feature_dropout,
    }  # fmt: skip
    training = Training(2 if quick else epochs, batch_size, learning_rate, weight_decay, output_penalty)
    return fit_network("nam", options, training, X, y, task, seed, validation)


def contributions(model: Fitted, X: Any) -> np.ndarray:
    """(N, T), with three classes or more (N, T, K)."""
    return model.contributions(X)
