"""Microsoft (MSLR-WEB10K, fold 1): how relevant a page is to a query, 0 to 4, from 136 numbers, in LETOR's format.

The rows of train.txt are trained and validated on, a query in one part only; test.txt is the test, vali.txt is not
used, as in NODE.

DIFF: NODE publishes which rows it validates on. Without these files, queries are drawn, and the parts may miss
the paper's sizes by less than a query.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .source import File, Source
from .splits import Part, Sizes, draw_queries, read_rows, take
from .text import read_svmlight

ARCHIVE = "microsoft/MSLR-WEB10K.zip"
USUAL_QUERY = 120  # rows


def read(paths: Sequence[Path], sizes: Sizes) -> tuple[Part, Part, Part]:
    path, *numbers = paths
    n_train, n_valid, n_test = sizes.count_rows()
    X, y, queries = read_svmlight(path, n_train + n_valid, sizes.n_features, "Fold1/train.txt")
    train, valid = read_rows(numbers, len(y)) or draw_queries(queries, n_valid)
    tested, tested_y, _ = read_svmlight(path, n_test, sizes.n_features, "Fold1/test.txt")
    return take(X, y, train), take(X, y, valid), Part(tested, tested_y)


MICROSOFT = Source(
    "microsoft", "Microsoft", "regression", "gaussian", Sizes(580_539, 142_873, 241_521, 136), read,
    page="https://www.microsoft.com/en-us/research/project/mslr/",
    files=(
        File(
            (ARCHIVE,),
            "https://api.onedrive.com/v1.0/shares/s!AtsMfWUz5l8nbOIoJ6Ks0bEMp78/root/content",
            {ARCHIVE: "2902142ea33f18c59414f654212de5063033b707d5c3939556124b1120d3a0ba"},
        ),
        File(("microsoft/train_idx.txt",), "https://www.dropbox.com/s/pba6dyibyogep46/train_idx.txt?dl=1",
             optional=True),
        File(("microsoft/valid_idx.txt",), "https://www.dropbox.com/s/yednqu9edgdd2l1/valid_idx.txt?dl=1",
             optional=True),
    ),
    advice="place MSLR-WEB10K.zip there",
    slack=USUAL_QUERY,
)  # fmt: skip
