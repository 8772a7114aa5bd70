"""Click: whether an advertisement is clicked, from 11 columns, 8 of them numbers of things: NODE's half million of each
class, drawn from the log of KDD Cup 2012, track 2.

click/click.csv has a header and begins lines with a row number; `target` is 1 for a click and -1 or 0 otherwise. The
other columns are impression, depth, position and the names in `LEVELS`. Its last 100,000 rows are the test.

DIFF: which 100,000 rows NODE validates on is not published; ours are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .source import File, Source
from .splits import Part, Sizes, split_last
from .text import naming

NUMBERS = ("impression", "depth", "position")
LEVELS = (
    "url_hash", "ad_id", "advertiser_id", "query_id", "keyword_id", "title_id", "description_id", "user_id",
)  # fmt: skip


def read(paths: Sequence[Path], sizes: Sizes) -> tuple[Part, Part, Part]:
    import pandas as pd

    (path,) = paths
    with naming(path, f"the columns target, {', '.join((*NUMBERS, *LEVELS))}"):
        table = pd.read_csv(path, index_col=0, dtype=dict.fromkeys(LEVELS, "category"))
        if set(table.columns) != {"target", *NUMBERS, *LEVELS} or table.isna().any(axis=None):
            raise ValueError(f"got {', '.join(table.columns)}, {int(table.isna().sum().sum())} values missing")
    clicked = (table.pop("target") == 1).to_numpy(dtype=int)
    return split_last(table, clicked, sizes)  # NODE does not stratify by class


CLICK = Source(
    "click", "Click", "classification", "gaussian", Sizes(800_000, 100_000, 100_000, 11, 2), read,
    page="https://www.kaggle.com/c/kddcup2012-track2",
    files=(File(("click/click.csv",), url="https://www.dropbox.com/s/w43ylgrl331svqc/click.csv?dl=1"),),
    advice="place NODE's click.csv (a million rows) there",
    n_columns=11,
    levels=dict.fromkeys(LEVELS, 12),
)  # fmt: skip
