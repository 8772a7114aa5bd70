"""20 Newsgroups: the group of a document, from the tf-idf of its words, sparse.

PAPER §4.1: the test documents are fixed; words are those of the documents to train on. The paper writes 85/15 for the
others, its sizes are 87.5/12.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..news import ARCHIVE, Documents, count_words, read_documents, split_documents
from ..real import CACHE
from .source import File, Source
from .splits import Part, Sizes
from .text import naming


def read(paths: Sequence[Path], sizes: Sizes) -> tuple[Part, Part, Part]:
    with naming(paths[0], "scikit-learn's cache of it"):
        return read_parts(quick=False)


def read_parts(quick: bool) -> tuple[Part, Part, Part]:
    """The three parts; with `quick` of generated documents."""
    train, valid = split_documents(read_documents("train", quick))
    test = read_documents("test", quick)
    others = Documents([*valid.texts, *test.texts], np.concatenate([valid.groups, test.groups]))
    data = count_words("Newsgroups", train, others).data
    names = np.unique(data.y)
    n_valid = len(valid.groups)
    X, y = data.test.X, np.searchsorted(names, data.test.y)
    return Part(data.X, np.searchsorted(names, data.y)), Part(X[:n_valid], y[:n_valid]), Part(X[n_valid:], y[n_valid:])


def fetch(home: Path) -> object:
    from sklearn.datasets import fetch_20newsgroups

    return fetch_20newsgroups(data_home=home, subset="all")


NEWSGROUPS = Source(
    "newsgroups", "Newsgroups", "classification", "none", Sizes(9_899, 1_415, 7_532, 146_016, 20), read,
    page="http://qwone.com/~jason/20Newsgroups/",
    files=(File((CACHE + ARCHIVE,)),),
    advice="set SCIKIT_LEARN_DATA to the cache of scikit-learn that has it",
    fetch=fetch,
)  # fmt: skip
