"""Which rows a page explains, and why."""

import numpy as np
import pandas as pd
import pytest

from tests.report.pages import both_looks, make_model, needs_browser, read_page, rows_of, write_page


@pytest.fixture
def choose(tmp_path):
    """The rows on the page of a model, each with its reason."""

    def choose_them(*arguments, **options):
        rows = read_page(write_page(tmp_path, *arguments, **options))[1]["rows"]
        return {row["index"]: row["reason"] for row in rows}

    return choose_them


def test_rows_of_a_regression(choose):
    model = make_model("identity")
    _, table = rows_of(model, 200)
    scores = model.predict(table)
    y = np.array(scores)
    y[[17, 60]] += [50.0, -90.0]
    found = choose(model, table, y)
    assert len(found) == 8
    assert [row for row, reason in found.items() if "most wrong" in reason] == [60, 17]
    errors, order = model.predict_with_uncertainty(table)[:, 1], np.argsort(scores, kind="stable")
    assert "most uncertain" in found[int(errors.argmax())]
    assert "lowest prediction" in found[int(order[0])]
    assert "highest prediction" in found[int(order[-1])]
    assert "middle prediction" in found[int(order[100])]


def test_rows_of_two_classes(choose):
    model = make_model("logit")
    _, table = rows_of(model, 200)
    probability = model.predict_proba(table)[:, 1]
    y = model.predict(table)
    wrong = int(np.abs(probability - 0.5).argmax())
    y[wrong] = "no" if y[wrong] == "yes" else "yes"
    found = choose(model, table, y)
    assert [row for row, reason in found.items() if "most wrong" in reason] == [wrong]  # the others are right
    assert "lowest probability of yes" in found[int(probability.argmin())]
    assert "highest probability of yes" in found[int(probability.argmax())]
    without = choose(model, table)
    assert len(without) == 8
    assert not any("wrong" in reason for reason in without.values())


def test_rows_of_three_classes(choose):
    model = make_model("mlogit")
    _, table = rows_of(model, 200)
    probability = model.predict_proba(table)
    found = choose(model, table, model.classes[probability.argmin(axis=1)])
    for k, label in enumerate(model.classes):
        assert f"highest probability of {label}" in found[int(probability[:, k].argmax())]
    assert "least decided" in found[int(probability.max(axis=1).argmin())]


def test_the_error_of_a_transformed_target_is_relative(choose):
    model = make_model("identity")
    _, table = rows_of(model, 200)
    scores = model.predict(table)
    lowest = int(scores.argmin())
    y = np.exp(scores)
    y[lowest] *= 1000
    assert "most wrong" in choose(model, table, y, transform="log")[lowest]
    with pytest.raises(ValueError, match=r"y contains -1.0, which has no log; with transform, y is the target itself"):
        choose(model, table, np.r_[-1.0, y[1:]], transform="log")


def test_small_tables_and_requested_rows_have_no_reasons(choose):
    model = make_model("logit")
    _, table = rows_of(model, 8)
    assert choose(model, table) == dict.fromkeys(range(8), "")
    assert choose(model, table, rows=[-1, 2]) == {7: "", 2: ""}


def test_margins_of_grouped_columns(fitted, tmp_path):
    model, frame, _ = fitted
    columns = read_page(write_page(tmp_path, model))[1]["columns"]
    age = model.model_.encoder.axes[0]
    assert 97 < len(age.knots) <= 193  # fewer than the 300 distinct values
    assert columns[0]["margins"] == [age.knots[1] - age.knots[0], age.knots[-1] - age.knots[-2]]
    assert columns[1]["margins"] == [0, 0]
    assert age.knots[0] - columns[0]["margins"][0] <= frame["age"].min()
    assert age.knots[-1] + columns[0]["margins"][1] >= frame["age"].max()


@needs_browser
@both_looks
def test_the_page_says_why_a_row_is_shown(look, open_page):
    model = make_model("logit")
    _, table = rows_of(model, 200)
    y = model.predict(table)
    y[5] = "no" if y[5] == "yes" else "yes"
    page = open_page(model, table, y, **look)
    options = page.read("#row option")
    assert options[0].startswith("5: most wrong (actual")
    assert page.read("#row-reason")[0].endswith(", shown because: most wrong.")
    page.click("#next")
    assert ", shown because: most uncertain" in page.read("#row-reason")[0]


def test_data_of_the_page_hold_the_reasons(tmp_path):
    model = make_model("logit")
    _, table = rows_of(model, 50)
    rows = read_page(write_page(tmp_path, model, pd.DataFrame(table)))[1]["rows"]
    assert all(row["reason"] for row in rows)
