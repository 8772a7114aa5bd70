"""Epsilon: two classes from 2,000 normalised numbers, of the PASCAL challenge of 2008, in libsvm's format.

DIFF: NODE publishes which rows it trains and validates on. Without these files, 80,000 rows are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .source import File, Source
from .splits import Part, Sizes, draw, read_rows, take
from .text import read_svmlight

PAGE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"


def read(paths: Sequence[Path], sizes: Sizes) -> tuple[Part, Part, Part]:
    known, tested, *numbers = paths
    n_train, n_valid, n_test = sizes.count_rows()
    X, sign, _ = read_svmlight(known, n_train + n_valid, sizes.n_features)
    y = (sign > 0).astype(int)
    train, valid = read_rows(numbers, len(y)) or draw(np.arange(len(y)), n_valid, y, "classification")
    parts = take(X, y, train), take(X, y, valid)
    del X
    X, sign, _ = read_svmlight(tested, n_test, sizes.n_features)
    return *parts, Part(X, (sign > 0).astype(int))


EPSILON = Source(
    "epsilon", "Epsilon", "classification", "gaussian", Sizes(320_000, 80_000, 100_000, 2_000, 2), read,
    page=f"{PAGE}.html#epsilon",
    files=(
        File(("epsilon/epsilon_normalized.bz2", "epsilon/epsilon_normalized"), f"{PAGE}/epsilon_normalized.bz2"),
        File(("epsilon/epsilon_normalized.t.bz2", "epsilon/epsilon_normalized.t"), f"{PAGE}/epsilon_normalized.t.bz2"),
        File(("epsilon/train_idx.txt",), "https://www.dropbox.com/s/wxgm94gvm6d3xn5/stratified_train_idx.txt?dl=1",
             optional=True),
        File(("epsilon/valid_idx.txt",), "https://www.dropbox.com/s/fm4llo5uucdglti/stratified_valid_idx.txt?dl=1",
             optional=True),
    ),
)  # fmt: skip
