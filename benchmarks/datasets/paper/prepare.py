"""The paper's preprocessing: raw parts -> numbers, (N, D) float32 or CSR, by the recipe of the set.

    minmax      levels one-hot, then all columns to [0, 1]
    gaussian    levels -> mean target of their rows, then all columns: quantiles -> normal, 2,000 quantiles
    none        sparse matrices are unchanged

DIFF: everything is fitted on the training rows; the published code fits its scalers on all rows. Values beyond the
range of the training rows are clipped. A table is copied once and then changed in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .splits import SEED, Part, Splits, count_features

N_QUANTILES = 2_000
SAMPLE_ROWS = 100_000  # rows for the quantiles: scikit-learn's default when the paper was written
NOISE = 1e-3  # relative to the deviation
BLOCK_CELLS = 20_000_000  # values that are scaled together

Tables = Sequence[np.ndarray]  # of the three parts


def prepare(splits: Splits) -> Splits:
    """The splits as numbers for a network.

    >>> train, test = Part(np.array([[0.0], [4.0]]), np.zeros(2)), Part(np.array([[1.0], [9.0]]), np.zeros(2))
    >>> prepare(Splits("two rows", "regression", train, test, test, "minmax")).test.X.tolist()
    [[0.25], [1.0]]
    """
    if splits.recipe == "none":
        return _replace_tables(splits, [part.X.astype(np.float32) for part in splits.parts])
    tables = write_numbers(splits)
    width = max(1, BLOCK_CELLS // len(tables[0]))
    for start in range(0, tables[0].shape[1], width):
        SCALES[splits.recipe]([table[:, start : start + width] for table in tables])
    return _replace_tables(splits, tables)


def _replace_tables(splits: Splits, tables: Sequence[Any]) -> Splits:
    train, valid, test = (Part(X, part.y) for X, part in zip(tables, splits.parts, strict=True))
    return replace(splits, train=train, valid=valid, test=test)


def write_numbers(splits: Splits) -> Tables:
    """Tables of float32; levels become numbers."""
    if not hasattr(splits.train.X, "columns"):
        tables = [np.array(part.X, np.float32) for part in splits.parts]
        names = range(tables[0].shape[1])
    else:
        n_features = count_features(splits.train.X, splits.recipe)
        tables = [np.empty((len(part.y), n_features), np.float32) for part in splits.parts]
        names = _fill(tables, splits)
    for table in tables:
        for number, name in enumerate(names):
            if not np.isfinite(table[:, number]).all():
                raise ValueError(f"{splits.name}: column {name} has missing or infinite values, expected numbers")
    return tables


def _fill(tables: Tables, splits: Splits) -> list[str]:
    """Write the columns of frames to tables; returns the name of each column."""
    names: list[str] = []
    for name in splits.train.X.columns:
        columns = [part.X[name] for part in splits.parts]
        if columns[0].dtype != "category":
            written = [column.to_numpy()[:, None] for column in columns]
        elif splits.recipe == "minmax":
            written = write_one_hot(columns)
        else:
            written = write_means(columns, splits.train.y)
        start, stop = len(names), len(names) + written[0].shape[1]
        for table, values in zip(tables, written, strict=True):
            table[:, start:stop] = values
        names += [name] * (stop - start)
    return names


def write_one_hot(columns: Sequence[Any]) -> list[np.ndarray]:
    """One column per level of the dtype, also for levels without training rows."""
    numbers = np.arange(len(columns[0].cat.categories))
    return [column.cat.codes.to_numpy()[:, None] == numbers for column in columns]


def write_means(columns: Sequence[Any], y: np.ndarray) -> list[np.ndarray]:
    """Mean target of a level's training rows; levels with fewer than two rows get the overall mean.

    DIFF: NODE's encoder could leave out a row's own target and add noise; NODE uses neither.
    """
    codes = [column.cat.codes.to_numpy() for column in columns]
    n_levels = len(columns[0].cat.categories)
    known = codes[0] >= 0
    counts = np.bincount(codes[0][known], minlength=n_levels)
    sums = np.bincount(codes[0][known], weights=y[known], minlength=n_levels)
    means = np.where(counts > 1, sums / np.maximum(counts, 1), y.mean())
    means = np.append(means, y.mean())  # the code of a missing level is -1
    return [means[own][:, None] for own in codes]


def scale_minmax(tables: Tables) -> None:
    """PAPER §4.1: to [0, 1]."""
    low, high = tables[0].min(axis=0), tables[0].max(axis=0)
    width = np.where(high > low, high - low, 1)
    for table in tables:
        table -= low
        table /= width
        np.clip(table, 0, 1, out=table)


def scale_gaussian(tables: Tables) -> None:
    """PAPER §4.1, after NODE-GAM. Columns that are constant in the training rows become 0.

    Noise on the sample keeps a frequent value in the middle of its ranks. Without it the smallest and the largest value
    would map to the ends of the normal distribution, and the two values of a binary column would be 10 apart.
    DIFF: NODE-GAM also adds noise, of another size for each set.
    """
    from sklearn.preprocessing import QuantileTransformer

    sample = draw_sample(tables[0])
    scaler = QuantileTransformer(
        n_quantiles=min(N_QUANTILES, len(sample)), output_distribution="normal", subsample=None, random_state=SEED
    ).fit(sample)
    is_constant = tables[0].min(axis=0) == tables[0].max(axis=0)
    for table in tables:
        table[:] = scaler.transform(table)
        table[:, is_constant] = 0


def draw_sample(train: np.ndarray) -> np.ndarray:
    """A sample of rows with noise."""
    rng = np.random.default_rng(SEED)
    if len(train) > SAMPLE_ROWS:
        train = train[np.sort(rng.choice(len(train), SAMPLE_ROWS, replace=False))]
    deviation = train.std(axis=0, dtype=float)
    return train + NOISE * deviation * rng.normal(size=train.shape)


SCALES = {"minmax": scale_minmax, "gaussian": scale_gaussian}
