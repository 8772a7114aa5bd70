"""JSON: a reader that follows the written rule computes the scores of the model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from neuralbasis import export
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


def test_the_documentation_contains_the_rule() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "exports.md"
    if not page.exists():
        pytest.skip("the documentation is not part of this copy of the source")
    assert "\n".join(export.json.RULE) in page.read_text(encoding="utf-8")
