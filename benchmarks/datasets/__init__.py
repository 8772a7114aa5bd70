"""Data sets by a short name: `load("ca")` reads a real one, `load("ca", quick=True)` makes a tiny table like it,
`load("jumps/3000")` generates one of a family with so many rows.

The folder of real data sets is the environment variable NEURALBASIS_DATA; nothing is downloaded.
"""

from .dataset import Dataset, Truth
from .families import FAMILIES, generate
from .generated import smooth_table, stand_in
from .planted import Planted, plant_pairs
from .real import LOADERS, data_folder, find_missing

__all__ = [
    "FAMILIES", "LOADERS", "Dataset", "Planted", "Truth", "data_folder", "find_missing", "generate", "is_generated",
    "load", "plant_pairs", "smooth_table", "stand_in",
]  # fmt: skip


def is_generated(key: str) -> bool:
    """Is this the name of a generated problem, family/rows?"""
    return "/" in key


def load(key: str, quick: bool = False, seed: int = 0) -> Dataset:
    """The data set of this short name: one of `LOADERS`, or one of `FAMILIES` with its rows, which the seed draws."""
    if is_generated(key):
        return generate(key, quick, seed)
    if key not in LOADERS:
        raise ValueError(f"a data set is one of {sorted(LOADERS)}, or family/rows, not {key!r}")
    if quick:
        return stand_in(key)
    problem = find_missing(key)
    if problem:
        raise FileNotFoundError(problem)
    return LOADERS[key]()
