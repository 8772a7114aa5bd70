"""Wishes: what the options of `fit` say, read: names of columns, kinds of columns, parameters of the estimators.

Values are Python's where they can be read so (`3`, `None`, `(64, 32)`), otherwise text.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..encoding.axis import KINDS
from .failure import Failure, require_names

OWNED = {
    "feature_names": "the file's header",
    "feature_types": "--feature-types",
    "exclude": "--exclude",
    "verbose": "a terminal, which shows a bar",
    "callbacks": "the Python interface",
}


@dataclass(frozen=True)
class Wishes:
    """What `fit` is to do with a table.

    target, weights : names of columns
    task : "auto", "regression" or "classification"
    test_size : share of the rows that is held out
    refit : fit again on all rows?
    exclude : columns to leave out, and "a & b" for pairs that must not be in the model
    feature_types : column -> "continuous", "nominal", "ordinal" or a list of levels
    parameters : of the estimator
    resume : go on from checkpoints?
    """

    target: str
    task: str = "auto"
    test_size: float = 0.2
    refit: bool = False
    weights: str | None = None
    exclude: Sequence[str] = ()
    feature_types: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    resume: bool = False

    def choose_features(self, names: Sequence[str], place: str) -> list[str]:
        """The columns of the table that the model is to read."""
        require_names([self.target, *([self.weights] if self.weights else [])], names, place)
        dropped = {self.target, self.weights, *self.excluded_columns(names, place)}
        features = [name for name in names if name not in dropped]
        require_names(self.feature_types, features, f"{place} (less the target and what is excluded)")
        if not features:
            raise Failure(f"{place} has no column beside the target; a model needs at least one")
        return features

    def excluded_columns(self, names: Sequence[str], place: str) -> list[str]:
        """Single columns of `exclude`: they are not read at all."""
        excluded = [name for name in split_names(self.exclude, names) if " & " not in name or name in names]
        require_names(excluded, names, place)
        return excluded

    def excluded_terms(self, features: Sequence[str]) -> list[tuple[str, ...]]:
        """Pairs and triples of `exclude`."""
        return [tuple(text.split(" & ")) for text in split_names(self.exclude, features) if " & " in text]


def split_names(texts: Iterable[str], known: Collection[str] = ()) -> list[str]:
    """Names from options that may be repeated and may list several with commas.

    >>> split_names(["id,name", "size, mm"], known=["size, mm"])
    ['id', 'name', 'size, mm']
    """
    found = [[text] if text in known else [part.strip() for part in text.split(",")] for text in texts]
    return [name for part in found for name in part if name]


def read_pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """`name=value` texts; the last "=" parts them, so that a name may hold one."""
    found = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not equals or not name:
            raise Failure(f"{option} expects name=value, not {text!r}")
        found[name] = value
    return found


def read_feature_types(texts: Iterable[str]) -> dict[str, Any]:
    """
    >>> read_feature_types(["zip=nominal", "grade=low<high"])
    {'zip': 'nominal', 'grade': ['low', 'high']}
    """
    found: dict[str, Any] = {}
    for name, kind in read_pairs(texts, "--feature-types").items():
        if kind not in KINDS and "<" not in kind:
            raise Failure(f"--feature-types of {name!r} must be one of {', '.join(KINDS)} or low<high, not {kind!r}")
        found[name] = kind if kind in KINDS else kind.split("<")
    return found


def read_value(text: str) -> Any:
    """
    >>> read_value("0.5"), read_value("(64, 32)"), read_value("quantile")
    (0.5, (64, 32), 'quantile')
    """
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def read_interactions(text: str) -> Any:
    """
    >>> read_interactions("age & income, age & sex"), read_interactions("3x"), read_interactions("10")
    ([('age', 'income'), ('age', 'sex')], '3x', 10)
    """
    if "&" in text:
        return [tuple(name.strip() for name in term.split("&")) for term in text.split(",")]
    return read_value(text)


def read_settings(texts: Iterable[str], known: Collection[str]) -> dict[str, Any]:
    """Parameters of the estimators as `--set name=value` gives them."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise Failure(f"--set expects name=value, not {text!r}")
        if name in OWNED:
            raise Failure(f"--set {name}: that comes from {OWNED[name]}")
        require_names([name], known, "an estimator", what="parameter")
        found[name] = read_value(value)
    return found
