"""axe-core finds no serious violation on the page; `make programs` installs it."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.report.pages import make_model, needs_browser, rows_of
from tests.report.test_scoring import score

AXE = Path(sys.prefix, "share", "axe-core", "axe.min.js")

VIOLATIONS = """axe.run({ resultTypes: ["violations"] }).then(({ violations }) => violations.flatMap(
  ({ id, impact, nodes }) => nodes.map((node) => `${impact} ${id}: ${node.target.join(" ")}`)))"""


@needs_browser
@pytest.mark.skipif(not AXE.exists(), reason="no axe-core: `make programs` installs it with npm")
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("kind", ["logit", "identity"])
def test_no_serious_violation(kind, dark, open_page):
    model = make_model(kind)
    _, table = rows_of(model, 60)
    rng = np.random.default_rng(0)
    y = model.predict(table) if kind == "logit" else model.predict(table) + rng.normal(size=60)
    page = open_page(model, table, y, dark=dark)
    assert "scored" in score(page, pd.DataFrame(table).replace("never seen", "nearly seen").to_csv(index=False))
    page.set('[data-column="0"] [type=number]', 1e6, "input")  # a note about a value outside the data
    assert any(page.read("#whatif .warning"))
    for section in ("overview", "terms", "check", "rows", "whatif", "files"):
        page.show(f"#{section}")  # draws its charts
    page.run(f"{AXE.read_text(encoding='utf-8')};0")
    found = page.run(VIOLATIONS)
    assert [text for text in found if text.startswith(("serious", "critical"))] == []
