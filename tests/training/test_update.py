"""Updates: new rows correct a fitted model, whose terms, knots and levels stay."""

from __future__ import annotations

from copy import copy

import numpy as np
import pytest
from sklearn.base import clone

import neuralbasis
from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, update
from neuralbasis.model.density import smooth_density

FAST = {"preset": "fast", "n_jobs": 1}


def find_truth(X: np.ndarray, slope: float = 1.0) -> np.ndarray:
    """A sine, a parabola, a jump and a product of five columns."""
    return np.sin(5 * X[:, 0]) + 2 * slope * X[:, 1] ** 2 + (X[:, 2] > 0.5) + X[:, 3] * X[:, 4]


def draw(n_rows: int, seed: int, slope: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.random((n_rows, 5))
    return X, find_truth(X, slope) + rng.normal(0, 0.5, n_rows)


NEW, TEST = draw(3000, 1), draw(4000, 2)[0]


def risk(model, slope: float = 1.0) -> float:
    """Mean squared error beyond the noise."""
    return float(((model.predict(TEST) - find_truth(TEST, slope)) ** 2).mean())


@pytest.fixture(scope="module")
def fitted() -> NeuralBasisRegressor:
    return NeuralBasisRegressor(**FAST, interactions=[(3, 4)]).fit(*draw(3000, 0))


@pytest.fixture(scope="module")
def updated(fitted) -> neuralbasis.AdditiveModel:
    return update(fitted, *NEW, n_jobs=1)


def test_rows_of_the_same_kind_make_a_model_better(fitted, updated):
    risks = []
    for seed in (10, 12, 14):  # the mean of three draws, since the gain of one may be 0
        old, new = draw(3000, seed), draw(3000, seed + 1)
        before = clone(fitted).fit(*old)
        both = clone(fitted).fit(*(np.concatenate(part) for part in zip(old, new, strict=True)))
        risks.append([risk(both), risk(update(before, *new, n_jobs=1)), risk(before)])
    together, updated_risk, alone = np.mean(risks, axis=0)
    assert together < updated_risk < 0.95 * alone
    assert np.abs(updated.predict(TEST) - fitted.predict(TEST)).std() < 0.1  # a fifth of the noise


def test_terms_knots_and_the_old_model_stay(fitted, updated):
    before = fitted.model_
    assert updated.terms == before.terms
    for shape, old in zip(updated.shapes, before.shapes, strict=True):
        for axis, known in zip(shape.axes, old.axes, strict=True):
            np.testing.assert_array_equal(axis.knots, known.knots)
            np.testing.assert_array_equal(axis.places, known.places)
    assert before.summary.n_rows == 3000


def test_rows_add_up(fitted, updated):
    assert updated.summary.n_rows == 6000
    assert updated.summary.parameters["updates"] == [3000]
    for shape, old in zip(updated.shapes, fitted.model_.shapes, strict=True):
        assert shape.weights.sum() == pytest.approx(6000)
        assert (shape.weights >= old.weights).all()
        density = smooth_density(shape.axes, shape.weights)
        assert np.abs((density[..., None] * shape.scores).sum(axis=0)).max() < 1e-6  # pure over all rows


def test_a_shape_follows_a_change_and_the_others_stay(fitted):
    followed = update(fitted, *draw(3000, 3, slope=-1.0), n_jobs=1)
    assert risk(fitted, -1.0) > 2
    assert risk(followed, -1.0) < 0.03
    moves = [
        np.average((new.scores - old.scores)[..., 0] ** 2, weights=new.weights) ** 0.5
        for new, old in zip(followed.shapes, fitted.model_.shapes, strict=True)
    ]
    assert moves[1] > 1
    assert max(moves[0], *moves[2:]) < 0.06


def test_a_new_mean_moves_the_intercept_alone(fitted):
    X, y = draw(3000, 4)
    moved = update(fitted, X, y + 100, n_jobs=1)
    assert moved.intercept[0] - fitted.intercept_ == pytest.approx(100, abs=0.05)
    assert risk(moved) == pytest.approx(100**2, rel=0.01)


def test_error_bars_lie_between_those_of_old_and_new_rows(fitted, updated):
    for shape, old in zip(updated.shapes, fitted.model_.shapes, strict=True):
        assert shape.members is None
        seen = old.weights > 0
        ratio = shape.spread[seen].mean() / old.spread[seen].mean()
        assert 0.3 < ratio < 2, ratio


def test_nightly_updates_do_not_drift_away(fitted):
    model, risks = fitted.model_, []
    for night in range(10):
        model = update(model, *draw(400, 100 + night), n_jobs=1, max_steps=60)
        risks.append(risk(model))
    assert max(risks) < 1.2 * risk(fitted)
    assert risks[-1] < risk(fitted)
    assert model.summary.n_rows == 7000
    assert model.summary.parameters["updates"] == [400] * 10
    spread = [shape.spread.max() for shape in model.shapes]
    assert max(spread) < 2 * max(shape.spread.max() for shape in fitted.model_.shapes)


def test_a_loaded_model_gets_the_same_update(fitted, updated, tmp_path):
    fitted.save(tmp_path / "model.nbm")
    again = update(neuralbasis.load(tmp_path / "model.nbm"), *NEW, n_jobs=1)
    np.testing.assert_allclose(again.scores(TEST), updated.scores(TEST), atol=1e-9)
    again.save(tmp_path / "again.nbm")
    read = neuralbasis.load(tmp_path / "again.nbm")
    np.testing.assert_array_equal(read.scores(TEST), again.scores(TEST))
    assert read.summary.n_rows == 6000


def test_a_warm_start_is_an_update(fitted, updated):
    warm = copy(fitted).set_params(warm_start=True).fit(*NEW)
    np.testing.assert_array_equal(warm.predict(TEST), updated.predict(TEST))
    assert set(warm.history_.stage[:-1]) == {"update"}
    assert warm.history_.stage[-1] == "shares"
    assert fitted.model_.summary.n_rows == 3000


def test_rows_without_residuals_change_nothing(fitted):
    X, _ = draw(500, 3)
    same = fitted.model_.predict(X)
    np.testing.assert_allclose(update(fitted, X, same, n_jobs=1).predict(X), same, rtol=0, atol=1e-6)


def test_old_and_new_rows_count_alike_if_none_are_held_out(fitted):
    X, y = draw(3000, 4)
    moved = update(fitted, X, y + 1, n_jobs=1, validation_size=0)
    assert moved.intercept[0] - fitted.intercept_ == pytest.approx(0.5, abs=0.1)


def draw_classes(n_rows: int, seed: int, n_classes: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(seed)
    table = {"x": rng.random(n_rows), "city": rng.choice(["Oslo", "Rome", "Bern"][: 2 + seed], n_rows)}
    score = 6 * table["x"] - 3 + 2.0 * (table["city"] == "Bern")
    chance = rng.logistic(size=n_rows)
    return table, np.array(["a", "b", "c"])[(score > chance).astype(int) + (n_classes > 2) * (score > chance + 3)]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_new_level_is_learned(n_classes):
    """Bern is only in the new rows."""
    fitted = NeuralBasisClassifier(**FAST, interactions=0, max_steps=150).fit(*draw_classes(2000, 0, n_classes))
    assert fitted.bins_[1][0] == {"Oslo": 1, "Rome": 2}
    X, y = draw_classes(2000, 1, n_classes)
    before = fitted.model_
    assert fitted.update(X, y) is fitted
    assert fitted.bins_[1][0] == {"Oslo": 1, "Rome": 2, "Bern": 3}
    cities = fitted.term_scores_[1].reshape(5, -1)
    assert cities[3, 0] - cities[:3, 0].mean() == pytest.approx(2.0 if n_classes == 2 else -1.0, abs=0.7)
    test, labels = draw_classes(4000, 1, n_classes)
    number = np.searchsorted(fitted.classes_, labels)
    losses = [-np.log(model.predict_proba(test)[np.arange(4000), number]).mean() for model in (before, fitted.model_)]
    assert losses[1] < losses[0] - 0.02
    assert before.encoder.axes[1].levels == ("Oslo", "Rome")
    assert n_classes == 2 or abs(fitted.intercept_.sum()) < 1e-9


def test_new_rows_may_have_one_class():
    fitted = NeuralBasisClassifier(**FAST, interactions=0).fit(*draw_classes(600, 0, 2))
    X, y = draw_classes(200, 0, 2)
    only = {name: column[y == "a"] for name, column in X.items()}
    before = fitted.predict_proba(only)[:, 0].mean()
    assert fitted.update(only, y[y == "a"]).predict_proba(only)[:, 0].mean() > before


def test_new_rows_may_have_columns_without_a_term():
    X, y = draw(600, 0)
    fitted = NeuralBasisRegressor(**FAST, interactions=0, exclude=[0, 2]).fit(X, y)
    assert fitted.update(X, y).term_features_ == [(1,), (3,), (4,)]
    assert len(fitted.model_.encoder.axes) == 5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X, y: ({"x": X["x"], "town": X["city"]}, y), "city"),
        (lambda X, y: (X, np.where(y == "a", "z", y)), "'z', but the classes of the model"),
        (lambda X, y: ({name: column[:1] for name, column in X.items()}, y[:1]), "at least 2 rows"),
    ],
)
def test_errors_of_updates(change, words):
    X, y = draw_classes(300, 0, 2)
    fitted = NeuralBasisClassifier(**FAST, interactions=0, max_steps=20).fit(X, y)
    model = fitted.model_
    with pytest.raises(ValueError, match=words):
        fitted.update(*change(X, y))
    assert fitted.model_ is model
    assert fitted.classes_.tolist() == ["a", "b"]


def test_an_estimator_must_be_fitted_before():
    with pytest.raises(ValueError, match="not fitted"):
        NeuralBasisRegressor().update(*NEW)
    with pytest.raises(TypeError, match="call fit first"):
        update(NeuralBasisRegressor(), *NEW)
