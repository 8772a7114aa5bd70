"""Options that commands share, and the parsing of their values.

The first half holds click types and decorators for options of several commands. The second half turns the texts of the
options of `fit` and `tune` into a `FitOptions` record. Values are read as Python literals where possible (`3`, `None`,
`(64, 32)`), otherwise as text.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from ..encoding.axis import KINDS
from .errors import CommandError, require_names

if TYPE_CHECKING:
    from .tables import CsvTable, Dialect, ParquetTable

TABLE = click.Path(exists=True, dir_okay=False, allow_dash=True)
MODEL = click.Path(exists=True, dir_okay=False)
FILE = click.Path(dir_okay=False, allow_dash=True)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
RESERVED = {  # parameters of the estimators that `--set` must not change -> what sets them
    "feature_names": "the file's header",
    "feature_types": "--feature-types",
    "exclude": "--exclude",
    "verbose": "the terminal: progress is shown only there",
    "callbacks": "the Python interface",
}


def table_options(command: Callable) -> Callable:
    """Options for the format of a CSV file, for every command that reads one."""
    for option in (
        click.option("--missing", multiple=True, metavar="TEXT", help="Text to read as a missing value, such as '?'."),
        click.option("--encoding", default="utf-8", help="Encoding of a CSV file."),
        click.option("--delimiter", metavar="CHARACTER", help="Delimiter of a CSV file; detected by default."),
    ):
        command = option(command)
    return command


def take_dialect(given: dict[str, Any]) -> Dialect:
    """Remove the `table_options` from the given options."""
    from .tables import Dialect

    return Dialect(**{name: given.pop(name) for name in ("delimiter", "encoding", "missing")})


def open_table(path: str, given: dict[str, Any]) -> CsvTable | ParquetTable:
    """Open a table until the command ends; removes the `table_options` from the given options."""
    from .tables import read_file

    file = click.get_current_context().with_resource(click.open_file(path, "rb"))
    return read_file(path, file, take_dialect(given))


@dataclass(frozen=True)
class FitOptions:
    """What to fit on a table, and how.

    target, weights : names of columns
    task : "auto", "regression" or "classification"
    test_size : share of the rows to hold out
    refit : whether to fit again on all rows
    exclude : columns to leave out, and "a & b" for pairs that the model must not contain
    feature_types : column -> "continuous", "nominal", "ordinal" or a list of levels
    parameters : parameters of the estimator
    resume : whether to continue from checkpoints
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
        """Names of the columns that the model uses; `place` names the table in errors."""
        require_names([self.target, *([self.weights] if self.weights else [])], names, place)
        dropped = {self.target, self.weights, *self.excluded_columns(names, place)}
        features = [name for name in names if name not in dropped]
        require_names(self.feature_types, features, f"{place} (without the target and the excluded columns)")
        if not features:
            raise CommandError(f"{place} has no column beside the target; a model needs at least one")
        return features

    def excluded_columns(self, names: Sequence[str], place: str) -> list[str]:
        """Single columns in `exclude`; they are not read."""
        excluded = [name for name in split_names(self.exclude, names) if " & " not in name or name in names]
        require_names(excluded, names, place)
        return excluded

    def excluded_terms(self, features: Sequence[str]) -> list[tuple[str, ...]]:
        """Pairs and triples in `exclude`."""
        return [tuple(text.split(" & ")) for text in split_names(self.exclude, features) if " & " in text]


def split_names(texts: Iterable[str], known: Collection[str] = ()) -> list[str]:
    """Split comma-separated names of a repeatable option; a known name may contain commas.

    >>> split_names(["id,name", "size, mm"], known=["size, mm"])
    ['id', 'name', 'size, mm']
    """
    found = [[text] if text in known else [part.strip() for part in text.split(",")] for text in texts]
    return [name for part in found for name in part if name]


def read_pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """Parse `name=value` texts at their last "=", since names may contain one."""
    found = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not equals or not name:
            raise CommandError(f"{option} expects name=value, not {text!r}")
        found[name] = value
    return found


def read_feature_types(texts: Iterable[str]) -> dict[str, Any]:
    """Parse `--feature-types`.

    >>> read_feature_types(["zip=nominal", "grade=low<high"])
    {'zip': 'nominal', 'grade': ['low', 'high']}
    """
    found: dict[str, Any] = {}
    for name, kind in read_pairs(texts, "--feature-types").items():
        if kind not in KINDS and "<" not in kind:
            raise CommandError(
                f"--feature-types of {name!r} must be one of {', '.join(KINDS)} or low<high, not {kind!r}"
            )
        found[name] = kind if kind in KINDS else kind.split("<")
    return found


def read_value(text: str) -> Any:
    """Parse a Python literal, or keep the text.

    >>> read_value("0.5"), read_value("(64, 32)"), read_value("quantile")
    (0.5, (64, 32), 'quantile')
    """
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def read_interactions(text: str) -> Any:
    """Parse `--interactions`.

    >>> read_interactions("age & income, age & sex"), read_interactions("3x"), read_interactions("10")
    ([('age', 'income'), ('age', 'sex')], '3x', 10)
    """
    if "&" in text:
        return [tuple(name.strip() for name in term.split("&")) for term in text.split(",")]
    return read_value(text)


def read_settings(texts: Iterable[str], known: Collection[str]) -> dict[str, Any]:
    """Parse `--set name=value`; `known` are the parameters of the estimators."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise CommandError(f"--set expects name=value, not {text!r}")
        if name in RESERVED:
            raise CommandError(f"--set {name} is not possible: it is set by {RESERVED[name]}")
        require_names([name], known, "an estimator", what="parameter")
        found[name] = read_value(value)
    return found
