"""Year (MSD): the year a song came out, from 90 numbers of its sound; UCI's file, whose last 51,630 rows are the test.

DIFF: NODE publishes which rows it trains and validates on. Without these files, 92,743 rows are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .source import File, Source
from .splits import Part, Sizes, split_last
from .text import read_table


def read(paths: Sequence[Path], sizes: Sizes) -> tuple[Part, Part, Part]:
    path, *numbers = paths
    table = read_table(path, sum(sizes.count_rows()), 1 + sizes.n_features)
    return split_last(table[:, 1:], table[:, 0].astype(float), sizes, numbers, "regression")


YEAR = Source(
    "year", "Year", "regression", "gaussian", Sizes(370_972, 92_743, 51_630, 90), read,
    page="https://archive.ics.uci.edu/dataset/203/yearpredictionmsd",
    files=(
        File(
            ("year/YearPredictionMSD.txt.zip", "year/YearPredictionMSD.txt"),
            "https://archive.ics.uci.edu/ml/machine-learning-databases/00203/YearPredictionMSD.txt.zip",
        ),
        File(("year/train_idx.txt",), "https://www.dropbox.com/s/00u6cnj9mthvzj1/stratified_train_idx.txt?dl=1",
             optional=True),
        File(("year/valid_idx.txt",), "https://www.dropbox.com/s/420uhjvjab1bt7k/stratified_valid_idx.txt?dl=1",
             optional=True),
    ),
)  # fmt: skip
