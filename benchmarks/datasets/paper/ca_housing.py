"""CA Housing: the median house value of Californian districts, in 100,000 dollars, from 8 numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..real import ca_housing
from .source import File, Source
from .splits import Part, Sizes, split_shares
from .text import naming


def read(paths: Sequence[Path], sizes: Sizes) -> tuple[Part, Part, Part]:
    with naming(paths[0], "scikit-learn's cache of it"):
        data = ca_housing()
    return split_shares(data.X, data.y, data.task)


def fetch(home: Path) -> object:
    from sklearn.datasets import fetch_california_housing

    return fetch_california_housing(data_home=home)


CA_HOUSING = Source(
    "ca_housing", "CA Housing", "regression", "minmax", Sizes(14_447, 2_065, 4_128, 8), read,
    page="https://scikit-learn.org/stable/datasets/real_world.html",
    files=(File(("sklearn_home/cal_housing_py3.pkz",)),),
    advice="set SCIKIT_LEARN_DATA to the cache of scikit-learn that has it",
    fetch=fetch,
)  # fmt: skip
