"""axe-core finds no serious violation on the page; `make programs` installs it."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.report.pages import needs_browser
from tests.report.test_scoring import score

AXE = Path(sys.prefix, "share", "axe-core", "axe.min.js")

VIOLATIONS = """axe.run({ resultTypes: ["violations"] }).then(({ violations }) => violations.flatMap(
  ({ id, impact, nodes }) => nodes.map((node) => `${impact} ${id}: ${node.target.join(" ")}`)))"""


@needs_browser
@pytest.mark.skipif(not AXE.exists(), reason="no axe-core: `make programs` installs it with npm")
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("kind", ["logit", "identity"])
def test_no_serious_violation(kind, dark, fitted, open_page):
    estimator, frame, y = fitted
    model = estimator.model_
    if kind == "logit":
        model = replace(model, link="logit", classes=np.array(["no", "yes"], dtype=object), residuals=())
        y = model.predict(frame[::-1].reset_index(drop=True))  # most of them are wrong
    page = open_page(model, frame, y, dark=dark)
    assert "scored" in score(page, frame.head(40).replace("Oslo", "oslo").to_csv(index=False))
    page.set('[data-column="0"] [type=number]', 1e6, "input")  # a note about a value outside the data
    assert any(page.read("#whatif .warning"))
    for section in ("overview", "terms", "check", "rows", "whatif", "files"):
        page.show(f"#{section}")  # draws its charts
    page.run(f"{AXE.read_text(encoding='utf-8')};0")
    found = page.run(VIOLATIONS)
    assert [text for text in found if text.startswith(("serious", "critical"))] == []
