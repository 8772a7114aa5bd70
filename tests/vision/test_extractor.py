"""The whole line on drawn birds: concepts recovered, placed, saved, resumed; the same from the command line."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
import tracemalloc
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

pytest.importorskip("transformers")
pytest.importorskip("PIL")

import torch
from transformers import ResNetConfig, ResNetForImageClassification, ResNetModel, ViTConfig, ViTModel

from neuralbasis.cli import main
from neuralbasis.cli.outputs import open_output
from neuralbasis.serialization.archive import read_archive, write_archive
from neuralbasis.serialization.model_file import DocumentError
from neuralbasis.vision import Backbone, ConceptExtractor, load, read_picture
from neuralbasis.vision.classifiers import RIDGES
from neuralbasis.vision.concept_file import ARRAYS, pack, read_knowledge, write_knowledge
from neuralbasis.vision.feature_grids import Plan, stream_grids
from neuralbasis.vision.feature_store import Shelf, picture_key
from neuralbasis.vision.patches import find_cells


@pytest.fixture(scope="module")
def test_part(birds):
    """Pictures that nothing was fitted on, and their concepts."""
    chosen = birds.annotations.select(~birds.annotations.is_train)
    return chosen, birds.extractor.apply(chosen.images)


@pytest.fixture(autouse=True)
def one_thread():
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)


def sure_truth(annotations) -> np.ndarray:
    """What workers were certain of; -1 elsewhere."""
    return np.where(annotations.weight == 1, annotations.present, -1)


def test_concepts_are_recovered(birds, test_part) -> None:
    annotations, concepts = test_part
    truth = sure_truth(annotations)
    found = {}
    for k, name in enumerate(concepts.names):
        answers = truth[:, annotations.concepts.index(name)]
        found[name] = roc_auc_score(answers[answers >= 0], concepts.scores[answers >= 0, k])
    assert concepts.names == annotations.concepts
    assert len(found) == 38
    assert np.mean(list(found.values())) > 0.88
    for part in ("wing", "breast", "crown", "belly"):
        assert min(value for name, value in found.items() if name.endswith(part)) > 0.75, found
    # Pictures that were held out told the truth about it.
    told = {row.concept: row.auroc for row in birds.extractor.trust()}
    assert np.corrcoef([told[n] for n in found], list(found.values()))[0, 1] > 0.4


def test_scores_are_probabilities(test_part) -> None:
    annotations, concepts = test_part
    truth, scores = annotations.truth(), concepts.scores
    is_known = truth >= 0
    assert scores.min() >= 0
    assert scores.max() <= 1
    order = np.argsort(scores[is_known])
    for group in np.array_split(order, 5):
        assert np.mean(truth[is_known][group]) == pytest.approx(np.mean(scores[is_known][group]), abs=0.08)


def test_trust_counts_pictures(birds) -> None:
    train = birds.annotations.select(birds.annotations.is_train)
    rows = birds.extractor.trust()
    assert [row.concept for row in rows] == list(birds.extractor.names)
    truth = train.truth()
    for k, row in enumerate(rows):
        assert row.n_train + row.n_held == (truth[:, k] == 1).sum()
        assert row.share == row.n_held / (row.n_held + row.n_held_absent)
        assert row.ridge in RIDGES


def test_a_rare_concept_is_learned_and_its_scores_are_rare(birds) -> None:
    """One picture of a hundred has it: it is not held out, and the others do not seem to have it as well."""
    train = birds.annotations.select(np.flatnonzero(birds.annotations.is_train)[::3])
    k = train.concepts.index("red wing")
    present = train.present.copy()
    sure = np.flatnonzero((present[:, k] == 1) & (train.weight[:, k] == 1))
    present[:, k] = np.where(present[:, k] == 1, 0, present[:, k])
    present[sure[0], k] = 1
    for seed in range(3):
        found = ConceptExtractor.fit(replace(train, present=present), birds.backbone, random_state=seed)
        (row,) = (row for row in found.trust() if row.concept == "red wing")
        assert (row.n_train, row.n_held, row.is_measured, np.isnan(row.auroc)) == (1, 0, False, True)
        assert sum(other.is_measured for other in found.trust()) > 30
        place = found.names.index("red wing")
        scores = found.apply(train.images).scores[:, place]
        assert scores.mean() < 0.04  # 0.031 on some processors; 0.01 is the share of pictures
        assert expit(logit(scores) - found.knowledge.calibration[place, 1]).mean() > 0.1  # without the shift
        assert "red wing" not in found.knowledge.left_out


def part_boxes(folder: Path) -> dict[tuple[int, int], np.ndarray]:
    """(picture, part) as CUB numbers them -> x, y, width, height"""
    lines = np.loadtxt(folder / "drawn" / "part_boxes.txt")
    return {(int(line[0]), int(line[1])): line[2:] for line in lines}


def test_heat_maps_point_at_the_part(birds, test_part) -> None:
    """The hottest cell overlaps the part's box for most pictures that have the concept."""
    boxes = part_boxes(birds.folder)
    numbers = {name: k + 1 for k, name in enumerate((birds.folder / "parts" / "parts.txt").read_text().splitlines())}
    sides = {"wing": ("9 left wing", "13 right wing"), "breast": ("4 breast",), "crown": ("5 crown",)}
    annotations, concepts = test_part
    truth, hits = sure_truth(annotations), []
    places = {path: int(path.stem.split("_")[-1]) for path in annotations.images}
    _, h, w = birds.backbone.shape
    for name in ("striped wing", "red wing", "blue breast", "yellow crown", "white crown"):
        k = concepts.names.index(name)
        for row in np.flatnonzero(truth[:, annotations.concepts.index(name)] == 1)[:8]:
            path = annotations.images[row]
            heat = birds.extractor.locate(path, name)
            assert heat.shape == (1, h, w)
            assert heat.max() == pytest.approx(concepts.scores[row, k], abs=1e-5)
            peak = np.array(np.unravel_index(heat[0].argmax(), (h, w))[::-1])  # column, row
            keys = [(places[path], numbers[part]) for part in sides[name.split()[1]]]
            found = [boxes[key] for key in keys if key in boxes]
            low, high = peak * 96 / w, (peak + 1) * 96 / w
            hits.append(any((low < box[:2] + box[2:]).all() and (high > box[:2]).all() for box in found))
    assert len(hits) >= 25
    assert np.mean(hits) > 0.85


def test_classes_from_concepts_match_a_black_box_on_the_features(birds, test_part) -> None:
    annotations = birds.annotations
    test, concepts = test_part
    train = annotations.select(annotations.is_train)
    X = birds.extractor.apply(train.images).scores
    on_concepts = make_pipeline(StandardScaler(), LogisticRegression(C=0.3, max_iter=2000)).fit(X, train.labels)
    accuracy = on_concepts.score(concepts.scores, test.labels)

    def pooled(images) -> np.ndarray:
        parts = stream_grids(images, birds.backbone, Plan(), {})
        return np.concatenate([part.features.astype(float).max(axis=(2, 3)) for part in parts])

    black_box = make_pipeline(StandardScaler(), LogisticRegression(C=0.3, max_iter=2000))
    reference = black_box.fit(pooled(train.images), train.labels).score(pooled(test.images), test.labels)
    assert accuracy > 0.6  # chance is 0.1
    assert accuracy > reference - 0.03


def test_unreadable_pictures_are_named_and_keep_their_rows(birds, tmp_path: Path) -> None:
    good = list(birds.annotations.images[:3])
    (tmp_path / "broken.jpg").write_bytes(good[0].read_bytes()[:500])
    given = [good[0], tmp_path / "broken.jpg", good[1], tmp_path / "absent.jpg", good[2]]
    found = birds.extractor.apply(given, batch_size=2)
    assert list(found.broken) == [1, 3]
    assert found.is_read.tolist() == [True, False, True, False, True]
    assert np.isnan(found.scores).all(axis=1).tolist() == [False, True, False, True, False]
    report = found.report()
    assert "2 of 5 pictures" in report
    assert "broken.jpg: it is broken or cut short" in report
    assert "absent.jpg: there is no such file" in report
    assert np.allclose(found.scores[found.is_read], birds.extractor.apply(good).scores, atol=1e-3)
    with pytest.raises(ValueError, match=r"broken\.jpg"):
        birds.extractor.locate(tmp_path / "broken.jpg", "red wing")
    with pytest.raises(ValueError, match="no concept 'blue song'"):
        birds.extractor.locate(good[0], ["red wing", "blue song"])


def test_a_stopped_run_goes_on_to_the_same_table(birds, tmp_path: Path) -> None:
    images = birds.annotations.images[:50]
    whole = birds.extractor.apply(images, batch_size=8)
    for _ in zip(range(2), birds.extractor.stream(images, {}, batch_size=8, cache=tmp_path), strict=False):
        pass
    (shelf,) = tmp_path.glob("scores-*.shelf")
    done = shelf.stat().st_size
    with open(shelf, "ab") as file:
        file.write(b"part of a record")
    before = birds.backbone.features
    seen = []
    birds.backbone.features = lambda pixels: seen.append(len(pixels)) or before(pixels)
    try:
        found = birds.extractor.apply(images, batch_size=8, cache=tmp_path)
        again = birds.extractor.apply(images, batch_size=8, cache=tmp_path)
    finally:
        del birds.backbone.features
    assert np.array_equal(found.scores, whole.scores)
    assert np.array_equal(again.scores, whole.scores)
    assert sum(seen) == 50 - 16  # two batches of eight were done
    assert shelf.stat().st_size > done


def test_cached_features_are_those_of_the_network(birds, tmp_path: Path) -> None:
    few = birds.annotations.select(np.arange(0, 600, 6))
    plain = ConceptExtractor.fit(few, birds.backbone)
    first = ConceptExtractor.fit(few, birds.backbone, cache=tmp_path)
    second = ConceptExtractor.fit(few, birds.backbone, cache=tmp_path)
    for name in ARRAYS:
        plain_array, *others = (getattr(found.knowledge, name) for found in (plain, first, second))
        assert all(np.array_equal(plain_array, other) for other in others)
    (shelf,) = tmp_path.glob("grids-*.shelf")
    damaged = bytearray(shelf.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    shelf.write_bytes(damaged)
    ConceptExtractor.fit(few, birds.backbone, cache=tmp_path)  # computes it once more
    train = few.select(few.is_train).images
    with Shelf(shelf, birds.backbone.shape, "f2") as grids:
        assert len(grids) == len(train)
        for path in train:
            expected = birds.backbone.features(read_picture(path, 96).pixels[None])[0].astype(float)
            assert np.abs(grids.get(picture_key(path)) - expected).max() < 0.01 * np.abs(expected).max()


def test_a_shelf_forgets_what_was_damaged(tmp_path: Path) -> None:
    keys = [bytes([k]) * 16 for k in range(3)]
    with Shelf(tmp_path / "a.shelf", (4,), "f4") as shelf:
        for k, key in enumerate(keys):
            shelf.put(key, np.full(4, k))
    data = bytearray((tmp_path / "a.shelf").read_bytes())
    data[-36 - 10] ^= 1  # within the second record
    (tmp_path / "a.shelf").write_bytes(data[:-1])  # and the last is cut
    with Shelf(tmp_path / "a.shelf", (4,), "f4") as shelf:
        assert shelf.get(keys[0]).tolist() == [0] * 4
        assert shelf.get(keys[1]) is None
        assert shelf.get(keys[2]) is None
        shelf.put(keys[2], np.arange(4))
        assert shelf.get(keys[2]).tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="not a shelf of"):
        Shelf(tmp_path / "a.shelf", (5,), "f4")


def test_a_shelf_has_one_writer_and_any_readers(tmp_path: Path) -> None:
    path, key = tmp_path / "a.shelf", b"k" * 16
    with Shelf(path, (4,), "f4") as shelf:
        shelf.put(key, np.arange(4))
        with pytest.raises(ValueError, match=r"a\.shelf is in use by another run"):
            Shelf(path, (4,), "f4")
        with open(path, "ab") as file:
            file.write(b"part of a record")
        before = path.read_bytes()
        with Shelf(path, (4,), "f4", is_read_only=True) as reader:
            assert reader.get(key).tolist() == [0, 1, 2, 3]
        assert path.read_bytes() == before
    with Shelf(path, (4,), "f4") as shelf:
        assert shelf.get(key).tolist() == [0, 1, 2, 3]
    assert path.read_bytes() == before[:-16]


FULL_DISK = """
import resource, signal, sys
import numpy as np
from neuralbasis.vision.feature_store import Shelf
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with Shelf(sys.argv[1], (1000,), "f4") as shelf:
    shelf.put(b"a" * 16, np.ones(1000))
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))  # the next record is cut in the middle
    try:
        shelf.put(b"b" * 16, np.ones(1000))
    except OSError as error:
        print(error.strerror)
    print(len(shelf), shelf.get(b"b" * 16), shelf.get(b"a" * 16).sum())
"""


def test_a_record_is_written_whole_or_refused(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    found = subprocess.run(
        [sys.executable, "-c", FULL_DISK, tmp_path / "a.shelf"], capture_output=True, text=True, check=True
    )
    assert found.stdout.splitlines() == ["File too large", "1 None 1000.0"]
    assert (tmp_path / "a.shelf").stat().st_size < 6000 - 1000


def test_scores_that_the_cache_lost_are_computed_or_named(birds, tmp_path: Path) -> None:
    """Records go while a run reads: what was just computed is taken from memory, what is gone is named."""
    images = birds.annotations.images[:6]
    whole = birds.extractor.apply(images, batch_size=2).scores
    birds.extractor.apply(images[:2], cache=tmp_path)
    (shelf,) = tmp_path.glob("scores-*.shelf")
    broken: dict[int, str] = {}
    scores = np.full_like(whole, np.nan)
    parts = birds.extractor.stream([*images[2:], *images[:2]], broken, batch_size=2, cache=tmp_path)
    for part in parts:
        scores[part.rows] = part.scores
        with open(shelf, "r+b") as file:
            file.truncate(110)
    assert np.allclose(scores[:4], whole[2:], atol=1e-3)
    assert list(broken) == [4, 5]
    assert f"{images[0]}: its scores were lost from the cache" in broken[4]


def test_broken_pictures_are_told_as_they_come(birds, tmp_path: Path) -> None:
    (tmp_path / "broken.jpg").write_bytes(b"nothing")
    images = [birds.annotations.images[0], tmp_path / "broken.jpg", *birds.annotations.images[1:20]]
    for cache in (None, tmp_path / "cache"):
        broken: dict[int, str] = {}
        first = next(birds.extractor.stream(images, broken, batch_size=2, cache=cache))
        assert (first.rows.tolist(), list(broken)) == ([0], [1])


def test_the_key_of_a_picture_is_of_what_it_is_now(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    first = picture_key(tmp_path / "a")
    assert picture_key(tmp_path / "a") == first
    (tmp_path / "a").write_bytes(b"22")
    assert picture_key(tmp_path / "a") != first
    assert picture_key(tmp_path / "b") is None


def test_saved_and_loaded_bit_for_bit(birds, tmp_path: Path) -> None:
    birds.extractor.save(tmp_path / "a.nbc")
    loaded = load(tmp_path / "a.nbc")  # the backbone is loaded from its folder
    assert loaded.names == birds.extractor.names
    assert loaded.parts == birds.extractor.parts
    assert loaded.trust() == birds.extractor.trust()
    images = birds.annotations.images[:20]
    assert np.array_equal(loaded.apply(images).scores, birds.extractor.apply(images).scores)
    loaded.save(tmp_path / "b.nbc")
    assert (tmp_path / "a.nbc").read_bytes() == (tmp_path / "b.nbc").read_bytes()


def test_broken_and_foreign_files(birds, tmp_path: Path) -> None:
    path = tmp_path / "a.nbc"
    birds.extractor.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DocumentError, match=r"a\.nbc cannot be read as concepts"):
        load(path)
    entries = read_archive(io.BytesIO(whole))
    for name, data in (
        ("concepts.json", b"{}"),
        ("concepts.json", json.dumps({**json.loads(entries["concepts.json"]), "format": 99}).encode()),
        ("intercepts.npy", pack(np.full(38, np.nan))),
        ("coefficients.npy", pack(np.zeros((2, 3)))),
    ):
        write_archive(path, {**entries, name: data})
        with pytest.raises(DocumentError):
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
    with pytest.raises(DocumentError, match=r"a\.nbc cannot be read as concepts: its array 'coefficients'"):
        load(path)
    assert tracemalloc.get_traced_memory()[1] < 1 << 22
    tracemalloc.stop()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just(10**400) | st.just(1e308),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def alter_json(data: st.DataObject, text: bytes) -> bytes:
    """One value, at any depth, replaced."""
    document = json.loads(text)
    place, key = document, data.draw(st.sampled_from(sorted(document)))
    while isinstance(place[key], (list, dict)) and place[key] and data.draw(st.booleans()):
        place = place[key]
        key = data.draw(st.sampled_from(sorted(place)) if isinstance(place, dict) else st.integers(0, len(place) - 1))
    place[key] = data.draw(JSON)
    return json.dumps(document).encode()


def alter_bytes(data: st.DataObject, whole: bytes) -> bytes:
    """A few bytes near the beginning replaced, and perhaps the end cut off."""
    altered = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        altered[data.draw(st.integers(0, min(len(altered) - 1, 200)))] = data.draw(st.integers(0, 255))
    return bytes(altered[: data.draw(st.integers(0, len(altered)) | st.just(len(altered)))])


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_altered_files_are_read_or_refused(birds, tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "a.nbc"
    write_knowledge(path, birds.extractor.knowledge)
    entries = read_archive(io.BytesIO(path.read_bytes()))
    name = data.draw(st.sampled_from(["concepts.json", *sorted(entries)]))
    alter = data.draw(st.sampled_from([alter_json, alter_bytes])) if name == "concepts.json" else alter_bytes
    write_archive(path, {**entries, name: alter(data, entries[name])})
    known, problem = None, ""
    try:
        known = read_knowledge(path)
    except DocumentError as error:
        problem = str(error)
    if known is None:
        assert problem.startswith(f"{path} cannot be read as concepts: ")
        assert len(problem) < 1000
    else:
        assert known.coefficients.shape[0] == len(known.names)
        assert 1 <= known.source.side <= 4096


def test_another_backbone_is_refused(birds, tmp_path: Path) -> None:
    birds.extractor.save(tmp_path / "a.nbc")
    with pytest.raises(ValueError, match="is not the one that the concepts were fitted with"):
        load(tmp_path / "a.nbc", backbone=Backbone.load(birds.checkpoint, side=64))


def test_left_and_right_are_one_part(birds) -> None:
    assert birds.annotations.parts == (
        "back", "beak", "belly", "breast", "crown", "forehead", "eye", "leg", "wing", "nape", "tail", "throat",
    )  # fmt: skip
    place = birds.annotations.locations
    wings = np.bincount(place.image[place.part == birds.annotations.parts.index("wing")], minlength=600)
    assert set(wings.tolist()) == {1, 2}
    at = dict(zip(birds.extractor.names, birds.extractor.parts, strict=True))
    assert at["striped wing"] == ("wing",)
    assert not any("primary" in name or "size" in name for name in birds.annotations.concepts)


def test_certainty_counts(birds) -> None:
    """What workers guessed, often wrongly, moves the classifiers less than what they were certain of."""
    annotations = birds.annotations
    is_guess = annotations.weight == 0.5
    assert 0.03 < is_guess.mean() < 0.09
    hidden = annotations.present == -1
    assert (annotations.weight[hidden] == 0).all()
    back = annotations.concepts.index("brown back")
    seen = np.bincount(annotations.locations.image[annotations.locations.part == 0], minlength=600) > 0
    assert np.array_equal(annotations.present[:, back] >= 0, seen)  # a hidden back is unknown, not absent


def test_places_are_pixels(birds) -> None:
    few = birds.annotations.select(np.arange(0, 600, 6))
    place = few.locations
    with pytest.raises(ValueError, match=r"must be pixels .* multiply x by the width"):
        ConceptExtractor.fit(replace(few, locations=place._replace(x=place.x / 96, y=place.y / 96)), birds.backbone)
    x = place.x.copy()
    x[np.flatnonzero(few.is_train[place.image])[[0, 7]]] = 96.5
    with pytest.warns(UserWarning, match=r"2 of \d+ places of parts lie outside their picture"):
        ConceptExtractor.fit(replace(few, locations=place._replace(x=x)), birds.backbone)


def test_what_could_not_be_loaded_is_not_saved(birds, tmp_path: Path) -> None:
    known = birds.extractor.knowledge
    twice = replace(known, names=(known.names[1], *known.names[1:]))
    with pytest.raises(DocumentError, match="two of its concepts have the same name"):
        ConceptExtractor(twice).save(tmp_path / "a.nbc")
    assert not list(tmp_path.iterdir())


def test_nothing_to_learn_is_said(birds) -> None:
    none = birds.annotations.select(np.arange(5))
    with pytest.raises(ValueError, match="nothing to learn"):
        ConceptExtractor.fit(none.select(np.zeros(5, dtype=bool)), birds.backbone)
    with pytest.raises(ValueError, match="held_out"):
        ConceptExtractor.fit(birds.annotations, birds.backbone, held_out=1.5)


def test_a_checkpoint_of_the_hubs_form(birds, tmp_path: Path) -> None:
    """As microsoft/resnet-50: with the weights of the classifier, and the processor's settings."""
    assert {"config.json", "model.safetensors", "preprocessor_config.json"} <= {
        p.name for p in birds.checkpoint.iterdir()
    }
    config = ResNetConfig(
        embedding_size=8, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1]
    )  # bottlenecks, as ResNet-50
    torch.manual_seed(0)
    network = ResNetForImageClassification(config).eval()
    network.save_pretrained(tmp_path / "net")
    told = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.2, 0.25], "resample": 2}
    (tmp_path / "net" / "preprocessor_config.json").write_text(json.dumps(told))
    backbone = Backbone.load(tmp_path / "net", side=128)
    assert (backbone.mean, backbone.std, backbone.resample) == ((0.5, 0.4, 0.3), (0.2, 0.2, 0.25), 2)
    assert backbone.shape == (64, 4, 4)  # 1/32 of the side, as 14 of 448
    pixels = np.random.default_rng(0).integers(0, 256, (2, 128, 128, 3), dtype=np.uint8)
    batch = (pixels / 255 - told["image_mean"]) / told["image_std"]
    with torch.no_grad():
        expected = network.resnet(torch.tensor(batch.transpose(0, 3, 1, 2), dtype=torch.float32)).last_hidden_state
    assert np.abs(backbone.features(pixels).astype(float) - expected.numpy()).max() < 2e-2 * float(expected.abs().max())
    assert Backbone.load(tmp_path / "net", side=128).digest == backbone.digest
    assert Backbone.load(tmp_path / "net", side=96).digest != backbone.digest


def test_a_backbone_of_tokens() -> None:
    config = ViTConfig(
        hidden_size=24, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=32, patch_size=8
    )
    backbone = Backbone(ViTModel(config, add_pooling_layer=False), side=64)  # larger than it was made for
    assert backbone.shape == (24, 8, 8)
    pixels = np.zeros((1, 64, 64, 3), dtype=np.uint8)
    tokens = backbone.network(backbone.prepare(pixels), interpolate_pos_encoding=True).last_hidden_state
    found = backbone.features(pixels)[0].astype(float)
    assert found[:, 1, 2] == pytest.approx(tokens[0, 1 + 8 + 2].detach().numpy(), abs=2e-3)


def test_wrong_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        Backbone.load(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"cannot be loaded: expected a vision model.*config\.json"):
        Backbone.load(tmp_path / "empty")
    ResNetModel(shallow_net()).save_pretrained(tmp_path / "net")
    told = json.loads((tmp_path / "net" / "config.json").read_text())
    (tmp_path / "net" / "config.json").write_text(json.dumps({**told, "depths": [2, 1]}))
    with pytest.raises(ValueError, match="they are of another net"):
        Backbone.load(tmp_path / "net")


def shallow_net(**settings) -> ResNetConfig:
    return ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", **settings)


def test_the_digest_knows_the_settings_of_the_network(tmp_path: Path) -> None:
    """Nets of the same weights compute other features with another activation."""
    torch.manual_seed(0)
    nets = {name: ResNetModel(shallow_net(**told)) for name, told in (("relu", {}), ("gelu", {"hidden_act": "gelu"}))}
    nets["gelu"].load_state_dict(nets["relu"].state_dict())
    found = {name: Backbone(net, side=64) for name, net in nets.items()}
    pixels = np.random.default_rng(0).integers(0, 256, (1, 64, 64, 3), dtype=np.uint8)
    assert not np.allclose(found["relu"].features(pixels), found["gelu"].features(pixels))
    assert found["relu"].digest != found["gelu"].digest
    nets["relu"].save_pretrained(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    digests = {Backbone.load(tmp_path / name, side=64).digest for name in ("one", "two")}
    assert digests == {found["relu"].digest}  # wherever it lies


def test_weights_in_half_precision(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = ResNetModel(shallow_net()).half()
    network.save_pretrained(tmp_path / "net")
    backbone = Backbone.load(tmp_path / "net", side=64)
    pixels = np.random.default_rng(0).integers(0, 256, (1, 64, 64, 3), dtype=np.uint8)
    assert backbone.network.dtype == torch.float32
    assert np.array_equal(backbone.features(pixels), Backbone(network, side=64).features(pixels))


def test_broken_weights_are_refused_by_name(tmp_path: Path) -> None:
    ResNetModel(shallow_net()).save_pretrained(tmp_path / "net")
    weights = tmp_path / "net" / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"the backbone '.*net' cannot be loaded"):
        Backbone.load(tmp_path / "net")
    weights.write_bytes(whole)
    told = json.loads((tmp_path / "net" / "config.json").read_text())
    (tmp_path / "net" / "config.json").write_text(json.dumps({**told, "embedding_size": 16}))
    with pytest.raises(ValueError, match=r"or have it in another size.*they are of another net"):
        Backbone.load(tmp_path / "net")


class Bomb:
    def __init__(self, folder: Path):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    """A folder with .bin weights, which may run code as they are loaded."""
    network = ResNetModel(shallow_net())
    network.save_pretrained(tmp_path / "net")
    Backbone.load(tmp_path / "net", side=64)
    (tmp_path / "net" / "model.safetensors").unlink()
    for weights in (network.state_dict(), {**network.state_dict(), "bomb": Bomb(tmp_path / "ran")}):
        torch.save(weights, tmp_path / "net" / "pytorch_model.bin")
        with pytest.raises(ValueError, match=r"net' cannot be loaded: .*pickled weights are refused"):
            Backbone.load(tmp_path / "net", side=64)
    assert not (tmp_path / "ran").exists()


def test_code_beside_the_weights_is_not_run(tmp_path: Path) -> None:
    ResNetModel(shallow_net()).save_pretrained(tmp_path / "net")
    told = json.loads((tmp_path / "net" / "config.json").read_text())
    code = {"model_type": "odd", "auto_map": {"AutoConfig": "odd.Odd", "AutoModel": "odd.Odd"}}
    (tmp_path / "net" / "config.json").write_text(json.dumps({**told, **code}))
    (tmp_path / "net" / "odd.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Odd: pass\n")
    with pytest.raises(ValueError, match="net' cannot be loaded"):
        Backbone.load(tmp_path / "net", side=64)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "told", [{"image_mean": [1]}, {"image_std": [1, 0, 1]}, {"image_mean": "red"}, [], {"image_std": 3}]
)
def test_odd_preprocessors_are_refused(told, tmp_path: Path) -> None:
    ResNetModel(shallow_net()).save_pretrained(tmp_path / "net")
    (tmp_path / "net" / "preprocessor_config.json").write_text(json.dumps(told))
    with pytest.raises(ValueError, match="net' cannot be loaded"):
        Backbone.load(tmp_path / "net", side=64)


class Hub(BaseHTTPRequestHandler):
    """The Hugging Face hub, as far as downloads of one repository need it; `asked` lists the paths."""

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        found = re.fullmatch("/birds/net/resolve/(main|a{40})/(.*)", self.path)
        file = self.server.folder / found[2] if found else None
        data = file.read_bytes() if file is not None and file.is_file() else b""
        self.send_response(200 if data else 404)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Repo-Commit", "a" * 40)
        self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        if not data:
            self.send_header("X-Error-Code", "EntryNotFound")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    do_HEAD = do_GET

    def log_message(self, *_) -> None:
        pass


@pytest.fixture
def hub(birds):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.asked, server.folder = [], birds.checkpoint
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_the_hub_is_asked_only_on_request(birds, hub, tmp_path: Path) -> None:
    """A file that names a hub model: refused without --download; with it, the recorded commit is downloaded."""
    known = birds.extractor.knowledge
    source = known.source._replace(name="birds/net", revision="a" * 40)
    write_knowledge(tmp_path / "a.nbc", replace(known, source=source))
    assert read_knowledge(tmp_path / "a.nbc").source == source
    (tmp_path / "pictures").mkdir()
    shutil.copy(birds.annotations.images[0], tmp_path / "pictures")
    command = [sys.executable, "-m", "neuralbasis", "concepts", "apply", "a.nbc", "pictures", "-o", "a.csv"]
    host = f"http://127.0.0.1:{hub.server_port}"
    told = {**os.environ, "HF_ENDPOINT": host, "HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1"}
    found = subprocess.run(command, cwd=tmp_path, env=told, capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert "there is no folder 'birds/net'" in found.stderr
    assert "--download" in found.stderr
    assert hub.asked == []
    found = subprocess.run(
        [*command, "--download"], cwd=tmp_path, env=told, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    assert f"/birds/net/resolve/{'a' * 40}/model.safetensors" in hub.asked
    assert not [path for path in hub.asked if "/resolve/main/" in path or path.endswith((".bin", ".py"))]
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 2


def test_a_path_to_another_machine_is_not_looked_at(birds, tmp_path: Path) -> None:
    for name in (f"/{birds.checkpoint}", r"\\server\share"):
        with pytest.raises(FileNotFoundError, match="there is no folder"):
            Backbone.load(name, side=96)


def test_a_backbone_is_found_from_any_folder(birds, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(birds.checkpoint.parent)
    backbone = Backbone.load(birds.checkpoint.name, side=96)
    assert backbone.name == str(birds.checkpoint)
    found = replace(birds.extractor.knowledge, source=birds.extractor.knowledge.source._replace(name=backbone.name))
    ConceptExtractor(found).save(tmp_path / "a.nbc")
    monkeypatch.chdir(tmp_path)
    assert load("a.nbc").backbone.digest == birds.backbone.digest
    gone = found.source._replace(name=str(tmp_path / "gone"))
    ConceptExtractor(replace(found, source=gone)).save("b.nbc")
    with pytest.raises(FileNotFoundError, match=r"there is no folder '.*gone'.*or give a folder with the backbone"):
        load("b.nbc").apply(birds.annotations.images[:1])
    elsewhere = load("b.nbc", backbone=birds.backbone)
    assert elsewhere.apply(birds.annotations.images[:1]).scores.shape == (1, 38)


def test_a_device_that_is_not_there_is_named(birds, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the device 'nonsense' cannot be used; 'cpu' always can"):
        Backbone(ResNetModel(shallow_net()), 64, device="nonsense")
    birds.extractor.save(tmp_path / "birds.nbc")
    for command in (
        ("fit", birds.folder, "--backbone", birds.checkpoint, "-o", tmp_path / "new.nbc"),
        ("apply", tmp_path / "birds.nbc", birds.folder, "-o", tmp_path / "a.csv"),
    ):
        failed = run("concepts", *command, "--device", "nonsense", code=1)
        assert "the device 'nonsense' cannot be used" in failed.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"birds.nbc"}


WITHOUT = """
import sys
sys.modules[sys.argv[1]] = None
from neuralbasis.vision import {name}
"""


@pytest.mark.parametrize(("package", "name"), [("PIL", "read_picture"), ("transformers", "Backbone")])
def test_a_missing_extra_is_named(package: str, name: str) -> None:
    command = [sys.executable, "-c", WITHOUT.format(name=name), package]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "pip install 'neuralbasis[vision]'" in found.stderr.splitlines()[-1]


def test_positions_follow_the_resize() -> None:
    """A point of a wide picture falls into the cell of the square picture that shows it."""
    sizes = np.array([[500, 300]] * 3)
    found = find_cells(np.array([0, 250, 499.0]), np.array([0, 150, 299.0]), sizes, (14, 14))
    assert found.tolist() == [0, 7 * 14 + 7, 195]


def run(*arguments, code: int = 0):
    found = CliRunner().invoke(main, [str(a) for a in arguments])
    assert found.exit_code == code, found.output
    return found


def test_from_the_command_line(birds, tmp_path: Path) -> None:
    file, table = tmp_path / "birds.nbc", tmp_path / "table.parquet"
    page = run("concepts", "fit", birds.folder, "--backbone", birds.checkpoint, "--side", 96, "-o", file).stdout
    assert f"saved {file}: 38 concepts, measured on pictures held out" in page
    assert "AUROC" in page
    fitted = load(file)
    assert np.array_equal(fitted.knowledge.coefficients, birds.extractor.knowledge.coefficients)
    assert "exists already" in run("concepts", "fit", birds.folder, "--backbone", "x", "-o", file, code=1).stderr
    run("concepts", "apply", file, birds.folder, "-o", table)
    rows = pq.read_table(table)
    assert rows.column_names == ["image", "class", "split", *fitted.names]
    assert rows["image"][0].as_py() == "images/001.Drawn_bird/Drawn_bird_0001.jpg"
    assert rows["class"][-1].as_py() == "010.Drawn_bird"
    assert [text == "train" for text in rows["split"].to_pylist()] == birds.annotations.is_train.tolist()
    scores = np.stack([rows[name].to_numpy() for name in fitted.names], axis=1)
    assert np.array_equal(scores, birds.extractor.apply(birds.annotations.images).scores)
    assert not list(tmp_path.glob("*.unfinished"))
    assert pq.ParquetFile(table).num_row_groups == 1  # not one a batch
    parts = []
    for split in ("train", "test"):
        run("concepts", "apply", file, birds.folder, "--split", split, "-o", tmp_path / f"{split}.parquet")
        parts.append(pq.read_table(tmp_path / f"{split}.parquet"))
        assert parts[-1].column_names == ["image", "class", *fitted.names]
        assert parts[-1]["image"].to_pylist() == rows.filter(pa.compute.field("split") == split)["image"].to_pylist()
    assert sum(part.num_rows for part in parts) == rows.num_rows


def test_groups_of_a_parquet_file_are_large_and_bounded(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(np.arange(30_000.0))], ["a"])
    with open_output(str(tmp_path / "a.parquet"), ["a"]) as output:
        for _ in range(5):
            output.write(batch)
    found = pq.ParquetFile(tmp_path / "a.parquet")
    assert [found.metadata.row_group(k).num_rows for k in range(found.num_row_groups)] == [90_000, 60_000]
    assert found.read()["a"].to_pylist() == 5 * list(range(30_000))
    with open_output(str(tmp_path / "b.parquet"), ["a"]) as output:
        pass
    assert pq.read_table(tmp_path / "b.parquet").num_rows == 0


def test_annotations_are_never_written_over(birds, tmp_path: Path) -> None:
    birds.extractor.save(tmp_path / "birds.nbc")
    text = f"image,part,x,y,attribute\n{birds.annotations.images[0]},wing,1,2,red\n"
    (tmp_path / "own.csv").write_text(text)
    failed = run("concepts", "apply", tmp_path / "birds.nbc", tmp_path / "own.csv", "-o", tmp_path / "own.csv", code=1)
    assert "is read and cannot be written" in failed.stderr
    assert (tmp_path / "own.csv").read_text() == text


def test_the_command_names_broken_pictures(birds, tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for k, image in enumerate(birds.annotations.images[:3]):
        shutil.copy(image, pictures / f"{k}.jpg")
    (pictures / "1.jpg").write_bytes(b"nothing")
    birds.extractor.save(tmp_path / "birds.nbc")
    found = run("concepts", "apply", tmp_path / "birds.nbc", pictures, "-o", tmp_path / "table.csv")
    assert "1 pictures could not be read" in found.stderr
    assert "1.jpg: it is empty or no picture" in found.stderr
    lines = (tmp_path / "table.csv").read_text().splitlines()
    assert len(lines) == 4
    assert lines[2] == "1.jpg" + "," * 38
    many = [pictures / f"broken {k:02d}.jpg" for k in range(12)]
    for path in many:
        path.write_bytes(b"nothing")
    found = run("concepts", "apply", tmp_path / "birds.nbc", pictures, "-o", tmp_path / "table.csv")
    assert "13 pictures could not be read" in found.stderr
    assert f"all of them: {tmp_path / 'table.csv'}.unread.txt" in found.stderr
    listed = (tmp_path / "table.csv.unread.txt").read_text().splitlines()
    assert [line.split(": ")[0] for line in listed] == [str(pictures / "1.jpg"), *map(str, many)]
    shutil.rmtree(pictures)
    pictures.mkdir()
    failed = run("concepts", "apply", tmp_path / "birds.nbc", pictures, "-o", tmp_path / "table.csv", code=1)
    assert "has no pictures" in failed.stderr


def test_names_of_files_that_are_not_utf_8(birds, tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path / "pictures") + b"/Kr\xe4he"
    try:
        os.makedirs(folder)
    except OSError:
        pytest.skip("this file system takes only UTF-8")
    shutil.copy(birds.annotations.images[0], folder + b"/1\xff.jpg")
    with open(folder + b"/2\xff.jpg", "wb") as file:
        file.write(b"nothing")
    birds.extractor.save(tmp_path / "birds.nbc")
    found = run("concepts", "apply", tmp_path / "birds.nbc", tmp_path / "pictures", "-o", tmp_path / "table.parquet")
    assert "1 pictures could not be read" in found.stderr
    rows = pq.read_table(tmp_path / "table.parquet")
    assert rows["image"].to_pylist() == ["Kr\ufffdhe/1\ufffd.jpg", "Kr\ufffdhe/2\ufffd.jpg"]
    assert rows["class"].to_pylist() == ["Kr\ufffdhe"] * 2
    known = replace(birds.extractor.knowledge, broken=(os.fsdecode(folder + b"/2\xff.jpg: it is empty"),))
    ConceptExtractor(known).save(tmp_path / "odd.nbc")
    assert load(tmp_path / "odd.nbc").knowledge.broken[0].endswith("/2?.jpg: it is empty")


def test_what_was_left_out_of_the_files_is_told(birds, tmp_path: Path) -> None:
    birds.extractor.save(tmp_path / "birds.nbc")
    lines = ["image,part,x,y,attribute", f"{birds.annotations.images[0]},wing,,,", ",,,,"]
    (tmp_path / "own.csv").write_text("\n".join(lines))
    command = ("concepts", "apply", tmp_path / "birds.nbc", tmp_path / "own.csv", "-o", tmp_path / "table.csv")
    assert "give a folder above all pictures (folder=, --folder)" in run(*command, code=1).stderr
    found = run(*command, "--folder", birds.folder)
    assert "note: own.csv: 2 lines could not be read, first line 2" in found.stderr
    _, line = (tmp_path / "table.csv").read_text().splitlines()
    assert line.startswith("images/001.Drawn_bird/Drawn_bird_0001.jpg,")
    wrong = ("concepts", "apply", tmp_path / "birds.nbc", birds.folder, "-o", tmp_path / "a.csv")
    assert "leave it out" in run(*wrong, "--supercategory", "Birds", code=1).stderr
