"""Model file, forged or damaged: a wrong value gives a `DocumentError` that names it, in bounded time and memory."""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
import re
import time
import tracemalloc
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from neuralbasis import AdditiveModel, load
from neuralbasis.encoding import Axis, Encoder
from neuralbasis.model.shapes import Shape
from neuralbasis.serialization import DocumentError
from neuralbasis.serialization.arrays import ARRAYS
from tests.formats.make import FOLDER, FORMAT, SUMMARY
from tests.serialization.test_archive import pack
from tests.serialization.test_model_file import make_line


def test_system_errors_are_not_replaced(tmp_path):
    with pytest.raises(FileNotFoundError, match=re.escape("absent.nbm")):
        load(tmp_path / "absent.nbm")
    with pytest.raises(IsADirectoryError):
        load(tmp_path)


def test_the_error_names_the_file(tmp_path):
    (tmp_path / "model.nbm").write_bytes(b"hello")
    with pytest.raises(
        DocumentError, match=r"model\.nbm is not a model that can be read: it is truncated, or it is not"
    ):
        load(tmp_path / "model.nbm")
    with pytest.raises(ValueError, match="the file is not a model that can be read"):
        load(io.BytesIO(b"hello"))


class Abort:
    """An object whose unpickling ends the process."""

    def __reduce__(self):
        return (os.abort, ())


def test_a_pickle_is_not_opened(tmp_path):
    (tmp_path / "model.nbm").write_bytes(pickle.dumps(Abort()))
    with pytest.raises(DocumentError):
        load(tmp_path / "model.nbm")


def read_base(number=FORMAT):
    """The stored model of a format: its parsed JSON and its arrays."""
    with zipfile.ZipFile(FOLDER / f"format_{number}.nbm") as archive:
        entries = {name: archive.read(name) for name in archive.namelist() if name != "SHA256SUMS"}
    return json.loads(entries.pop("document.json")), entries


def load_parts(parts, arrays):
    """Load a file of these entries, with correct checksums."""
    data = parts if isinstance(parts, bytes) else json.dumps(parts).encode()
    return load(io.BytesIO(pack({"document.json": data, **arrays}, method=zipfile.ZIP_STORED)))


def test_the_unchanged_parts_are_read():
    assert load_parts(*read_base()).summary == SUMMARY


def test_a_newer_format_is_refused():
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
    b'{"format": ' + b"1" * 5000 + b"}": "an integer of 5000 digits",
    b'{"format": 1, "intercept": [NaN]}': "not finite",
    b'{"format": 1, "intercept": [-Infinity]}': "not finite",
    b'{"format": 1, "intercept": [1e999]}': "not finite",
    b"[1, 2]": "states no format",
    b"[" + b"[]," * 4_100_000 + b"[]]": "larger than 134,217,728 bytes or about 8,000,000 values",
    b'{"format": 1}': "must have the entries format, neuralbasis, link",
}


@pytest.mark.parametrize("text", JSON_TEXTS, ids=lambda text: repr(text[:30]))
def test_malformed_json_is_refused(text):
    with pytest.raises(DocumentError, match=JSON_TEXTS[text]):
        load_parts(text, {})


EVIDENCE = ["terms", 1, "evidence"]
WRONG = {  # path of the value, the wrong value, the error
    "link": (["link"], "probit", "link 'probit' does not go with 3 outputs"),
    "outputs of a link": (["link"], "logit", "link 'logit' does not go with 3 outputs"),
    "classes of a regression": (["link"], "identity", "does not go with 3 classes"),
    "intercept": (["intercept"], [1.0, 2.0], "it has residuals of 3 outputs, but 2 outputs"),
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
    "axes": (["axes"], [], "an axis that does not exist"),
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
    "axis of a term": (["terms", 0, "axes"], [99], "an axis that does not exist"),
    "axis from behind": (["terms", 0, "axes"], [-10], "an axis that does not exist"),
    "too many features": (["terms", 0, "axes"], [0] * 7, "a term has too many features"),
    "term twice": (
        ["terms", 4],
        {"features": [1, 0], "axes": [8, 7], "n_members": 0, "tied": None, "is_measured": False, "evidence": None},
        "have the same features",
    ),
    "tied": (["terms", 4, "tied"], [2], "tied classes need a number of shapes and one of members"),
    "no members": (["terms", 4, "tied"], [2, 0], "tied classes need a number of shapes and one of members"),
    "very many members": (["terms", 4, "tied"], [10**19, 10**19], "does not hold the"),
    "members of tied classes": (["terms", 4, "n_members"], 2, "a term cannot have 2 members"),
    "fewer than no members": (["terms", 0, "n_members"], -1, "a term cannot have -1 members"),
    "more members than there are": (["terms", 0, "n_members"], 10**9, "array 'members' does not hold the"),
    "evidence as a list": (["terms", 1, "evidence"], [], "'evidence' of a term has the wrong type: []"),
    "less evidence": (["terms", 1, "evidence"], {"p_values": [0, 0, 0]}, "evidence must have the entries p_values,"),
    "evidence of tied classes": (["terms", 4, "evidence"], {}, "a term of tied classes has evidence"),
    "few p-values": ([*EVIDENCE, "p_values"], [0.5, 0.5], "p_values of evidence must be 3 numbers from 0 to 1"),
    "no p-values": ([*EVIDENCE, "p_values"], [], "p_values of evidence must be a list of int or float"),
    "a p-value of text": ([*EVIDENCE, "p_values"], [0.5, 0.5, "0"], "p_values of evidence must be a list of int or"),
    "a p-value above 1": ([*EVIDENCE, "p_values"], [0.5, 0.5, 1.5], "p_values of evidence must be 3 numbers from 0"),
    "negative multiplier": ([*EVIDENCE, "multipliers"], [2, 2, -2], "multipliers of evidence must be 3 numbers from"),
    "huge multiplier": ([*EVIDENCE, "multipliers"], [2, 2, 1e101], "multipliers of evidence must be 3 numbers from"),
    "negative error": ([*EVIDENCE, "importance_errors"], [-1, 0, 0], "importance_errors of evidence must be 3 numb"),
    "concurvity": ([*EVIDENCE, "concurvity"], 1.1, "concurvity of evidence must be a number from 0 to 1"),
    "concurvity of a partner": ([*EVIDENCE, "partner_concurvity"], -1, "concurvity of evidence must be a number from"),
    "partner": ([*EVIDENCE, "partner"], [7], "partner of evidence has a feature that does not exist: [7]"),
    "partner from behind": ([*EVIDENCE, "partner"], [-1], "partner of evidence has a feature that does not exist"),
    "partner twice": ([*EVIDENCE, "partner"], [0, 0], "partner of evidence must differ from one another"),
    "no partner": ([*EVIDENCE, "partner"], [], "partner of evidence must be a list of int"),
    "type of an array": (["arrays", "knots"], "|O", "array 'knots' cannot have the type '|O'"),
    "no text for a type": (["arrays", "knots"], ["<f8"], "array 'knots' cannot have the type"),
    "another array": (["arrays", "extra"], "<f8", "and nothing else"),
    "order of factors": (["factors", 1, "order"], 7, "outside of the limits"),
    "factors of the same order": (["factors", 1, "order"], 1, "it has two factors of the same order"),
    "no terms": (["factors", 0, "n_terms"], 0, "outside of the limits"),
    "no bases": (["factors", 0, "n_bases"], 0, "outside of the limits"),
    "very many bases": (["factors", 0, "n_bases"], 10**9, "outside of the limits"),
    "very many terms": (["factors", 0, "n_terms"], 10**9, "more than 2,097,152 terms"),
    "more terms": (["factors", 0, "n_terms"], 5, "array 'features' does not hold the 9 numbers"),
    "a large table": (["factors", 1, "n_knots"], 10**5, "are larger than those of any model"),
    "other knots of factors": (["factors", 0, "n_knots"], 11, "array 'knots' does not hold the 67 numbers"),
    "fewer than no cells": (["factors", 0, "n_cells"], -1, "are larger than those of any model"),
    "absent value": (["factors", 0, "absent"], 0.05, "the absent value 0.05 of factors is not among their knots"),
    "no rows": (["factors", 0, "total"], 0, "or have no rows"),
    "fewer rows": (["factors", 0, "total"], 3, "has more weight than all training rows"),
    "a term in both": (
        ["terms", 0],
        {"features": [3], "axes": [3], "n_members": 3, "tied": None, "is_measured": False, "evidence": None},
        "numbers that the",
    ),
    "summary": (["summary", "n_rows"], "many", "'n_rows' of the summary has the wrong type"),
    "more entries": (["summary", "extra"], 1, "the summary must have the entries"),
    "no regions": (["residuals", 0, "n_regions"], 0, "residuals have 1 to 1,000 regions and 2 to 1,000 probabilities"),
    "very many regions": (["residuals", 1, "n_regions"], 10**9, "residuals have 1 to 1,000 regions"),
    "one probability": (["residuals", 2, "n_probabilities"], 1, "2 to 1,000 probabilities"),
    "another region": (["residuals", 0, "n_regions"], 3, "array 'residual_centres' does not hold the 7 numbers"),
    "residuals of one output": (["residuals"], [{"n_regions": 2, "n_probabilities": 43}], "residuals of 1 outputs"),
    "residuals as numbers": (["residuals"], [2, 43, 1], "the residuals must have the entries n_regions"),
    "no list of residuals": (["residuals"], None, "'residuals' of document.json has the wrong type"),
    "no residuals": (["residuals"], [], "array 'residual_centres' does not hold the 0 numbers"),
    "more in the file": (["extra"], 1, "document.json must have the entries"),
}


def put(parts, where, what):
    for step in where[:-1]:
        parts = parts[step]
    parts[where[-1]] = what


@pytest.mark.parametrize("name", WRONG)
def test_wrong_values_are_refused(name):
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
    "columns": (["columns"], 5, "document.json must have the entries"),
    "factors": (["factors"], [], "a column must have the entries names, kind"),
}


@pytest.mark.parametrize("name", OLD)
def test_wrong_values_of_format_1_are_refused(name):
    where, what, message = OLD[name]
    parts, arrays = read_base(1)
    put(parts, where, what)
    with pytest.raises(DocumentError, match=re.escape(message)):
        load_parts(parts, arrays)


def change(name, **indices):
    """The stored model with other numbers at some indices of one array."""
    parts, arrays = read_base()
    kind = parts["arrays"][name]
    values = np.frombuffer(arrays[f"{name}.npy"][128:], kind).copy()
    for index, value in indices.items():
        values[int(index[1:])] = value
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
    "weights": ("cell_weights", {"_0": 200}, "a term of factors has more weight than all training rows"),
}


@pytest.mark.parametrize("name", INDICES)
def test_wrong_indices_of_factors_are_refused(name):
    array, indices, message = INDICES[name]
    with pytest.raises(DocumentError, match=message):
        load_parts(*change(array, **indices))


def test_a_deep_summary_is_refused():
    parts, arrays = read_base()
    for _ in range(100):
        parts["summary"]["parameters"] = {"deep": parts["summary"]["parameters"]}
    with pytest.raises(DocumentError, match="its summary is nested too deeply"):
        load_parts(parts, arrays)


@pytest.mark.parametrize("depth", [5, 50, 500, 900, 960, 1000, 5000])
def test_deep_nesting_is_refused_everywhere(depth):
    """Neither the parser nor an error message may exhaust the stack."""
    base, arrays = read_base()
    for where in (("neuralbasis",), ("link",), ("columns",), ("terms", 0, "tied"), ("classes", "labels"), ("format",)):
        parts = copy.deepcopy(base)
        put(parts, where, "DEEP")
        for deep in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth):
            with pytest.raises(DocumentError):
                load_parts(json.dumps(parts).replace('"DEEP"', deep).encode(), arrays)
            with pytest.raises(DocumentError):
                load_parts(f'{{"format": {FORMAT + 1}, "neuralbasis": {deep}}}'.encode(), {})


def test_too_many_columns_are_refused():
    parts, arrays = read_base()
    parts["columns"][3]["names"] = list(map(str, range((1 << 20) + 1)))
    with pytest.raises(DocumentError, match="it has 1,048,580 columns; a model has at most 1,048,576"):
        load_parts(parts, arrays)


def test_axes_without_terms_are_refused():
    parts, arrays = read_base()
    parts["axes"] += [parts["axes"][0]]
    with pytest.raises(DocumentError, match="an axis belongs to no term"):
        load_parts(parts, arrays)


def test_the_cost_of_an_axis_does_not_grow_with_the_levels_of_its_column(tmp_path):
    """4,000 terms, each with an axis of one knot, on a column of 200,000 levels."""
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
    model.save(tmp_path / "model.nbm")
    started = time.process_time()
    loaded = load(tmp_path / "model.nbm")
    assert time.process_time() - started < 4.0  # 0.3 s on an idle machine; 30 s if every axis scans all levels
    assert len({id(axis) for shape in loaded.shapes for axis in shape.axes}) == 2 * n_terms


def test_columns_without_terms_share_their_knots_in_memory(tmp_path):
    """200 columns of 50,000 knots share one axis in the file and in the model."""
    knots = np.linspace(0, 1, 50_000)
    read = [Axis(f"x{k}", "continuous", np.zeros(1), np.full(1, 0.5)) for k in range(200)]
    unused = [Axis(f"y{k}", "continuous", knots, knots) for k in range(200)]
    shapes = [Shape((k,), (axis,), np.ones((3, 1)), np.zeros((3, 1)), np.ones(3)) for k, axis in enumerate(read)]
    model = AdditiveModel(Encoder((*read, *unused)), np.zeros(1), tuple(shapes), "identity")
    model.save(tmp_path / "model.nbm")
    tracemalloc.start()
    try:
        loaded = load(tmp_path / "model.nbm")
        assert loaded.predict(np.zeros((1, 400))).tolist() == [200.0]
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("odd", ["../evil.npy", "knots.npz", "model.pickle"])
def test_unknown_and_missing_arrays_are_refused(odd):
    parts, arrays = read_base()
    with pytest.raises(DocumentError, match=r"it must hold document.json and the arrays knots, .*, and nothing else"):
        load_parts(parts, {**arrays, odd: b""})
    del arrays["mix.npy"]
    with pytest.raises(DocumentError, match="and nothing else"):
        load_parts(parts, arrays)


def test_an_archive_without_json_is_refused():
    with pytest.raises(DocumentError, match=r"it has no document.json"):
        load(io.BytesIO(pack(read_base()[1])))


def write_numbers(arrays, name, values, kind="<f8"):
    """The arrays, one of them replaced by numbers that NumPy writes."""
    file = io.BytesIO()
    np.save(file, np.asarray(values, dtype=kind))
    return {**arrays, f"{name}.npy": file.getvalue()}


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("name", sorted(name for name in ARRAYS if ARRAYS[name].memory != "i8"))
def test_numbers_out_of_range_are_refused(name, odd):
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
def test_negative_weights_are_refused(name):
    parts, arrays = read_base()
    count = (len(arrays[f"{name}.npy"]) - 128) // np.dtype(parts["arrays"][name]).itemsize
    kind = parts["arrays"][name] = ARRAYS[name].types[-1]
    with pytest.raises(DocumentError, match=f"array '{name}' holds numbers outside 0 to"):
        load_parts(parts, write_numbers(arrays, name, np.full(count, -1e-9), kind))


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("residual_centres", [1.0] * 6, "centres or probabilities of its residuals do not increase"),
        ("residual_probabilities", np.linspace(1, 0, 129), "centres or probabilities of its residuals do not increase"),
        ("residual_quantiles", np.linspace(1, 0, 258), "quantiles of its residuals decrease"),
    ],
)
def test_residuals_must_increase(name, values, message):
    parts, arrays = read_base()
    parts["arrays"][name] = "<f8"
    with pytest.raises(DocumentError, match=message):
        load_parts(parts, write_numbers(arrays, name, values))


@pytest.mark.parametrize("knots", [[1.0, 1.0], [2.0, 1.0]])
def test_knots_must_increase(knots, tmp_path):
    with pytest.raises(DocumentError, match=r"model.nbm cannot be written: knots of column 'x' do not increase"):
        make_line(1.0, knots=knots).save(tmp_path / "model.nbm")


def test_levels_must_be_knots():
    parts, arrays = read_base()
    knots = np.frombuffer(arrays["knots.npy"][128:], "<f8").copy()
    knots[49] = 6.5  # the last knot of a coarser axis
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
def test_wrong_array_headers_are_refused(name):
    parts, arrays = read_base()
    before, after = HEADERS[name]
    assert before in arrays["tables.npy"][:128]
    arrays["tables.npy"] = arrays["tables.npy"].replace(before, after, 1)
    with pytest.raises(DocumentError, match="array 'tables' does not hold the 485 numbers that the model needs"):
        load_parts(parts, arrays)


@pytest.mark.parametrize("extra", [b"\0", b"\0" * 8])
def test_arrays_of_the_wrong_length_are_refused(extra):
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


def test_a_refusal_takes_little_memory():
    parts, arrays = read_base()
    parts["axes"][0]["n_knots"] = 10**9
    forged = pack({"document.json": json.dumps(parts).encode(), **arrays})
    tracemalloc.start()
    try:
        with pytest.raises(DocumentError):
            load(io.BytesIO(forged))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
