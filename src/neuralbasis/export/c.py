"""C: a model as one C99 file without dependencies: `program.c` with the arrays of the model filled in."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from ..encoding.axis import Axis
from .plain import (
    BOUNDS,
    PlainInterval,
    PlainModel,
    describe,
    name_results,
    read_level_number,
    refuse_nul,
    take_blocks,
    wrap,
    write_file,
)


def to_c(model: Any, path: str | os.PathLike | None = None, *, coverage: float | None = None) -> str | Path:
    """Write a model as one C99 file that needs only the standard library.

    The file has `model_scores(x, scores)`, `model_predict(x)`, `model_contributions(x, contributions)` and, for
    classes, `model_probabilities(scores, probabilities)`. x is an array of numbers in the order of `model_columns`;
    `model_level(column, text)` gives the number of a level. With ``-DMODEL_MAIN`` the file compiles to a command that
    reads rows as CSV and writes predictions.

    Parameters
    ----------
    model : AdditiveModel or fitted estimator
    path : where to write the file; None returns the text
    coverage : adds `model_interval(x, bounds)` to the file of a regression or of two classes, and the columns `lower`
        and `upper` to the results of the command, as `predict_interval` computes them; such as 0.9

    Returns
    -------
    The path of the written file; without a path, the text of the file, in ASCII.

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisRegressor
    >>> table = {"size": np.linspace(0, 1, 60), "colour": np.array(["red", "blue", "green"] * 20, dtype=object)}
    >>> model = NeuralBasisRegressor(max_steps=20, outer_bags=2).fit(table, table["size"])
    >>> text = to_c(model)
    >>> print(*[line for line in text.splitlines() if line.startswith("#define")], sep="\\n")
    #define MODEL_COLUMNS 2
    #define MODEL_OUTPUTS 1
    #define MODEL_CLASSES 0
    #define MODEL_AXES 2
    #define MODEL_RESULTS 1
    """
    plain = describe(model, coverage)
    refuse_nul(plain, "a text in C")
    template = resources.files(__package__).joinpath("program.c").read_text(encoding="utf-8")
    source = take_blocks(template, plain.interval is not None)
    return write_file(path, source.replace("/* MODEL */\n", _write_model(plain)))


def _write_model(plain: PlainModel) -> str:
    names = [column.name for column in plain.columns]
    results = name_results(plain)
    classes = [str(label) for label in plain.classes or ()]
    sizes = {  # at least 1: C has no empty arrays
        "MODEL_COLUMNS": max(1, len(names)),
        "MODEL_OUTPUTS": len(plain.intercept),
        "MODEL_CLASSES": len(classes),
        "MODEL_AXES": max(1, len(plain.axes)),
        "MODEL_RESULTS": len(results),
    }
    return "\n".join(
        [
            *(f"#define {name} {size}" for name, size in sizes.items()),
            "",
            f"const int model_n_columns = {len(names)}, model_n_terms = {len(plain.terms)};",
            f"static const int model_n_axes = {len(plain.axes)};",
            _array("const char *const model_columns", map(_quote, names)),
            _array("const char *const model_terms", (_quote(term.name) for term in plain.terms)),
            _array("const char *const model_classes", map(_quote, classes)),
            _array("const char *const model_results", map(_quote, results)),
            _array("static const double model_intercept", map(repr, plain.intercept)),
            *_write_levels(plain.columns),
            *_write_axes(plain),
            *_write_terms(plain),
            *_write_interval(plain.interval),
            "",
        ]
    )


def _write_levels(columns: Sequence[Axis]) -> list[str]:
    """Levels of each column sorted by their bytes, for a binary search with `strcmp`."""
    arrays = []
    for index, column in enumerate(columns):
        if column.levels is not None:
            items = []
            for code, level in sorted(enumerate(column.levels), key=lambda entry: entry[1].encode()):
                number = read_level_number(level)
                items.append(f"{{{_quote(level)}, {'NAN' if number is None else number}, {code}}}")
            arrays.append(_array(f"static const struct level levels_{index}", items))
    pointers = [f"levels_{index}" if column.is_level else "NULL" for index, column in enumerate(columns)]
    counts = [str(len(column.levels or ())) for column in columns]
    return [
        *arrays,
        _array("static const struct level *const model_levels", pointers),
        _array("static const long model_n_levels", counts),
    ]


def _write_axes(plain: PlainModel) -> list[str]:
    arrays, items = [], []
    for index, (axis, column) in enumerate(zip(plain.axes, plain.axis_column, strict=True)):
        arrays.append(_array(f"static const double knots_{index}", map(repr, axis.knots.tolist())))
        items.append(f"{{{column}, {int(axis.is_level)}, knots_{index}, {len(axis.knots)}}}")
    return [*arrays, _array("static const struct axis model_axes", items)]


def _write_terms(plain: PlainModel) -> list[str]:
    arrays, items = [], []
    for index, term in enumerate(plain.terms):
        strides = [stride * len(plain.intercept) for stride in term.strides]
        arrays += [
            _array(f"static const int axes_{index}", map(str, term.axes)),
            _array(f"static const long strides_{index}", map(str, strides)),
            _array(f"static const double table_{index}", map(repr, term.table.ravel().tolist())),
        ]
        items.append(f"{{{len(term.axes)}, axes_{index}, strides_{index}, table_{index}}}")
    return [*arrays, _array("static const struct term model_parts", items)]


def _write_interval(interval: PlainInterval | None) -> list[str]:
    """Regions of the score as an axis, and the quantiles of both bounds at its cells; cell 0 is for a score of NAN."""
    if interval is None:
        return []
    names = [f"static const double quantiles_{name}" for name in BOUNDS]
    return [
        f"#define MODEL_COVERAGE {interval.coverage!r}",
        _array("static const double centres", map(repr, interval.centres)),
        f"static const struct axis model_regions = {{0, 0, centres, {len(interval.centres)}}};",
        *(_array(name, ["NAN", *map(repr, own)]) for name, own in zip(names, interval.quantiles, strict=True)),
    ]


def _array(name: str, items: Iterable[str]) -> str:
    return f"{name}[] = {{\n{wrap(list(items) or ['0'])}\n}};"


def _quote(text: str) -> str:
    """A string literal. All but plain ASCII is written in octal, question marks too: they could form trigraphs.

    >>> _quote('a "b"?é')
    '"a \\\\042b\\\\042\\\\077\\\\303\\\\251"'
    """
    plain = set(b" !#$%&'()*+,-./:;<=>@[]^_`{|}~").union(range(48, 58), range(65, 91), range(97, 123))
    return '"' + "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in text.encode()) + '"'
