"""The data sets of the paper, tab:datasets, with its splits and its preprocessing: `prepare(load("ca_housing"))`.

`load` returns raw columns, `prepare` the input of the paper's networks. The numbers of rows are the paper's; which rows
it drew is not published (`splits`). Files are in the folder NEURALBASIS_DATA, caches of scikit-learn also in
SCIKIT_LEARN_DATA. `python -m benchmarks.datasets.paper` lists the available sets and what to do about the others.
"""

from __future__ import annotations

from .ca_housing import CA_HOUSING
from .click import CLICK
from .common_objects import COMMON_OBJECTS
from .covertype import COVERTYPE
from .credit import CREDIT
from .cub import CUB
from .download import fetch as fetch_files
from .epsilon import EPSILON
from .fico import FICO
from .higgs import HIGGS
from .inaturalist import INATURALIST
from .microsoft import MICROSOFT
from .mimic2 import MIMIC2
from .newsgroups import NEWSGROUPS
from .prepare import prepare
from .quick import stand_in
from .source import File, Source
from .splits import Part, Sizes, Splits
from .yahoo import YAHOO
from .year import YEAR

__all__ = ["SETS", "File", "Part", "Sizes", "Source", "Splits", "fetch_files", "find_missing", "load", "prepare"]

# in the order of tab:datasets
SETS: dict[str, Source] = {
    source.key: source
    for source in (
        CA_HOUSING, FICO, COVERTYPE, NEWSGROUPS, MIMIC2, CREDIT, CLICK, EPSILON, HIGGS, MICROSOFT, YAHOO, YEAR,
        CUB, INATURALIST, COMMON_OBJECTS,
    )
}  # fmt: skip


def load(key: str, quick: bool = False, fetch: bool = False) -> Splits:
    """A set in raw columns and the paper's parts, or with `quick` a tiny generated table with such columns.

    Parameters
    ----------
    key : one of `SETS`
    quick : generate the rows, read no file
    fetch : download public files that are missing

    Examples
    --------
    >>> splits = load("fico", quick=True)
    >>> splits.train.X.shape, prepare(splits).train.X.shape
    ((400, 23), (400, 39))
    """
    source = get(key)
    if quick:
        return stand_in(source)
    if fetch:
        fetch_files(source)
    return source.load()


def find_missing(key: str) -> str | None:
    """Why a set is not available, with the file to place and its folder; None if it is."""
    return get(key).find_missing()


def get(key: str) -> Source:
    if key not in SETS:
        raise ValueError(f"a set of the paper must be one of {', '.join(SETS)}, got {key!r}")
    return SETS[key]
