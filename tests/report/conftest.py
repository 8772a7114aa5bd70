"""A fitted model, and pages opened in Chromium."""

import numpy as np
import pandas as pd
import pytest

from neuralbasis import NeuralBasisRegressor
from tests.report.pages import write_page


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(20, 80, 300), "city": rng.choice(["Bern", "Lima", "Oslo"], 300)})
    y = pd.Series(frame["age"] / 20 + (frame["city"] == "Oslo"), name="rent")
    return NeuralBasisRegressor(max_steps=15, outer_bags=2, n_jobs=1).fit(frame, y), frame, y


@pytest.fixture
def open_page(browser, tmp_path):
    """Write and open pages; at the end, check that the console is empty and that nothing else was requested."""
    pages = []

    def open_it(model, *arguments, width=1280, dark=False, **options):
        path = write_page(tmp_path, model, *arguments, **options)
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
