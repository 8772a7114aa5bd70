"""A fitted model, and pages opened in Chromium."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from neuralbasis import NeuralBasisRegressor
from tests.report.pages import wide_model, write_page


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(20, 80, 300), "city": rng.choice(["Bern", "Lima", "Oslo"], 300)})
    y = pd.Series(frame["age"] / 20 + (frame["city"] == "Oslo"), name="rent")
    return NeuralBasisRegressor(max_steps=15, outer_bags=2, n_jobs=1).fit(frame, y), frame, y


@pytest.fixture(scope="session")
def wide_page(tmp_path_factory):
    """The page of a model of 2,000 terms."""
    return write_page(tmp_path_factory.mktemp("wide"), wide_model())


@pytest.fixture
def open_page(browser, tmp_path):
    """Open pages, written before or here; at the end, the console is empty and nothing else was requested."""
    pages = []

    def open_it(model, *arguments, width=1280, dark=False, **options):
        path = model if isinstance(model, Path) else write_page(tmp_path, model, *arguments, **options)
        page = browser.open(path, width=width, dark=dark)
        pages.append((page, {"file", "data"} if options.get("pictures") else {"file"}))
        page.settle()
        return page

    yield open_it
    for page, schemes in pages:
        page.close()
        assert page.errors == []
        found = [address.split(":")[0] for address in page.requests]
        assert found.count("file") == 1
        assert set(found) <= schemes
