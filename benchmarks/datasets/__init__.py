"""Data sets by a short name.

    load("ca")               a real table; load("ca", quick=True) generates a tiny table like it
    load("jumps/3000")       a generated family with 3,000 rows
    load("heloc@800")        800 rows of a real table to train on, all others to test
    load("keel:pima")        a table of another package; also load("r:Boston")
    load("news")             documents by their words, sparse

The folder `paper` has the paper's sets with its splits. NEURALBASIS_DATA names the folder of real data sets; nothing is
downloaded without a request.
"""

from dataclasses import replace

from .dataset import Dataset, Truth
from .families import FAMILIES, generate
from .generated import smooth_table, stand_in
from .news import NEWS, find_missing_news
from .packaged import CHOOSING, JUDGING, TABLES, find_missing_package, load_packaged
from .planted import Planted, plant_pairs
from .real import LOADERS, data_folder, find_missing_file

__all__ = [
    "CHOOSING", "FAMILIES", "JUDGING", "LOADERS", "NEWS", "TABLES", "Dataset", "Planted", "Truth", "data_folder",
    "draw_rows", "find_missing", "find_missing_news", "generate", "is_drawn", "is_generated", "load", "plant_pairs",
    "smooth_table", "stand_in",
]  # fmt: skip


def is_generated(key: str) -> bool:
    """Whether a key is that of a generated problem, family/rows."""
    return "/" in key


def is_drawn(key: str) -> bool:
    """Whether a key is that of rows drawn from a real set, name@rows."""
    return "@" in key


def load(key: str, quick: bool = False, seed: int = 0) -> Dataset:
    """The data set of a key: of `LOADERS`, `TABLES` or `NEWS`, name@rows of the first two, or family/rows."""
    if is_generated(key):
        return generate(key, quick, seed)
    if key in NEWS:
        return NEWS[key](quick).data
    name, _, rows = key.partition("@")
    if name not in {**LOADERS, **TABLES} or (rows and not rows.isdecimal()):
        known = sorted([*LOADERS, *NEWS, *TABLES])
        raise ValueError(f"a data set is one of {known}, name@rows, or family/rows, not {key!r}")
    whole = _load_whole(name, quick)
    return draw_rows(whole, min(int(rows), len(whole.y) // 2), seed) if rows else whole


def find_missing(key: str) -> str | None:
    """Why a data set is not available; None if it is."""
    name = key.partition("@")[0]
    return find_missing_package(name) if name in TABLES else find_missing_file(name)


def draw_rows(data: Dataset, n_rows: int, seed: int) -> Dataset:
    """Draw `n_rows` training rows, stratified by class; all others are test rows, which gives a precise loss."""
    from sklearn.model_selection import train_test_split

    strata = None if data.task == "regression" else data.y
    parts = train_test_split(data.X, data.y, train_size=n_rows, random_state=seed, stratify=strata)
    X, others, y, others_y = parts
    return replace(data, X=X, y=y, test=replace(data, X=others, y=others_y))


def _load_whole(key: str, quick: bool) -> Dataset:
    if quick:
        return stand_in(key)
    problem = find_missing(key)
    if problem:
        raise FileNotFoundError(problem)
    return load_packaged(key) if key in TABLES else LOADERS[key]()
