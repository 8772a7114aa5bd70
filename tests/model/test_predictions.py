"""Predictions as columns: names and values, for regression, two classes and three classes."""

from __future__ import annotations

import numpy as np
import pytest

from neuralbasis.model.predictions import output_arrays, output_names
from tests.models import build_model, draw_numbers, name_columns

KINDS = {
    "regression": ({}, [""], []),
    "binary": ({"link": "logit", "classes": np.array(["no", "yes"])}, [""], ["no", "yes"]),
    "multiclass": ({"link": "mlogit", "classes": np.array([3, 5, 8]), "n_outputs": 3}, ["_3", "_5", "_8"], "358"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_columns_are_named_in_the_order_of_their_values(kind: str) -> None:
    options, suffixes, labels = KINDS[kind]
    rng = np.random.default_rng(0)
    model = build_model(rng, **options)
    axes = model.encoder.axes
    rows = name_columns(axes, draw_numbers(rng, axes, 50))
    outputs = [
        name for name in ("prediction", "probability", "contributions", "score") if labels or name != "probability"
    ]
    found = dict(zip(output_names(model, outputs), output_arrays(model, rows, outputs), strict=True))
    assert next(iter(found)) == "prediction"
    assert found["prediction"].tolist() == model.predict(rows).tolist()
    for index, label in enumerate(labels):
        assert np.array_equal(found[f"probability_{label}"], model.predict_proba(rows)[:, index])
    for index, suffix in enumerate(suffixes):
        parts = [found[f"contribution_{term}{suffix}"] for term in model.term_names]
        assert np.array_equal(np.stack(parts, 1), model.contributions(rows)[:, :, index])
        assert np.allclose(sum(parts) + found[f"intercept{suffix}"], found[f"score{suffix}"])
        assert np.array_equal(found[f"score{suffix}"], model.scores(rows)[:, index])
    assert len(found) == 1 + len(labels) + (len(model.terms) + 2) * len(suffixes)
