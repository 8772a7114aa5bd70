"""The page of a model with 30 terms is small and opens fast; a page of 2,000 terms opens in two seconds."""

import numpy as np
import pytest

from neuralbasis import AdditiveModel
from neuralbasis.encoding import Encoder, continuous_axis
from neuralbasis.model.shapes import Shape
from tests.report.pages import needs_browser, write_page

MAX_BYTES, MAX_SECONDS = 1e6, 1.0
MAX_WIDE_SECONDS = 2.0  # of a page of 2,000 terms


@pytest.fixture(scope="module")
def large():
    """20 curves of 193 knots with 7 members and 10 pairs of 50 × 50 knots, the usual limits of a fit, and 2000 rows."""
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(2000, 20))
    axes = tuple(continuous_axis(f"column {i}", own) for i, own in enumerate(columns.T))
    coarse = [axis.coarsen(50) for axis in axes]
    shapes = []
    for term in [(i,) for i in range(20)] + [(i, i + 10) for i in range(10)]:
        own = tuple((axes if len(term) == 1 else coarse)[feature] for feature in term)
        scores = rng.normal(size=(*(axis.n_cells for axis in own), 1))
        members = scores[..., None, :] + rng.normal(size=(*scores.shape[:-1], 7, 1)) if len(term) == 1 else None
        weights = rng.integers(0, 9, scores.shape[:-1])
        shapes.append(Shape(term, own, scores, rng.random(scores.shape), weights, members))
    model = AdditiveModel(Encoder(axes), np.zeros(1), tuple(shapes), "logit", np.array(["no", "yes"], dtype=object))
    return model, {axis.name: own for axis, own in zip(axes, columns.T, strict=True)}


def test_a_page_of_30_terms_is_small(large, tmp_path):
    model, table = large
    assert write_page(tmp_path, model, table, model.predict(table)).stat().st_size <= MAX_BYTES


@needs_browser
def test_a_page_of_30_terms_opens_fast(large, browser, tmp_path):
    model, table = large
    page, seconds = open_twice(browser, write_page(tmp_path, model, table, model.predict(table)))
    assert page.count("#drivers li") == 8
    assert page.count("#contributions li") == 13
    assert seconds <= MAX_SECONDS
    page.close()


@needs_browser
def test_a_page_of_2000_terms_opens_fast(wide_page, browser):
    page, seconds = open_twice(browser, wide_page)
    assert page.count("#gallery article") == 2000
    assert seconds <= MAX_WIDE_SECONDS
    page.close()


def open_twice(browser, path):
    """The page, and the processor time of its second loading: other programs do not count."""
    page = browser.open(path)
    page.send("Performance.enable", timeDomain="threadTicks")
    before = read_seconds(page)
    page.load(path.resolve().as_uri())
    page.settle()
    return page, read_seconds(page) - before


def read_seconds(page):
    found = {one["name"]: one["value"] for one in page.send("Performance.getMetrics")["metrics"]}
    return found["TaskDuration"]
