"""Options that commands share: click types and decorators, and the parsing and checking of their values.

Values of `fit` and `tune` are read as Python literals where possible (`3`, `None`, `(64, 32)`), otherwise as text.
"""

from __future__ import annotations

import ast
import codecs
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

import click

from ..encoding.axis import KINDS
from .errors import CommandError, require_names

if TYPE_CHECKING:
    from .tables import Dialect, OpenTable

TABLE = click.Path(exists=True, dir_okay=False, allow_dash=True)
MODEL = click.Path(exists=True, dir_okay=False)
FILE = click.Path(dir_okay=False, allow_dash=True)
OUTPUT = click.Path(dir_okay=False)
FOLDER = click.Path(file_okay=False)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
RESERVED = {  # parameters of the estimators that `--set` must not change -> what sets them
    "feature_names": "the file's header",
    "feature_types": "--feature-types",
    "exclude": "--exclude",
    "verbose": "the terminal: progress is shown only there",
    "callbacks": "the Python interface",
}


def group_options(*options: Callable) -> Callable:
    """One decorator for several options; `--help` lists them in this order."""
    return lambda command: reduce(lambda found, option: option(found), reversed(options), command)


FORCE = click.option("--force", is_flag=True, help="Replace an existing output.")
DROP_MISSING_TARGET = click.option("--drop-missing-target", is_flag=True, help="Leave out rows without a target.")


def _check_delimiter(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    text = "\t" if text in ("\\t", "tab") else text
    if text is not None and len(text) != 1:
        raise click.BadParameter(f"give one character, or tab, not {text!r}")
    return text


def _check_encoding(_context: click.Context, _option: click.Parameter, name: str) -> str:
    try:
        codecs.lookup(name)
    except LookupError as error:
        raise click.BadParameter(
            f"there is no encoding {name!r}; latin-1, cp1252 and utf-16 are frequent ones"
        ) from error
    return name


table_options = group_options(
    click.option(
        "--delimiter",
        metavar="CHARACTER",
        callback=_check_delimiter,
        help="Delimiter of a CSV file, or tab; detected by default.",
    ),
    click.option("--encoding", default="utf-8", callback=_check_encoding, help="Encoding of a CSV file."),
    click.option(
        "--missing", multiple=True, metavar="TEXT", help="Text or number to read as a missing value, such as '?'."
    ),
    click.option("--decimal", type=click.Choice([".", ","]), default=".", help="Decimal mark of a CSV file."),
)


def take_dialect(given: dict[str, Any]) -> Dialect:
    """Remove the `table_options` from the given options."""
    from .tables import Dialect

    return Dialect(**{name: given.pop(name) for name in ("delimiter", "encoding", "missing", "decimal")})


def open_table(path: str, given: dict[str, Any]) -> OpenTable:
    """Open a table until the command ends; removes the `table_options` from the given options."""
    from .tables import read_file

    file = click.get_current_context().with_resource(click.open_file(path, "rb"))
    return read_file(path, file, take_dialect(given))


def check_output(path: str, *inputs: str, force: bool = True) -> None:
    """The folder must exist, and the output must not be one of the inputs, nor exist without `--force`."""
    if path == "-":
        return
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise CommandError(f"the folder {folder!r} of the output does not exist; create it first")
    if any(os.path.exists(other) and os.path.realpath(other) == os.path.realpath(path) for other in inputs):
        raise CommandError(f"{path} is read and cannot be written in the same run; name another output")
    if os.path.isfile(path):
        check_new(path, "--output", force)


def check_new(path: str, option: str, force: bool) -> None:
    """The file must not exist, unless `--force` is given."""
    if os.path.exists(path) and not force:
        raise CommandError(f"{path} exists already; --force replaces it, {option} names another file")


@dataclass(frozen=True)
class FitOptions:
    """What to fit on a table, and how.

    test_size : share of the rows to hold out
    refit : whether to fit again on all rows
    exclude : columns to leave out, and "a & b" for pairs that the model must not contain
    feature_types : column -> "continuous", "nominal", "ordinal" or a list of levels
    parameters : parameters of the estimator
    drop_missing_target : whether rows without a target are left out instead of an error
    split_dates : whether dates become columns of their parts; otherwise they are left out
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
    drop_missing_target: bool = False
    split_dates: bool = False

    @property
    def seed(self) -> int:
        return self.parameters.get("random_state", 42)

    def choose_features(self, names: Sequence[str], place: str) -> list[str]:
        """Names of the columns that the model uses; `place` names the table in errors."""
        require_names([self.target, *([self.weights] if self.weights else [])], names, place)
        excluded = [name for name in split_names(self.exclude, names) if " & " not in name or name in names]
        require_names(excluded, names, place)
        features = [name for name in names if name not in {self.target, self.weights, *excluded}]
        require_names(self.feature_types, features, f"{place} (without the target and the excluded columns)")
        if not features:
            raise CommandError(f"{place} has no column beside the target; a model needs at least one")
        return features

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


def read_pairs(texts: Iterable[str], option: str, split: Callable = str.rpartition) -> dict[str, str]:
    """Parse `name=value` texts, by default at the last "=", since names of columns may contain one."""
    found = {}
    for text in texts:
        name, equals, value = split(text, "=")
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
    """Parse `--set name=value`; `known` are the parameters of the estimators and their settings."""
    found = read_pairs(texts, "--set", str.partition)
    for name in found:
        if name in RESERVED:
            raise CommandError(f"--set {name} is not possible: it is set by {RESERVED[name]}")
        require_names([name], known, "an estimator", what="parameter")
    return {name: read_value(value) for name, value in found.items()}
