"""Write a tiny model file of the present format and its predictions to this folder.

    python -m tests.formats.make

Run it after `serialization.model_file.FORMAT` was raised. Files of older formats stay as they are: they must remain
readable, and no code writes them any more.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from neuralbasis import AdditiveModel
from neuralbasis.encoding import Encoder
from neuralbasis.explain import Evidence
from neuralbasis.model.residuals import Residuals
from neuralbasis.model.shapes import make_shapes
from neuralbasis.model.summary import Summary
from neuralbasis.serialization.model_file import FORMAT
from tests.models import build_model, draw_numbers, name_columns, tie_model
from tests.sparse_tables import build_factors, draw_table, name_axis

FOLDER = Path(__file__).resolve().parent
SUMMARY = Summary(
    estimator="NeuralBasisClassifier",
    parameters={"interactions": [["x0", "x1"]], "hidden": [64, 32], "time_limit": None, "learning_rate": 0.02},
    n_rows=1234,
    n_columns=7,
    target="grade",
    shift=0.0,
    unit=1.0,
    validation=0.25,
    history={"stage": ["main effects"], "steps": [30], "validation": [0.25], "best": 0, "constant": None},
    date="2026-01-31T12:00:00+00:00",
    versions={"neuralbasis": "0.1.0", "python": "3.11.7", "numpy": "2.4.6"},
)


def make_model() -> AdditiveModel:
    """Every kind of column, pairs on coarser axes that drop levels, a term of tied classes, and factors.

    Some terms have measured importances or evidence, others have none. Every class has residuals.
    """
    rng = np.random.default_rng(5)
    model = build_model(
        rng, ("continuous", "nominal", "ordinal"), (1, 2), 3, "mlogit", np.array(["low", "mid", "high"])
    )
    tied = tie_model(rng, model, [4])
    words = np.concatenate([np.zeros((40, 3)), draw_table(7, n_columns=4)], axis=1)
    factors = [build_factors(words, [(f,) for f in range(3, 7)]), build_factors(words, [(3, 4), (6, 5)], order=2)]
    axes = [name_axis(factors[0].finder.axis, f"word_{f}") for f in range(3, 7)]
    encoder = Encoder((*tied.encoder.axes, *axes))
    first, *others = (shape.measure(rng.random(3)) for shape in (tied.shapes[0], tied.shapes[4]))
    second, third = (
        replace(shape, evidence=Evidence(*rng.random((3, 3)), rng.random(), partner, rng.random()))
        for shape, partner in zip(tied.shapes[1:3], ((0,), None), strict=True)
    )
    tables = (first, second, third, tied.shapes[3], *others, *tied.shapes[5:])
    factors[0] = replace(factors[0], sizes=rng.random((4, 3)))
    shapes = (*tables, *make_shapes(factors, encoder))
    residuals = tuple(
        Residuals.measure_shares(rng.normal(size=400), rng.random(400) < 0.3, np.ones(400)) for _ in range(3)
    )
    return AdditiveModel(encoder, tied.intercept, shapes, tied.link, tied.classes, 1, SUMMARY, residuals)


def make_rows(model: AdditiveModel, n_rows: int = 24) -> list[dict[str, float | str | None]]:
    """Rows of JSON values: between knots, on knots, out of range, missing, unseen levels."""
    axes = model.encoder.axes
    columns = name_columns(axes, draw_numbers(np.random.default_rng(6), axes, n_rows))
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return [{name: None if value != value else value for name, value in row.items()} for row in rows]


def main() -> None:
    path = FOLDER / f"format_{FORMAT}.nbm"
    if path.exists():
        raise SystemExit(f"{path.name} exists already: raise FORMAT before you write a file of another format")
    model = make_model()
    rows = make_rows(model)
    found = {"rows": rows, "scores": model.scores(rows).tolist(), "classes": model.predict(rows).tolist()}
    path.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    model.save(path)


if __name__ == "__main__":
    main()
