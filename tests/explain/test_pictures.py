"""explain_class and explain_picture: the strongest terms, with the contributions of the model."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis import AdditiveModel, explain, plot
from neuralbasis.encoding import Encoder, continuous_axis
from neuralbasis.explain import classes
from neuralbasis.model.shapes import Shape
from tests.explain import models
from tests.explain.models import make_rows
from tests.models import build_model
from tests.sparse_tables import build_models, draw_table

ABC = models.CLASSES["mlogit"]
PICTURE = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)


def make_model(seed=0, tied=False, link="mlogit"):
    return models.make_model(seed, link, range(0, 25, 2) if tied else ())


def birds(scores, weights=(1.0, 1.0, 1.0)):
    """A model of three classes; for each term the scores of three knots for the first class."""
    names = [f"concept {i}" for i in range(len(scores))]
    axes = [continuous_axis(name, np.arange(3.0), scaling="minmax") for name in names]
    shapes = []
    for i, (axis, own) in enumerate(zip(axes, scores, strict=True)):
        table = np.zeros((5, 3))
        table[1:-1, 0] = own
        shapes.append(Shape((i,), (axis,), table, np.zeros_like(table), np.pad(np.asarray(weights, float), 1)))
    return AdditiveModel(Encoder(tuple(axes)), np.zeros(3), tuple(shapes), "mlogit", ABC)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["mlogit", "logit"]), st.booleans())
def test_gains_are_means_over_the_rows_of_the_class(seed, link, tied):
    model = make_model(seed, tied and link == "mlogit", link)
    rows = make_rows(model, seed=seed)
    means = model.contributions(rows).mean(axis=0)
    for place, label in enumerate(model.classes.tolist()):
        found = explain.explain_class(model, label, rows, n_terms=3)
        own = means[:, place] if link == "mlogit" else means[:, 0] * (1 if place else -1)
        np.testing.assert_allclose(found.gains, own, atol=1e-12)
        best = sorted((gain for gain, is_for in zip(own, found.is_for, strict=True) if is_for), reverse=True)[:3]
        np.testing.assert_allclose([one.size for one in found.raised_by], best, atol=1e-12)
        assert [one.size for one in found.lowered_by] == sorted(one.size for one in found.lowered_by)
        assert all(one.size > 0 for one in found.raised_by)
        assert all(one.size < 0 for one in found.lowered_by)
        assert found.n_rows == 20


def test_many_contributions_are_computed_for_one_score(monkeypatch):
    model = make_model(1, tied=True)
    whole = explain.explain_class(model, "b", make_rows(model))
    monkeypatch.setattr(classes, "MAX_CONTRIBUTIONS", 0)
    alone = explain.explain_class(model, "b", make_rows(model))
    np.testing.assert_allclose(alone.gains, whole.gains, atol=1e-12)
    np.testing.assert_allclose(alone.rival_gains, whole.rival_gains, atol=1e-12)


def test_without_rows_gains_and_losses_are_means_weighted_by_the_odds():
    model = birds([[-1, -1, 2], [1, 1, -2], [0, 0, 0.5], [0, 0, 0]])
    found = explain.explain_class(model, "a")
    up, down = np.exp([-1.0, -1.0, 2.0]), np.exp([1.0, 1.0, -2.0])
    gain = (up * [-1, -1, 2]).sum() / up.sum()
    loss = (down * [-1, -1, 2]).sum() / down.sum()
    np.testing.assert_allclose([found.gains[0], found.losses[0]], [gain, loss])
    np.testing.assert_allclose([found.gains[1], found.losses[1]], [-loss, -gain])
    assert [one.name for one in found.raised_by] == ["concept 0", "concept 2"]
    assert [one.name for one in found.lowered_by] == ["concept 1"]
    assert found.lowered_by[0].size == pytest.approx(-gain)
    assert (found.rival, found.distinguished_by, found.n_rows) == (None, (), 0)
    assert str(found) == "for a: concept 0 +1.7, concept 2 +0.23\nagainst a: concept 1 −1.7"


def test_cells_without_training_rows_do_not_count():
    found = explain.explain_class(birds([[-0.1, -0.1, 9.0]], weights=(1, 1, 0)), "a")
    assert found.gains[0] == pytest.approx(-0.1)
    assert found.raised_by == ()


def test_huge_scores_do_not_overflow():
    found = explain.explain_class(birds([[-1000.0, 0.0, 1000.0]]), "a")
    assert (found.gains[0], found.losses[0]) == (1000.0, -1000.0)


def test_views_are_the_tables_of_the_class():
    for tied in (False, True):
        model = make_model(1, tied)
        found = explain.explain_class(model, "b", make_rows(model))
        for term in (*found.terms_for, *found.terms_against):
            shape = model.shapes[term.index]
            np.testing.assert_allclose(term.scores, shape.scores[..., [1]])
            np.testing.assert_array_equal(term.weights, shape.weights)
            if shape.members is not None:
                np.testing.assert_allclose(term.members, shape.members[..., [1]])
                np.testing.assert_allclose(term.spread, shape.spread[..., [1]])


def test_the_first_of_two_classes_has_the_negated_contributions():
    model = make_model(2, link="logit")
    rows = make_rows(model)
    no, yes = (explain.explain_class(model, label, rows) for label in ("no", "yes"))
    np.testing.assert_allclose(no.gains, -yes.gains)
    assert (no.rival, yes.rival) == ("yes", "no")
    np.testing.assert_allclose(no.view(0).scores, -yes.view(0).scores)
    np.testing.assert_array_equal(no.view(0).spread, yes.view(0).spread)


def test_the_rival_has_the_next_highest_score_on_the_rows():
    model = make_model(3)
    rows = make_rows(model, 40)
    found = explain.explain_class(model, "a", rows, n_terms=2)
    mean = model.scores(rows).mean(axis=0)
    rival = 1 + int(mean[1:].argmax())
    assert found.rival == ABC[rival]
    means = model.contributions(rows).mean(axis=0)
    lead = means[:, 0] - means[:, rival]
    order = np.argsort(-lead)[:2]
    assert [one.name for one in found.distinguished_by] == [model.term_names[t] for t in order]
    np.testing.assert_allclose([one.size for one in found.distinguished_by], lead[order])


def test_values_are_those_of_the_rows():
    model = make_model(0)
    rows = make_rows(model)
    found = explain.explain_class(model, "a", rows)
    number = [None if value != value else value for value in rows["x0"].tolist()]
    assert found.values(found.view(0)) == (tuple(number),)
    assert found.values(found.view(1)) == (tuple(rows["x1"].tolist()),)
    assert explain.explain_class(model, "a").values(found.view(0)) == ((),)


def test_rows_may_be_mappings():
    model = birds([[-1, 0, 1]])
    assert explain.explain_class(model, "a", [{"concept 0": 2.0}, {"concept 0": 1.5}]).gains[0] == 0.75


def test_a_low_rank_model_has_the_explanation_of_its_tables():
    table = draw_table(0)
    factors, tables = build_models(table)
    for X in (None, table[:7]):
        one, other = (explain.explain_class(model, "b", X) for model in (factors, tables))
        for name in ("gains", "losses"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-6)
        assert [term.name for term in one.terms_for] == [term.name for term in other.terms_for]
        np.testing.assert_allclose(one.view(2).scores, other.view(2).scores)


def test_frames_and_plain_values():
    model = make_model(0)
    found = explain.explain_class(model, "a", make_rows(model))
    frame = found.to_pandas()
    assert list(frame["term"][:4]) == [one.name for one in found.raised_by]
    assert list(frame.columns) == ["term", "gain", "loss", f"gain of {found.rival}"]
    assert len(frame) == len(model.shapes)
    data = found.data()
    assert (data["class"], data["rows"], data["rival"]) == ("a", 20, found.rival)
    assert data["for"]["scores"] == [one.size for one in found.raised_by]
    assert repr(found) == "ClassExplanation('a', 20 rows)"


@pytest.mark.parametrize("seed", range(5))
def test_terms_that_lower_the_score_are_strongest_first(seed):
    model = make_model(seed)
    found = explain.explain_class(model, "a", make_rows(model), n_terms=100)
    others = found.to_pandas()[found.is_for.sum() :]
    assert list(others["loss"]) == sorted(others["loss"])
    named = [one.name for one in found.lowered_by]
    assert list(others["term"])[: len(named)] == named


def test_numeric_classes_are_plain_values():
    rng = np.random.default_rng(0)
    model = build_model(rng, n_outputs=3, link="mlogit", classes=np.array([3, 5, 8]))
    found = explain.explain_class(model, model.classes[1])
    assert json.loads(json.dumps(found.data()))["class"] == 5
    assert repr(found) == "ClassExplanation(5, 0 rows)"


def test_wrong_classes_and_pictures_are_errors():
    model = make_model()
    with pytest.raises(ValueError, match=r"no class 'd'; its classes are \['a', 'b', 'c'\]"):
        explain.explain_class(model, "d")
    with pytest.raises(ValueError, match="n_terms must be 1 or more; got 0"):
        explain.explain_class(model, "a", n_terms=0)
    with pytest.raises(ValueError, match="this model is a regression: use explain_global"):
        explain.explain_class(build_model(np.random.default_rng(0)), 0)
    with pytest.raises(ValueError, match=r"numbers from 0 to 255.* got float64 of shape \(4, 5, 2\)"):
        explain.explain_class(model, "a", pictures=[np.zeros((4, 5, 2))])
    with pytest.raises(ValueError, match=r"got -2 … 2\. Pass the picture before normalisation"):
        explain.explain_class(model, "a", pictures=[np.array([[-2.0, 2.0]])])
    with pytest.raises(ValueError, match="the largest is 1, which is nearly black: multiply the picture by 255"):
        explain.explain_class(model, "a", pictures=[np.array([[0.0, 0.3, 1.0]])])
    dark = [np.zeros((4, 5)), np.array([[0, 1]], dtype=np.uint8)]
    assert [picture.max() for picture in explain.explain_class(model, "a", pictures=dark).pictures] == [0, 1]


@pytest.mark.parametrize(
    "array",
    [PICTURE, PICTURE.astype(float), PICTURE.astype(np.int64), np.dstack([PICTURE, PICTURE[..., 0]])],
    ids=["bytes", "floats", "integers", "alpha"],
)
def test_pictures_become_bytes_of_three_colours(array):
    (found,) = explain.explain_class(make_model(), "a", pictures=[array]).pictures
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, PICTURE)
    grey = explain.explain_class(make_model(), "a", pictures=[array[..., 0]]).pictures[0]
    np.testing.assert_array_equal(grey, np.repeat(PICTURE[..., :1], 3, axis=2))


def one_row(model, seed=5):
    return {name: values[:1] for name, values in make_rows(model, 1, seed).items()}


def test_terms_are_the_largest_contributions_with_their_heat():
    model = make_model(4)
    row, heat = one_row(model), {"x0": np.arange(6.0).reshape(2, 3), "x1": np.ones((2, 3))}
    found = explain.explain_picture(model, row, PICTURE, heat, label="c", actual="b", n_terms=len(model.shapes))
    sizes = model.contributions(row)[0, :, 2]
    order = np.argsort(-np.abs(sizes), kind="stable")
    np.testing.assert_allclose([term.contribution for term in found.terms], sizes[order])
    assert [term.name for term in found.terms] == [model.term_names[t] for t in order]
    by_name = {term.name: term.heat for term in found.terms}
    np.testing.assert_array_equal(by_name["x0"], heat["x0"])
    np.testing.assert_array_equal(by_name["x0 & x1"], np.maximum(heat["x0"], 1.0))
    assert by_name["x2"] is None
    assert found.row.actual == "b"
    assert found.row.scores[2] == pytest.approx(found.intercept[2] + sizes.sum())


def test_a_picture_explains_the_predicted_class():
    model = make_model(4)
    found = explain.explain_picture(model, one_row(model), PICTURE, n_terms=2)
    assert found.output == int(model.scores(one_row(model))[0].argmax())
    assert len(found.terms) == 2
    assert repr(found) == f"PictureExplanation(5 × 4, prediction {found.row.prediction!r})"


def test_wrong_pictures_are_errors():
    model = make_model()
    row = one_row(model)
    with pytest.raises(ValueError, match="the concepts of one picture; got 3 rows"):
        explain.explain_picture(model, make_rows(model, 3), PICTURE)
    with pytest.raises(ValueError, match="heat names 'wing', which is not a column of the model"):
        explain.explain_picture(model, row, PICTURE, {"wing": np.ones((2, 2))})
    with pytest.raises(ValueError, match=r"heat of 'x0' must be a grid \(h, w\) of finite numbers"):
        explain.explain_picture(model, row, PICTURE, {"x0": [[np.nan]]})
    with pytest.raises(ValueError, match=r"grids of one size; got \[\(1, 2\), \(2, 2\)\]"):
        explain.explain_picture(model, row, PICTURE, {"x0": np.ones((2, 2)), "x1": np.ones((1, 2))})
    with pytest.raises(ValueError, match="label needs a model with three or more classes"):
        explain.explain_picture(make_model(link="logit"), row, PICTURE, label="yes")
    with pytest.raises(ValueError, match="n_terms must be 1 or more"):
        explain.explain_picture(model, row, PICTURE, n_terms=0)


def test_visualize_draws_classes_and_pictures():
    model = make_model()
    found = explain.explain_class(model, "a", make_rows(model), pictures=[PICTURE])
    drawn = [axes.get_title() for axes in found.visualize().axes]
    assert drawn == [axes.get_title() for axes in plot.class_shapes(found).axes]
    seen = explain.explain_picture(model, one_row(model), PICTURE, {"x0": np.eye(2)})
    n_heats = sum(term.heat is not None for term in seen.terms)
    assert len(seen.visualize().axes) == len(plot.picture(seen).axes) == 2 + n_heats > 2
