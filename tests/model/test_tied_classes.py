"""Tied classes: models whose classes share shapes predict like models with plain tables."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import neuralbasis.model.additive_model
from neuralbasis import AdditiveModel, NeuralBasisClassifier, kernels
from neuralbasis.encoding import Encoder, level_axis
from neuralbasis.losses import inverse_link
from neuralbasis.model.shapes import TiedShape
from tests.model.cases import assert_same_model, make_case, make_tied
from tests.models import NUMERIC, slow_contributions, tie_model


def test_a_tied_shape_by_hand():
    colour = level_axis("colour", "nominal", ["blue", "red"])
    values = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 3.0], [0.0, 0.0]])  # missing, blue, red, unseen
    mix = np.array([[[1.0, -1.0], [3.0, -3.0]], [[0.0, 2.0], [0.0, 4.0]]])  # two shapes, two members, two classes
    shape = TiedShape((0,), (colour,), values, mix, np.array([0.0, 1.0, 3.0, 0.0]))
    # Members: red is 2 · (1, -1) + 3 · (0, 2) = (2, 4) and 2 · (3, -3) + 3 · (0, 4) = (6, 6).
    np.testing.assert_allclose(shape.scores, [[0, 0], [2, -2], [4, 5], [0, 0]])
    np.testing.assert_allclose(shape.spread, np.sqrt([[0, 0], [2, 2], [8, 2], [0, 0]]))
    model = AdditiveModel(Encoder((colour,)), np.array([0.5, -0.5]), (shape,), "mlogit", np.array(["no", "yes"]))
    table = {"colour": ["red", "blue", None, "green"]}
    np.testing.assert_allclose(model.scores(table), [[4.5, 4.5], [2.5, -2.5], [0.5, -0.5], [0.5, -0.5]])
    np.testing.assert_allclose(model.contributions(table)[:, 0], [[4, 5], [2, -2], [0, 0], [0, 0]])
    np.testing.assert_allclose(model.importances(), [((2 + 3 * 4) / 4 + (2 + 3 * 5) / 4) / 2])
    np.testing.assert_allclose(model.importances("min_max"), [(2 + 7) / 2])


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    gap=st.sampled_from([0.0, 1e-300, 1e-12, 1e-6, 1.0]),
    size=st.sampled_from([1e-30, 1, 1e39]),
)
def test_tied_classes_with_nearly_equal_scores_are_picked_in_double_precision(seed, gap, size):
    """The predicted class has the highest score in double precision, for any gap between scores and any size."""
    rng = np.random.default_rng(seed)
    tied, _, _, table = make_tied(seed=seed % 50)
    shapes = []
    for shape in tied.shapes:
        mix = size * shape.mix[..., :1] * (1 + gap * rng.normal(size=(1, 1, 3)))
        shapes.append(replace(shape, mix=mix))
    model = replace(tied, shapes=tuple(shapes), intercept=size * gap * rng.normal(size=3))
    assert model.predict(table).tolist() == model.classes[model.scores(table).argmax(axis=1)].tolist()


def test_blocks_of_rows_predict_the_same_classes(monkeypatch):
    tied, dense, _, table = make_tied(n_rows=60)
    expected = tied.classes[tied.scores(table).argmax(axis=1)].tolist()
    for size in (1, 50, 1 << 23):
        monkeypatch.setattr("neuralbasis.model.predictor.BLOCK_NUMBERS", size)
        assert tied.predict(table).tolist() == expected
        assert dense.predict(table).tolist() == dense.classes[dense.scores(table).argmax(axis=1)].tolist()


def test_arrays_of_many_rows_are_read_a_block_at_a_time(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 2)), np.arange(50) % 3
    model = NeuralBasisClassifier(max_steps=20, outer_bags=2, interactions=0, random_state=0).fit(X, y).model_
    expected = model.classes[model.scores(X).argmax(axis=1)].tolist()
    assert len(set(expected)) > 1
    for size in (1, 7, 50):
        monkeypatch.setattr("neuralbasis.model.predictor.BLOCK_ROWS", size)
        assert model.predict(X).tolist() == expected


def test_probabilities_are_the_link_of_the_scores_on_any_number_of_threads(monkeypatch):
    tied, _, _, table = make_tied(n_rows=60)
    expected = inverse_link("mlogit", tied.scores(table))
    monkeypatch.setattr("neuralbasis.model.additive_model.CACHED_NUMBERS", 8)
    for n_jobs in (1, 3):
        assert (replace(tied, n_jobs=n_jobs).predict_proba(table) == expected).all()


def test_one_member_of_tied_classes_has_no_spread():
    tied = tie_model(np.random.default_rng(0), make_case(n_outputs=3)[0], [0, 6], n_members=1)
    assert all((tied.shapes[index].spread == 0).all() for index in (0, 6))
    assert tied.shapes[6].spread.shape == tied.shapes[6].scores.shape


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("which", ["all", "some"])
@pytest.mark.parametrize("orders", [(1,), (1, 2, 3)])
def test_tied_terms_equal_their_plain_tables(orders, which, compiled, monkeypatch):
    monkeypatch.setattr(kernels, "NUMBA", compiled)
    tied, dense, numbers, table = make_tied(which, orders=orders)
    np.testing.assert_allclose(tied.contributions(table), dense.contributions(table), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(tied.scores(table), dense.scores(table), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(tied.contributions(table)[:5], slow_contributions(tied, numbers[:5]), atol=1e-10)
    np.testing.assert_allclose(tied.predict_proba(table), dense.predict_proba(table), rtol=1e-10)
    assert tied.predict(table).tolist() == dense.predict(table).tolist()
    for kind in ("avg_weight", "min_max"):
        np.testing.assert_allclose(tied.importances(kind), dense.importances(kind), rtol=1e-12)
    assert (tied.terms, tied.term_names, tied.n_outputs) == (dense.terms, dense.term_names, 3)


@pytest.mark.parametrize("which", ["all", "some"])
def test_blocks_of_tied_terms_cover_all_rows(which, monkeypatch):
    tied, dense, numbers, _ = make_tied(which, n_rows=333, kinds=NUMERIC)
    monkeypatch.setattr(neuralbasis.model.predictor, "BLOCK_NUMBERS", 3 * len(tied.shapes) * 10)  # ten rows
    np.testing.assert_allclose(tied.scores(numbers), dense.scores(numbers), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(tied.contributions(numbers), dense.contributions(numbers), rtol=1e-10, atol=1e-12)
    numbers[300, 2] = np.inf
    for method in (tied.scores, tied.contributions):
        with pytest.raises(ValueError, match="column 'x2' holds an infinite value"):
            method(numbers)


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("numbers_at_a_time", [1, 6, 7, 4000])
def test_chunks_of_tied_terms_add_up(numbers_at_a_time, n_jobs, monkeypatch):
    tied, dense, numbers, _ = make_tied(n_rows=333, kinds=NUMERIC, orders=(1, 2, 3))
    tied = replace(tied, n_jobs=n_jobs)
    monkeypatch.setattr(neuralbasis.model.predictor, "CHUNK_NUMBERS", numbers_at_a_time)
    monkeypatch.setattr(neuralbasis.model.predictor, "BLOCK_NUMBERS", 2000)
    np.testing.assert_allclose(tied.scores(numbers), dense.scores(numbers), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(tied.predict_proba(numbers), dense.predict_proba(numbers), rtol=1e-10)
    assert tied.predict(numbers).tolist() == dense.predict(numbers).tolist()
    stored = csr_array(np.nan_to_num(numbers))
    assert tied.predict(stored).tolist() == dense.predict(stored.toarray()).tolist()
    numbers[300, 2] = np.inf
    for method in (tied.scores, tied.predict, tied.predict_proba):
        with pytest.raises(ValueError, match="column 'x2' holds an infinite value"):
            method(numbers)


@pytest.mark.parametrize("which", ["all", "some"])
def test_tied_terms_in_a_pickle(which):
    tied, _, _, table = make_tied(which)
    assert_same_model(pickle.loads(pickle.dumps(tied)), tied, table)
