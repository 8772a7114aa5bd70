"""CoverType: which of seven kinds of trees stands on a patch of forest; 10 numbers and 44 columns of 0 and 1."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..real import covertype
from .source import File, Source
from .splits import Part, Sizes, split_shares
from .text import naming


def read(paths: Sequence[Path], sizes: Sizes) -> tuple[Part, Part, Part]:
    with naming(paths[0], "scikit-learn's cache of it"):
        data = covertype()
    return split_shares(data.X, data.y - 1, data.task)


def fetch(home: Path) -> object:
    from sklearn.datasets import fetch_covtype

    return fetch_covtype(data_home=home)


COVERTYPE = Source(
    "covertype", "CoverType", "classification", "minmax", Sizes(406_707, 58_102, 116_203, 54, 7), read,
    page="https://archive.ics.uci.edu/dataset/31/covertype",
    files=(File(("sklearn_home/covertype/samples_py3",)), File(("sklearn_home/covertype/targets_py3",))),
    advice="set SCIKIT_LEARN_DATA to the cache of scikit-learn that has it",
    fetch=fetch,
)  # fmt: skip
