"""Tiny generated tables with the columns of the paper's sets, for quick runs: `stand_in(source)`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import ndtr

from ..generated import draw_target
from . import newsgroups
from .common_objects import COMMON_OBJECTS
from .source import Source
from .splits import SEED, Part, Sizes, Splits

ROWS = (400, 100, 150)
MAX_CLASSES = 10
OBJECTS = Sizes(500, 150, None, 300, 20)  # fewer columns than the paper's, for speed


def stand_in(source: Source) -> Splits:
    """Generated splits like those of the source."""
    if source is COMMON_OBJECTS:
        parts = source.read((), OBJECTS)
    elif source.key == "newsgroups":
        parts = newsgroups.read_parts(quick=True)
    else:
        parts = draw_parts(source)
    return Splits(f"{source.title} (generated)", source.task, *parts, source.recipe)


def draw_parts(source: Source) -> tuple[Part, Part, Part]:
    """Normal numbers, and levels if the source has them."""
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(sum(ROWS), source.n_columns or source.sizes.n_features))
    y = draw_target(rng, X, min(source.sizes.n_classes, MAX_CLASSES))
    table = write_levels(X, source) if source.levels else X.astype(np.float32)
    starts = np.cumsum((0, *ROWS))
    train, valid, test = (Part(table[a:b], y[a:b]) for a, b in pairwise(starts))
    return train, valid, test


def write_levels(X: np.ndarray, source: Source) -> Any:
    """A frame whose last columns hold levels."""
    import pandas as pd

    n_numbers = X.shape[1] - len(source.levels)
    table = pd.DataFrame(X, columns=[*(f"x{column}" for column in range(n_numbers)), *source.levels])
    for name, n_levels in source.levels.items():
        codes = (n_levels * ndtr(table[name].to_numpy())).astype(int)
        table[name] = pd.Categorical.from_codes(codes, categories=range(n_levels))
    return table
