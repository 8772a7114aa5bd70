"""Models, rows and expected results for all text exports, and readers that follow the rules of an export."""

from __future__ import annotations

import ast
import csv
import math
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from neuralbasis import AdditiveModel
from neuralbasis.encoding import Axis, Encoder, continuous_axis, lay_out, level_axis
from neuralbasis.export import to_python
from neuralbasis.model.shapes import Shape
from tests.models import MAX_KNOTS, all_terms, build_model, draw_numbers, name_columns, tie_model

N_ROWS = 10_000

NASTY = ["", "nan", "NULL", "O'Neil", '"quoted"', "back\\slash", "what??/", "100%d", "🙂 naïve", "a\nb", "A", "a", "1"]


def build_nasty(rng: np.random.Generator, n_outputs: int, link: str, classes: np.ndarray | None) -> AdditiveModel:
    """Names and levels that need quoting, levels that are numbers or booleans, and huge, tiny and single knots."""
    axes = (
        continuous_axis('select "x0" \\ from', rng.normal(size=30)),
        level_axis("it's 100%s\n-- 🙂;", "nominal", NASTY, rng.permutation(len(NASTY)) + 1.0),
        level_axis("data", "ordinal", ["-3", "0", "2.5", "3.0", "1e+20"], np.array([1.0, 5.0, 3.0, 2.0, 4.0])),
        level_axis("x1, y ??/", "nominal", ["0", "1"], np.ones(2)),
        continuous_axis("p0", np.array([-1.7e308, 1.6e308, 1.7e308])),
        continuous_axis("*/", np.array([2.0])),
        continuous_axis("0", np.array([-1.0, 0.0, 5e-324, 1e-300, 1.0])),
    )
    terms = [term for term in all_terms(7, (1, 2)) if term != (5,)] + [(0, 1, 2), (0, 1, 4)]
    return fill(rng, axes, terms, n_outputs, link, classes)


def fill(rng, axes: tuple[Axis, ...], terms, n_outputs=1, link="identity", classes=None) -> AdditiveModel:
    """A model of these terms with random tables."""
    layout = lay_out(axes, terms, MAX_KNOTS)
    shapes = []
    for index, term in enumerate(layout.terms):
        cells = layout.table_shape(index)
        scores = rng.normal(size=(*cells, n_outputs))
        shapes.append(Shape(term, layout.axes_of(index), scores, np.zeros_like(scores), np.ones(cells)))
    return AdditiveModel(Encoder(axes), rng.normal(size=n_outputs), tuple(shapes), link, classes, 1)


def draw_rows(rng: np.random.Generator, model: AdditiveModel, n_rows: int) -> dict[str, np.ndarray]:
    """Rows from `draw_numbers`. Columns whose levels are numbers hold numbers, one holds booleans."""
    is_huge = [axis.name == "p0" for axis in model.encoder.axes]  # its values are drawn small, then scaled
    axes = [
        replace(axis, knots=axis.knots.clip(-1, 1)) if huge else axis
        for axis, huge in zip(model.encoder.axes, is_huge, strict=True)
    ]
    table = name_columns(axes, draw_numbers(rng, axes, n_rows))
    for name, values in table.items():
        if name == "data":  # "3.0" is the text of no number: the number 3 is unseen
            table[name] = np.array([3.0 if v == "never seen" else np.nan if v is None else float(v) for v in values])
        elif name == "x1, y ??/":
            table[name] = np.array([None if v is None else v == "1" for v in values], dtype=object)
        elif name == "p0":
            table[name] = values * np.where(rng.random(n_rows) < 0.5, 1.0, 1.1e308)
    return table


CASES = {
    "regression": lambda rng: build_model(rng),
    "nasty": lambda rng: build_nasty(rng, 1, "identity", None),
    "two": lambda rng: build_nasty(rng, 1, "logit", np.array(["it's", 'a "yes"'])),
    "two, booleans": lambda rng: build_model(rng, orders=(1, 2), link="logit", classes=np.array([False, True])),
    "three": lambda rng: build_nasty(rng, 3, "mlogit", np.array(["no", "'maybe'", "yes 🙂"], dtype=object)),
    "tied": lambda rng: tie_model(
        rng, build_model(rng, orders=(1, 2, 3), n_outputs=3, link="mlogit", classes=np.array([1, 2, 5])), [0, 3, 7, 16]
    ),
    "intercept": lambda rng: AdditiveModel(build_model(rng).encoder, np.array([0.25]), (), "identity"),
}


MAIN_CASES = ("regression", "nasty", "two", "three")


class Case:
    """A model, rows, and their scores, probabilities and predictions."""

    def __init__(self, name: str, n_rows: int | None = None):
        n_rows = (N_ROWS if name in MAIN_CASES else 2000) if n_rows is None else n_rows
        rng = np.random.default_rng(sum(map(ord, name)))
        self.model = CASES[name](rng)
        self.table = draw_rows(rng, self.model, n_rows)
        self.scores = self.model.scores(self.table)
        self.predictions = self.model.predict(self.table)

    @property
    def rows(self) -> list[dict]:
        return [dict(zip(self.table, values, strict=True)) for values in zip(*self.table.values(), strict=True)]

    @property
    def results(self) -> np.ndarray:
        """The results besides the prediction, in the order of an export."""
        if self.model.classes is None:
            return np.empty((len(self.scores), 0))
        proba = self.model.predict_proba(self.table)
        return np.hstack([self.scores, proba[:, 1:] if self.model.link == "logit" else proba])

    def check(self, results: list, tolerance: float, read_label=lambda label: label) -> None:
        """Compare rows of results; the last of each row is the prediction."""
        assert len(results) == len(self.scores)
        if self.model.classes is None:
            np.testing.assert_allclose([float(row[-1]) for row in results], self.predictions, rtol=0, atol=tolerance)
            return
        found = np.array([list(map(float, row[:-1])) for row in results])
        np.testing.assert_allclose(found, self.results, rtol=0, atol=tolerance)
        assert [row[-1] for row in results] == [read_label(label) for label in self.predictions.tolist()]


def listed(case: Case) -> dict[str, list]:
    return {name: values.tolist() for name, values in case.table.items()}


def escape(name: str) -> str:
    return name.replace('"', '""')


def read_cell(axis: dict, value) -> list[tuple[int, float]]:
    """Cells and weights of a value, by the rule in the JSON file."""
    if value is None or value != value:
        return [(0, 1.0)]
    if "levels" in axis:
        if not isinstance(value, str):
            number = float(value)
            value = f"{number:.0f}" if number == round(number) and abs(number) < 1e15 else repr(number)
        return [(1 + axis["levels"].index(value) if value in axis["levels"] else 1 + len(axis["levels"]), 1.0)]
    knots = axis["knots"]
    if value <= knots[0]:
        return [(1, 1.0)]
    if value >= knots[-1]:
        return [(len(knots), 1.0)]
    i = sum(knot <= value for knot in knots)
    a, b = knots[i - 1], knots[i]
    s = (value - a) / (b - a) if b - a < math.inf else (value / 2 - a / 2) / (b / 2 - a / 2)
    return [(i, 1 - s), (i + 1, s)]


def read_json(tables: dict, row: dict) -> list[float]:
    """Scores of a row, by the rule in the JSON file."""
    scores = list(tables["intercept"])
    cells = [read_cell(axis, row[axis["column"]]) for axis in tables["axes"]]
    for term in tables["terms"]:
        for corner in product(*(cells[axis] for axis in term["axes"])):
            values = term["table"]
            for cell, _ in corner:
                values = values[cell]
            weight = math.prod(weight for _, weight in corner)
            scores = [score + weight * value for score, value in zip(scores, values, strict=True)]
    return scores


def load_program(model: AdditiveModel, coverage: float | None = None) -> dict:
    program = {"__name__": "program"}
    text = to_python(model, coverage=coverage)
    ast.parse(text, feature_version=(3, 8))
    exec(compile(text, "program", "exec"), program)
    return program


def write_csv(case: Case, path: Path) -> None:
    """Write the rows. A missing value is an empty cell; a number that is a level is written as the level."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["unused", *case.table])
        for values in zip(*listed(case).values(), strict=True):
            writer.writerow(["?", *("" if v is None or v != v else write_value(v) for v in values)])


def write_value(value) -> str:
    if isinstance(value, str):
        return value
    return str(int(value)) if abs(value) < 2**53 and float(value).is_integer() else repr(float(value))


def drop_empty_levels(case: Case) -> None:
    """Replace empty levels by missing values, as a CSV file cannot distinguish them."""
    for name, values in case.table.items():
        case.table[name] = np.where(values == "", None, values) if values.dtype == object else values
    case.scores, case.predictions = case.model.scores(case.table), case.model.predict(case.table)
