"""Summaries: how a model was fitted, in values that JSON can hold."""

import functools
import json
from datetime import datetime, timezone

import numpy as np
import pandas as pd
import pytest

import neuralbasis
from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor
from neuralbasis.model.summary import to_plain
from tests.models import build_model
from tests.parameters import HOME

QUICK = {"max_steps": 30, "outer_bags": 2, "interactions": 0}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"size": rng.normal(size=80), "age": rng.integers(0, 9, 80), "price": rng.normal(5, 2, 80)})


def test_summary_of_a_fit(table):
    before = datetime.now(timezone.utc).replace(microsecond=0)
    estimator = NeuralBasisRegressor(**QUICK, exclude=("age",)).fit(table[["size", "age"]], table["price"])
    summary = estimator.model_.summary
    assert (summary.estimator, summary.n_rows, summary.n_columns) == ("NeuralBasisRegressor", 80, 2)
    assert (summary.target, summary.parameters["exclude"]) == ("price", ["age"])
    assert summary.parameters.keys() == (estimator.get_params(deep=False).keys() - {"network", "storage"}) | HOME.keys()
    np.testing.assert_allclose([summary.shift, summary.unit], [table["price"].mean(), table["price"].std(ddof=0)])
    assert summary.validation == estimator.history_.validation[estimator.history_.best]
    assert summary.history["steps"] == estimator.history_.steps
    assert summary.history["stopped_by"] == estimator.history_.stopped_by
    assert before <= datetime.fromisoformat(summary.date) <= datetime.now(timezone.utc)
    assert summary.versions.keys() == {"neuralbasis", "python", "numpy", "torch", "scikit-learn"}
    assert (summary.versions["neuralbasis"], summary.versions["numpy"]) == (neuralbasis.__version__, np.__version__)
    assert json.loads(json.dumps(vars(summary), allow_nan=False)) == vars(summary)


def test_a_fit_without_held_out_rows_has_no_validation_loss(table):
    y = np.where(table["price"] > 5, "dear", "cheap")
    estimator = NeuralBasisClassifier(**QUICK, validation_size=0).fit(table[["size"]].to_numpy(), y)
    summary = estimator.model_.summary
    assert (summary.target, summary.validation, summary.shift, summary.unit) == (None, None, 0.0, 1.0)
    assert json.loads(json.dumps(vars(summary), allow_nan=False)) == vars(summary)


def test_a_model_built_by_hand_has_no_summary():
    assert build_model(np.random.default_rng(0)).summary is None


class Odd:
    pass


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        (True, True),
        (np.bool_(True), True),
        (np.int64(3), 3),
        (2**70, str(2**70)),
        (np.float32(0.5), 0.5),
        (float("nan"), None),
        (-np.inf, None),
        ("text", "text"),
        (np.array([[1, 2]]), [[1, 2]]),
        ((1, ("a", 2.0)), [1, ["a", 2.0]]),
        ({1: {"a"}}, {"1": ["a"]}),
        (len, "len"),
        (Odd, "Odd"),
        (Odd(), "Odd"),
        (functools.partial(len), "partial"),
        (np.random.RandomState(0), "RandomState"),
    ],
)
def test_plain_values(value, plain):
    assert to_plain(value) == plain
    assert type(to_plain(value)) is type(plain)


def test_nesting_is_limited():
    endless: list = []
    endless.append(endless)
    text = json.dumps(to_plain(endless))
    assert text == "[" * 8 + '"list"' + "]" * 8
