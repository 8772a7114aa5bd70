"""explain: records say what the model's tables say, in its own numbers; models are compared point by point."""

import sys
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, explain
from neuralbasis.encoding.axis import Axis, continuous_axis, level_axis
from neuralbasis.encoding.encoder import Encoder
from neuralbasis.model.additive_model import AdditiveModel
from neuralbasis.model.shapes import Shape
from tests.models import build_model, draw_numbers, name_columns, tie_model

CLASSES = {"identity": None, "logit": np.array(["no", "yes"]), "mlogit": np.array(["a", "b", "c"])}
N_OUTPUTS = {"identity": 1, "logit": 1, "mlogit": 3}


def make_model(seed=0, link="identity", tied=(), **options):
    rng = np.random.default_rng(seed)
    model = build_model(rng, n_outputs=N_OUTPUTS[link], link=link, classes=CLASSES[link], **options)
    return tie_model(rng, model, tied) if tied else model


def make_rows(model, n_rows=20, seed=0):
    return name_columns(model.encoder.axes, draw_numbers(np.random.default_rng(seed), model.encoder.axes, n_rows))


def make_curve(axis, scores, weights=None, members=None):
    """A model of one column; scores of all its cells, and weights, by default of its knots or levels alone."""
    table = np.asarray(scores, dtype=float)[:, None]
    weights = np.pad(np.ones(axis.n_cells - 2), 1) if weights is None else np.asarray(weights, dtype=float)
    members = None if members is None else np.asarray(members, dtype=float)[..., None]
    shape = Shape((0,), (axis,), table, np.zeros_like(table), weights, members)
    return AdditiveModel(Encoder((axis,)), np.zeros(1), (shape,), "identity")


def knots(*values, name="size"):
    return continuous_axis(name, np.array(values, dtype=float), scaling="minmax")


COLOURS = level_axis("colour", "nominal", ["01", "blue", "red"])


@pytest.fixture(scope="module")
def houses():
    """Whole numbers, levels and gaps, and a target."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"rooms": rng.integers(1, 9, 200).astype(float), "city": rng.choice(["Bern", "Oslo"], 200)})
    y = frame["rooms"] + 2.0 * (frame["city"] == "Oslo") + 0.1 * rng.normal(size=200)
    frame.loc[::11, "city"] = None
    return frame, y.to_numpy()


@pytest.fixture(scope="module")
def regressor(houses):
    return NeuralBasisRegressor(max_steps=30, outer_bags=3, interactions=[("rooms", "city")]).fit(*houses)


@pytest.fixture(scope="module")
def classifier(houses):
    labels = np.where(houses[1] > 5, "dear", "cheap")
    return NeuralBasisClassifier(max_steps=30, outer_bags=2, interactions=0).fit(houses[0], labels)


# Terms


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(sorted(CLASSES)), st.booleans())
def test_views_are_the_tables(seed, link, is_tied):
    model = make_model(seed, link, tied=(0, 3, 7) if is_tied and link == "mlogit" else (), orders=(1, 2))
    explanation = explain.explain_global(model)
    assert explanation.names == model.term_names
    assert [term.importance for term in explanation.terms] == model.importances().tolist()
    for index, (view, shape) in enumerate(zip(explanation.terms, model.shapes, strict=True)):
        assert view.index == index
        assert view.columns == tuple(model.encoder.names[feature] for feature in shape.term)
        assert view.axes == shape.axes
        for name in ("scores", "spread", "weights", "members"):
            np.testing.assert_array_equal(getattr(view, name), getattr(shape, name))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_every_contribution_lies_between_low_and_high(seed):
    model = make_model(seed, "mlogit")
    found = model.contributions(make_rows(model, 200, seed))
    for view in explain.explain_global(model).terms:
        assert view.low <= found[:, view.index].min() + 1e-12
        assert found[:, view.index].max() <= view.high + 1e-12


def test_range_leaves_out_the_cell_that_no_row_reaches():
    view = explain.explain_global(make_curve(knots(1, 2), [0.5, -1.0, 1.0, 99.0])).terms[0]
    assert (view.low, view.high) == (-1.0, 1.0)
    view = explain.explain_global(make_curve(COLOURS, [0.5, -1.0, 1.0, 0.0, 99.0])).terms[0]
    assert (view.low, view.high) == (-1.0, 99.0)


def test_importance_is_the_mean_size_of_the_contributions(houses, regressor):
    sizes = np.abs(regressor.eval_terms(houses[0])).mean(axis=0)  # whole numbers: every row stands on a knot
    found = regressor.explain_global()
    np.testing.assert_allclose([term.importance for term in found.terms], sizes, rtol=1e-6)
    assert found.order == tuple(np.argsort(-sizes).tolist())


def test_importances_of_classes():
    model = make_model(link="mlogit")
    for view, shape in zip(explain.explain_global(model).terms, model.shapes, strict=True):
        total = (np.abs(shape.scores) * shape.weights[..., None]).reshape(-1, 3).sum(axis=0)
        np.testing.assert_allclose(view.importances, total / shape.weights.sum())
        assert view.importance == pytest.approx(view.importances.mean())


def test_spread_of_an_importance_is_that_of_the_members():
    members = np.array([[9, 9, 9], [1, 2, 3], [-1, -2, -3], [9, 9, 9]])  # (cells, M): importances 1, 2, 3
    model = make_curve(knots(1, 2), members.mean(axis=1), weights=[0, 5, 5, 0], members=members)
    assert explain.explain_global(model).terms[0].importance == 2.0
    assert explain.explain_global(model).terms[0].importance_spread == 1.0


def test_unknown_spread_is_not_zero(regressor):
    mains, pair = regressor.explain_global().terms[:2], regressor.explain_global().terms[2]
    assert all(term.importance_spread > 0 for term in mains)
    assert pair.members is None
    assert np.isnan(pair.importance_spread)
    alone = make_curve(knots(1, 2), [0, -1, 1, 0], members=[[0], [-1], [1], [0]])
    assert np.isnan(explain.explain_global(alone).terms[0].importance_spread)


def test_model_of_no_rows_has_no_importance():
    view = explain.explain_global(make_curve(knots(1, 2), [0, -1, 1, 0], weights=[0, 0, 0, 0])).terms[0]
    assert (view.importance, view.low, view.high) == (0.0, -1.0, 1.0)


@pytest.mark.parametrize("key", ["rooms & city", "city & rooms", 2, -1, ("city", "rooms"), (0, 1), np.int64(2)])
def test_a_term_is_found_by_name_index_or_columns(regressor, key):
    assert regressor.explain_global().find(key).name == "rooms & city"


def test_a_wrong_term_is_an_error_that_lists_the_terms(regressor):
    with pytest.raises(ValueError, match=r"no term 'floors'; its terms, 0 … 2, are 'rooms', 'city', 'rooms & city'"):
        regressor.explain_global().find("floors")


def test_labels_of_the_model():
    found = explain.explain_global(make_model(link="logit"))
    assert (found.link, found.classes, found.outputs) == ("logit", ("no", "yes"), ("score",))
    found = explain.explain_global(make_model(link="mlogit"))
    assert (found.link, found.classes, found.outputs) == ("mlogit", ("a", "b", "c"), ("a", "b", "c"))
    assert found.intercept.shape == (3,)
    found = explain.explain_global(make_model())
    assert (found.link, found.classes, found.outputs) == ("identity", None, ("score",))


def test_records_do_not_change():
    found = explain.explain_global(make_model())
    with pytest.raises(FrozenInstanceError):
        found.terms[0].low = 0.0
    assert explain.explain_global(found) is found


@pytest.mark.parametrize("wrong", [None, "houses.nbm", NeuralBasisRegressor()])
def test_what_is_no_model_is_an_error(wrong):
    for function in (explain.explain_global, lambda model: explain.explain_local(model, [[1.0]])):
        with pytest.raises(TypeError, match="expected an AdditiveModel or a fitted estimator"):
            function(wrong)


# Data of terms


def test_data_of_all_terms(regressor):
    found = regressor.explain_global()
    overall = found.data()
    assert overall["names"] == regressor.term_names_
    assert overall["scores"] == regressor.term_importances().tolist()
    spread = found.terms[0].importance_spread
    assert overall["upper_bounds"][0] - overall["scores"][0] == pytest.approx(spread)
    assert overall["scores"][0] - overall["lower_bounds"][0] == pytest.approx(spread)
    everything = found.data(-1)
    assert everything["overall"]["scores"] == overall["scores"]
    assert [part["type"] for part in everything["specific"]] == ["univariate", "univariate", "interaction"]


def test_data_of_a_curve_of_levels_and_of_a_pair(regressor):
    rooms, city, pair = regressor.model_.shapes
    found = regressor.explain_global()
    data = found.data("rooms")
    assert data["names"] == data["density"]["names"] == rooms.axes[0].knots.tolist()
    np.testing.assert_array_equal(data["scores"], rooms.scores[1:-1, 0])
    np.testing.assert_array_equal(data["upper_bounds"], (rooms.scores + rooms.spread)[1:-1, 0])
    np.testing.assert_array_equal(data["lower_bounds"], (rooms.scores - rooms.spread)[1:-1, 0])
    np.testing.assert_array_equal(data["density"]["scores"], rooms.weights[1:-1])
    data = found.data(1)
    assert data["names"] == ["Bern", "Oslo"]
    assert data["missing"]["score"] == city.scores[0, 0]
    assert data["missing"]["density"] == city.weights[0] == 19
    data = found.data(("rooms", "city"))
    assert data["left_names"] == pair.axes[0].knots.tolist()
    assert data["right_names"] == ["Bern", "Oslo"]
    np.testing.assert_array_equal(data["scores"], pair.scores[1:-1, 1:-1, 0])
    assert data["scores_range"] == (found.terms[2].low, found.terms[2].high)


def test_data_of_classes_has_an_axis_for_them():
    model = make_model(link="mlogit")
    found = explain.explain_global(model)
    for index, shape in enumerate(model.shapes):
        data = found.data(index)
        assert data["meta"] == {"label_names": ["a", "b", "c"]}
        assert data["scores"].shape == (*[axis.n_cells - 2 for axis in shape.axes], 3)
    triple = found.data((0, 1, 2))
    assert [len(names) for names in triple["names"]] == list(triple["scores"].shape[:3])


def test_spelling_is_that_of_interpret(houses, classifier):
    glassbox = pytest.importorskip("interpret.glassbox", reason="needs the package interpret-core")
    frame, y = houses[0].fillna("?"), np.where(houses[1] > 5, "dear", "cheap")
    theirs = glassbox.ExplainableBoostingClassifier(interactions=1, outer_bags=1, max_rounds=5, n_jobs=1).fit(frame, y)
    ours = NeuralBasisClassifier(interactions=[(0, 1)], max_steps=5, outer_bags=2).fit(frame, y)
    their_global, our_global = theirs.explain_global(), ours.explain_global()
    their_local, our_local = theirs.explain_local(frame[:2], y[:2]), ours.explain_local(frame[:2], y[:2])
    for expected, found in [
        *[(their_global.data(key), our_global.data(key)) for key in (None, 0, 1, 2)],
        (their_local.data(0), our_local.data(0)),
        (their_local.data(0)["perf"], our_local.data(0)["perf"]),
    ]:
        assert set(expected) <= set(found)
        assert expected.get("type") == found.get("type")
    assert our_local.data(0)["meta"] == their_local.data(0)["meta"]
    assert our_local.data(0)["names"] == their_local.data(0)["names"]


# Rows


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


def test_all_tables_give_the_same_record(houses, regressor):
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


def test_what_was_stands_beside_the_prediction(houses, classifier):
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


def test_an_estimator_reads_its_rows_as_for_a_prediction(houses, regressor):
    with pytest.raises(ValueError, match="feature names should match"):
        regressor.explain_local(houses[0][["city", "rooms"]])
    with pytest.raises(Exception, match="not fitted"):
        NeuralBasisRegressor().explain_global()


# Frames and figures


def test_frame_of_terms(regressor):
    found = regressor.explain_global()
    frame = found.to_pandas()
    assert frame["term"].tolist() == regressor.term_names_
    assert frame["columns"].tolist() == [("rooms",), ("city",), ("rooms", "city")]
    assert frame["importance"].tolist() == regressor.term_importances().tolist()
    assert frame["spread"].isna().tolist() == [False, False, True]
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


def test_frames_say_what_they_need(monkeypatch, regressor):
    monkeypatch.setitem(sys.modules, "pandas", None)  # as if it were not installed
    with pytest.raises(ImportError, match="pip install pandas"):
        explain.explain_global(regressor).to_pandas()


def test_records_draw_themselves(houses, regressor):
    figure = regressor.explain_global().visualize()
    assert len(figure.axes) >= 1
    assert len(regressor.explain_global().visualize("rooms").axes) >= 1
    assert len(regressor.explain_global().visualize(2).axes) >= 1
    assert len(regressor.explain_local(houses[0][:2]).visualize(1).axes) >= 1
    assert len(regressor.explain_local(houses[0][:1]).visualize().axes) >= 1
    found = explain.stability(regressor)
    assert len(found.visualize().axes) >= 1
    assert len(found.visualize("rooms").axes) >= 1


# Stability


def test_deviation_of_two_curves_by_hand():
    """Values ±1 at the left knot, ±3 at the right one: deviations √2 and 3√2."""
    axis = knots(0, 10)
    models = [make_curve(axis, [0, sign, 3 * sign, 0], weights=[0, 3, 1, 0]) for sign in (1, -1)]
    found = explain.stability(models)
    assert found.points == ((0.0, 10.0),)
    np.testing.assert_allclose(found.deviations[0][:, 0], [np.sqrt(2), 3 * np.sqrt(2)])
    assert found.overall == pytest.approx((3 * 1 + 1 * 3) / 4 * np.sqrt(2))
    even = explain.stability(models, weighted=False)
    assert len(even.points[0]) == 512
    assert even.overall == pytest.approx(2 * np.sqrt(2))  # the middle of the line
    X = [[0.0], [0.0], [0.0], [5.0], [20.0]]
    assert explain.stability(models, X=X).overall == pytest.approx((3 * 1 + 2 + 3) / 5 * np.sqrt(2))
    assert explain.stability(models, weighted=False, X=X).overall == pytest.approx((1 + 2 + 3) / 3 * np.sqrt(2))


def test_missing_values_count_as_rows_but_are_no_points_of_the_axis():
    models = [make_curve(knots(0, 1), [5 * sign, 1, 1, 0], weights=[1, 1, 2, 0]) for sign in (1, -1)]
    found = explain.stability(models)
    assert found.points == ((None, 0.0, 1.0),)
    assert found.overall == pytest.approx(5 * np.sqrt(2) / 4)
    assert explain.stability(models, weighted=False).overall == 0
    X = {"size": [np.nan, 0.0]}
    assert explain.stability(models, X=X).overall == pytest.approx(5 * np.sqrt(2) / 2)
    assert explain.stability(models, weighted=False, X=X).overall == 0


def test_levels_are_compared_by_name():
    other = level_axis("colour", "nominal", ["red", "01"])
    models = [make_curve(COLOURS, [0, 1, 4, 2, 0], [0, 1, 1, 1, 0]), make_curve(other, [0, 2, 1, 0], [0, 1, 1, 0])]
    found = explain.stability(models)
    assert found.points == (("01", "blue", "red"),)
    np.testing.assert_allclose(found.curves[0][..., 0], [[1, 4, 2], [1, 0, 2]])  # unseen contributes 0
    np.testing.assert_array_equal(found.weights[0], [1, 0.5, 1])
    np.testing.assert_array_equal(explain.stability(models, weighted=False).weights[0], [1, 1, 1])


def test_knots_of_all_models_are_points():
    models = [make_curve(knots(0, 4), [0, 0, 4, 0]), make_curve(knots(1, 2, 4), [0, 1, 2, 4, 0])]
    found = explain.stability(models)
    assert found.points == ((0.0, 1.0, 2.0, 4.0),)
    np.testing.assert_allclose(found.curves[0][..., 0], [[0, 1, 2, 4], [1, 1, 2, 4]])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(sorted(CLASSES)))
def test_members_of_one_model_deviate_by_its_spread(seed, link):
    """At knots and levels, weighted by the training rows."""
    model = make_model(seed, link)
    found = explain.stability(model)
    mains = [shape for shape in model.shapes if len(shape.term) == 1]
    assert found.n_models == 3
    for deviation, shape in zip(found.by_column, mains, strict=True):
        spread = shape.members.std(axis=1, ddof=1).mean(axis=1)[:-1]
        assert deviation == pytest.approx(np.average(spread, weights=shape.weights[:-1]))


def test_models_are_compared_by_the_names_of_their_columns():
    """Another order of the columns, other pairs and a column more do not matter."""
    model = make_model(orders=(1,))
    first, second = model.encoder.axes[:2]
    turned = AdditiveModel(
        Encoder((second, first)),
        model.intercept,
        (replace(model.shapes[1], term=(0,)), replace(model.shapes[0], term=(1,))),
        "identity",
    )
    found = explain.stability([model, turned, make_model()])
    assert found.columns == ("x0", "x1")
    np.testing.assert_array_equal(found.curves[0][0], found.curves[0][1])
    assert explain.stability([model, turned]).overall == 0


def test_rows_are_read_as_the_models_read_them():
    """By position also where a column has no main effect."""
    size, age = knots(0, 10), knots(0, 1, name="age")
    shapes = [make_curve(size, [0, sign, 3 * sign, 0]).shapes[0] for sign in (1, -1)]
    models = [
        AdditiveModel(Encoder((age, size)), np.zeros(1), (replace(shape, term=(1,)),), "identity") for shape in shapes
    ]
    found = explain.stability(models, X=[[0.5, 0.0], [0.7, 10.0]])
    assert (found.columns, found.points) == (("size",), ((0.0, 10.0),))
    assert found.overall == pytest.approx(2 * np.sqrt(2))


def test_stability_of_fitted_models(houses):
    frame, y = houses
    alone = {"max_steps": 30, "outer_bags": 1, "interactions": 0}
    models = [NeuralBasisRegressor(**alone, random_state=seed).fit(frame, y) for seed in range(4)]
    found = explain.stability(models)
    curves = np.stack([model.eval_terms(frame) for model in models])  # (models, N, T)
    expected = curves.std(axis=0, ddof=1).mean(axis=0)
    np.testing.assert_allclose(explain.stability(models, X=frame).by_column, expected)
    np.testing.assert_allclose(found.by_column, expected, rtol=1e-6)  # every row stands on a knot
    assert found.to_pandas()["deviation"].tolist() == found.by_column.tolist()
    np.testing.assert_allclose(found.model.contributions(frame)[..., 0], curves.mean(axis=0))  # their mean is a model
    assert [shape.members.shape[1] for shape in found.model.shapes] == [4, 4]
    assert repr(found) == f"Stability(4 models, 2 columns, deviation {found.overall:.4g})"


def test_huge_columns_do_not_overflow():
    axis = Axis("size", "continuous", np.array([-1.7e308, 1.7e308]), np.array([0.0, 1.0]))
    models = [make_curve(axis, [0, sign, sign, 0]) for sign in (1, -1)]
    assert explain.stability(models, weighted=False).overall == pytest.approx(np.sqrt(2))


def test_models_that_cannot_be_compared_are_errors():
    curve, levels = make_curve(knots(0, 1), [0, 1, 2, 0]), make_curve(level_axis("size", "nominal", ["a"]), [0, 1, 0])
    with pytest.raises(ValueError, match="two or more models, or the members of one model; got 1"):
        explain.stability([curve])
    with pytest.raises(ValueError, match="does not store the tables of its members; pass a list"):
        explain.stability(curve)
    with pytest.raises(ValueError, match="same classes; got \\('score',\\) and \\('a', 'b', 'c'\\)"):
        explain.stability([make_model(), make_model(link="mlogit")])
    with pytest.raises(ValueError, match="column 'size' has levels in one model and numbers in another"):
        explain.stability([curve, levels])
    with pytest.raises(ValueError, match="no main effect in common"):
        explain.stability([curve, make_curve(knots(0, 1, name="age"), [0, 1, 2, 0])])
    with pytest.raises(ValueError, match="column 'size' of X has only missing values"):
        explain.stability([curve, curve], weighted=False, X=[[np.nan]])
    with pytest.raises(ValueError, match="the model has 1 columns, but the table has 2"):
        explain.stability([curve, curve], X=[[1.0, 2.0]])
