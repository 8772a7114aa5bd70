"""explain_global: views of terms show the tables, importances and spreads of the model."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, explain
from tests.explain.models import CLASSES, COLOURS, knots, make_curve, make_model, make_rows


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


def test_range_excludes_cells_that_no_row_reaches():
    view = explain.explain_global(make_curve(knots(1, 2), [0.5, -1.0, 1.0, 99.0])).terms[0]
    assert (view.low, view.high) == (-1.0, 1.0)
    view = explain.explain_global(make_curve(COLOURS, [0.5, -1.0, 1.0, 0.0, 99.0])).terms[0]
    assert (view.low, view.high) == (-1.0, 99.0)


def test_importance_is_the_mean_absolute_contribution(houses, regressor):
    sizes = np.abs(regressor.eval_terms(houses[0])).mean(axis=0)  # whole numbers: every row is at a knot
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


def test_spread_of_an_importance_is_its_standard_error(regressor):
    found = regressor.explain_global().terms
    errors = [float(shape.evidence.importance_errors[0]) for shape in regressor.model_.shapes]
    assert [term.importance_spread for term in found] == errors
    assert min(errors) > 0


def test_unknown_spread_is_not_zero():
    pair = explain.explain_global(make_model()).find("x0 & x1")
    assert pair.members is None
    assert np.isnan(pair.importance_spread)
    alone = make_curve(knots(1, 2), [0, -1, 1, 0], members=[[0], [-1], [1], [0]])
    assert np.isnan(explain.explain_global(alone).terms[0].importance_spread)


def test_a_model_without_rows_has_importance_zero():
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


def test_explanations_are_frozen():
    found = explain.explain_global(make_model())
    with pytest.raises(FrozenInstanceError):
        found.terms[0].low = 0.0
    assert explain.explain_global(found) is found


@pytest.mark.parametrize("wrong", [None, "houses.nbm", NeuralBasisRegressor()])
def test_anything_but_a_model_is_an_error(wrong):
    for function in (explain.explain_global, lambda model: explain.explain_local(model, [[1.0]])):
        with pytest.raises(TypeError, match="expected an AdditiveModel or a fitted estimator"):
            function(wrong)


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


def test_data_has_the_keys_of_interpret(houses, classifier):
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
