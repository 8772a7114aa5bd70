"""Outcomes of the rows of a page in each cell: counts, observed and predicted sums."""

import numpy as np
import pytest

from neuralbasis.encoding import continuous_axis, level_axis
from neuralbasis.report import outcomes
from tests.report.pages import make_model, read_page, rows_of, write_page


def read_outcomes(term, start, data, arrays, n_outputs):
    cells = data["axes"][term["axes"][0]]["count"] + 2
    count, rest = arrays["exact"][start : start + cells], arrays["exact"][start + cells :]
    actual, predicted = rest[: 2 * cells * n_outputs].reshape(2, cells, n_outputs)
    return count, actual, predicted


@pytest.mark.parametrize("kind", ["identity", "logit", "mlogit"])
def test_the_page_sums_outcomes_by_cell(kind, tmp_path):
    model = make_model(kind)
    numbers, table = rows_of(model, 80)
    y = np.random.default_rng(0).choice([1.0, 2.5] if model.classes is None else model.classes, 80)
    _, data, arrays = read_page(write_page(tmp_path, model, table, y))
    if kind == "identity":
        observed, expected = y[:, None], model.predict(table)[:, None]
    else:
        first = 1 if kind == "logit" else 0
        observed, expected = (y[:, None] == model.classes)[:, first:], model.predict_proba(table)[:, first:]
    assert {int(index) for index in data["outcomes"]} == {
        i for i, shape in enumerate(model.shapes) if len(shape.term) == 1
    }
    for index, start in data["outcomes"].items():
        shape = model.shapes[int(index)]
        cells = outcomes.find_cells(shape.axes[0], numbers[:, shape.term[0]])
        found = read_outcomes(data["terms"][int(index)], start, data, arrays, model.n_outputs)
        for cell in range(shape.axes[0].n_cells):
            own = cells == cell
            assert found[0][cell] == own.sum()
            np.testing.assert_allclose(found[1][cell], observed[own].sum(axis=0))
            np.testing.assert_allclose(found[2][cell], expected[own].sum(axis=0), atol=1e-12)


def test_a_row_belongs_to_its_nearest_knot_its_level_missing_or_unseen():
    ages = continuous_axis("age", np.array([-9.0, 20.0, 30.0]))
    values = np.array([np.nan, -9.0, 5.0, 6.0, 24.0, 26.0, 99.0])
    assert outcomes.find_cells(ages, values).tolist() == [0, 1, 1, 2, 2, 3, 3]
    cities = level_axis("city", "nominal", ["Bern", "Oslo"])
    assert outcomes.find_cells(cities, np.array([np.nan, 0.0, 1.0, -1.0])).tolist() == [0, 1, 2, 3]


def test_pages_without_actual_values_or_with_too_many_cells_have_none(tmp_path, monkeypatch):
    model = make_model("logit")
    _, table = rows_of(model, 20)
    assert read_page(write_page(tmp_path, model, table))[1].get("outcomes") is None
    monkeypatch.setattr(outcomes, "MAX_OUTCOME_NUMBERS", 10)
    assert read_page(write_page(tmp_path, model, table, model.predict(table)))[1]["outcomes"] == {}
