"""The fixture `case`: every model of `cases.CASES` in turn."""

from __future__ import annotations

import pytest

from tests.export.cases import CASES, Case


@pytest.fixture(scope="session", params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return Case(request.param)
