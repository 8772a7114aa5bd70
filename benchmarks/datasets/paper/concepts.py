"""Concept scores of images, as a concept extractor writes them, and the parts of an image set.

An npz file has the arrays X_train (N, D) and y_train (N,), X_valid and y_valid, none of which needs pickle: a score for
every image and concept, and the class of every image as a number or as text.
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
    unknown = np.setdiff1d(tested_labels, names)
    if len(unknown):
        raise ValueError(f"{path}: y_valid has classes that y_train does not have: {', '.join(map(str, unknown[:5]))}")
    return split_images(X.astype(np.float32, copy=False), y, tested, np.searchsorted(names, tested_labels), sizes)


def split_images(
    X: np.ndarray, y: np.ndarray, tested: np.ndarray, tested_y: np.ndarray, sizes: Sizes
) -> tuple[Part, Part, Part]:
    """Validation rows come from the paper's training part; its validation part is our test part (see `Sizes`)."""
    train, valid = draw(np.arange(len(y)), sizes.count_rows()[1], y, "classification")
    return take(X, y, train), take(X, y, valid), Part(tested.astype(np.float32, copy=False), tested_y)
