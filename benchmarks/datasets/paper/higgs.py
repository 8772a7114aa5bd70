"""Higgs: whether a simulated collision makes Higgs bosons, from 28 numbers; UCI's file, whose last 500,000 rows are the
test.

DIFF: NODE publishes which rows it trains and validates on. Without these files, 2,100,000 rows are drawn.
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
    return split_last(table[:, 1:], table[:, 0].astype(int), sizes, numbers, "classification")


HIGGS = Source(
    "higgs", "Higgs", "classification", "gaussian", Sizes(8_400_000, 2_100_000, 500_000, 28, 2), read,
    page="https://archive.ics.uci.edu/dataset/280/higgs",
    files=(
        File(
            ("higgs/HIGGS.csv.gz", "higgs/HIGGS.csv"),
            "https://archive.ics.uci.edu/ml/machine-learning-databases/00280/HIGGS.csv.gz",
            {"higgs/HIGGS.csv.gz": "ea302c18164d4e3d916a1e2e83a9a8d07069fa6ebc7771e4c0540d54e593b698"},
        ),
        File(("higgs/train_idx.txt",), "https://www.dropbox.com/s/i2uekmwqnp9r4ix/stratified_train_idx.txt?dl=1",
             optional=True),
        File(("higgs/valid_idx.txt",), "https://www.dropbox.com/s/wkbk74orytmb2su/stratified_valid_idx.txt?dl=1",
             optional=True),
    ),
)  # fmt: skip
