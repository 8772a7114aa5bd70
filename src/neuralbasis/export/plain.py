"""Plain model: columns, axes and tables as lists, the common input of all text exports.

In: an AdditiveModel, or an estimator with one as `model_`. Out: the columns that terms use, the axes of these columns,
each once, and one table per term. A column without terms is not exported.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..data.columns import level_text
from ..encoding.axis import Axis
from ..model.additive_model import AdditiveModel, find_model
from ..model.residuals import require_residuals
from ..serialization.temporary_file import replace_when_done

MAX_NUMBERS = 10_000_000
BOUNDS = ("lower", "upper")  # names of the results
Label = bool | int | float | str


@dataclass(frozen=True, eq=False)
class PlainTerm:
    """A term's name, the indices of its axes, and its table (c_1, …, c_o, K).

    strides : distance in cells of two neighbours along each axis
    """

    name: str
    axes: list[int]
    strides: list[int]
    table: np.ndarray


@dataclass(frozen=True, eq=False)
class PlainInterval:
    """Prediction intervals of one coverage: a bound is the score plus a quantile, linear between the centres.

    centres : (R,) score of each region, increasing; quantiles are constant outside
    quantiles : quantiles (R,) of the residuals for each bound of `BOUNDS`
    is_probability : whether the logistic function is applied to each bound, for two classes
    """

    coverage: float
    centres: list[float]
    quantiles: list[list[float]]
    is_probability: bool


@dataclass(frozen=True, eq=False)
class PlainModel:
    """A whole model.

    columns : the own axis of each column, with its name and all its levels
    axes : the axes of the terms: those of the columns, or coarser ones that keep some of the knots or levels
    axis_column : index of the column of each axis
    classes : None for a regression
    interval : None unless it is requested
    """

    columns: list[Axis]
    axes: list[Axis]
    axis_column: list[int]
    terms: list[PlainTerm]
    intercept: list[float]
    link: str
    classes: list[Label] | None
    interval: PlainInterval | None = None


def find_exportable(model: Any) -> AdditiveModel:
    """The AdditiveModel itself, or that of a fitted estimator. Refuses models whose tables are too large to export."""
    found = find_model(model)
    count = found.n_outputs * sum(math.prod(axis.n_cells for axis in shape.axes) for shape in found.shapes)
    if count > MAX_NUMBERS:
        raise ValueError(
            f"the tables of the model's {len(found.shapes):,} terms hold {count:,} numbers, and an export writes at "
            f"most {MAX_NUMBERS:,}; use save, whose file stores shared bases once, or fit fewer terms: max_terms=1000"
        )
    return found


def find_interval(model: AdditiveModel, coverage: float | None) -> PlainInterval | None:
    """The intervals of `predict_interval`; None without a coverage."""
    if coverage is None:
        return None
    if model.n_outputs > 1:
        raise ValueError(f"exports compute intervals of one output, not of {model.n_outputs}; use predict_interval")
    require_residuals(model.residuals)
    (residuals,) = model.residuals
    residuals.interval(residuals.centres, coverage)  # raises if the coverage is wrong
    found = residuals.read(np.array([(1 - coverage) / 2, (1 + coverage) / 2]))
    return PlainInterval(float(coverage), residuals.centres.tolist(), found.T.tolist(), model.link == "logit")


def describe(model: Any, coverage: float | None = None) -> PlainModel:
    """The plain form of an AdditiveModel or of a fitted estimator."""
    found = find_exportable(model)
    if found.link == "identity" and found.n_outputs > 1:
        raise ValueError(f"this export writes regressions of one output, but the model has {found.n_outputs}")
    used = sorted({feature for term in found.terms for feature in term})
    features = {axis: feature for shape in found.shapes for feature, axis in zip(shape.term, shape.axes, strict=True)}
    index_of = {axis: index for index, axis in enumerate(features)}
    labels = None if found.classes is None else [x if isinstance(x, Label) else str(x) for x in found.classes.tolist()]
    terms = []
    for name, shape in zip(found.term_names, found.shapes, strict=True):
        cells = [axis.n_cells for axis in shape.axes]
        strides = [math.prod(cells[d + 1 :]) for d in range(len(cells))]
        terms.append(PlainTerm(name, [index_of[axis] for axis in shape.axes], strides, shape.scores))
    return PlainModel(
        columns=[found.encoder.axes[feature] for feature in used],
        axes=list(features),
        axis_column=np.searchsorted(used, list(features.values())).tolist(),
        terms=terms,
        intercept=found.intercept.tolist(),
        link=found.link,
        classes=labels,
        interval=find_interval(found, coverage),
    )


def read_level_number(level: str) -> float | None:
    """The number whose text is this level, if there is one.

    >>> read_level_number("3"), read_level_number("2.5"), read_level_number("3.0"), read_level_number("red")
    (3.0, 2.5, None, None)
    """
    try:
        number = float(level)
    except ValueError:
        return None
    return number if np.isfinite(number) and level_text(number) == level else None


def name_results(plain: PlainModel) -> list[str]:
    """Names of the results: scores and probabilities of classes, the prediction, the bounds of an interval.

    >>> name_results(PlainModel([], [], [], [], [0.0], "logit", ["no", "yes"]))
    ['score', 'probability', 'prediction']
    """
    bounds = BOUNDS if plain.interval else ()
    if plain.classes is None:
        return ["prediction", *bounds]
    if plain.link == "logit":
        return ["score", "probability", "prediction", *bounds]
    return [*(f"{what}_{label}" for what in ("score", "probability") for label in plain.classes), "prediction"]


def refuse_nul(plain: PlainModel, what: str) -> None:
    """Refuse names and levels with the character NUL, which ends a text in the language of the export."""
    for column in plain.columns:
        if any("\0" in text for text in (column.name, *(column.levels or ()))):
            raise ValueError(
                f"column {column.name!r} has a name or a level with the character NUL, which {what} cannot hold; "
                "rename it before fitting"
            )


def wrap(items: Sequence[str], indent: str = "    ", width: int = 116) -> str:
    """Items, each followed by a comma, in lines of at most that width.

    >>> print(wrap(["1.0", "2.5", "-3.0"], width=12))
        1.0, 2.5,
        -3.0,
    """
    lines, line = [], indent
    for item in items:
        if len(line) + len(item) + 1 > width and line != indent:
            lines.append(line.rstrip())
            line = indent
        line += f"{item}, "
    return "\n".join([*lines, line.rstrip()])


def take_blocks(source: str, has_interval: bool) -> str:
    """A template with or without the lines between "[interval" and "interval]", and without these two lines.

    >>> take_blocks("a\\n# [interval\\nb\\n# interval]\\nc\\n", has_interval=False)
    'a\\nc\\n'
    """
    lines, is_taken = [], True
    for line in source.splitlines(keepends=True):
        if "[interval" in line or "interval]" in line:
            is_taken = has_interval or "interval]" in line
        elif is_taken:
            lines.append(line)
    return "".join(lines)


def write_file(path: str | os.PathLike | None, text: str) -> str | Path:
    """The text, or the path of the file after writing it."""
    if path is None:
        return text
    with replace_when_done(path) as file:
        file.write(text.encode("utf-8"))
    return Path(path)
