"""SQL: a model as one SELECT for SQLite or DuckDB.

    numbers   the columns as numbers, or as texts for levels     cells    where each stands on its axes, with shares
    tables    one row that holds all tables as constants         scores   look up, interpolate, sum

A cell is found by halving the knots and read by its index in a constant: no expression is deep, and a table of
thousands of cells costs no more than a small one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from itertools import pairwise, product
from typing import Any

from .plain import (
    Label,
    Plain,
    PlainAxis,
    PlainTerm,
    describe,
    name_outputs,
    read_level_number,
    refuse_nul,
    write_file,
)

Step = tuple[str, str, list[str], str]  # name, how it is made, what is selected, from where


def to_sql(
    model: Any,
    path: str | os.PathLike | None = None,
    table: str = "data",
    dialect: str = "sqlite",
    keep: Sequence[str] = (),
) -> str:
    """Write a model as one SELECT, with one row of results for each row of a table of raw columns.

    Results are `prediction` for a regression; `score`, `probability` (of the second class) and `prediction` for two
    classes; `score_<class>` and `probability_<class>` of every class and `prediction` for more. NULL and NaN are
    missing; a level may be stored as text, number or boolean. An infinite value, an error in `predict`, is read as the
    outermost knot.

    Parameters
    ----------
    model : AdditiveModel or fitted estimator
    path : where to write the text; None writes nothing
    table : name of the table or view that has the model's columns
    dialect : "sqlite" (3.35 or later, compiled with its mathematical functions for classes) or "duckdb"
    keep : columns of the table that come before the results, for example its key

    Returns
    -------
    The SELECT, without a semicolon: it can stand behind CREATE VIEW … AS as well.

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
    >>> base.close()
    """
    if dialect not in DIALECTS:
        raise ValueError(f"dialect must be one of {tuple(DIALECTS)}, not {dialect!r}")
    plain = describe(model)
    _check_names(plain, keep)
    return write_file(path, DIALECTS[dialect](plain, table, keep).write())


class _Select:
    """The SELECT in the making; what differs between dialects is left to the two classes below.

    Inside it, column c is xc (and nc, where a level is stored as a number). On axis a the row stands at the cell ia and
    has gone the share ua of the way to the next. Term t has the table tt, output k the score sk; kept columns are
    k0, k1, … until the end.
    """

    fence = "AS"
    greatest = "greatest"

    def __init__(self, plain: Plain, table: str, keep: Sequence[str]):
        self.plain, self.table, self.keep = plain, table, keep
        self.kept = [f"k{index}" for index in range(len(keep))]
        self.outputs = range(len(plain.intercept))
        self.numbers = [self.write_cells(term) for term in plain.terms]

    def to_number(self, value: str) -> str:
        raise NotImplementedError

    def level_number(self, value: str) -> str:
        """A level that is stored as a number, else NULL."""
        raise NotImplementedError

    def level_text(self, value: str) -> str:
        """A level that is stored as text, else NULL."""
        raise NotImplementedError

    def locate(self) -> list[Step]:
        """Steps from model_numbers to model_cells."""
        raise NotImplementedError

    def write_table(self, numbers: Sequence[str]) -> str:
        raise NotImplementedError

    def read_table(self, name: str, numbers: Sequence[str], index: str) -> str:
        """The number of that index, from 0 on."""
        raise NotImplementedError

    def write(self) -> str:
        steps = [
            ("model_numbers", "AS", self.read_columns(), f"{_name(self.table)} AS data"),
            *self.locate(),
            ("model_tables", "AS", self.write_tables(), ""),
            ("model_scores", self.fence, self.sum_terms(), "model_tables CROSS JOIN model_cells"),
            *self.weigh_classes(),
        ]
        if self.table.lower() in {name for name, *_ in steps}:
            raise ValueError(f"the SELECT itself uses the name {self.table!r}; give it a view of another name as table")
        written = ",\n".join(f"{name} {how} (\n{_select(items, source)}\n)" for name, how, items, source in steps)
        return f"WITH {written}\n{_select(self.write_results(), steps[-1][0])}\n"

    def read_columns(self) -> list[str]:
        items = [f"data.{_name(name)} AS {short}" for name, short in zip(self.keep, self.kept, strict=True)]
        for index, column in enumerate(self.plain.columns):
            value = f"data.{_name(column.name)}"
            if column.levels is None:
                items.append(f"{self.to_number(value)} AS x{index}")
            else:
                items.append(f"{self.level_text(value)} AS x{index}")
                items.append(f"{self.level_number(value)} AS n{index}")
        return items or ["1"]

    def write_tables(self) -> list[str]:
        return [f"{self.write_table(numbers)} AS t{index}" for index, numbers in enumerate(self.numbers)] or ["1"]

    def write_cells(self, term: PlainTerm) -> list[str]:
        """All numbers of a table, and zeros for cells behind it that are read with no weight."""
        behind = sum(stride for stride, _ in self.between(term))
        return [*map(_number, term.table.ravel().tolist()), *["0e0"] * (behind * len(self.outputs))]

    def between(self, term: PlainTerm) -> list[tuple[int, str]]:
        """Stride and share of the axes along which a term interpolates."""
        axes = zip(term.strides, term.axes, strict=True)
        return [(stride, f"u{axis}") for stride, axis in axes if self.plain.axes[axis].levels is None]

    def sum_terms(self) -> list[str]:
        items = list(self.kept)
        for output in self.outputs:
            parts = [_number(self.plain.intercept[output])]
            parts += [self.look_up(index, output) for index in range(len(self.plain.terms))]
            items.append(f"{_fold(parts, _add)} AS s{output}")
        return items

    def look_up(self, index: int, output: int) -> str:
        """One output of a term: its cells around the row, each by its weight."""
        term, between = self.plain.terms[index], self.between(self.plain.terms[index])
        cell = " + ".join(f"{stride} * i{axis}" for stride, axis in zip(term.strides, term.axes, strict=True))
        parts = []
        for corner in product((0, 1), repeat=len(between)):
            ahead = sum(stride for upper, (stride, _) in zip(corner, between, strict=True) if upper)
            where = f"{len(self.outputs)} * ({cell} + {ahead}) + {output}"
            value = self.read_table(f"t{index}", self.numbers[index], where)
            shares = [share if upper else f"(1 - {share})" for upper, (_, share) in zip(corner, between, strict=True)]
            parts.append(" * ".join([*shares, value]))
        return _fold(parts, _add)

    def weigh_classes(self) -> list[Step]:
        """Steps from scores to the odds of many classes: no exponential overflows beside the largest score."""
        if self.plain.link != "mlogit":
            return []
        scores = [f"s{output}" for output in self.outputs]
        top = _fold(scores, lambda left, right: f"{self.greatest}({left}, {right})")
        odds = [f"exp({score} - top) AS e{output}" for output, score in enumerate(scores)]
        return [
            ("model_tops", self.fence, [*self.kept, *scores, f"{top} AS top"], "model_scores"),
            ("model_odds", self.fence, [*self.kept, *scores, "top", *odds], "model_tops"),
        ]

    def write_results(self) -> list[str]:
        names = [*self.keep, *name_outputs(self.plain), "prediction"]
        items = [*self.kept, *self.write_outputs()]
        return [f"{item} AS {_name(name)}" for item, name in zip(items, names, strict=True)]

    def write_outputs(self) -> list[str]:
        classes = self.plain.classes
        if classes is None:
            return ["s0"]
        labels = [_label(label) for label in classes]
        if self.plain.link == "logit":
            probability = "CASE WHEN s0 >= 0 THEN 1e0 ELSE exp(s0) END / (1e0 + exp(-abs(s0)))"
            return ["s0", probability, f"CASE WHEN s0 > 0 THEN {labels[1]} ELSE {labels[0]} END"]
        total = _fold([f"e{output}" for output in self.outputs], _add)
        first = " ".join(f"WHEN s{output} = top THEN {labels[output]}" for output in self.outputs)
        shares = [f"e{output} / {total}" for output in self.outputs]
        return [*(f"s{output}" for output in self.outputs), *shares, f"CASE {first} END"]


class _SQLite(_Select):
    """SQLite: values have types, columns need not; a table is a text of cells of equal width, read as bytes.

    The CASE that finds a position is evaluated along one branch only: its ends compute the position themselves.
    """

    fence = "AS MATERIALIZED"  # SQLite would write an inner expression out wherever it is used
    greatest = "max"

    def to_number(self, value: str) -> str:
        return f"CAST(NULLIF({value}, '') AS REAL)"  # an empty cell of an imported CSV file is ''

    def level_number(self, value: str) -> str:
        return f"CASE WHEN typeof({value}) IN ('integer', 'real') THEN {value} END"

    def level_text(self, value: str) -> str:
        return f"CASE WHEN typeof({value}) = 'text' THEN {value} || '' END"  # no longer a column with its collation

    def locate(self) -> list[Step]:
        positions, cells = list(self.kept), list(self.kept)
        for index, axis in enumerate(self.plain.axes):
            positions.append(f"{_find_level(axis) if axis.levels else _find_position(axis)} AS p{index}")
            cells.append(f"CAST(p{index} AS INTEGER) AS i{index}")
            if axis.levels is None:
                cells.append(f"p{index} - CAST(p{index} AS INTEGER) AS u{index}")
        return [
            ("model_positions", self.fence, positions or ["1"], "model_numbers"),
            ("model_cells", "AS", cells or ["1"], "model_positions"),
        ]

    def write_table(self, numbers: Sequence[str]) -> str:
        width = max(map(len, numbers))
        return "CAST('" + "".join(number.ljust(width) for number in numbers) + "' AS BLOB)"

    def read_table(self, name: str, numbers: Sequence[str], index: str) -> str:
        width = max(map(len, numbers))
        return f"CAST(substr({name}, {width} * ({index}) + 1, {width}) AS REAL)"


class _DuckDB(_Select):
    """DuckDB: columns have types; a table is a list.

    A CASE of many branches would be evaluated for few rows at a time. Knots are lists as well, and each step halves
    what is left of all of them.
    """

    numeric = "regexp_matches(typeof({0}), '^(U?(TINY|SMALL|BIG|HUGE)?INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL.*|BOOLEAN)$')"

    def to_number(self, value: str) -> str:
        return f"NULLIF(CAST({value} AS DOUBLE), CAST('nan' AS DOUBLE))"

    def level_number(self, value: str) -> str:
        number = f"NULLIF(TRY_CAST({value} AS DOUBLE), CAST('nan' AS DOUBLE))"
        return f"CASE WHEN {self.numeric.format(value)} THEN {number} END"

    def level_text(self, value: str) -> str:
        return f"CASE WHEN NOT {self.numeric.format(value)} THEN CAST({value} AS VARCHAR) END"

    def locate(self) -> list[Step]:
        axes = [(index, axis) for index, axis in enumerate(self.plain.axes) if axis.levels is None]
        knots = [f"{self.write_table(list(map(_number, axis.knots)))} AS g{index}" for index, axis in axes]
        first = [f"{_find_level(axis) if axis.levels else 1} AS i{i}" for i, axis in enumerate(self.plain.axes)]
        steps: list[Step] = [
            ("model_knots", "AS", knots or ["1"], ""),
            ("model_search_0", "AS", ["*", *first], "model_knots CROSS JOIN model_numbers"),
        ]
        left = {index: len(axis.knots) - 1 for index, axis in axes}
        while max(left.values(), default=0) > 1:
            halves = [self.halve(index, axis.column, left[index]) for index, axis in axes if left[index] > 1]
            steps.append((f"model_search_{len(steps) - 1}", "AS", [f"* REPLACE ({', '.join(halves)})"], steps[-1][0]))
            left = {index: size - size // 2 for index, size in left.items()}
        cells = [item for index, axis in enumerate(self.plain.axes) for item in self.write_place(index, axis)]
        return [*steps, ("model_cells", "AS", [*self.kept, *cells] or ["1"], steps[-1][0])]

    def halve(self, index: int, column: int, size: int) -> str:
        ahead = f"i{index} + {size // 2}"
        return f"CASE WHEN g{index}[{ahead}] <= x{column} THEN {ahead} ELSE i{index} END AS i{index}"

    def write_place(self, index: int, axis: PlainAxis) -> list[str]:
        """Cell and share; outside the knots the share is cut off."""
        if axis.levels is not None:
            return [f"i{index}"]
        cell, value, knots = f"i{index}", f"x{axis.column}", f"g{index}"
        low, high = f"{knots}[{cell}]", f"{knots}[{cell} + 1]"
        if not all(math.isfinite(after - before) for before, after in pairwise(axis.knots)):  # see _write_pieces
            value, low, high = f"{value} / 2", f"{low} / 2", f"{high} / 2"
        share = f"least(greatest(({value} - {low}) / ({high} - {low}), 0e0), 1e0)" if len(axis.knots) > 1 else "0e0"
        is_missing = f"x{axis.column} IS NULL"
        return [
            f"CASE WHEN {is_missing} THEN 0 ELSE {cell} END AS {cell}",
            f"CASE WHEN {is_missing} THEN 0e0 ELSE {share} END AS u{index}",
        ]

    def write_table(self, numbers: Sequence[str]) -> str:
        return f"CAST('[{', '.join(numbers)}]' AS DOUBLE[])"  # planned many times as fast as a list of expressions

    def read_table(self, name: str, _numbers: Sequence[str], index: str) -> str:
        return f"{name}[{index} + 1]"


DIALECTS: dict[str, type[_Select]] = {"sqlite": _SQLite, "duckdb": _DuckDB}


def _find_position(axis: PlainAxis) -> str:
    """The CASE that finds where a number stands on an axis: its cell and the share of the way to the next."""
    value = f"x{axis.column}"
    pieces = ["1e0", *_write_pieces(value, axis.knots), f"{len(axis.knots)}e0"]
    return f"CASE WHEN {value} IS NULL THEN 0e0 ELSE {_search(value, list(map(_number, axis.knots)), pieces)} END"


def _find_level(axis: PlainAxis) -> str:
    """The CASE that finds the cell of a level, stored as a text or as a number."""
    assert axis.levels is not None
    value, number, unseen = f"x{axis.column}", f"n{axis.column}", str(axis.n_cells - 1)
    texts = sorted((level.encode(), str(1 + cell)) for cell, level in enumerate(axis.levels))
    by_text = _match(value, [(_text(level.decode()), cell) for level, cell in texts], unseen)
    read = [(read_level_number(level), str(1 + cell)) for cell, level in enumerate(axis.levels)]
    known = sorted((level, cell) for level, cell in read if level is not None)
    by_number = _match(number, [(_number(level), cell) for level, cell in known], unseen)
    return f"CASE WHEN {value} IS NOT NULL THEN {by_text} WHEN {number} IS NOT NULL THEN {by_number} ELSE 0 END"


def _write_pieces(value: str, knots: Sequence[float]) -> list[str]:
    """Position between each knot and the next."""
    pieces = []
    for index, (low, high) in enumerate(pairwise(knots)):
        if math.isfinite(high - low):
            way, width = f"({value} - {_number(low)})", high - low
        else:  # halves: the range of huge knots must not overflow
            way, width = f"({value} / 2 - {_number(low / 2)})", high / 2 - low / 2
        pieces.append(f"{index + 1} + {way} / {_number(width)}")
    return pieces


def _match(value: str, options: Sequence[tuple[str, str]], other: str) -> str:
    """The answer of the option that equals the value; options come in increasing order."""
    leaves = [f"CASE {value} WHEN {option} THEN {answer} ELSE {other} END" for option, answer in options]
    return _search(value, [option for option, _ in options[1:]], leaves) if leaves else other


def _search(value: str, cuts: Sequence[str], leaves: Sequence[str]) -> str:
    """The leaf before the first cut that is above the value, or the last leaf; one leaf more than cuts."""
    if not cuts:
        return leaves[0]
    middle = len(cuts) // 2
    below = _search(value, cuts[:middle], leaves[: middle + 1])
    above = _search(value, cuts[middle + 1 :], leaves[middle + 1 :])
    return f"CASE WHEN {value} < {cuts[middle]} THEN {below} ELSE {above} END"


def _fold(items: Sequence[str], join: Callable[[str, str], str]) -> str:
    """All items joined two by two, so that many of them do not make a deep expression."""
    if len(items) == 1:
        return items[0]
    middle = len(items) // 2
    return join(_fold(items[:middle], join), _fold(items[middle:], join))


def _add(left: str, right: str) -> str:
    return f"({left} + {right})"


def _select(items: Sequence[str], source: str) -> str:
    listed = ",\n".join(f"  {item}" for item in items)
    return f"SELECT\n{listed}" + (f"\nFROM {source}" if source else "")


def _number(value: float) -> str:
    """With an exponent: DuckDB would read 0.1 as a decimal number.

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


def _check_names(plain: Plain, keep: Sequence[str]) -> None:
    """SQL does not tell upper from lower case in names."""
    refuse_nul(plain, "a text in SQL")
    if isinstance(keep, str):
        raise ValueError(f"keep must be a list of columns, not the text {keep!r}")
    if clash := {name.lower() for name in keep} & {name.lower() for name in [*name_outputs(plain), "prediction"]}:
        raise ValueError(f"keep names columns that the SELECT itself writes: {sorted(clash)}; rename them in a view")
    seen: dict[str, str] = {}
    for column in plain.columns:
        if (other := seen.setdefault(column.name.lower(), column.name)) != column.name:
            raise ValueError(
                f"SQL cannot tell the columns {other!r} and {column.name!r} apart; rename one before fitting"
            )
