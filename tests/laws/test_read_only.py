"""What is drawn is what predicts: no array that a fitted model shows can be changed in place."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import joblib
import numpy as np
import pytest
import scipy.sparse as sp

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, load, merge
from neuralbasis.model.shapes import TiedShape

QUICK = {"max_steps": 20, "outer_bags": 2, "random_state": 1, "validation_size": 0}
KINDS = ("regression", "binary", "multiclass", "tied", "wide")


def fit(kind: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    if kind == "wide":
        X = sp.random(200, 21_000, density=0.002, random_state=0, format="csr")
        return NeuralBasisRegressor(max_terms=None, **QUICK).fit(X, np.asarray(X[:, :40].sum(axis=1)).ravel()), X[:5]
    X = {"size": rng.normal(size=300), "colour": rng.choice(["red", "green", "blue"], 300)}
    y = X["size"] * (1 + (X["colour"] == "red"))
    pair = [("size", "colour")]
    if kind == "regression":
        return NeuralBasisRegressor(interactions=pair, **QUICK).fit(X, y), X
    if kind == "tied":
        monkeypatch.setattr("neuralbasis.training.compile.MAX_NUMBERS", 0)
    cuts = [0.0] if kind == "binary" else [-0.5, 0.5]
    labels = np.array(["low", "middle", "high"])[np.digitize(y, cuts)]
    return NeuralBasisClassifier(interactions=pair, network__tied_classes=kind == "tied", **QUICK).fit(X, labels), X


@pytest.fixture(scope="module", params=KINDS)
def fitted(request):
    with pytest.MonkeyPatch.context() as monkeypatch:
        return fit(request.param, monkeypatch)


def list_arrays(value: Any, path: str, depth: int = 7) -> Iterator[tuple[str, np.ndarray]]:
    """Every array that public names lead to, with the way to it; of long sequences the first and the last item."""
    if isinstance(value, np.ndarray):
        yield path, value
    elif isinstance(value, Mapping):
        for key in value:
            yield from list_arrays(value[key], f"{path}[{key!r}]", depth - 1)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for index in sorted({0, len(value) - 1}) if len(value) else ():
            yield from list_arrays(value[index], f"{path}[{index}]", depth - 1)
    elif type(value).__module__.startswith("neuralbasis") and depth > 0:
        skipped = {"layout", "summary", "history_", "interaction_ranking_"}  # made for the caller, or no part of it
        for name in dir(value):
            if not name.startswith("_") and name not in skipped:
                yield from list_arrays(getattr(value, name), f"{path}.{name}", depth - 1)


def test_no_public_array_can_be_written_to(fitted):
    estimator, _ = fitted
    ways = dict(list_arrays(estimator, "estimator")) | dict(list_arrays(estimator.explain_global(), "explanation"))
    assert {"estimator.model_.intercept", "estimator.term_scores_[0]", "explanation.intercept"} <= ways.keys()
    assert not [way for way, array in ways.items() if array.flags.writeable]
    for array in ways.values():
        with pytest.raises(ValueError, match="belongs to a fitted model"):
            array[...] = array
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True


def test_arithmetic_in_place_is_refused_and_predictions_stay(fitted):
    estimator, X = fitted
    before = estimator.predict(X)
    scores = estimator.term_scores_[0]
    with pytest.raises(ValueError, match=r"dataclasses\.replace"):
        scores += 1
    with pytest.raises(ValueError, match="belongs to a fitted model"):
        np.add(scores, 1, out=scores)
    with pytest.raises(ValueError, match="read-only"):
        np.copyto(scores, 1.0)
    intercept = estimator.intercept_
    if isinstance(intercept, float):
        intercept += 1
    else:
        with pytest.raises(ValueError, match="belongs to a fitted model"):
            intercept += 1
    np.testing.assert_array_equal(estimator.predict(X), before)


@pytest.mark.parametrize("carry", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it)), "joblib", "file", "merge"])
def test_copies_and_files_give_read_only_arrays_too(fitted, carry, tmp_path):
    estimator, X = fitted
    if carry == "joblib":
        joblib.dump(estimator.model_, tmp_path / "model.joblib")
        model = joblib.load(tmp_path / "model.joblib")
    elif carry == "file":
        estimator.save(tmp_path / "model.nbm")
        model = load(tmp_path / "model.nbm")
    elif carry == "merge":
        model = merge([estimator, estimator])
    else:
        model = carry(estimator.model_)
    assert not [way for way, array in list_arrays(model, "model") if array.flags.writeable]
    if carry != "merge":
        np.testing.assert_array_equal(model.predict(X), estimator.predict(X))


def test_a_changed_model_is_a_new_model(fitted):
    """The way that the error names: a new shape in a new model, which draws and predicts the same change."""
    estimator, X = fitted
    model = estimator.model_
    if model.is_wide or isinstance(model.shapes[0], TiedShape):
        pytest.skip("a term in factors has no table of scores to replace")
    first = replace(model.shapes[0], scores=model.shapes[0].scores + 1)
    changed = replace(model, shapes=(first, *model.shapes[1:]))
    np.testing.assert_allclose(changed.scores(X), model.scores(X) + 1, rtol=1e-9)
    np.testing.assert_allclose(changed.contributions(X)[:, 0], model.contributions(X)[:, 0] + 1, rtol=1e-9)
    assert changed.importances()[0] != model.importances()[0]
    np.testing.assert_array_equal(changed.importances()[1:], model.importances()[1:])


def test_predictions_are_plain_arrays_of_the_caller(fitted):
    estimator, X = fitted
    for found in (estimator.predict(X), estimator.eval_terms(X), estimator.term_importances()):
        assert type(found) is np.ndarray
        assert found.flags.writeable


def test_a_model_takes_an_array_over_and_copies_a_view(fitted):
    model = fitted[0].model_
    whole = np.arange(6.0)[: len(model.intercept) + 1].copy()
    part = replace(model, intercept=whole[:-1]).intercept
    whole[0] = 7.0
    assert part[0] == 0.0
    given = whole[:-1].copy()
    own = replace(model, intercept=given)
    assert np.shares_memory(own.intercept, given)
    with pytest.raises(ValueError, match="read-only"):
        given[0] = 1.0
    with pytest.raises(ValueError, match="belongs to a fitted model"):
        own.intercept[0] += 1
    assert replace(own).intercept is own.intercept
