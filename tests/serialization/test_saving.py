"""Saving: every fitted model can be saved and predicts the same after loading; `fit` refuses the others."""

from __future__ import annotations

import datetime
import decimal
import json
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

import neuralbasis
from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor
from neuralbasis.encoding import Axis, level_axis
from neuralbasis.serialization import DocumentError
from neuralbasis.serialization.model_file import check_columns, check_labels, check_size
from tests.models import build_model

RNG = np.random.default_rng(0)
DENSE = RNG.normal(size=(40, 2))
SPARSE = sp.random(60, 20_000, 0.001, format="csr", random_state=0)
EMPTY = sp.csr_matrix((60, 20_000))
LINE = np.arange(60.0)
HALVES = np.arange(40) % 2
CALLS: list = []  # histories of the fits so far, by their callbacks
FIT = {"max_steps": 5, "outer_bags": 2, "interactions": 0, "callbacks": [lambda history: CALLS.append(history)]}


def regress(table=DENSE, y=DENSE[:, 0], sample_weight=None, init_score=None, **options):
    """A short fit, and its training table."""
    model = NeuralBasisRegressor(**FIT, **options)
    return model.fit(table, y, sample_weight, init_score), table


def wide(table=SPARSE, y=LINE, **options):
    return regress(table, y, max_terms=None, **options)


def classify(labels, **fit):
    model = NeuralBasisClassifier(**FIT)
    return model.fit(DENSE, np.asarray(labels)[HALVES], **fit), DENSE


def objects(*labels):
    return np.array(labels, dtype=object)


def name_column(name):
    return {name: DENSE[:, 0], "other": DENSE[:, 1]}


def name_level(name):
    return {"x": objects(name, "b")[HALVES], "other": DENSE[:, 1]}


SAVED = {
    "absent values are missing": lambda: wide(storage__absent_value=np.nan),
    "nothing stored": lambda: wide(EMPTY),
    "wide, large weights": lambda: wide(sample_weight=np.full(60, 1e47)),
    "wide, large target": lambda: wide(y=LINE * 1e13),
    "wide, small target": lambda: wide(y=LINE * 1e-20),
    "wide, huge values": lambda: wide(SPARSE * 1e307),
    "weights": lambda: regress(sample_weight=np.full(40, 1e300)),
    "weights whose sum is infinite": lambda: regress(sample_weight=np.full(40, 1e308)),
    "tiny weights": lambda: regress(sample_weight=np.full(40, 1e-310)),
    "wide, weights": lambda: wide(sample_weight=np.full(60, 1e300)),
    "large weights": lambda: regress(sample_weight=np.full(40, 1e47)),
    "small weights": lambda: regress(sample_weight=np.full(40, 1e-50)),
    "large target": lambda: regress(y=DENSE[:, 0] * 1e149),
    "large scores": lambda: regress(init_score=DENSE[:, 0] * 1e149),
    "a rate that diverges": lambda: regress(learning_rate=1e30),
    "labels of half precision": lambda: classify(np.array([1, 2], np.float16)),
    "labels that are no text of UTF-8": lambda: classify(["\ud800", "b"]),
    "labels with zeros": lambda: classify(["a\0b", "a"]),
    "labels of long text": lambda: classify(objects("a" * 100_000, "b")),
    "labels of NumPy's text": lambda: classify(objects(np.str_("a"), np.str_("b"))),
    "a name that is no text of UTF-8": lambda: regress(name_column("\ud800")),
    "a name of zeros": lambda: regress(name_column("\0")),
    "a long name": lambda: regress(name_column("x" * 100_000)),
    "a level that is no text of UTF-8": lambda: regress(name_level("\ud800")),
    "a long level": lambda: regress(name_level("x" * 100_000)),
}

REFUSED = {
    "wide, target": lambda: wide(y=LINE * 1e30),
    "wide, tiny target": lambda: wide(y=LINE * 1e-30),
    "small target": lambda: regress(y=DENSE[:, 0] * 1e-310),
    "target": lambda: regress(y=DENSE[:, 0] * 1e160),
    "scores": lambda: regress(init_score=DENSE[:, 0] * 1e160),
    "scores of classes": lambda: classify(["a", "b"], init_score=DENSE[:, 0] * 1e160),
    "all missing": lambda: wide(EMPTY, storage__absent_value=np.nan),
    "dates": lambda: classify(np.array(["2020-01-01", "2021-01-01"], "M8[D]")),
    "time spans": lambda: classify(np.array([1, 2], "m8[s]")),
    "complex": lambda: classify([1j, 2.0]),
    "bytes": lambda: classify([b"a", b"b"]),
    "objects of bytes": lambda: classify(objects(b"a", b"b")),
    "mixed objects": lambda: classify(objects(1, "a")),
    "dates as objects": lambda: classify(objects(datetime.date(2020, 1, 1), datetime.date(2021, 1, 1))),
    "decimals": lambda: classify(objects(decimal.Decimal(1), decimal.Decimal(2))),
    "NaN": lambda: classify([np.nan, 1.0]),
    "None": lambda: classify(objects(None, "a")),
    "integers of 31 digits": lambda: classify(objects(10**30, 1)),
    "long doubles": lambda: classify(np.array([1, 2], np.longdouble)),
}


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:divide by zero")
@pytest.mark.parametrize("name", SAVED)
def test_fitted_models_are_saved_and_predict_the_same(name, tmp_path):
    CALLS.clear()
    model, rows = SAVED[name]()
    assert CALLS
    model.save(tmp_path / "model.nbm")
    loaded = neuralbasis.load(tmp_path / "model.nbm")
    np.testing.assert_array_equal(loaded.scores(rows), model.model_.scores(rows))
    assert np.isfinite(loaded.scores(rows)).all()
    assert loaded.predict(rows).tolist() == model.predict(rows).tolist()


@pytest.mark.parametrize("name", REFUSED)
def test_models_that_cannot_be_saved_are_refused_before_training(name):
    CALLS.clear()
    with pytest.raises((ValueError, TypeError)):
        REFUSED[name]()
    assert not CALLS


def test_refusals_name_a_remedy():
    with pytest.raises(
        ValueError, match=r"y has labels .* not \[datetime.date\(2020, 1, 1\)\] .*; write them as short text"
    ):
        REFUSED["dates"]()
    with pytest.raises(ValueError, match=r"the target's standard deviation is .*; multiply the target"):
        REFUSED["wide, target"]()
    with pytest.raises(ValueError, match="the table has only missing values, since absent_value is NaN"):
        REFUSED["all missing"]()


def test_labels_that_are_too_long_together_are_refused():
    with pytest.raises(ValueError, match=r"labels of classes are too long: .* write them as short text"):
        check_labels(np.array(["a" * (1 << 23), "b", "c"]))


def test_too_many_columns_are_refused():
    axes = [Axis("x", "continuous", np.zeros(1), np.full(1, 0.5))] * ((1 << 20) + 1)
    with pytest.raises(ValueError, match="the table has 1,048,577 columns; a model has at most 1,048,576"):
        check_columns(axes, {}, 0)


def test_too_many_knots_are_refused():
    knots = np.zeros((1 << 22) + 1)
    with pytest.raises(ValueError, match="column 'x' has 4,194,305 knots or levels; an axis has at most 4,194,304"):
        check_columns([Axis("x", "continuous", knots, knots)], {}, 0)


@pytest.mark.parametrize(
    ("levels", "parameters", "n_terms"),
    [
        (["x" * 1000 + str(k) for k in range(140_000)], {}, 1),
        (["a"], {"feature_names": ["x" * 140_000_000]}, 1),
        (["a"], {}, 600_000),
    ],
    ids=["levels", "parameters", "terms"],
)
def test_too_large_names_and_parameters_are_refused(levels, parameters, n_terms):
    with pytest.raises(ValueError, match=r"take about .* in a model file, which holds at most 134 MB.*'city' has"):
        check_columns([level_axis("city", "nominal", levels)], parameters, n_terms)


@pytest.mark.parametrize("kinds", [("continuous",) * 12, ("nominal",) * 9])
def test_the_estimated_size_of_terms_is_an_upper_bound(kinds, tmp_path):
    model = build_model(np.random.default_rng(0), kinds, (1, 2, 3))
    model.save(tmp_path / "model.nbm")
    with zipfile.ZipFile(tmp_path / "model.nbm") as archive:
        text = archive.read("document.json").decode()
    names = json.dumps(json.loads(text)["columns"])
    n_terms = len(model.shapes)
    assert len(text) - len(names) < 200 * n_terms + 120 * len(kinds)
    assert sum(map(text.count, ",[{")) - sum(map(names.count, ",[{")) < 16 * n_terms + 8 * len(kinds)


def test_too_large_tables_are_refused():
    check_size(2e9)
    with pytest.raises(ValueError, match=r"would take about 3\.0 GB, .* a model file holds at most 2\.1 GB"):
        check_size(3e9)
    with pytest.raises(ValueError, match=r"the largest 100,000,000 cells; .* a table 67,108,864 cells"):
        check_size(1e3, 100_000_000)


def test_a_failed_save_keeps_the_fit_and_the_earlier_file(tmp_path, monkeypatch):
    path = tmp_path / "model.nbm"
    model, rows = regress()
    model.save(path)
    before, expected = path.read_bytes(), model.predict(rows)
    model.model_.summary.parameters["deep"] = [[[[[[[[[[[[[1]]]]]]]]]]]]]
    with pytest.raises(DocumentError, match=r"model\.nbm cannot be written: its summary is nested too deeply"):
        model.save(path)
    np.testing.assert_array_equal(model.predict(rows), expected)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["model.nbm"]
