"""AdditiveModel: scores are intercept plus contributions; links, importances, threads, pickles, NumPy without numba."""

import os
import pickle
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis import AdditiveModel, kernels
from neuralbasis.model.shapes import Shape
from tests.model.cases import CLASSES, NAN, as_rows, assert_same_model, make_case, make_tiny
from tests.models import MIXED, NUMERIC, name_columns, slow_contributions, tie_model


def test_a_model_by_hand():
    model = make_tiny()
    table = {"size": [1.0, 2.0, 2.5, 9.0, NAN, 0.0], "colour": ["red", "blue", None, "green", "red", "blue"]}
    expected = [
        [0.0, 2.0, -0.5 * 2 / 3 + 4.5 / 3],  # halfway from 0 to 2; a third of the way from 0 to 3
        [1.0, -2.0, 0.5 / 3 - 1.5 * 2 / 3],
        [2.0, 5.0, 0.0],
        [3.0, 0.0, 0.0],
        [9.0, 2.0, 0.0],
        [-1.0, -2.0, 0.5],
    ]
    assert model.term_names == ("size", "colour", "size & colour")
    assert model.terms == ((0,), (1,), (0, 1))
    np.testing.assert_allclose(model.contributions(table)[:, :, 0], expected, atol=1e-15)
    np.testing.assert_allclose(model.scores(table)[:, 0], 10 + np.sum(expected, axis=1))
    np.testing.assert_allclose(model.predict(table), 10 + np.sum(expected, axis=1))


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([(1,), (1, 2), (1, 2, 3)]),
    st.sampled_from([1, 4]),
    st.sampled_from([MIXED, NUMERIC]),
)
def test_contributions_and_intercept_sum_to_the_score(seed, orders, n_outputs, kinds):
    model, numbers, table = make_case(seed, 30, kinds=kinds, orders=orders, n_outputs=n_outputs)
    contributions, scores = model.contributions(table), model.scores(table)
    assert contributions.shape == (30, len(model.shapes), n_outputs)
    assert scores.shape == (30, n_outputs)
    assert model.n_outputs == n_outputs
    np.testing.assert_allclose(model.intercept + contributions.sum(axis=1), scores, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(contributions[:8], slow_contributions(model, numbers[:8]), rtol=1e-10, atol=1e-11)


def test_unseen_levels_and_missing_values_read_their_cells():
    model, _, _ = make_case(kinds=("nominal", "continuous"), orders=(1,))
    nominal, continuous = (shape.scores[:, 0] for shape in model.shapes)
    found = model.contributions({"x0": ["level 1", "other", None], "x1": [NAN, -1e9, 1e9]})[:, :, 0]
    assert found[:, 0].tolist() == [nominal[2], nominal[-1], nominal[0]]
    assert found[:, 1].tolist() == [continuous[0], continuous[1], continuous[-2]]


def test_one_row_reads_like_many():
    model, numbers, _ = make_case(kinds=NUMERIC, n_rows=50)
    together = model.scores(numbers)
    alone = np.concatenate([model.scores(numbers[i : i + 1]) for i in range(50)])
    np.testing.assert_array_equal(alone, together)


@pytest.mark.parametrize("n_jobs", [None, -1, 1, 3])
def test_threads_change_nothing(n_jobs):
    model, numbers, _ = make_case(kinds=NUMERIC, n_rows=13_000, n_outputs=2, n_jobs=n_jobs)
    serial, _, _ = make_case(kinds=NUMERIC, n_rows=1, n_outputs=2, n_jobs=1)
    np.testing.assert_array_equal(model.scores(numbers), serial.scores(numbers))
    np.testing.assert_array_equal(model.contributions(numbers), serial.contributions(numbers))


def test_regression_predicts_the_score():
    model, _, table = make_case()
    np.testing.assert_array_equal(model.predict(table), model.scores(table)[:, 0])
    with pytest.raises(AttributeError, match="predict_proba needs a model of classes; this one is a regression"):
        model.predict_proba(table)


def test_two_classes():
    model, _, table = make_case(link="logit", classes=CLASSES["logit"])
    scores, probabilities = model.scores(table)[:, 0], model.predict_proba(table)
    np.testing.assert_allclose(probabilities[:, 1], 1 / (1 + np.exp(-scores)))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert model.predict(table).tolist() == ["yes" if score > 0 else "no" for score in scores]
    assert {"yes", "no"} == set(model.predict(table))


def test_three_classes():
    model, _, table = make_case(link="mlogit", classes=CLASSES["mlogit"], n_outputs=3)
    scores, probabilities = model.scores(table), model.predict_proba(table)
    np.testing.assert_allclose(probabilities, np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True))
    assert model.predict(table).tolist() == ["abc"[row.argmax()] for row in scores]
    assert set(model.predict(table)) == {"a", "b", "c"}


def test_many_threads_on_one_model():
    model, _, table = make_case(7, 200, n_outputs=3, link="mlogit", classes=CLASSES["mlogit"])
    model = tie_model(np.random.default_rng(7), model, [0, 5, 20])
    rows = as_rows(table)
    # Tied terms of one row may differ in the last bit from those of many: BLAS sums products of other sizes.
    expected = [model.scores(row) for row in rows], model.contributions(rows), model.predict(rows)
    end = time.monotonic() + 2.0

    def work(seed):
        rng, n_calls = np.random.default_rng(seed), 0
        while time.monotonic() < end:
            i = int(rng.integers(len(rows)))
            j = i + int(rng.integers(1, 6))
            wrong = [
                (model.scores(rows[i]) != expected[0][i]).any(),
                (model.contributions(rows[i:j]) != expected[1][i:j]).any(),
                (model.predict({name: values[i:j] for name, values in table.items()}) != expected[2][i:j]).any(),
            ]
            assert not any(wrong)
            n_calls += 1
        return n_calls

    with ThreadPoolExecutor(8) as pool:
        assert min(pool.map(work, range(8))) > 0


def test_importances_by_hand():
    model = make_tiny()
    # Weighted means of |scores|: (1 + 2·1 + 3) / 4, (5 + 2 + 2·2) / 4, (0.5 + 2·0.5 + 1.5) / 4.
    np.testing.assert_allclose(model.importances(), [6 / 4, 11 / 4, 3 / 4])
    np.testing.assert_allclose(model.importances("avg_weight"), model.importances())
    # Ranges over the cells with weight: the 9 of missing sizes and the 4.5 of a pair without rows do not count.
    np.testing.assert_allclose(model.importances("min_max"), [3 - -1, 5 - -2, 0.5 - -1.5])


def test_importances_are_means_over_classes():
    model, _, _ = make_case(n_outputs=3, link="mlogit", classes=CLASSES["mlogit"])
    for kind in ("avg_weight", "min_max"):
        parts = []
        for k in range(3):
            shapes = tuple(Shape(s.term, s.axes, s.scores[..., [k]], s.spread, s.weights) for s in model.shapes)
            parts.append(AdditiveModel(model.encoder, model.intercept[[k]], shapes, "identity").importances(kind))
        np.testing.assert_allclose(model.importances(kind), np.mean(parts, axis=0))
    assert model.importances().shape == (len(model.shapes),)


def test_average_importance_is_the_mean_over_the_training_rows():
    model, numbers, _ = make_case(kinds=("nominal", "continuous"), orders=(1,))
    counts = [np.zeros_like(shape.weights) for shape in model.shapes]
    on_knots = numbers.copy()
    on_knots[:, 1] = np.random.default_rng(2).choice(model.encoder.axes[1].knots, len(numbers))
    positions = model.layout.encode(on_knots).astype(int)
    for term, count in enumerate(counts):
        np.add.at(count, positions[:, term], 1.0)
    shapes = tuple(Shape(s.term, s.axes, s.scores, s.spread, c) for s, c in zip(model.shapes, counts, strict=True))
    counted = AdditiveModel(model.encoder, model.intercept, shapes, "identity")
    rows = np.abs(model.contributions(name_columns(model.encoder.axes, on_knots))[:, :, 0])
    np.testing.assert_allclose(counted.importances(), rows.mean(axis=0))


def test_unknown_importance():
    with pytest.raises(ValueError, match="importance_type must be 'avg_weight' or 'min_max', not 'gain'"):
        make_tiny().importances("gain")


def test_axes_of_a_column_by_order():
    model, _, _ = make_case(kinds=("continuous", "nominal", "continuous"))
    for feature, axes in enumerate(model.axes_by_feature()):
        assert axes[0] is model.encoder.axes[feature]
        used = [s.axes[s.term.index(feature)] for s in model.shapes if feature in s.term]
        assert {id(axis) for axis in axes} == {id(axis) for axis in used}
        assert [len(axis.knots) for axis in axes] == sorted((len(axis.knots) for axis in axes), reverse=True)
    assert [len(axes) for axes in model.axes_by_feature()] == [3, 3, 3]


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(protocol):
    model, _, table = make_case(link="mlogit", classes=CLASSES["mlogit"], n_outputs=3)
    copy = pickle.loads(pickle.dumps(model, protocol))
    assert_same_model(copy, model, table)
    assert copy.encoder.axes[0] is copy.shapes[0].axes[0]
    assert len(copy.layout.axes) == len(model.layout.axes)


@pytest.mark.parametrize("orders", [(1,), (1, 2, 3)])
@pytest.mark.parametrize("n_outputs", [1, 4])
@pytest.mark.parametrize("kinds", [MIXED, NUMERIC, ("ordinal",) * 3], ids=["mixed", "numeric", "levels"])
def test_the_numpy_path_gives_the_same_numbers(kinds, n_outputs, orders, monkeypatch):
    model, _, table = make_case(3, 500, kinds=kinds, n_outputs=n_outputs, orders=orders)
    compiled = model.scores(table), model.contributions(table)
    monkeypatch.setattr(kernels, "NUMBA", False)
    np.testing.assert_allclose(model.scores(table), compiled[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(model.contributions(table), compiled[1], rtol=1e-12, atol=1e-13)


def test_blocks_of_the_numpy_path_cover_all_rows(monkeypatch):
    model, numbers, _ = make_case(4, 140_000, kinds=("continuous", "continuous"), orders=(1,))
    compiled = model.scores(numbers)
    monkeypatch.setattr(kernels, "NUMBA", False)
    np.testing.assert_allclose(model.scores(numbers), compiled, rtol=1e-12, atol=1e-12)


PREDICT = """
import pickle, sys
import neuralbasis.model.additive_model
from neuralbasis import kernels
with open(sys.argv[1], "rb") as file:
    model, table = pickle.load(file)
assert not kernels.NUMBA
assert not hasattr(kernels.score_rows, "py_func")
positions = model.layout.encode(model.encoder.numbers(model.find_columns(table)))
answer = model.scores(table), model.contributions(table), model.predict_proba(table), positions
assert "torch" not in sys.modules and "sklearn" not in sys.modules
with open(sys.argv[2], "wb") as file:
    pickle.dump(answer, file)
"""

NO_NUMBA = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "numba":
            raise ImportError("no module named numba")
sys.meta_path.insert(0, Refuse())
"""


@pytest.mark.parametrize("absent", ["by choice", "not installed"])
def test_a_process_without_numba_predicts_the_same(absent, tmp_path):
    model, numbers, table = make_case(5, 300, link="mlogit", classes=CLASSES["mlogit"], n_outputs=3)
    (tmp_path / "model.pickle").write_bytes(pickle.dumps((model, table)))
    code = PREDICT if absent == "by choice" else NO_NUMBA + PREDICT
    env = {**os.environ, "NEURALBASIS_NUMBA": "0" if absent == "by choice" else "1"}
    files = [str(tmp_path / "model.pickle"), str(tmp_path / "answer.pickle")]
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *files], env=env, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    scores, contributions, probabilities, positions = pickle.loads((tmp_path / "answer.pickle").read_bytes())
    np.testing.assert_allclose(scores, model.scores(table), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(contributions, model.contributions(table), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(probabilities, model.predict_proba(table), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(positions, model.layout.encode(numbers))


def test_a_model_is_immutable():
    model = make_tiny()
    with pytest.raises(AttributeError, match=re.escape("cannot assign to field 'intercept'")):
        model.intercept = np.array([0.0])
