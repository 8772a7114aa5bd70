"""Model file: a model is read back bit for bit, and files of every format stay readable."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import neuralbasis
from neuralbasis import AdditiveModel, NeuralBasisClassifier, NeuralBasisRegressor, load
from neuralbasis.encoding import Axis, Encoder
from neuralbasis.model.shapes import Shape, TiedShape, make_shapes
from neuralbasis.serialization import DocumentError
from tests.formats.make import FOLDER, FORMAT, SUMMARY, make_model
from tests.models import MIXED, NUMERIC, build_model, draw_numbers, name_columns, tie_model
from tests.sparse_tables import build_models, build_wide, draw_table, rows_of_every_kind

LINKS = {
    "regression": {},
    "two outputs": {"n_outputs": 2},
    "binary": {"link": "logit", "classes": np.array(["no", "yes"])},
    "multiclass": {"link": "mlogit", "classes": np.array([3, 5, 9]), "n_outputs": 3},
}


def reload(model, folder):
    model.save(folder / "model.nbm")
    return load(folder / "model.nbm")


def assert_same(one, other, table):
    """Equal in everything but the spread and the members, which keep seven digits."""
    for name in ("link", "terms", "term_names", "summary"):
        assert getattr(one, name) == getattr(other, name)
    for name in ("scores", "contributions", "predict"):
        np.testing.assert_array_equal(getattr(one, name)(table), getattr(other, name)(table))
    np.testing.assert_array_equal(one.importances(), other.importances())
    assert len(one.layout.axes) == len(other.layout.axes)
    for left, right in zip(one.layout.axes, other.layout.axes, strict=True):
        assert (left.name, left.kind, left.levels) == (right.name, right.kind, right.levels)
        for name in ("knots", "places", "mass"):
            np.testing.assert_array_equal(getattr(left, name), getattr(right, name))
    for left, right in zip(one.shapes, other.shapes, strict=True):
        assert type(left) is type(right)
        for name in ("scores", "weights", *(("values", "mix") if isinstance(left, TiedShape) else ())):
            np.testing.assert_array_equal(getattr(left, name), getattr(right, name))
        np.testing.assert_allclose(left.spread, right.spread, rtol=1e-6, atol=1e-6 * np.abs(right.spread).max())
        assert (left.members is None) == (right.members is None)
        if left.members is not None:
            largest = np.abs(right.members).max()
            np.testing.assert_allclose(left.members, right.members, rtol=1e-6, atol=1e-6 * largest)
        assert list_evidence(left) == list_evidence(right)
    for mine, yours in zip(one.residuals, other.residuals, strict=True):
        for name in ("centres", "probabilities", "quantiles"):
            np.testing.assert_array_equal(getattr(mine, name), getattr(yours, name))


def list_evidence(shape):
    """Numbers of the evidence, each in full precision."""
    if shape.evidence is None:
        return None
    return {name: np.asarray(value).tolist() for name, value in vars(shape.evidence).items()}


@settings(deadline=None, max_examples=20)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(sorted(LINKS)),
    st.sampled_from([MIXED, NUMERIC, ("nominal",)]),
    st.sampled_from([(1,), (1, 2, 3)]),
)
def test_a_model_is_read_back(tmp_path_factory, seed, task, kinds, orders):
    rng = np.random.default_rng(seed)
    model = build_model(rng, kinds, orders, **LINKS[task])
    if task == "multiclass":
        model = tie_model(rng, model, range(0, len(model.shapes), 2))
    table = name_columns(model.encoder.axes, draw_numbers(rng, model.encoder.axes, 40))
    loaded = reload(model, tmp_path_factory.mktemp("model"))
    assert_same(loaded, model, table)
    assert loaded.n_jobs is None
    if model.classes is not None:
        assert loaded.classes.dtype == model.classes.dtype
        np.testing.assert_array_equal(loaded.predict_proba(table), model.predict_proba(table))


def test_a_second_file_equals_the_first(tmp_path):
    make_model().save(tmp_path / "one.nbm")
    load(tmp_path / "one.nbm").save(tmp_path / "two.nbm")
    assert (tmp_path / "one.nbm").read_bytes() == (tmp_path / "two.nbm").read_bytes()


@pytest.mark.parametrize(
    "classes",
    [
        np.array(["", "naïve \ud800"]),
        np.array(["no", "yes"], dtype=object),
        np.array([1, "yes"], dtype=object),
        np.array([False, True]),
        np.array([0.1, 2.5]),
        np.array([0.1, 2.5], dtype=np.float32),
        np.array([-1, 2**62]),
        np.array([0, 2**64 - 1], dtype=np.uint64),
        np.array([-3, 7], dtype=np.int8),
    ],
    ids=str,
)
def test_classes_keep_their_type(classes, tmp_path):
    model = build_model(np.random.default_rng(0), ("continuous",), (1,), link="logit", classes=classes)
    found = reload(model, tmp_path).classes
    assert found.dtype == classes.dtype
    assert found.tolist() == classes.tolist()
    assert list(map(type, found.tolist())) == list(map(type, classes.tolist()))


@pytest.mark.parametrize("classes", [np.array([b"no", b"yes"]), np.array([None, "yes"], dtype=object)], ids=str)
def test_other_classes_are_refused(classes, tmp_path):
    model = build_model(np.random.default_rng(0), ("continuous",), (1,), link="logit", classes=classes)
    with pytest.raises(DocumentError, match="cannot be written: classes must be text, numbers or booleans, not"):
        model.save(tmp_path / "model.nbm")
    assert os.listdir(tmp_path) == []


def make_line(scores, spread=0.0, knots=(0.0, 1.0), names=("x",), **options):
    """A main effect of a continuous column for each name, the same score in all cells."""
    shapes, axes = [], []
    for index, name in enumerate(names):
        axes.append(Axis(name, "continuous", np.array(knots), np.linspace(0, 1, len(knots))))
        cells = (axes[-1].n_cells, 1)
        table, weights = np.full(cells, scores, dtype=float), np.ones(cells[0])
        shapes.append(Shape((index,), (axes[-1],), table, np.full(cells, spread), weights))
    return AdditiveModel(Encoder(tuple(axes)), np.zeros(1), tuple(shapes), "identity", **options)


@pytest.mark.parametrize("name", ["", "two\nlines", "ключ", '"; drop', "\ud800", "x" * 10_000])
def test_any_name_is_read_back(name, tmp_path):
    assert reload(make_line(1.0, names=(name, "other")), tmp_path).encoder.names == (name, "other")


@pytest.mark.parametrize("size", [0.0, -0.0, 1e-300, 0.1, 1e150])
def test_numbers_of_any_size_are_exact(size, tmp_path):
    loaded = reload(make_line(size, abs(size)), tmp_path)
    assert loaded.shapes[0].scores.tobytes() == np.full((4, 1), size).tobytes()
    np.testing.assert_allclose(loaded.shapes[0].spread, abs(size), rtol=1e-6)


@pytest.mark.parametrize("knots", [(-1.7e308, 1.7e308), (5e-324, 1e-323), (0.1, 0.1 + 2**-56)])
def test_knots_of_any_size_are_exact(knots, tmp_path):
    assert reload(make_line(1.0, knots=knots), tmp_path).encoder.axes[0].knots.tolist() == list(knots)


def test_many_levels_are_read_back(tmp_path):
    levels = tuple(f"level {k}" for k in range(5000))
    axis = Axis("x", "nominal", np.arange(5000.0), np.linspace(0, 1, 5000), levels, np.arange(5000.0))
    scores = np.random.default_rng(0).normal(size=(5002, 1))
    model = AdditiveModel(
        Encoder((axis,)),
        np.zeros(1),
        (Shape((0,), (axis,), scores, scores * 0, axis.mass.max() + scores[:, 0]),),
        "identity",
    )
    loaded = reload(model, tmp_path)
    assert loaded.encoder.axes[0].levels == levels
    np.testing.assert_array_equal(loaded.scores({"x": levels}), scores[1:-1])


def test_a_model_without_terms_is_read_back(tmp_path):
    model = make_line(1.0)
    assert reload(replace(model, shapes=(), intercept=np.array([7.0])), tmp_path).predict([[3.0]]).tolist() == [7.0]


@pytest.mark.parametrize("kind", [NeuralBasisRegressor, NeuralBasisClassifier])
def test_estimators_save_their_model(kind, tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    estimator = kind(max_steps=30, outer_bags=2, interactions=[(0, 1)], validation_size=0)
    with pytest.raises(ValueError, match="is not fitted yet"):
        estimator.save(tmp_path / "model.nbm")
    estimator.fit(X, X[:, 0] * X[:, 1] > 0)
    estimator.save(str(tmp_path / "model.nbm"))
    loaded = neuralbasis.load(str(tmp_path / "model.nbm"))
    assert_same(loaded, estimator.model_, X)
    np.testing.assert_array_equal(loaded.predict(X), estimator.predict(X))
    assert loaded.summary.estimator == kind.__name__
    assert_same(pickle.loads(pickle.dumps(loaded)), loaded, X)


def test_the_evidence_of_a_fit_is_read_back(tmp_path):
    X = np.random.default_rng(0).normal(size=(200, 3))
    y = np.digitize(X[:, 0] + X[:, 1], [-1, 1])
    model = NeuralBasisClassifier(max_steps=30, outer_bags=2, interactions=[(0, 1)]).fit(X, y).model_
    loaded = reload(model, tmp_path)
    assert [shape.evidence.p_values.shape for shape in loaded.shapes] == [(3,)] * 4
    assert list(map(list_evidence, loaded.shapes)) == list(map(list_evidence, model.shapes))
    assert not loaded.shapes[0].evidence.multipliers.flags.writeable


def test_evidence_that_is_not_finite_is_not_written(tmp_path):
    model = make_model()
    second = model.shapes[1]
    odd = replace(second, evidence=replace(second.evidence, multipliers=np.array([2.0, np.nan, 2.0])))
    with pytest.raises(DocumentError, match=r"cannot be written: .* is not finite"):
        replace(model, shapes=(model.shapes[0], odd, *model.shapes[2:])).save(tmp_path / "model.nbm")


def test_a_model_of_pairs_takes_less_than_a_megabyte(tmp_path):
    """24 pairs, with 193 knots in main effects and 49 in pairs, as for California Housing."""
    rng = np.random.default_rng(0)
    axes = tuple(Axis(f"x{k}", "continuous", np.sort(rng.normal(size=193)), np.linspace(0, 1, 193)) for k in range(8))
    coarse = [axis.coarsen(49) for axis in axes]
    terms = [(k,) for k in range(8)] + [(j, k) for k in range(8) for j in range(k)][:24]
    shapes = []
    for term in terms:
        used = tuple((axes if len(term) == 1 else coarse)[k] for k in term)
        cells = [axis.n_cells for axis in used]
        scores, spread = rng.normal(size=(*cells, 1)), rng.random((*cells, 1))
        weights = rng.random(cells, dtype=np.float32) * (rng.random(cells) < 0.7)
        shapes.append(Shape(term, used, scores, spread, weights))
    model = AdditiveModel(Encoder(axes), np.zeros(1), tuple(shapes), "identity")
    model.save(tmp_path / "model.nbm")
    assert (tmp_path / "model.nbm").stat().st_size < 1e6
    assert_same(load(tmp_path / "model.nbm"), model, rng.normal(size=(50, 8)))


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_factors_are_read_back(n_outputs, tmp_path):
    model = build_models(draw_table(1), n_outputs)[0]
    loaded, rows = reload(model, tmp_path), rows_of_every_kind()
    assert_same(loaded, model, rows)
    assert loaded.shapes[0].axes[0] is loaded.encoder.axes[0]
    assert [part.finder.absent for part in dict.fromkeys(shape.factors for shape in loaded.shapes)] == [0.0, 0.0]
    for left, right in zip(loaded.shapes, model.shapes, strict=True):
        assert left.index == right.index
        for name in ("bases", "coefficients", "deviations", "cells", "weights", "cell_starts", "total"):
            found, expected = (np.asarray(getattr(shape.factors, name)) for shape in (left, right))
            np.testing.assert_array_equal(found, expected)
            assert found.dtype == expected.dtype


def test_a_column_may_have_other_knots_than_its_factors(tmp_path):
    """Shapes of factors use the knots of the factors, even if a column's own axis has others."""
    model, rows = build_models(draw_table(1))[0], rows_of_every_kind()
    for odd in range(6):
        axes = list(model.encoder.axes)
        axes[odd] = Axis(axes[odd].name, "continuous", np.arange(20.0), np.linspace(0, 1, 20))
        encoder = Encoder(tuple(axes))
        factors = list(dict.fromkeys(shape.factors for shape in model.shapes))
        changed = replace(model, encoder=encoder, shapes=make_shapes(factors, encoder))
        for found in (changed, reload(changed, tmp_path)):
            np.testing.assert_array_equal(found.scores(rows), model.scores(rows))
            for shape in found.shapes:
                assert shape.scores.shape[:-1] == tuple(axis.n_cells for axis in shape.axes)
                assert all(axis.name == found.encoder.names[f] for f, axis in zip(shape.term, shape.axes, strict=True))


def test_a_missing_absent_value_is_read_back(tmp_path):
    """With absent_value=NaN, bases are zero in the cell of missing values."""
    model = build_models(draw_table(1))[0]
    mains = model.shapes[0].factors
    bases = mains.bases.copy()
    bases[0] = 0
    factors = replace(mains, finder=replace(mains.finder, absent=np.nan), bases=bases)
    missing = replace(model, shapes=make_shapes([factors], model.encoder))
    loaded, rows = reload(missing, tmp_path), rows_of_every_kind()
    assert np.isnan(loaded.shapes[0].factors.finder.absent)
    np.testing.assert_array_equal(loaded.scores(rows), missing.scores(rows))


def test_factors_without_training_rows_are_read_back(tmp_path):
    model = build_models(draw_table(1))[0]
    mains = model.shapes[0].factors
    none = replace(mains, cells=mains.cells[:0], weights=mains.weights[:0], cell_starts=0 * mains.cell_starts)
    empty = replace(model, shapes=make_shapes([none], model.encoder))
    loaded, rows = reload(empty, tmp_path), rows_of_every_kind()
    np.testing.assert_array_equal(loaded.scores(rows), empty.scores(rows))
    assert loaded.importances().tolist() == [0.0] * 6


def test_bases_of_millions_are_read_back(tmp_path):
    """Training scales bases by the stored values; without any, bases are in the millions and coefficients 0."""
    model = build_models(draw_table(1))[0]
    factors = replace(model.shapes[0].factors, bases=model.shapes[0].factors.bases * np.float32(3e6))
    huge = replace(model, shapes=make_shapes([factors], model.encoder))
    rows = rows_of_every_kind()
    np.testing.assert_array_equal(reload(huge, tmp_path).scores(rows), huge.scores(rows))


def test_fifty_thousand_columns_are_read_back(tmp_path):
    model = build_wide(50_000)
    loaded = reload(model, tmp_path)
    assert loaded.encoder.names == model.encoder.names
    assert loaded.encoder.axes[0].knots is loaded.encoder.axes[-1].knots  # stored once
    rows = np.zeros((3, 50_000))
    rows[0, 7], rows[1, 49_999], rows[2] = 0.3, 0.7, 0.01
    np.testing.assert_array_equal(loaded.scores(rows), model.scores(rows))
    np.testing.assert_array_equal(loaded.importances(), model.importances())
    with zipfile.ZipFile(tmp_path / "model.nbm") as archive:
        document = json.loads(archive.read("document.json"))
    assert [len(run["names"]) for run in document["columns"]] == [50_000]
    assert document["axes"] == document["terms"] == []


def test_factors_out_of_order_are_not_written(tmp_path):
    model = build_models(draw_table(1))[0]
    for shapes in (model.shapes[::-1], model.shapes[:-1]):
        with pytest.raises(DocumentError, match="terms of factors must follow all tables, each of them once"):
            replace(model, shapes=shapes).save(tmp_path / "model.nbm")


PREDICT = """
import json, sys
from pathlib import Path
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "sklearn", "scipy", "pandas"):
            raise ImportError(f"no module named {name}")
sys.meta_path.insert(0, Refuse())
import neuralbasis
model = neuralbasis.load(sys.argv[1])
scores = model.scores(json.load(open(sys.argv[2]))["rows"])
status = Path("/proc/self/status")
peak = [line.split()[1] for line in status.read_text().splitlines() if "VmHWM" in line] if status.exists() else []
print(json.dumps({"scores": scores.tolist(), "peak": [int(kilobytes) // 1024 for kilobytes in peak]}))
"""


def test_a_process_without_torch_and_scikit_learn_loads_and_predicts():
    files = [str(FOLDER / f"format_{FORMAT}.{kind}") for kind in ("nbm", "json")]
    run = subprocess.run([sys.executable, "-c", PREDICT, *files], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    found, expected = json.loads(run.stdout), json.loads(Path(files[1]).read_text(encoding="utf-8"))
    np.testing.assert_allclose(found["scores"], expected["scores"], rtol=1e-6)
    print(f"peak {found['peak']} MB")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.nbm")), ids=lambda path: path.stem)
def test_files_of_every_format_are_read(path):
    expected, model = json.loads(path.with_suffix(".json").read_text(encoding="utf-8")), load(path)
    tolerance = 1e-6 if any(hasattr(shape, "factors") for shape in model.shapes) else 1e-12  # single precision
    np.testing.assert_allclose(model.scores(expected["rows"]), expected["scores"], rtol=tolerance)
    assert model.predict(expected["rows"]).tolist() == expected["classes"]
    is_old = int(path.stem.removeprefix("format_")) < 4
    assert len(model.residuals) == (0 if is_old else model.n_outputs)
    assert [shape.evidence is not None for shape in model.shapes[:4]] == [False, not is_old, not is_old, False]


def test_the_stored_file_of_the_present_format_equals_a_new_one(tmp_path):
    model, path = make_model(), FOLDER / f"format_{FORMAT}.nbm"
    assert load(path).summary == SUMMARY
    assert_same(
        load(path),
        model,
        name_columns(model.encoder.axes, draw_numbers(np.random.default_rng(0), model.encoder.axes, 50)),
    )
    model.save(tmp_path / "model.nbm")
    with zipfile.ZipFile(path) as stored, zipfile.ZipFile(tmp_path / "model.nbm") as written:
        assert stored.namelist() == written.namelist()
        for name in stored.namelist()[1:-1]:  # the JSON has the version of the writer, and the checksums depend on it
            assert stored.read(name) == written.read(name)


def test_numpy_reads_the_arrays(tmp_path):
    model = make_model()
    model.save(tmp_path / "model.nbm")
    with np.load(tmp_path / "model.nbm", allow_pickle=False) as arrays:
        knots, tables = arrays["knots"], arrays["tables"]
    own = [axis.knots for axis in model.encoder.axes[:4]]  # the other three columns share the axis of the fourth
    np.testing.assert_array_equal(knots[: sum(map(len, own))], np.concatenate(own))
    np.testing.assert_array_equal(tables[: model.shapes[0].scores.size], model.shapes[0].scores.ravel())
