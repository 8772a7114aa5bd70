"""Data sets by a short name: `load("ca")` reads a real one, `load("ca", quick=True)` makes a tiny table like it.

The folder of real data sets is the environment variable NEURALBASIS_DATA; nothing is downloaded.
"""

from .dataset import Dataset
from .generated import smooth_table, stand_in
from .planted import Planted, plant_pairs
from .real import LOADERS, data_folder, find_missing

__all__ = [
    "LOADERS", "Dataset", "Planted", "data_folder", "find_missing", "load", "plant_pairs", "smooth_table", "stand_in",
]  # fmt: skip


def load(key: str, quick: bool = False) -> Dataset:
    """The data set of this short name, one of `LOADERS`."""
    if quick:
        return stand_in(key)
    problem = find_missing(key)
    if problem:
        raise FileNotFoundError(problem)
    return LOADERS[key]()
