"""Concept files: bitwise equal after loading; damaged, altered and hostile files are refused."""

from __future__ import annotations

import io
import json
import pickle
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("transformers")
pytest.importorskip("PIL")


from neuralbasis.serialization import read_archive, write_archive
from neuralbasis.vision import Backbone, ConceptExtractor, load


def test_a_loaded_extractor_is_bitwise_equal(birds, tmp_path: Path) -> None:
    birds.extractor.save(tmp_path / "a.nbc")
    loaded = load(tmp_path / "a.nbc")  # the backbone is loaded from its folder
    assert loaded.names == birds.extractor.names
    assert loaded.parts == birds.extractor.parts
    assert loaded.trust() == birds.extractor.trust()
    images = birds.annotations.images[:20]
    assert np.array_equal(loaded.apply(images).scores, birds.extractor.apply(images).scores)
    loaded.save(tmp_path / "b.nbc")
    assert (tmp_path / "a.nbc").read_bytes() == (tmp_path / "b.nbc").read_bytes()


def encode_array(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_damaged_and_foreign_files_are_refused(birds, tmp_path: Path) -> None:
    path = tmp_path / "a.nbc"
    birds.extractor.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"a\.nbc cannot be read as a concept file"):
        load(path)
    entries = read_archive(io.BytesIO(whole))
    for name, data in (
        ("concepts.json", b"{}"),
        ("concepts.json", json.dumps({**json.loads(entries["concepts.json"]), "format": 99}).encode()),
        ("intercepts.npy", encode_array(np.full(38, np.nan))),
        ("coefficients.npy", encode_array(np.zeros((2, 3)))),
    ):
        write_archive(path, {**entries, name: data})
        with pytest.raises(ValueError, match=r"a\.nbc cannot be read as a concept file"):
            load(path)


HEADER = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }"


def npy(header: str, body: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\0" + len(header).to_bytes(2, "little") + header.encode() + body


@pytest.mark.parametrize(
    "data",
    [
        npy(HEADER % "38, 999999999" + "\n"),
        npy(HEADER % "99999999999999999999, 9" + "\n"),
        npy("(" * 9000 + "\n"),
        npy("{'descr': '''<f4\n"),
        npy("-" * 9000 + "1\n"),
        npy("{'descr': '|O', 'fortran_order': False, 'shape': (38,), }\n", pickle.dumps([1])),
        npy(HEADER % "38," + "\n", b"\0" * 151),
        b"",
    ],
    ids=["huge", "beyond int64", "nested", "unfinished", "signs", "objects", "short", "empty"],
)
def test_headers_of_arrays_are_not_evaluated(birds, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.nbc"
    birds.extractor.save(path)
    entries = read_archive(io.BytesIO(path.read_bytes()))
    write_archive(path, {**entries, "coefficients.npy": data})
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"a\.nbc cannot be read as a concept file: its array 'coefficients'"):
        load(path)
    assert tracemalloc.get_traced_memory()[1] < 1 << 22
    tracemalloc.stop()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just(10**400) | st.just(1e308),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def alter_json(data: st.DataObject, text: bytes) -> bytes:
    """Replace one value at any depth."""
    document = json.loads(text)
    node, key = document, data.draw(st.sampled_from(sorted(document)))
    while isinstance(node[key], (list, dict)) and node[key] and data.draw(st.booleans()):
        node = node[key]
        key = data.draw(st.sampled_from(sorted(node)) if isinstance(node, dict) else st.integers(0, len(node) - 1))
    node[key] = data.draw(JSON)
    return json.dumps(document).encode()


def alter_bytes(data: st.DataObject, whole: bytes) -> bytes:
    """Replace a few bytes near the beginning and optionally truncate."""
    altered = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        altered[data.draw(st.integers(0, min(len(altered) - 1, 200)))] = data.draw(st.integers(0, 255))
    return bytes(altered[: data.draw(st.integers(0, len(altered)) | st.just(len(altered)))])


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_altered_files_are_read_or_refused(birds, tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "a.nbc"
    birds.extractor.save(path)
    entries = read_archive(io.BytesIO(path.read_bytes()))
    name = data.draw(st.sampled_from(["concepts.json", *sorted(entries)]))
    alter = data.draw(st.sampled_from([alter_json, alter_bytes])) if name == "concepts.json" else alter_bytes
    write_archive(path, {**entries, name: alter(data, entries[name])})
    learned, problem = None, ""
    try:
        learned = load(path).learned
    except ValueError as error:
        problem = str(error)
    if learned is None:
        assert problem.startswith(f"{path} cannot be read as a concept file: ")
        assert len(problem) < 1000
    else:
        assert learned.coefficients.shape[0] == len(learned.names)
        assert 1 <= learned.source.side <= 4096


def test_another_backbone_is_refused(birds, tmp_path: Path) -> None:
    birds.extractor.save(tmp_path / "a.nbc")
    with pytest.raises(ValueError, match="is not the one that the concepts were fitted with"):
        load(tmp_path / "a.nbc", backbone=Backbone.load(birds.checkpoint, side=64))


def test_invalid_concepts_are_not_saved(birds, tmp_path: Path) -> None:
    learned = birds.extractor.learned
    twice = replace(learned, names=(learned.names[1], *learned.names[1:]))
    with pytest.raises(ValueError, match="two of its concepts have the same name"):
        ConceptExtractor(twice).save(tmp_path / "a.nbc")
    assert not list(tmp_path.iterdir())
