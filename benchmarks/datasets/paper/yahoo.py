"""Yahoo (learning to rank challenge, set 1): how relevant a page is to a query, 0 to 4, from 699 numbers.

The three files of the challenge are the three parts, in libsvm's format with a query: "2 qid:17 4:0.71 9:0.5 …".
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .source import File, Source
from .splits import Part, Sizes
from .text import read_svmlight


def read(paths: Sequence[Path], sizes: Sizes) -> tuple[Part, Part, Part]:
    def read_part(path: Path, n_rows: int) -> Part:
        X, y, _ = read_svmlight(path, n_rows, sizes.n_features)
        return Part(X, y)

    train, valid, test = (read_part(*pair) for pair in zip(paths, sizes.count_rows(), strict=True))
    return train, valid, test


YAHOO = Source(
    "yahoo", "Yahoo", "regression", "gaussian", Sizes(473_134, 71_083, 165_660, 699), read,
    page="https://webscope.sandbox.yahoo.com/catalog.php?datatype=c",
    files=tuple(File((f"yahoo/set1.{part}.txt", f"yahoo/set1.{part}.txt.gz")) for part in ("train", "valid", "test")),
    advice="ask Yahoo Webscope for C14B (for universities), unpack its set1 files there",
)  # fmt: skip
