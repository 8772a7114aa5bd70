"""Sparse tables are predicted like dense ones."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from neuralbasis import kernels
from neuralbasis.data import read_columns
from tests.model.cases import CLASSES, make_case
from tests.models import NUMERIC, tie_model


def make_sparse_case(seed: int, absent: float, n_rows: int = 300, **options):
    model, numbers, _ = make_case(seed, n_rows, kinds=NUMERIC, **options)
    rng = np.random.default_rng(seed)
    numbers[rng.random(numbers.shape) < 0.7] = absent
    is_stored = ~((numbers == absent) | (np.isnan(numbers) & np.isnan(absent)))
    X = csr_array((numbers[is_stored], np.nonzero(is_stored)), shape=numbers.shape)
    return model, numbers, read_columns(X, absent=absent)


@pytest.mark.parametrize("absent", [0.0, 3.7, np.nan])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_sparse_table_is_predicted_like_a_dense_one(absent, n_jobs, monkeypatch):
    monkeypatch.setattr("neuralbasis.model.predictor.BLOCK_ROWS", 128)
    model, numbers, columns = make_sparse_case(0, absent, n_outputs=3, link="mlogit", classes=CLASSES["mlogit"])
    model = replace(model, n_jobs=n_jobs)
    np.testing.assert_allclose(model.scores(columns), model.scores(numbers), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(model.contributions(columns), model.contributions(numbers))
    np.testing.assert_allclose(model.predict_proba(columns), model.predict_proba(numbers), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(model.predict(columns), model.predict(numbers))
    monkeypatch.setattr(kernels, "NUMBA", False)
    np.testing.assert_allclose(model.scores(columns), model.scores(numbers), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(model.contributions(columns), model.contributions(numbers), rtol=1e-12, atol=1e-12)


def test_sparse_tables_with_different_absent_values_in_turn():
    for absent in (0.0, 1.0, 0.0, np.nan):
        model, numbers, columns = make_sparse_case(1, absent)
        np.testing.assert_allclose(model.scores(columns), model.scores(numbers), rtol=1e-12, atol=1e-12)


def test_a_sparse_table_is_predicted_by_a_model_with_tied_terms():
    model, numbers, columns = make_sparse_case(2, 0.0, n_outputs=3, link="mlogit", classes=CLASSES["mlogit"])
    model = tie_model(np.random.default_rng(0), model, [0, 3, 5])
    np.testing.assert_allclose(model.scores(columns), model.scores(numbers), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(model.contributions(columns), model.contributions(numbers), rtol=1e-12, atol=1e-12)


def test_contributions_of_a_sparse_table_are_limited_in_size(monkeypatch):
    model, _, columns = make_sparse_case(3, 0.0)
    monkeypatch.setattr("neuralbasis.model.additive_model.MAX_BYTES", 100 * 8 * len(model.shapes))
    with pytest.raises(ValueError, match=r"contributions of 300 rows.* pass at most 100 rows at a time"):
        model.contributions(columns)
    assert model.scores(columns).shape == (300, 1)


def test_columns_of_a_sparse_table_are_found_by_name():
    model, numbers, _ = make_sparse_case(4, 0.0)
    frame = pd.DataFrame(numbers, columns=model.encoder.names)[list(model.encoder.names[::-1])]
    sparse = frame.fillna(9.0).astype(pd.SparseDtype(float, 0.0))
    np.testing.assert_allclose(model.scores(sparse), model.scores(frame.fillna(9.0)), rtol=1e-12, atol=1e-12)


def test_scipy_sparse_is_imported_only_for_sparse_tables():
    code = """
import sys, numpy as np
from neuralbasis.encoding import continuous_axis
from neuralbasis.encoding import Encoder
from neuralbasis.losses.links import inverse_link
from neuralbasis import AdditiveModel
from neuralbasis.model.shapes import Shape
axis = continuous_axis("a", np.arange(3.0))
shape = Shape((0,), (axis,), np.ones((5, 1)), np.zeros((5, 1)), np.ones(5))
model = AdditiveModel(Encoder((axis,)), np.zeros(1), (shape,), "identity")
assert model.predict(np.ones((2, 1))).tolist() == [1.0, 1.0]
assert "scipy.sparse" not in sys.modules
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
