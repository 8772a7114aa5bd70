"""Credit: whether a card transaction is a fraud (492 of 284,807), from its time, amount and 28 anonymous numbers.

DIFF: NODE-GAM's folds come packed with its own copy of the file, and the paper does not state which it uses; ours are
drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..real import read_fraud
from .source import File, Source
from .splits import Part, Sizes, split_shares
from .text import naming


def read(paths: Sequence[Path], sizes: Sizes) -> tuple[Part, Part, Part]:
    (path,) = paths
    with naming(path, "Time, V1 … V28, Amount and Class"):
        data = read_fraud(path)
    return split_shares(data.X, data.y, data.task)


CREDIT = Source(
    "credit", "Credit", "classification", "gaussian", Sizes(199_364, 28_481, 56_962, 30, 2), read,
    page="https://www.kaggle.com/datasets/mlg-ulb/creditcardfraud",
    files=(
        File(
            ("credit/creditcard.csv", "credit/creditcard.parquet"),
            url="https://storage.googleapis.com/download.tensorflow.org/data/creditcard.csv",
            sha256={"credit/creditcard.parquet": "0cbf8d482a927e6d8b40038213d44664b11f41ed544dd9f695cebe7193de52c7"},
        ),
    ),
    advice="place Kaggle's creditcard.csv there",
)  # fmt: skip
