"""SQL: a model as one SELECT for SQLite or DuckDB. Its steps are common table expressions:

    model_numbers   columns as numbers, or as text for levels     model_cells    cells of each row, and their shares
    model_tables    one row with all tables as constants          model_scores   look up, interpolate, sum

A binary search finds the cell, and its index reads the table. So no expression is nested deeply, and a table of
thousands of cells costs no more than a small one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

from ..encoding.axis import Axis
from .plain import Label, PlainModel, PlainTerm, describe, name_results, read_level_number, refuse_nul, write_file


class Step(NamedTuple):
    """A common table expression: `name keyword (SELECT items FROM source)`."""

    name: str
    keyword: str
    items: list[str]
    source: str


def to_sql(
    model: Any,
    path: str | os.PathLike | None = None,
    table: str = "data",
    dialect: str = "sqlite",
    keep: Sequence[str] = (),
    coverage: float | None = None,
) -> str | Path:
    """Write a model as one SELECT that gives one row of results for each row of a table of raw columns.

    A regression has the result `prediction`; two classes have `score`, `probability` (of the second class) and
    `prediction`; more classes have `score_<class>` and `probability_<class>` for each, and `prediction`. NULL and NaN
    are missing. A level may be stored as text, number or boolean. An infinite value is read as the outermost knot,
    while `predict` raises an error.

    Parameters
    ----------
    model : AdditiveModel or fitted estimator
    path : where to write the text; None returns it
    table : name of the table or view that has the model's columns
    dialect : "sqlite" (3.35 or later; classes need its mathematical functions) or "duckdb"
    keep : columns of the table to return before the results, for example its key
    coverage : adds the results `lower` and `upper` of `predict_interval`, except for more than two classes; such as 0.9

    Returns
    -------
    The path of the written file; without a path, the SELECT, without a semicolon: it may follow CREATE VIEW … AS.

    Examples
    --------
    >>> import sqlite3
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisRegressor
    >>> table = {"size": np.linspace(0, 1, 60), "colour": np.array(["red", "blue", "green"] * 20, dtype=object)}
    >>> model = NeuralBasisRegressor(max_steps=20, outer_bags=2).fit(table, table["size"])
    >>> base = sqlite3.connect(":memory:")
    >>> _ = base.execute("CREATE TABLE data (id INTEGER, size REAL, colour TEXT)")
    >>> _ = base.execute("INSERT INTO data VALUES (7, 0.4, 'red')")
    >>> ((key, prediction),) = base.execute(to_sql(model, keep=["id"]))
    >>> key, bool(abs(prediction - model.predict({"size": [0.4], "colour": ["red"]})[0]) < 1e-12)
    (7, True)
    >>> ((_, lower, upper),) = base.execute(to_sql(model, coverage=0.9))
    >>> base.close()
    >>> np.allclose([[lower, upper]], model.predict_interval({"size": [0.4], "colour": ["red"]}), rtol=0, atol=1e-12)
    True
    """
    if dialect not in DIALECTS:
        raise ValueError(f"dialect must be one of {tuple(DIALECTS)}, not {dialect!r}")
    plain = describe(model, coverage)
    _check_names(plain, keep)
    return write_file(path, DIALECTS[dialect](plain, table, keep).write())


class _Select:
    """Builds the SELECT. Subclasses define what differs between dialects.

    Names of columns inside the SELECT: x0, x1, … the columns of the model (n0, … a level that is stored as a number);
    i0, … the cell of each axis and u0, … the share of the next cell; t0, … the table of each term; s0, … the score of
    each output; k0, … the kept columns, until the end.
    """

    materialized = "AS"
    greatest = "greatest"
    to_number: str  # of a value {0}, as the next two
    level_number: str  # the number if a level is stored as one, else NULL
    level_text: str  # the text if a level is stored as text, else NULL

    def __init__(self, plain: PlainModel, table: str, keep: Sequence[str]):
        self.plain, self.table, self.keep = plain, table, keep
        self.kept = [f"k{index}" for index in range(len(keep))]
        self.outputs = range(len(plain.intercept))
        self.tables = [self.write_cells(term) for term in plain.terms]

    def locate(self) -> list[Step]:
        """Steps from model_numbers to model_cells."""
        raise NotImplementedError

    def write_table(self, numbers: Sequence[str]) -> str:
        raise NotImplementedError

    def read_table(self, term: int, index: str) -> str:
        """The number at an index, which starts at 0."""
        raise NotImplementedError

    def write(self) -> str:
        tables = [f"{self.write_table(numbers)} AS t{index}" for index, numbers in enumerate(self.tables)]
        steps = [
            Step("model_numbers", "AS", self.read_columns(), f"{_name(self.table)} AS data"),
            *self.locate(),
            Step("model_tables", "AS", tables, ""),
            Step("model_scores", self.materialized, self.sum_terms(), "model_tables CROSS JOIN model_cells"),
            *self.exponentiate(),
        ]
        if self.table.lower() in {step.name for step in steps}:
            raise ValueError(f"the SELECT itself uses the name {self.table!r}; pass a view of another name as table")
        written = ",\n".join(f"{step.name} {step.keyword} (\n{_select(step.items, step.source)}\n)" for step in steps)
        names = [*self.keep, *name_results(self.plain)]
        items = zip([*self.kept, *self.write_outputs()], names, strict=True)
        return f"WITH {written}\n{_select([f'{item} AS {_name(name)}' for item, name in items], steps[-1].name)}\n"

    def read_columns(self) -> list[str]:
        items = [f"data.{_name(name)} AS {short}" for name, short in zip(self.keep, self.kept, strict=True)]
        for index, column in enumerate(self.plain.columns):
            value = f"data.{_name(column.name)}"
            if column.levels is None:
                items.append(f"{self.to_number.format(value)} AS x{index}")
            else:
                items.append(f"{self.level_text.format(value)} AS x{index}")
                items.append(f"{self.level_number.format(value)} AS n{index}")
        return items

    def write_cells(self, term: PlainTerm) -> list[str]:
        """All numbers of a table, and zeros for cells beyond it, which are read with weight 0."""
        beyond = sum(stride for stride, _ in self.interpolated_axes(term))
        return [*map(_number, term.table.ravel().tolist()), *["0e0"] * (beyond * len(self.outputs))]

    def interpolated_axes(self, term: PlainTerm) -> list[tuple[int, str]]:
        """Stride and share of the continuous axes of a term."""
        axes = zip(term.strides, term.axes, strict=True)
        return [(stride, f"u{axis}") for stride, axis in axes if self.plain.axes[axis].levels is None]

    def sum_terms(self) -> list[str]:
        items = list(self.kept)
        for output in self.outputs:
            parts = [_number(self.plain.intercept[output])]
            parts += [self.look_up(index, output) for index in range(len(self.plain.terms))]
            items.append(f"{_fold(parts)} AS s{output}")
        return items

    def look_up(self, index: int, output: int) -> str:
        """The contribution of a term to one output: the cells around the row, each times its weight."""
        term = self.plain.terms[index]
        continuous = self.interpolated_axes(term)
        cell = " + ".join(f"{stride} * i{axis}" for stride, axis in zip(term.strides, term.axes, strict=True))
        parts = []
        for corner in product((0, 1), repeat=len(continuous)):
            ahead = sum(upper * stride for upper, (stride, _) in zip(corner, continuous, strict=True))
            value = self.read_table(index, f"{len(self.outputs)} * ({cell} + {ahead}) + {output}")
            pairs = zip(corner, continuous, strict=True)
            weights = [share if upper else f"(1 - {share})" for upper, (_, share) in pairs]
            parts.append(" * ".join([*weights, value]))
        return _fold(parts)

    def exponentiate(self) -> list[Step]:
        """Steps from scores to exponentials for more than two classes, relative to the largest: none overflows."""
        if self.plain.link != "mlogit":
            return []
        scores = [f"s{output}" for output in self.outputs]
        top = _fold(scores, self.greatest + "({}, {})")
        odds = [f"exp({score} - top) AS e{output}" for output, score in enumerate(scores)]
        return [
            Step("model_tops", self.materialized, [*self.kept, *scores, f"{top} AS top"], "model_scores"),
            Step("model_odds", self.materialized, [*self.kept, *scores, "top", *odds], "model_tops"),
        ]

    def write_outputs(self) -> list[str]:
        classes = self.plain.classes
        if classes is None:
            return ["s0", *self.write_bounds()]
        labels = [_label(label) for label in classes]
        if self.plain.link == "logit":
            probability = "CASE WHEN s0 >= 0 THEN 1e0 ELSE exp(s0) END / (1e0 + exp(-abs(s0)))"
            label = f"CASE WHEN s0 > 0 THEN {labels[1]} ELSE {labels[0]} END"
            bounds = [f"1e0 / (1e0 + exp(-{self.greatest}({bound}, -7e2)))" for bound in self.write_bounds()]
            return ["s0", probability, label, *bounds]
        total = _fold([f"e{output}" for output in self.outputs])
        first = " ".join(f"WHEN s{output} = top THEN {labels[output]}" for output in self.outputs)
        shares = [f"e{output} / {total}" for output in self.outputs]
        return [*(f"s{output}" for output in self.outputs), *shares, f"CASE {first} END"]

    def write_bounds(self) -> list[str]:
        interval = self.plain.interval
        return [f"s0 + {_interpolate('s0', interval.centres, own)}" for own in interval.quantiles] if interval else []


class _SQLite(_Select):
    """SQLite: values have types, columns need none; a table is a text of cells of equal width, read as bytes.

    SQLite evaluates one branch of a CASE only, so the leaves of the search compute the position themselves.
    """

    materialized = "AS MATERIALIZED"  # otherwise SQLite repeats an inner expression wherever it is used
    greatest = "max"
    to_number = "CAST(NULLIF({0}, '') AS REAL)"  # an imported CSV file has '' for an empty cell
    level_number = "CASE WHEN typeof({0}) IN ('integer', 'real') THEN {0} END"
    level_text = "CASE WHEN typeof({0}) = 'text' THEN {0} || '' END"  # drops the collation of the column

    def locate(self) -> list[Step]:
        positions, cells = list(self.kept), list(self.kept)
        for index, axis in enumerate(self.plain.axes):
            find = _find_level if axis.is_level else _find_position
            positions.append(f"{find(axis, self.plain.axis_column[index])} AS p{index}")
            cells.append(f"CAST(p{index} AS INTEGER) AS i{index}")
            if axis.levels is None:
                cells.append(f"p{index} - CAST(p{index} AS INTEGER) AS u{index}")
        return [
            Step("model_positions", self.materialized, positions, "model_numbers"),
            Step("model_cells", "AS", cells, "model_positions"),
        ]

    def write_table(self, numbers: Sequence[str]) -> str:
        width = max(map(len, numbers))
        return "CAST('" + "".join(number.ljust(width) for number in numbers) + "' AS BLOB)"

    def read_table(self, term: int, index: str) -> str:
        width = max(map(len, self.tables[term]))
        return f"CAST(substr(t{term}, {width} * ({index}) + 1, {width}) AS REAL)"


class _DuckDB(_Select):
    """DuckDB: columns have types; a table is a list.

    DuckDB evaluates a CASE of many branches slowly. Knots are lists instead, and each step of the search halves the
    rest of every list.
    """

    is_numeric = (
        "regexp_matches(typeof({0}), '^(U?(TINY|SMALL|BIG|HUGE)?INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL.*|BOOLEAN)$')"
    )
    to_number = "NULLIF(CAST({0} AS DOUBLE), CAST('nan' AS DOUBLE))"
    level_number = f"CASE WHEN {is_numeric} THEN NULLIF(TRY_CAST({{0}} AS DOUBLE), CAST('nan' AS DOUBLE)) END"
    level_text = f"CASE WHEN NOT {is_numeric} THEN CAST({{0}} AS VARCHAR) END"

    def locate(self) -> list[Step]:
        axes = [(index, axis) for index, axis in enumerate(self.plain.axes) if axis.levels is None]
        knots = [f"{self.write_table(list(map(_number, axis.knots)))} AS g{index}" for index, axis in axes]
        starts = ["*"]
        for index, axis in enumerate(self.plain.axes):
            starts.append(f"{_find_level(axis, self.plain.axis_column[index]) if axis.is_level else 1} AS i{index}")
        steps = [
            Step("model_knots", "AS", knots, ""),
            Step("model_search_0", "AS", starts, "model_knots CROSS JOIN model_numbers"),
        ]
        left = {index: len(axis.knots) - 1 for index, axis in axes}
        while max(left.values(), default=0) > 1:
            halves = [self.halve(index, left[index]) for index, _ in axes if left[index] > 1]
            name, items = f"model_search_{len(steps) - 1}", [f"* REPLACE ({', '.join(halves)})"]
            steps.append(Step(name, "AS", items, steps[-1].name))
            left = {index: size - size // 2 for index, size in left.items()}
        cells = [item for index, axis in enumerate(self.plain.axes) for item in self.write_position(index, axis)]
        return [*steps, Step("model_cells", "AS", [*self.kept, *cells], steps[-1].name)]

    def halve(self, index: int, size: int) -> str:
        ahead, column = f"i{index} + {size // 2}", self.plain.axis_column[index]
        return f"CASE WHEN g{index}[{ahead}] <= x{column} THEN {ahead} ELSE i{index} END AS i{index}"

    def write_position(self, index: int, axis: Axis) -> list[str]:
        """Cell and share. Outside the knots, the share is clipped to [0, 1]."""
        if axis.levels is not None:
            return [f"i{index}"]
        cell, value, knots = f"i{index}", f"x{self.plain.axis_column[index]}", f"g{index}"
        is_missing = f"{value} IS NULL"
        low, high = f"{knots}[{cell}]", f"{knots}[{cell} + 1]"
        widths = [after - before for before, after in pairwise(axis.knots.tolist())]
        if not all(map(math.isfinite, widths)):  # see _find_position
            value, low, high = f"{value} / 2", f"{low} / 2", f"{high} / 2"
        share = f"least(greatest(({value} - {low}) / ({high} - {low}), 0e0), 1e0)" if len(axis.knots) > 1 else "0e0"
        return [
            f"CASE WHEN {is_missing} THEN 0 ELSE {cell} END AS {cell}",
            f"CASE WHEN {is_missing} THEN 0e0 ELSE {share} END AS u{index}",
        ]

    def write_table(self, numbers: Sequence[str]) -> str:
        return f"CAST('[{', '.join(numbers)}]' AS DOUBLE[])"  # DuckDB plans it much faster than a list of expressions

    def read_table(self, term: int, index: str) -> str:
        return f"t{term}[{index} + 1]"


DIALECTS: dict[str, type[_Select]] = {"sqlite": _SQLite, "duckdb": _DuckDB}


def _find_position(axis: Axis, column: int) -> str:
    """A CASE that computes cell + share of a number on an axis."""
    value, pieces = f"x{column}", ["1e0"]
    for cell, (low, high) in enumerate(pairwise(axis.knots.tolist()), 1):
        pieces.append(f"{cell} + {_find_share(value, low, high)}")
    pieces.append(f"{len(axis.knots)}e0")
    return f"CASE WHEN {value} IS NULL THEN 0e0 ELSE {_search(value, list(map(_number, axis.knots)), pieces)} END"


def _interpolate(value: str, knots: Sequence[float], heights: Sequence[float]) -> str:
    """A CASE that is linear between the heights at the knots and constant outside."""
    pieces = [_number(heights[0])]
    for (low, high), (start, end) in zip(pairwise(knots), pairwise(heights), strict=True):
        share = _find_share(value, low, high)
        pieces.append(f"(1 - {share}) * {_number(start)} + {share} * {_number(end)}")
    return _search(value, list(map(_number, knots)), [*pieces, _number(heights[-1])])


def _find_share(value: str, low: float, high: float) -> str:
    """The position of a value between two knots, from 0 to 1."""
    if math.isfinite(high - low):
        return f"({value} - {_number(low)}) / {_number(high - low)}"
    # halved: the difference of huge knots would overflow
    return f"({value} / 2 - {_number(low / 2)}) / {_number(high / 2 - low / 2)}"


def _find_level(axis: Axis, column: int) -> str:
    """A CASE that finds the cell of a level, stored as text or as a number."""
    assert axis.levels is not None
    value, number, unseen = f"x{column}", f"n{column}", str(axis.n_cells - 1)
    cells = list(enumerate(axis.levels, 1))
    texts = sorted(cells, key=lambda item: item[1].encode())
    by_text = _match(value, [(_text(level), str(cell)) for cell, level in texts], unseen)
    numbers = sorted((read, cell) for cell, level in cells if (read := read_level_number(level)) is not None)
    by_number = _match(number, [(_number(read), str(cell)) for read, cell in numbers], unseen)
    return f"CASE WHEN {value} IS NOT NULL THEN {by_text} WHEN {number} IS NOT NULL THEN {by_number} ELSE 0 END"


def _match(value: str, options: Sequence[tuple[str, str]], other: str) -> str:
    """The result of the option that equals the value, else `other`. Options are (value, result), increasing."""
    leaves = [f"CASE {value} WHEN {option} THEN {result} ELSE {other} END" for option, result in options]
    return _search(value, [option for option, _ in options[1:]], leaves) if leaves else other


def _search(value: str, cuts: Sequence[str], leaves: Sequence[str]) -> str:
    """A binary search: the leaf before the first cut above the value, or the last leaf. One leaf more than cuts."""
    if not cuts:
        return leaves[0]
    middle = len(cuts) // 2
    below = _search(value, cuts[:middle], leaves[: middle + 1])
    above = _search(value, cuts[middle + 1 :], leaves[middle + 1 :])
    return f"CASE WHEN {value} < {cuts[middle]} THEN {below} ELSE {above} END"


def _fold(items: Sequence[str], join: str = "({} + {})") -> str:
    """Join all items pairwise, which nests the expression to the logarithm of their number only."""
    if len(items) == 1:
        return items[0]
    middle = len(items) // 2
    return join.format(_fold(items[:middle], join), _fold(items[middle:], join))


def _select(items: Sequence[str], source: str) -> str:
    listed = ",\n".join(f"  {item}" for item in items or ["1"])
    return f"SELECT\n{listed}" + (f"\nFROM {source}" if source else "")


def _number(value: float) -> str:
    """A floating-point literal. It has an exponent: DuckDB reads 0.1 as a DECIMAL.

    >>> _number(0.1), _number(1e-05)
    ('0.1e0', '1e-05')
    """
    written = repr(float(value))
    return written if "e" in written else f"{written}e0"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _name(value: str) -> str:
    return '"' + value.replace('"', '""') + '"'


def _label(value: Label) -> str:
    if isinstance(value, str):
        return _text(value)
    return str(value).upper() if isinstance(value, (bool, int)) else _number(value)


def _check_names(plain: PlainModel, keep: Sequence[str]) -> None:
    """Refuse names that clash in SQL, which ignores case."""
    refuse_nul(plain, "a text in SQL")
    if isinstance(keep, str):
        raise ValueError(f"keep must be a list of columns, not the text {keep!r}; pass [{keep!r}]")
    if clash := {name.lower() for name in keep} & {name.lower() for name in name_results(plain)}:
        raise ValueError(f"keep names columns that the SELECT itself writes: {sorted(clash)}; rename them in a view")
    seen: dict[str, str] = {}
    for column in plain.columns:
        if (other := seen.setdefault(column.name.lower(), column.name)) != column.name:
            raise ValueError(
                f"SQL ignores case: the columns {other!r} and {column.name!r} would be one; rename one before fitting"
            )
