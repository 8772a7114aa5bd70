"""JSON: the tables of a model, with the rule of prediction as text at the top of the file."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..model.additive_model import AdditiveModel, find_model
from ..model.shapes import AnyShape
from ..terms.term import term_name
from .plain import describe, write_file

FORMAT = "neuralbasis tables 1"
RULE = (
    "score = intercept + the sum of the contributions of all terms; all are lists of one number per output.",
    "A term has axes (indices from 0), each for one column, and a table, indexed by one cell per axis: table[i][j].",
    "Along an axis, cell 0 is for a missing value, cells 1 to n for its n knots or levels, n + 1 for any other level.",
    "Axis with levels: the cell is 1 + the index of the level whose text equals the value exactly; n + 1 if none does.",
    "A number is compared as text: 3.0 as '3', 2.5 as '2.5' (fewest digits that read back); true is '1', false '0'.",
    "Axis with knots: x at or below the first knot is cell 1, at or above the last is cell n.",
    "Otherwise, with consecutive knots a <= x < b and a at cell i: read cells i and i + 1, and",
    "weigh them 1 - s and s, where s = (x - a) / (b - a). If b - a overflows, halve x, a and b first.",
    "A term of several such axes reads all combinations of their cells, weighed by the products of the weights.",
    "Infinite values are an error.",
    "link identity: prediction = score.",
    "link logit: probability of the second class = 1 / (1 + exp(-score)); predicted if the score is above 0.",
    "link mlogit: probability of class k = exp(score k) / sum over all classes of exp(score); the largest score wins, "
    "the first of equal ones.",
)

EVIDENCE = (
    "evidence of a term is null if the fit did not compute it: the model is wide, tied, merged, updated or too large.",
    "standard_errors: of the numbers in the table, in the same order. A band of table - 1.96 * standard_errors to",
    "table + 1.96 * standard_errors contains a value of the curve with 95 % confidence.",
    "multipliers: with this number in place of 1.96, the band contains the whole curve with 95 % confidence.",
    "p_values: chance of as strong an effect if the term had none. All lists have one number per output.",
    "importances: mean absolute contribution over the training rows; importance_errors: their standard errors.",
    "concurvity: share of the term that all other terms together could express, from 0 to 1.",
    "partner: the term of one column that could express most of it, or null; partner_concurvity: this share.",
)


def to_json(model: Any, path: str | os.PathLike | None = None) -> str | Path:
    """Write a model as JSON: the rule of prediction as text, and the tables for it.

    Parameters
    ----------
    model : AdditiveModel or fitted estimator
    path : where to write the file; None returns the text

    Returns
    -------
    The path of the written file; without a path, the text of the file. Numbers read back exactly.

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisRegressor
    >>> table = {"size": np.linspace(0, 1, 60), "colour": np.array(["red", "blue", "green"] * 20, dtype=object)}
    >>> model = NeuralBasisRegressor(max_steps=20, outer_bags=2).fit(table, table["size"])
    >>> found = json.loads(to_json(model))
    >>> found["columns"], found["link"], found["axes"][1]
    (['size', 'colour'], 'identity', {'column': 'colour', 'levels': ['blue', 'green', 'red']})
    >>> cells = found["terms"][1]["table"]  # missing, blue, green, red, unseen
    >>> np.array_equal(cells, model.model_.shapes[1].scores)
    True
    """
    plain = describe(model)
    axes = [
        {"column": axis.name} | ({"knots": axis.knots.tolist()} if axis.levels is None else {"levels": axis.levels})
        for axis in plain.axes
    ]
    found = find_model(model)
    terms = [
        {
            "name": term.name,
            "axes": term.axes,
            "table": term.table.tolist(),
            "evidence": _describe_evidence(found, shape),
        }
        for term, shape in zip(plain.terms, found.shapes, strict=True)
    ]
    entries = {
        "format": _write(FORMAT),
        "rule": _write_list(RULE),
        "link": _write(plain.link),
        "classes": _write(plain.classes),
        "intercept": _write(plain.intercept),
        "columns": _write([column.name for column in plain.columns]),
        "axes": _write_list(axes),
        "terms": _write_list(terms),
        "evidence": _write_list(EVIDENCE),
        "residuals": _write(_describe_residuals(found)),
    }
    text = ",\n".join(f'  "{key}": {value}' for key, value in entries.items())
    return write_file(path, f"{{\n{text}\n}}\n")


def _describe_evidence(model: AdditiveModel, shape: AnyShape) -> dict[str, Any] | None:
    found = shape.evidence
    if found is None:
        return None
    return {
        "standard_errors": shape.spread.tolist(),
        "p_values": found.p_values.tolist(),
        "multipliers": found.multipliers.tolist(),
        "importances": shape.importances.tolist(),
        "importance_errors": found.importance_errors.tolist(),
        "concurvity": found.concurvity,
        "partner": None if found.partner is None else term_name(found.partner, model.encoder.names),
        "partner_concurvity": found.partner_concurvity,
    }


def _describe_residuals(model: AdditiveModel) -> dict[str, Any] | None:
    if not model.residuals:
        return None
    rule = (
        "Interval of coverage c of an output: in each region, read the quantiles at the probabilities (1 - c) / 2 and "
        "(1 + c) / 2, linear between those given. Read both at the score, linear between the centres of the regions "
        "and constant outside, and add them to the score."
    )
    if model.link == "mlogit":
        rule += " The score of a class is log(p / (1 - p)) here, where p is its probability."
    if model.link != "identity":
        rule += " The bounds b are log odds; those of the probability are 1 / (1 + exp(-b))."
    names = ("centres", "probabilities", "quantiles")
    return {"rule": rule, "outputs": [{name: getattr(own, name).tolist() for name in names} for own in model.residuals]}


def _write(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _write_list(items: Sequence[Any]) -> str:
    """One item per line: terms can be searched, and a diff shows the items that changed."""
    return "[\n" + ",\n".join(f"    {_write(item)}" for item in items) + "\n  ]" if items else "[]"
