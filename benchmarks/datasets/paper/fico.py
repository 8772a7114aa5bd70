"""FICO (HELOC): whether a homeowner repays a line of credit, from 23 columns of a credit report; 1 is a bad risk.

Two columns hold codes of delinquency, whose 10 and 8 levels make the paper's 39 features. The codes -7, -8 and -9 of
the other columns stay as numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..real import read_heloc
from .source import File, Source
from .splits import Part, Sizes, split_shares
from .text import naming

LEVELS = {"MaxDelq2PublicRecLast12M": 10, "MaxDelqEver": 8}


def read(paths: Sequence[Path], sizes: Sizes) -> tuple[Part, Part, Part]:
    with naming(paths[0], "RiskPerformance and 23 columns of whole numbers"):
        X, y = read_rows()
    return split_shares(X, y, "classification")


def read_rows() -> tuple[Any, np.ndarray]:
    """All rows in raw columns, in the order of the file."""
    data = read_heloc()
    return data.X.astype(dict.fromkeys(LEVELS, "category")), data.y


FICO = Source(
    "fico", "FICO", "classification", "minmax", Sizes(7_321, 1_046, 2_092, 39, 2), read,
    page="https://community.fico.com/s/explainable-machine-learning-challenge",
    files=(
        File(
            ("fico_heloc/heloc_dataset_v1.csv",),
            sha256={
                "fico_heloc/heloc_dataset_v1.csv": "f66d77f4e4e27c11205ba6258008f5e071f1f09724f4893e9ff2840a4e99f259"
            },
        ),
    ),
    advice="accept the terms of the challenge, place heloc_dataset_v1.csv (10,459 rows) there",
    n_columns=23,
    levels=LEVELS,
)  # fmt: skip
