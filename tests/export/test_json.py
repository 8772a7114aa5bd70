"""JSON: a reader that follows the written rule computes the scores of the model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from neuralbasis import NeuralBasisRegressor, export
from neuralbasis.export import to_json
from tests.export.cases import Case, read_json


def test_the_rule_gives_the_scores(case: Case) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    tables = json.loads(to_json(case.model), parse_constant=refuse)
    assert tables["link"] == case.model.link
    assert tables["classes"] == (None if case.model.classes is None else case.model.classes.tolist())
    scores = [read_json(tables, row) for row in case.rows]
    np.testing.assert_allclose(scores, case.scores, rtol=0, atol=1e-12)


def test_the_evidence_of_a_fit_is_written() -> None:
    X = np.random.default_rng(0).random((200, 2))
    fitted = NeuralBasisRegressor(max_steps=30, outer_bags=2, interactions=[(0, 1)]).fit(X, X[:, 0] + X[:, 1] ** 2)
    tables = json.loads(to_json(fitted))
    assert any("importance_errors: their standard errors" in line for line in tables["evidence"])
    lines = {line.term: line for line in fitted.evidence().lines}
    assert len(tables["terms"]) == 3
    for term, shape in zip(tables["terms"], fitted.model_.shapes, strict=True):
        found, line = term["evidence"], lines[term["name"]]
        assert found["standard_errors"] == shape.spread.tolist()
        assert found["multipliers"] == shape.evidence.multipliers.tolist()
        assert (found["importances"], found["importance_errors"]) == ([line.importance], [line.importance_error])
        assert (found["p_values"], found["concurvity"]) == ([line.p_value], line.concurvity)
        assert (found["partner"], found["partner_concurvity"]) == (line.partner, line.partner_concurvity)


def test_a_model_without_evidence_has_none_in_its_file(case: Case) -> None:
    terms = json.loads(to_json(case.model))["terms"]
    assert [term["evidence"] for term in terms] == [None] * len(case.model.shapes)


def test_the_documentation_contains_the_rule() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "exports.md"
    if not page.exists():
        pytest.skip("the documentation is not part of this copy of the source")
    assert "\n".join(export.json.RULE) in page.read_text(encoding="utf-8")
