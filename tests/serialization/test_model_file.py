"""document: a model comes back bit for bit, old files stay readable, and any other file gives one clear error."""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
import re
import subprocess
import sys
import time
import tracemalloc
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import neuralbasis
from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor
from neuralbasis.encoding.axis import Axis
from neuralbasis.encoding.encoder import Encoder
from neuralbasis.model.additive_model import AdditiveModel, load
from neuralbasis.model.shapes import LowRankShape, Shape, TiedShape, make_shapes
from neuralbasis.serialization import model_file as document
from neuralbasis.serialization.model_file import ARRAYS, FORMAT, DocumentError
from tests.formats.make import FOLDER, SUMMARY, make_model
from tests.models import MIXED, NUMERIC, build_model, draw_numbers, name_columns, tie_model
from tests.serialization.test_archive import pack
from tests.sparse_tables import build_models, build_wide, draw_table, rows_of_every_kind

LINKS = {
    "regression": {},
    "two outputs": {"n_outputs": 2},
    "binary": {"link": "logit", "classes": np.array(["no", "yes"])},
    "multiclass": {"link": "mlogit", "classes": np.array([3, 5, 9]), "n_outputs": 3},
}


def send(model, folder):
    model.save(folder / "model.nbm")
    return load(folder / "model.nbm")


def assert_same(one, other, table):
    """All but the spread and the members, which keep seven digits."""
    for name in ("link", "terms", "term_names", "summary"):
        assert getattr(one, name) == getattr(other, name)
    for name in ("scores", "contributions", "predict"):
        np.testing.assert_array_equal(getattr(one, name)(table), getattr(other, name)(table))
    np.testing.assert_array_equal(one.importances(), other.importances())
    assert len(one.layout.axes) == len(other.layout.axes)
    for mine, its in zip(one.layout.axes, other.layout.axes, strict=True):
        assert (mine.name, mine.kind, mine.levels) == (its.name, its.kind, its.levels)
        for name in ("knots", "places", "mass"):
            np.testing.assert_array_equal(getattr(mine, name), getattr(its, name))
    for mine, its in zip(one.shapes, other.shapes, strict=True):
        assert type(mine) is type(its)
        for name in ("scores", "weights", *(("values", "mix") if isinstance(mine, TiedShape) else ())):
            np.testing.assert_array_equal(getattr(mine, name), getattr(its, name))
        np.testing.assert_allclose(mine.spread, its.spread, rtol=1e-6, atol=1e-6 * np.abs(its.spread).max())
        assert (mine.members is None) == (its.members is None)
        if mine.members is not None:
            most = np.abs(its.members).max()
            np.testing.assert_allclose(mine.members, its.members, rtol=1e-6, atol=1e-6 * most)


# What comes back


@settings(deadline=None, max_examples=20)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(sorted(LINKS)),
    st.sampled_from([MIXED, NUMERIC, ("nominal",)]),
    st.sampled_from([(1,), (1, 2, 3)]),
)
def test_a_model_comes_back(tmp_path_factory, seed, task, kinds, orders):
    rng = np.random.default_rng(seed)
    model = build_model(rng, kinds, orders, **LINKS[task])
    if task == "multiclass":
        model = tie_model(rng, model, range(0, len(model.shapes), 2))
    table = name_columns(model.encoder.axes, draw_numbers(rng, model.encoder.axes, 40))
    loaded = send(model, tmp_path_factory.mktemp("model"))
    assert_same(loaded, model, table)
    assert loaded.n_jobs is None
    if model.classes is not None:
        assert loaded.classes.dtype == model.classes.dtype
        np.testing.assert_array_equal(loaded.predict_proba(table), model.predict_proba(table))


def test_a_second_file_is_the_first(tmp_path):
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
    found = send(model, tmp_path).classes
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
    """One main effect of a continuous column, for each name."""
    shapes, axes = [], []
    for index, name in enumerate(names):
        axes.append(Axis(name, "continuous", np.array(knots), np.linspace(0, 1, len(knots))))
        cells = (axes[-1].n_cells, 1)
        table, weights = np.full(cells, scores, dtype=float), np.ones(cells[0])
        shapes.append(Shape((index,), (axes[-1],), table, np.full(cells, spread), weights))
    return AdditiveModel(Encoder(tuple(axes)), np.zeros(1), tuple(shapes), "identity", **options)


@pytest.mark.parametrize("name", ["", "two\nlines", "ключ", '"; drop', "\ud800", "x" * 10_000])
def test_any_name_comes_back(name, tmp_path):
    assert send(make_line(1.0, names=(name, "other")), tmp_path).encoder.names == (name, "other")


@pytest.mark.parametrize("size", [0.0, -0.0, 1e-300, 0.1, 1e150])
def test_numbers_of_any_size_are_exact(size, tmp_path):
    loaded = send(make_line(size, abs(size)), tmp_path)
    assert loaded.shapes[0].scores.tobytes() == np.full((4, 1), size).tobytes()
    np.testing.assert_allclose(loaded.shapes[0].spread, abs(size), rtol=1e-6)


@pytest.mark.parametrize("knots", [(-1.7e308, 1.7e308), (5e-324, 1e-323), (0.1, 0.1 + 2**-56)])
def test_knots_of_any_size_are_exact(knots, tmp_path):
    assert send(make_line(1.0, knots=knots), tmp_path).encoder.axes[0].knots.tolist() == list(knots)


def test_many_levels(tmp_path):
    levels = tuple(f"level {k}" for k in range(5000))
    axis = Axis("x", "nominal", np.arange(5000.0), np.linspace(0, 1, 5000), levels, np.arange(5000.0))
    scores = np.random.default_rng(0).normal(size=(5002, 1))
    model = AdditiveModel(
        Encoder((axis,)),
        np.zeros(1),
        (Shape((0,), (axis,), scores, scores * 0, axis.mass.max() + scores[:, 0]),),
        "identity",
    )
    loaded = send(model, tmp_path)
    assert loaded.encoder.axes[0].levels == levels
    np.testing.assert_array_equal(loaded.scores({"x": levels}), scores[1:-1])


def test_a_model_without_terms(tmp_path):
    model = make_line(1.0)
    assert send(replace(model, shapes=(), intercept=np.array([7.0])), tmp_path).predict([[3.0]]).tolist() == [7.0]


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


def test_a_file_of_pairs_is_small(tmp_path):
    """24 pairs of California Housing's size: 193 knots a column, 49 in pairs."""
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
def test_factors_come_back(n_outputs, tmp_path):
    model = build_models(draw_table(1), n_outputs)[0]
    loaded, rows = send(model, tmp_path), rows_of_every_kind()
    assert_same(loaded, model, rows)
    assert loaded.shapes[0].axes[0] is loaded.encoder.axes[0]
    assert [part.finder.absent for part in dict.fromkeys(shape.factors for shape in loaded.shapes)] == [0.0, 0.0]
    for mine, its in zip(loaded.shapes, model.shapes, strict=True):
        assert mine.index == its.index
        for name in ("bases", "coefficients", "deviations", "cells", "weights", "cell_starts", "total"):
            found, expected = (np.asarray(getattr(shape.factors, name)) for shape in (mine, its))
            np.testing.assert_array_equal(found, expected)
            assert found.dtype == expected.dtype


def test_columns_with_other_knots_than_their_factors(tmp_path):
    """Shapes of factors lie on the factors' knots, whichever column's own axis has others."""
    model, rows = build_models(draw_table(1))[0], rows_of_every_kind()
    for odd in range(6):
        axes = list(model.encoder.axes)
        axes[odd] = Axis(axes[odd].name, "continuous", np.arange(20.0), np.linspace(0, 1, 20))
        encoder = Encoder(tuple(axes))
        factors = list(dict.fromkeys(shape.factors for shape in model.shapes))
        changed = replace(model, encoder=encoder, shapes=make_shapes(factors, encoder))
        for found in (changed, send(changed, tmp_path)):
            np.testing.assert_array_equal(found.scores(rows), model.scores(rows))
            for shape in found.shapes:
                assert shape.scores.shape[:-1] == tuple(axis.n_cells for axis in shape.axes)
                assert all(axis.name == found.encoder.names[f] for f, axis in zip(shape.term, shape.axes, strict=True))


def test_a_missing_absent_value_comes_back(tmp_path):
    """With absent_value=NaN, bases are zero at the cell of missing values."""
    model = build_models(draw_table(1))[0]
    mains = model.shapes[0].factors
    bases = mains.bases.copy()
    bases[0] = 0
    factors = replace(mains, finder=replace(mains.finder, absent=np.nan), bases=bases)
    missing = replace(model, shapes=make_shapes([factors], model.encoder))
    loaded, rows = send(missing, tmp_path), rows_of_every_kind()
    assert np.isnan(loaded.shapes[0].factors.finder.absent)
    np.testing.assert_array_equal(loaded.scores(rows), missing.scores(rows))


def test_factors_without_training_rows_come_back(tmp_path):
    model = build_models(draw_table(1))[0]
    mains = model.shapes[0].factors
    none = replace(mains, cells=mains.cells[:0], weights=mains.weights[:0], cell_starts=0 * mains.cell_starts)
    empty = replace(model, shapes=make_shapes([none], model.encoder))
    loaded, rows = send(empty, tmp_path), rows_of_every_kind()
    np.testing.assert_array_equal(loaded.scores(rows), empty.scores(rows))
    assert loaded.importances().tolist() == [0.0] * 6


def test_bases_of_terms_that_never_occur_come_back(tmp_path):
    """Bases are scaled by the entries there are: without any they are millions, and the coefficients 0."""
    model = build_models(draw_table(1))[0]
    factors = replace(model.shapes[0].factors, bases=model.shapes[0].factors.bases * np.float32(3e6))
    huge = replace(model, shapes=make_shapes([factors], model.encoder))
    rows = rows_of_every_kind()
    np.testing.assert_array_equal(send(huge, tmp_path).scores(rows), huge.scores(rows))


def test_fifty_thousand_columns_come_back(tmp_path):
    model = build_wide(50_000)
    loaded = send(model, tmp_path)
    assert loaded.encoder.names == model.encoder.names
    assert loaded.encoder.axes[0].knots is loaded.encoder.axes[-1].knots  # kept once
    rows = np.zeros((3, 50_000))
    rows[0, 7], rows[1, 49_999], rows[2] = 0.3, 0.7, 0.01
    np.testing.assert_array_equal(loaded.scores(rows), model.scores(rows))
    np.testing.assert_array_equal(loaded.importances(), model.importances())
    with zipfile.ZipFile(tmp_path / "model.nbm") as archive:
        document = json.loads(archive.read("document.json"))
    assert [len(run["names"]) for run in document["columns"]] == [50_000]
    assert document["axes"] == document["terms"] == []


def test_factors_out_of_order_are_not_written():
    model = build_models(draw_table(1))[0]
    for shapes in (model.shapes[::-1], model.shapes[:-1]):
        with pytest.raises(DocumentError, match="terms of factors must stand behind all tables, each of them once"):
            document._write_entries(SimpleNamespace(encoder=model.encoder, shapes=shapes))


SERVE = """
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
    run = subprocess.run([sys.executable, "-c", SERVE, *files], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    found, expected = json.loads(run.stdout), json.loads(Path(files[1]).read_text(encoding="utf-8"))
    np.testing.assert_allclose(found["scores"], expected["scores"], rtol=1e-6)
    print(f"peak {found['peak']} MB")


# Formats


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.nbm")), ids=lambda path: path.stem)
def test_files_of_every_format_are_read(path):
    expected, model = json.loads(path.with_suffix(".json").read_text(encoding="utf-8")), load(path)
    tolerance = 1e-6 if any(isinstance(shape, LowRankShape) for shape in model.shapes) else 1e-12  # single precision
    np.testing.assert_allclose(model.scores(expected["rows"]), expected["scores"], rtol=tolerance)
    assert model.predict(expected["rows"]).tolist() == expected["classes"]


def test_a_file_of_the_present_format_is_kept(tmp_path):
    model, path = make_model(), FOLDER / f"format_{FORMAT}.nbm"
    assert load(path).summary == SUMMARY
    assert_same(
        load(path),
        model,
        name_columns(model.encoder.axes, draw_numbers(np.random.default_rng(0), model.encoder.axes, 50)),
    )
    model.save(tmp_path / "model.nbm")
    with zipfile.ZipFile(path) as kept, zipfile.ZipFile(tmp_path / "model.nbm") as written:
        assert kept.namelist() == written.namelist()
        for name in kept.namelist()[1:-1]:  # the JSON names the version that wrote it, the sums follow
            assert kept.read(name) == written.read(name)


def test_anyone_can_read_the_arrays(tmp_path):
    model = make_model()
    model.save(tmp_path / "model.nbm")
    with np.load(tmp_path / "model.nbm", allow_pickle=False) as arrays:
        knots, tables = arrays["knots"], arrays["tables"]
    own = [axis.knots for axis in model.encoder.axes[:4]]  # the other words have the axis of the first
    np.testing.assert_array_equal(knots[: sum(map(len, own))], np.concatenate(own))
    np.testing.assert_array_equal(tables[: model.shapes[0].scores.size], model.shapes[0].scores.ravel())


# Files that are no models


def test_errors_of_the_system_stay_what_they_are(tmp_path):
    with pytest.raises(FileNotFoundError, match=re.escape("absent.nbm")):
        load(tmp_path / "absent.nbm")
    with pytest.raises(IsADirectoryError):
        load(tmp_path)


def test_the_error_names_the_file(tmp_path):
    (tmp_path / "model.nbm").write_bytes(b"hello")
    with pytest.raises(
        DocumentError, match=r"model\.nbm is not a model that can be read: it is cut short, or it is not"
    ):
        load(tmp_path / "model.nbm")
    with pytest.raises(ValueError, match="the file is not a model that can be read"):
        load(io.BytesIO(b"hello"))


class Planted:
    """What must never come to life."""

    def __reduce__(self):
        return (os.abort, ())


def test_a_pickle_is_not_opened(tmp_path):
    (tmp_path / "model.nbm").write_bytes(pickle.dumps(Planted()))
    with pytest.raises(DocumentError):
        load(tmp_path / "model.nbm")


def read_base(number=FORMAT):
    """SparseCodes of a tiny model: the JSON, parsed, and the arrays."""
    with zipfile.ZipFile(FOLDER / f"format_{number}.nbm") as archive:
        entries = {name: archive.read(name) for name in archive.namelist() if name != "SHA256SUMS"}
    return json.loads(entries.pop("document.json")), entries


def load_parts(parts, arrays):
    """Load a file of these entries, its sums right."""
    data = parts if isinstance(parts, bytes) else json.dumps(parts).encode()
    return load(io.BytesIO(pack({"document.json": data, **arrays}, method=zipfile.ZIP_STORED)))


def test_the_base_itself_is_read():
    assert load_parts(*read_base()).summary == SUMMARY


def test_a_newer_format_says_so():
    parts, arrays = read_base()
    newer = {"format": FORMAT + 1, "neuralbasis": "9.0", "shapes": {}}
    with pytest.raises(
        DocumentError, match=rf"has format {FORMAT + 1}, written by neuralbasis '9.0'; .* upgrade neuralbasis"
    ):
        load_parts(newer, {"other.bin": b""})
    for odd in (0, -1, True, "1", 1.0, None):
        with pytest.raises(DocumentError, match="states no format"):
            load_parts({**parts, "format": odd}, arrays)


JSON_TEXTS = {
    b"": "cannot be read",
    b"\xff\xfe": "cannot be read",
    b"[" * 100_000: "nested too deeply",
    b'{"a":' * 100_000: "nested too deeply",
    b'{"format": 1, "format": 1}': "two equal names",
    b'{"format": ' + b"1" * 5000 + b"}": "a whole number of 5000 digits",
    b'{"format": 1, "intercept": [NaN]}': "not finite",
    b'{"format": 1, "intercept": [-Infinity]}': "not finite",
    b'{"format": 1, "intercept": [1e999]}': "not finite",
    b"[1, 2]": "states no format",
    b"[" + b"[]," * 2_100_000 + b"[]]": "larger than that of any model",
    b'{"format": 1}': "must have the entries format, neuralbasis, link",
}


@pytest.mark.parametrize("text", JSON_TEXTS, ids=lambda text: repr(text[:30]))
def test_odd_json(text):
    with pytest.raises(DocumentError, match=JSON_TEXTS[text]):
        load_parts(text, {})


WRONG = {  # where, what, and how the error puts it
    "link": (["link"], "probit", "link 'probit' does not go with 3 outputs"),
    "outputs of a link": (["link"], "logit", "link 'logit' does not go with 3 outputs"),
    "classes of a regression": (["link"], "identity", "does not go with 3 classes"),
    "intercept": (["intercept"], [1.0, 2.0], "array 'tables' does not hold the"),
    "no intercept": (["intercept"], [], "the intercept must be a list of int or float"),
    "intercept of text": (["intercept"], ["1", 2, 3], "the intercept must be a list of int or float"),
    "huge intercept": (["intercept"], [1e300, 0, 0], "the intercept is beyond"),
    "type of classes": (["classes", "dtype"], "datetime64", "labels of classes must be a list of"),
    "labels of another type": (["classes", "labels"], ["a", "b", 3], "labels of classes must be a list of str"),
    "equal labels": (["classes", "labels"], ["a", "b", "a"], "labels of classes must differ"),
    "labels that NumPy cuts": (["classes", "labels"], ["a", "b", "b\0"], "labels of classes do not fit into str"),
    "few labels": (["classes", "labels"], ["a", "b"], "with 3 outputs does not go with 2 classes"),
    "a long label": (["classes", "labels"], ["a", "b", "c" * (1 << 23)], "labels of classes are too long"),
    "no columns": (["columns"], [], "names of columns must be a list of str"),
    "names": (["columns", 0, "names"], "x0", "'names' of a column has the wrong type: 'x0'"),
    "name": (["columns", 0, "names"], [3], "names of columns must be a list of str"),
    "equal names": (["columns", 0, "names"], ["x1"], "names of columns must differ"),
    "no names": (["columns", 0, "names"], [], "one of its axes belongs to no column"),
    "kind": (["columns", 0, "kind"], "text", "column 'x0' has kind 'text'"),
    "levels of numbers": (["columns", 0, "levels"], ["a"], "column 'x0' has kind 'continuous'"),
    "no levels": (["columns", 1, "levels"], None, "column 'x1' has kind 'nominal'"),
    "few levels": (["columns", 1, "levels"], ["a", "b"], "knots of column 'x1' are not its levels"),
    "equal levels": (["columns", 1, "levels"], ["a"] * 7, "levels of column 'x1' must differ"),
    "axes": (["axes"], [], "an axis that is not there"),
    "axis without column": (["axes", 0, "column"], 7, "an axis belongs to no column"),
    "axis of another column": (["axes", 0, "column"], 1, "the axes of a term are not those of its features"),
    "no knots": (["axes", 0, "n_knots"], 0, "an axis belongs to no column, or has no knots"),
    "negative knots": (["axes", 0, "n_knots"], -5, "an axis belongs to no column, or has no knots"),
    "more knots": (["axes", 0, "n_knots"], 10**6, "array 'knots' does not hold the"),
    "too many knots": (["axes", 0, "n_knots"], 10**19, "an axis has more than 4,194,304 knots"),
    "too many knots of a column": (["columns", 0, "n_knots"], (1 << 22) + 1, "an axis has more than 4,194,304 knots"),
    "column without knots": (["columns", 3, "n_knots"], 0, "column 'word_3' has no knots"),
    "mass": (["columns", 0, "has_mass"], True, "array 'mass' does not hold the"),
    "number as a flag": (["axes", 0, "has_mass"], 1, "'has_mass' of an axis has the wrong type: 1"),
    "feature": (["terms", 0, "features"], [7], "the axes of a term are not those of its features"),
    "feature twice": (["terms", 3, "features"], [0, 0], "features of a term must differ"),
    "no feature": (["terms", 0, "features"], [], "features of a term must be a list of int"),
    "axis of a term": (["terms", 0, "axes"], [99], "an axis that is not there"),
    "axis from behind": (["terms", 0, "axes"], [-10], "an axis that is not there"),
    "too many features": (["terms", 0, "axes"], [0] * 7, "a term has too many features"),
    "term twice": (
        ["terms", 4],
        {"features": [1, 0], "axes": [8, 7], "n_members": 0, "tied": None, "is_measured": False},
        "have the same features",
    ),
    "tied": (["terms", 4, "tied"], [2], "tied classes need a number of shapes and one of members"),
    "no members": (["terms", 4, "tied"], [2, 0], "tied classes need a number of shapes and one of members"),
    "very many members": (["terms", 4, "tied"], [10**19, 10**19], "does not hold the"),
    "members of tied classes": (["terms", 4, "n_members"], 2, "a term cannot have 2 members"),
    "fewer than no members": (["terms", 0, "n_members"], -1, "a term cannot have -1 members"),
    "more members than there are": (["terms", 0, "n_members"], 10**9, "array 'members' does not hold the"),
    "type of an array": (["arrays", "knots"], "|O", "array 'knots' cannot have the type '|O'"),
    "no text for a type": (["arrays", "knots"], ["<f8"], "array 'knots' cannot have the type"),
    "another array": (["arrays", "extra"], "<f8", "and nothing else"),
    "order of factors": (["factors", 1, "order"], 7, "are not those of a model"),
    "factors of the same order": (["factors", 1, "order"], 1, "it has two factors of the same order"),
    "no terms": (["factors", 0, "n_terms"], 0, "are not those of a model"),
    "no bases": (["factors", 0, "n_bases"], 0, "are not those of a model"),
    "very many bases": (["factors", 0, "n_bases"], 10**9, "are not those of a model"),
    "very many terms": (["factors", 0, "n_terms"], 10**9, "more than 2,097,152 terms"),
    "more terms": (["factors", 0, "n_terms"], 5, "array 'features' does not hold the 9 numbers"),
    "a large table": (["factors", 1, "n_knots"], 10**5, "are larger than those of any model"),
    "other knots of factors": (["factors", 0, "n_knots"], 11, "array 'knots' does not hold the 67 numbers"),
    "fewer than no cells": (["factors", 0, "n_cells"], -1, "are larger than those of any model"),
    "absent value": (["factors", 0, "absent"], 0.05, "the absent value 0.05 of factors is not among their knots"),
    "no rows": (["factors", 0, "total"], 0, "or have no rows"),
    "fewer rows": (["factors", 0, "total"], 3, "stands on more rows than there are"),
    "a term in both": (
        ["terms", 0],
        {"features": [3], "axes": [3], "n_members": 3, "tied": None, "is_measured": False},
        "numbers that the",
    ),
    "summary": (["summary", "n_rows"], "many", "'n_rows' of the summary has the wrong type"),
    "more entries": (["summary", "extra"], 1, "the summary must have the entries"),
    "more in the document": (["extra"], 1, "the document must have the entries"),
}


def put(parts, where, what):
    for step in where[:-1]:
        parts = parts[step]
    parts[where[-1]] = what


@pytest.mark.parametrize("name", WRONG)
def test_wrong_parts(name):
    where, what, message = WRONG[name]
    parts, arrays = read_base()
    put(parts, where, what)
    with pytest.raises(DocumentError, match=re.escape(message)):
        load_parts(parts, arrays)


OLD = {
    "axes": (["axes"], [], "its first axes are not those of its columns"),
    "order of axes": (["axes", 0, "column"], 1, "its first axes are not those of its columns"),
    "name": (["columns", 0, "name"], 3, "'name' of a column has the wrong type: 3"),
    "axis": (["axes", 1], 5, "an axis must have the entries column, n_knots, has_mass, not 5"),
    "columns": (["columns"], 5, "the document must have the entries"),
    "factors": (["factors"], [], "a column must have the entries names, kind"),
}


@pytest.mark.parametrize("name", OLD)
def test_wrong_parts_of_format_1(name):
    where, what, message = OLD[name]
    parts, arrays = read_base(1)
    put(parts, where, what)
    with pytest.raises(DocumentError, match=re.escape(message)):
        load_parts(parts, arrays)


def change(name, **places):
    """The arrays of the kept file with other numbers at some places of one of them."""
    parts, arrays = read_base()
    kind = parts["arrays"][name]
    values = np.frombuffer(arrays[f"{name}.npy"][128:], kind).copy()
    for place, value in places.items():
        values[int(place[1:])] = value
    return parts, write_numbers(arrays, name, values, kind)


INDICES = {
    "feature": ("features", {"_3": 7}, "factors have a feature 7, but there are 7 columns"),
    "levels": ("features", {"_0": 1}, "factors have a feature that is a column of levels"),
    "order": ("features", {"_0": 5}, "terms of factors are not sorted by their features"),
    "twice": ("features", {"_0": 4}, "or two of them have the same features"),
    "pair of one": ("features", {"_5": 3}, "a term of factors has a feature twice"),
    "in a table": ("features", {"_0": 0}, "two of its terms have the same features"),
    "absent": ("bases", {"_2": 0.5}, "bases of factors must be zero at the absent value"),
    "cell": ("cells", {"_30": 12}, "factors have cells that their terms do not have"),
    "cells": ("cells", {"_1": 0}, "cells of a term of factors do not increase"),
    "counts": ("cell_counts", {"_0": 200}, "factors have cells that their terms do not have"),
    "weights": ("cell_weights", {"_0": 200}, "a term of factors stands on more rows than there are"),
}


@pytest.mark.parametrize("name", INDICES)
def test_wrong_indices_of_factors(name):
    array, places, message = INDICES[name]
    with pytest.raises(DocumentError, match=message):
        load_parts(*change(array, **places))


def test_a_deep_summary():
    parts, arrays = read_base()
    for _ in range(100):
        parts["summary"]["parameters"] = {"deep": parts["summary"]["parameters"]}
    with pytest.raises(DocumentError, match="its summary is nested too deeply"):
        load_parts(parts, arrays)


@pytest.mark.parametrize("depth", [5, 50, 500, 900, 960, 1000, 5000])
def test_depth_is_no_crash_anywhere(depth):
    """Neither the parser nor the text of an error may run out of stack, wherever the depth lies."""
    base, arrays = read_base()
    for where in (("neuralbasis",), ("link",), ("columns",), ("terms", 0, "tied"), ("classes", "labels"), ("format",)):
        parts = copy.deepcopy(base)
        put(parts, where, "DEEP")
        for deep in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth):
            with pytest.raises(DocumentError):
                load_parts(json.dumps(parts).replace('"DEEP"', deep).encode(), arrays)
            with pytest.raises(DocumentError):
                load_parts(f'{{"format": {FORMAT + 1}, "neuralbasis": {deep}}}'.encode(), {})


def test_too_many_columns():
    parts, arrays = read_base()
    parts["columns"][3]["names"] = list(map(str, range(document.MAX_COLUMNS + 1)))
    with pytest.raises(DocumentError, match="it has 1,048,580 columns; a model has at most 1,048,576"):
        load_parts(parts, arrays)


def test_axes_without_terms():
    parts, arrays = read_base()
    parts["axes"] += [parts["axes"][0]]
    with pytest.raises(DocumentError, match="an axis belongs to no term"):
        load_parts(parts, arrays)


def test_axes_of_a_column_with_very_many_levels_cost_what_their_knots_cost():
    """Each of 4,000 terms has an axis of one knot, on a column of 200,000 levels: reading does not scan all levels."""
    n_levels, n_terms = 200_000, 4_000
    levels = tuple(map(str, range(n_levels)))
    wide = Axis("wide", "nominal", np.arange(float(n_levels)), np.linspace(0, 1, n_levels), levels)
    others = [Axis(f"x{k}", "continuous", np.zeros(1), np.full(1, 0.5)) for k in range(n_terms)]
    coarse = Axis("wide", "nominal", np.array([7.0]), np.full(1, 0.5), ("7",))
    shapes = [
        Shape((0, k + 1), (replace(coarse), other), np.full((3, 3, 1), k), np.zeros((3, 3, 1)), np.ones((3, 3)))
        for k, other in enumerate(others)
    ]
    model = AdditiveModel(Encoder((wide, *others)), np.zeros(1), tuple(shapes), "identity")
    entries, started = document._write_entries(model), time.process_time()
    fields = document._read_entries(entries)
    assert (
        time.process_time() - started < 4.0
    )  # 0.3 where nobody else works; it took 30 when every axis read all levels
    assert len({id(axis) for shape in fields["shapes"] for axis in shape.axes}) == 2 * n_terms


def test_tables_beside_a_run_of_columns_with_many_knots_take_memory_in_proportion():
    """Columns that no term reads share their knots in the file; a model must not copy these for every column."""
    knots = np.linspace(0, 1, 50_000)
    read = [Axis(f"x{k}", "continuous", np.zeros(1), np.full(1, 0.5)) for k in range(200)]
    silent = [Axis(f"y{k}", "continuous", knots, knots) for k in range(200)]
    shapes = [Shape((k,), (axis,), np.ones((3, 1)), np.zeros((3, 1)), np.ones(3)) for k, axis in enumerate(read)]
    model = AdditiveModel(Encoder((*read, *silent)), np.zeros(1), tuple(shapes), "identity")
    entries = document._write_entries(model)
    tracemalloc.start()
    try:
        loaded = AdditiveModel(**document._read_entries(entries))
        assert loaded.predict(np.zeros((1, 400))).tolist() == [200.0]
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("odd", ["../evil.npy", "knots.npz", "model.pickle"])
def test_unknown_and_absent_arrays(odd):
    parts, arrays = read_base()
    with pytest.raises(DocumentError, match=r"it must hold document.json and the arrays knots, .*, and nothing else"):
        load_parts(parts, {**arrays, odd: b""})
    del arrays["mix.npy"]
    with pytest.raises(DocumentError, match="and nothing else"):
        load_parts(parts, arrays)


def test_no_document():
    with pytest.raises(DocumentError, match=r"it has no document.json"):
        load(io.BytesIO(pack(read_base()[1])))


def write_numbers(arrays, name, values, kind="<f8"):
    """The arrays with other numbers in one of them, in the form of NumPy's own writer."""
    file = io.BytesIO()
    np.save(file, np.asarray(values, dtype=kind))
    return {**arrays, f"{name}.npy": file.getvalue()}


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("name", sorted(name for name in ARRAYS if ARRAYS[name].memory != "i8"))
def test_numbers_that_no_model_has(name, odd):
    parts, arrays = read_base()
    count = (len(arrays[f"{name}.npy"]) - 128) // np.dtype(parts["arrays"][name]).itemsize
    kind = parts["arrays"][name] = ARRAYS[name].types[-1]
    values = np.linspace(0.0, 1.0, count)
    values[count // 2] = odd
    message = "are not its levels" if name == "knots" and odd == 1e300 else f"array '{name}' holds numbers outside"
    with np.errstate(over="ignore"):
        changed = write_numbers(arrays, name, values, kind)
    with pytest.raises(DocumentError, match=message):
        load_parts(parts, changed)


@pytest.mark.parametrize("name", ["mass", "weights", "spread", "places", "cell_weights", "deviations"])
def test_negative_numbers(name):
    parts, arrays = read_base()
    count = (len(arrays[f"{name}.npy"]) - 128) // np.dtype(parts["arrays"][name]).itemsize
    kind = parts["arrays"][name] = ARRAYS[name].types[-1]
    with pytest.raises(DocumentError, match=f"array '{name}' holds numbers outside 0 to"):
        load_parts(parts, write_numbers(arrays, name, np.full(count, -1e-9), kind))


@pytest.mark.parametrize("knots", [[1.0, 1.0], [2.0, 1.0]])
def test_knots_must_increase(knots, tmp_path):
    with pytest.raises(DocumentError, match=r"model.nbm cannot be written: knots of column 'x' do not increase"):
        make_line(1.0, knots=knots).save(tmp_path / "model.nbm")


def test_levels_must_be_knots():
    parts, arrays = read_base()
    knots = np.frombuffer(arrays["knots.npy"][128:], "<f8").copy()
    knots[49] = 6.5  # the last of the coarser axis
    with pytest.raises(DocumentError, match="knots of column 'x2' are not its levels"):
        load_parts(parts, write_numbers(arrays, "knots", knots))


HEADERS = {
    "shape": (b"(485,)", b"(999,)"),
    "two dimensions": (b"(485,), ", b"(5, 97),"),
    "order": (b"False", b"True "),
    "type": (b"'<f8'", b"'|O8'"),
    "version": (b"NUMPY\1", b"NUMPY\3"),
    "code": (b"485", b"f()"),
    "padding": (b"  \n", b" \n "),
}


@pytest.mark.parametrize("name", HEADERS)
def test_arrays_that_lie(name):
    parts, arrays = read_base()
    before, after = HEADERS[name]
    assert before in arrays["tables.npy"][:128]
    arrays["tables.npy"] = arrays["tables.npy"].replace(before, after, 1)
    with pytest.raises(DocumentError, match="array 'tables' does not hold the 485 numbers that the model needs"):
        load_parts(parts, arrays)


@pytest.mark.parametrize("extra", [b"\0", b"\0" * 8])
def test_arrays_too_long_or_too_short(extra):
    parts, arrays = read_base()
    for data in (arrays["tables.npy"] + extra, arrays["tables.npy"][: -len(extra)], b""):
        with pytest.raises(DocumentError, match="array 'tables' does not hold the 485 numbers"):
            load_parts(parts, {**arrays, "tables.npy": data})


@pytest.mark.parametrize(
    "change",
    [{"scores": np.nan}, {"scores": np.inf}, {"spread": -1.0}, {"spread": np.nan}, {"scores": 1e300}],
    ids=str,
)
def test_a_model_that_could_not_be_read_is_not_written(change, tmp_path):
    with pytest.raises(DocumentError, match=r"cannot be written: array '\w+' holds numbers outside"):
        make_line(**{"scores": 1.0, **change}).save(tmp_path / "model.nbm")
    assert os.listdir(tmp_path) == []


def test_an_axis_unlike_its_column_is_not_written(tmp_path):
    model = make_line(1.0)
    shape = replace(model.shapes[0], axes=(replace(model.encoder.axes[0], name="y"),))
    with pytest.raises(DocumentError, match="cannot be written: an axis of column 'x' has another name, kind or other"):
        replace(model, shapes=(shape,)).save(tmp_path / "model.nbm")


def test_refusals_take_little_memory():
    parts, arrays = read_base()
    parts["axes"][0]["n_knots"] = 10**9
    hostile = pack({"document.json": json.dumps(parts).encode(), **arrays})
    tracemalloc.start()
    try:
        with pytest.raises(DocumentError):
            load(io.BytesIO(hostile))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
