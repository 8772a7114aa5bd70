"""Scores of concepts in pictures, as a concept extractor writes them, and the parts of a set of pictures.

An npz file has the arrays X_train (N, D) and y_train (N,), X_valid and y_valid, and none that need pickle: a score for
every picture and concept, and the class of every picture as a number or as text.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .splits import Part, Sizes, draw, take
from .text import naming

ARRAYS = ("X_train", "y_train", "X_valid", "y_valid")


def read_concepts(path: Path, sizes: Sizes) -> tuple[Part, Part, Part]:
    """The parts of a file of scores."""
    with naming(path, f"the arrays {', '.join(ARRAYS)}"), np.load(path) as file:
        X, labels, tested, tested_labels = (file[name] for name in ARRAYS)
    names, y = np.unique(labels, return_inverse=True)
    strange = np.setdiff1d(tested_labels, names)
    if len(strange):
        raise ValueError(f"{path}: y_valid has classes that y_train has not: {', '.join(map(str, strange[:5]))}")
    return split_pictures(X.astype(np.float32, copy=False), y, tested, np.searchsorted(names, tested_labels), sizes)


def split_pictures(
    X: np.ndarray, y: np.ndarray, tested: np.ndarray, tested_y: np.ndarray, sizes: Sizes
) -> tuple[Part, Part, Part]:
    """Some rows of the paper's training part to validate; what the paper validates on is the test (see `Sizes`)."""
    train, valid = draw(np.arange(len(y)), sizes.count_rows()[1], y, "classification")
    return take(X, y, train), take(X, y, valid), Part(tested.astype(np.float32, copy=False), tested_y)
