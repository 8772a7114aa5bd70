"""explain_local: contributions and intercept add up to the score; data frames and figures of explanations."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis import AdditiveModel, NeuralBasisRegressor, explain
from neuralbasis.encoding import Encoder
from neuralbasis.model.shapes import Shape
from tests.explain.models import CLASSES, COLOURS, knots, make_curve, make_model, make_rows


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(sorted(CLASSES)))
def test_contributions_and_intercept_are_the_score(seed, link):
    model = make_model(seed, link)
    X = make_rows(model, seed=seed)
    found = explain.explain_local(model, X)
    np.testing.assert_array_equal(found.contributions, model.contributions(X))
    np.testing.assert_array_equal(found.scores, model.scores(X))
    np.testing.assert_array_equal(found.predictions, model.predict(X))
    np.testing.assert_allclose(found.contributions.sum(axis=1) + found.intercept, found.scores, atol=1e-12)
    if link == "identity":
        assert found.probabilities is None
    else:
        np.testing.assert_array_equal(found.probabilities, model.predict_proba(X))


def test_values_are_those_of_the_table():
    model = make_model()
    X = make_rows(model)
    found = explain.explain_local(model, X)
    assert found.columns == tuple(X)
    for i, values in enumerate(found.values):
        for name, value in zip(found.columns, values, strict=True):
            came = X[name][i]
            assert value is None if came is None or came != came else value == came


def test_all_kinds_of_tables_give_the_same_explanation(houses, regressor):
    frame = houses[0][:12]
    expected = regressor.explain_local(frame)
    rows = [{"rooms": rooms, "city": city} for rooms, city in frame.itertuples(index=False)]
    for X in (rows, {name: frame[name].to_numpy() for name in ("city", "rooms")}):
        found = regressor.explain_local(X)
        assert found.values == expected.values
        np.testing.assert_array_equal(found.contributions, expected.contributions)
    assert expected.values[0] == (frame["rooms"][0], None)


def test_a_level_that_looks_like_a_number_keeps_its_text():
    model = make_curve(COLOURS, [0, 1, 2, 3, 0])
    found = explain.explain_local(model, [{"colour": "01"}, {"colour": None}, {"colour": "green"}])
    assert found.values == (("01",), (None,), ("green",))
    assert found.contributions.ravel().tolist() == [1, 0, 0]
    assert explain.explain_local(make_curve(knots(1, 2), [7, 1, 2, 0]), {"size": "nan"}).values == ((None,),)


def test_terms_of_a_row_come_strongest_first():
    model = make_model(link="mlogit")
    found = explain.explain_local(model, make_rows(model))
    row = found.row(3)
    assert row.output == found.scores[3].argmax()
    sizes = np.abs(row.contributions[:, row.output])
    assert (np.diff(sizes) <= 0).all()
    np.testing.assert_array_equal(row.contributions, found.contributions[3, list(row.terms)])
    for index, name, values in zip(row.terms, row.names, row.values, strict=True):
        assert name == model.term_names[index]
        assert values == tuple(found.values[3][feature] for feature in model.terms[index])
    assert row.prediction == found.predictions[3]
    np.testing.assert_array_equal(row.probabilities, found.probabilities[3])
    assert found.row(-1).index == 19


def test_actual_values_are_beside_the_predictions(houses, classifier):
    frame, y = houses
    labels = np.where(y > 5, "dear", "cheap")
    found = classifier.explain_local(frame[:5], labels[:5])
    row, perf = found.row(2), found.data(2)["perf"]
    assert row.actual == perf["actual"] == labels[2]
    assert row.prediction == perf["predicted"] == classifier.predict(frame[:5])[2]
    chances = dict(zip(classifier.classes_, classifier.predict_proba(frame[:5])[2], strict=True))
    assert perf["predicted_score"] == chances[row.prediction]
    assert perf["actual_score"] == chances[labels[2]]
    assert classifier.explain_local(frame[:1]).row(0).actual is None
    assert np.isnan(classifier.explain_local(frame[:1]).data(0)["perf"]["actual_score"])
    unknown = classifier.explain_local(frame[:1], ["other"]).data(0)["perf"]
    assert (unknown["actual"], unknown["actual_score"]) == ("other", 0.0)


def test_data_of_rows(houses, regressor):
    frame, y = houses
    found = regressor.explain_local(frame[:3], y[:3])
    data = found.data(1)
    assert data["values"] == [frame["rooms"][1], frame["city"][1], ""]
    assert data["extra"]["scores"] == [regressor.intercept_]
    assert data["scores"].sum() + data["extra"]["scores"][0] == pytest.approx(data["perf"]["predicted"])
    assert data["perf"]["actual_score"] == y[1]
    assert [part["names"] for part in found.data()["specific"]] == [regressor.term_names_] * 3
    assert found.data(-1)["overall"] is None


def test_wrong_rows_and_targets_are_errors(houses, regressor):
    frame, y = houses
    with pytest.raises(ValueError, match="one value for each of the 3 rows of X; got shape \\(2,\\)"):
        regressor.explain_local(frame[:3], y[:2])
    found = regressor.explain_local(frame[:3])
    for wrong in (3, -4):
        with pytest.raises(ValueError, match=f"no row {wrong}; the explanation has rows 0 … 2"):
            found.row(wrong)
    with pytest.raises(ValueError, match="pass a key from 0 … 2"):
        found.visualize()


def test_an_estimator_checks_rows_as_for_a_prediction(houses, regressor):
    with pytest.raises(ValueError, match="feature names should match"):
        regressor.explain_local(houses[0][["city"]])
    turned = regressor.explain_local(houses[0][["city", "rooms"]])  # columns are found by name
    np.testing.assert_array_equal(turned.scores, regressor.explain_local(houses[0]).scores)
    with pytest.raises(Exception, match="not fitted"):
        NeuralBasisRegressor().explain_global()


def test_frame_of_terms(regressor):
    found = regressor.explain_global()
    frame = found.to_pandas()
    assert frame["term"].tolist() == regressor.term_names_
    assert frame["columns"].tolist() == [("rooms",), ("city",), ("rooms", "city")]
    assert frame["importance"].tolist() == regressor.term_importances().tolist()
    assert frame["spread"].tolist() == [term.importance_spread for term in found.terms]
    cells = found.to_pandas("city")
    assert cells["kind"].tolist() == ["missing", "level", "level", "unseen"]
    assert cells["score"].tolist() == regressor.term_scores_[1].tolist()


def test_frame_of_classes():
    model = make_model(link="mlogit")
    found = explain.explain_global(model)
    frame = found.to_pandas()
    for k, label in enumerate("abc"):
        assert frame[f"importance for {label}"].tolist() == [term.importances[k] for term in found.terms]


@pytest.mark.parametrize("link", sorted(CLASSES))
def test_frame_of_rows_sums_to_the_scores(link):
    model = make_model(link=link)
    found = explain.explain_local(model, make_rows(model))
    frame = found.to_pandas()
    assert len(frame) == found.contributions.size
    labels = ["row", "class"] if link == "mlogit" else ["row"]
    sums = frame.groupby(labels, sort=False)[["contribution"]].sum().to_numpy().reshape(found.scores.shape)
    np.testing.assert_allclose(sums + found.intercept, found.scores, atol=1e-12)
    first = frame[frame["row"] == 0]
    assert (first["prediction"] == found.predictions[0]).all()
    assert set(first["term"]) == set(found.names)


def test_values_of_a_pair_in_a_frame():
    axes = knots(1, 2), COLOURS
    table = np.zeros((4, 5, 1))
    model = AdditiveModel(Encoder(axes), np.zeros(1), (Shape((0, 1), axes, table, table, table[..., 0]),), "identity")
    X = [{"size": 1.5, "colour": "red"}, {"size": 2.0, "colour": None}]
    assert explain.explain_local(model, X).to_pandas()["value"].tolist() == ["1.5 & red", "2 & missing"]


def test_frames_need_pandas(monkeypatch, regressor):
    monkeypatch.setitem(sys.modules, "pandas", None)  # as if it were not installed
    with pytest.raises(ImportError, match="pip install pandas"):
        explain.explain_global(regressor).to_pandas()


def test_visualize_draws_explanations(houses, regressor):
    found = regressor.explain_global()
    assert [len(found.visualize(key).data) >= 1 for key in (None, "rooms", 2)] == [True] * 3
    assert regressor.explain_local(houses[0][:2]).visualize(1).data[0].type == "waterfall"
    assert regressor.explain_local(houses[0][:1]).visualize().data[0].type == "waterfall"
    found = explain.stability(regressor)
    assert len(found.visualize().axes) >= 1
    assert len(found.visualize("rooms").axes) >= 1
