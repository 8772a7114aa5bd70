"""20 Newsgroups: tf-idf of the words of a document as a sparse matrix; the target is its newsgroup.

PAPER appendix: case-sensitive words, 9,899 documents to fit, 1,415 to validate, 7,532 to test, 146,016 words.
scikit-learn's fetcher with seed 0 gives the same numbers if an eighth of every group of its training documents is held
out with seed 0. The archive is read from sklearn_home of the data folder or from scikit-learn's own cache
(SCIKIT_LEARN_DATA); nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .dataset import Dataset
from .real import CACHE, find_file

ARCHIVE = "20news-bydate_py3.pkz"
VALIDATION_SIZE = 0.125


@dataclass(frozen=True, eq=False)
class Documents:
    """Texts and their groups."""

    texts: Sequence[str]
    groups: np.ndarray

    def take(self, rows: np.ndarray) -> Documents:
        return Documents([self.texts[row] for row in rows], self.groups[rows])


@dataclass(frozen=True, eq=False)
class News:
    """Documents as a sparse matrix, with test documents, and the words of its columns."""

    data: Dataset
    words: np.ndarray


def find_archive() -> Path | None:
    """The first archive that exists, or None."""
    return find_file(CACHE + ARCHIVE)


def find_missing_news() -> str | None:
    """Why the documents are not available; None if they are."""
    if find_archive() is not None:
        return None
    return (
        f"{ARCHIVE} not found: set NEURALBASIS_DATA to the folder whose sklearn_home holds it, or SCIKIT_LEARN_DATA "
        "to the folder where sklearn.datasets.fetch_20newsgroups has put it"
    )


def read_documents(subset: str, quick: bool = False) -> Documents:
    """All documents of "train" or "test"."""
    if quick:
        return make_documents(600 if subset == "train" else 200, seed=len(subset))
    from sklearn.datasets import fetch_20newsgroups

    archive = find_archive()
    if archive is None:
        raise FileNotFoundError(find_missing_news())
    found = fetch_20newsgroups(data_home=archive.parent, subset=subset, random_state=0, download_if_missing=False)
    return Documents(found.data, np.array(found.target_names)[found.target])


def make_documents(n_documents: int, seed: int, n_groups: int = 20) -> Documents:
    """Generated documents: each has common words and words of its own group."""
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.arange(n_documents) % n_groups)
    texts = []
    for group in groups:
        common, own = rng.geometric(0.003, 30), rng.geometric(0.3, 6)
        texts.append(" ".join([*(f"Word{word}" for word in common), *(f"group{group}word{word}" for word in own)]))
    return Documents(texts, np.array([f"group{group}" for group in groups]))


def split_documents(documents: Documents) -> tuple[Documents, Documents]:
    """The paper's training and validation parts."""
    from sklearn.model_selection import train_test_split

    rows = np.arange(len(documents.groups))
    fit, rest = train_test_split(rows, test_size=VALIDATION_SIZE, stratify=documents.groups, random_state=0)
    return documents.take(fit), documents.take(rest)


def count_words(name: str, train: Documents, test: Documents) -> News:
    """tf-idf of both parts with the vocabulary of the first."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(lowercase=False)
    X = vectorizer.fit_transform(train.texts)
    tested = Dataset(name, vectorizer.transform(test.texts), test.groups, "classification")
    return News(Dataset(name, X, train.groups, "classification", tested), vectorizer.get_feature_names_out())


def news_split(quick: bool = False) -> News:
    """The paper's 9,899 training documents and all test documents."""
    train, _ = split_documents(read_documents("train", quick))
    return count_words("Newsgroups, the paper's split", train, read_documents("test", quick))


def news_validation(quick: bool = False) -> News:
    """The same training documents with the 1,415 validation documents as test, for choosing hyperparameters."""
    return count_words("Newsgroups, validation", *split_documents(read_documents("train", quick)))


def news_whole(quick: bool = False) -> News:
    """All 11,314 training documents."""
    return count_words("Newsgroups, whole", read_documents("train", quick), read_documents("test", quick))


NEWS: dict[str, Callable[[bool], News]] = {
    "news": news_split,
    "news_validation": news_validation,
    "news_whole": news_whole,
}
