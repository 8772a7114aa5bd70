"""Python: a model as one file without dependencies: `program.py` with the tables of the model filled in."""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

from ..encoding.axis import Axis
from .plain import PlainInterval, PlainModel, PlainTerm, describe, take_blocks, wrap, write_file


def to_python(model: Any, path: str | os.PathLike | None = None, *, coverage: float | None = None) -> str | Path:
    """Write a model as one Python file that imports only the standard library of Python 3.8 or later.

    The file has `predict(row)`, `predict_many(rows)`, `probabilities(row)`, `scores(row)` and `contributions(row)`; a
    row is a mapping of column -> value. The file is also a command: ``python model.py rows.csv > predictions.csv``.

    Parameters
    ----------
    model : AdditiveModel or fitted estimator
    path : where to write the file; None returns the text
    coverage : adds `interval(row)` to the file of a regression or of two classes, and the columns `lower` and `upper`
        to the results of the command, as `predict_interval` computes them; such as 0.9

    Returns
    -------
    The path of the written file; without a path, the text of the file.

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisRegressor
    >>> table = {"size": np.linspace(0, 1, 60), "colour": np.array(["red", "blue", "green"] * 20, dtype=object)}
    >>> model = NeuralBasisRegressor(max_steps=20, outer_bags=2).fit(table, table["size"])
    >>> program = {"__name__": "program"}
    >>> exec(to_python(model), program)
    >>> prediction = program["predict"]({"size": 0.4, "colour": "red"})
    >>> bool(abs(prediction - model.predict({"size": [0.4], "colour": ["red"]})[0]) < 1e-12)
    True
    """
    plain = describe(model, coverage)
    template = resources.files(__package__).joinpath("program.py").read_text(encoding="utf-8")
    source = take_blocks(template, plain.interval is not None)
    head, _, rest = source.partition("LINK: str = ")
    _, _, tail = rest.partition("TERMS: list[tuple] = []\n")
    return write_file(path, head + _write_model(plain) + tail)


def _write_model(plain: PlainModel) -> str:
    return (
        f"LINK = {plain.link!r}\n"
        f"CLASSES = {plain.classes!r}\n"
        f"INTERCEPT = {plain.intercept!r}\n"
        f"{_write_interval(plain.interval)}"
        f"AXES = [\n{''.join(map(_write_axis, plain.axes))}]\n"
        f"TERMS = [\n{''.join(map(_write_term, plain.terms))}]\n"
    )


def _write_interval(interval: PlainInterval | None) -> str:
    if interval is None:
        return ""
    quantiles = "".join(f"    [\n{_wrap(own)}\n    ],\n" for own in interval.quantiles)
    return f"COVERAGE = {interval.coverage}\nCENTRES = {interval.centres}\nQUANTILES = [\n{quantiles}]\n"


def _write_axis(axis: Axis) -> str:
    if axis.levels is None:
        return f"    ({axis.name!r}, [\n{_wrap(axis.knots.tolist())}\n    ], None),\n"
    return f"    ({axis.name!r}, None, [\n{_wrap(axis.levels)}\n    ]),\n"


def _write_term(term: PlainTerm) -> str:
    table = _wrap(term.table.ravel().tolist())
    return f"    ({term.name!r}, {term.axes}, {term.strides}, [\n{table}\n    ]),\n"


def _wrap(values: Iterable[float | str]) -> str:
    return wrap([repr(value) for value in values], indent=" " * 8)
