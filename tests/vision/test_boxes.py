"""Boxes and their files: rows, ids, and errors that name the file and the row."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import coo_array, csr_array

from neuralbasis.vision import detection
from tests.vision.detection_data import make_boxes, make_truth, write


def test_braces_in_names_are_printed_verbatim(tmp_path):
    truth = make_truth([[0, 0, 1, 1]], categories=[{"id": 1, "name": "{cup}"}])
    annotations = detection.read_annotations(write(tmp_path / "{0.a}.json", truth))
    boxes = detection.Boxes("{}{x}.csv", np.array([8]), np.ones((1, 4)))
    with pytest.raises(
        ValueError, match=r"\{\}\{x\}\.csv: row 1 refers to image '8', which is not in .*\{0\.a\}\.json"
    ):
        detection.assign(boxes, annotations)
    with pytest.raises(ValueError, match=r"unknown class '\{\}' \(number 1\); .*'\{cup\}'"):
        detection.evaluate({"{}": [1.0]}, make_boxes([[0, 0, 1, 1]]), annotations)
    odd = make_truth([[0, 0, 1, 1]], images=[{"id": "{}"}])
    with pytest.raises(ValueError, match="annotation 1 refers to image '7', which the file does not list"):
        detection.read_annotations(write(tmp_path / "{0}.json", odd))


@pytest.mark.parametrize("kind", ["mapping", "rows", "array", "arrow", "coo", "csr", "polars", "pandas"])
def test_take_selects_rows_of_any_table(kind):
    numbers = np.arange(8.0).reshape(4, 2)
    named = {"a": numbers[:, 0].tolist(), "b": numbers[:, 1]}
    tables = {
        "mapping": lambda: named,
        "rows": numbers.tolist,
        "array": lambda: numbers,
        "arrow": lambda: pa.table(named),
        "coo": lambda: coo_array(numbers),
        "csr": lambda: csr_array(numbers),
        "polars": lambda: pytest.importorskip("polars").DataFrame(named),
        "pandas": lambda: pytest.importorskip("pandas").DataFrame(named),
    }
    boxes = detection.Boxes("boxes", np.arange(4), np.arange(16).reshape(4, 4), tables[kind]())
    for chosen, expected in ((np.array([3, 1]), [3, 1]), (np.array([True, False, False, True]), [0, 3])):
        few = boxes.take(chosen)
        X = np.stack(list(few.X.values()), axis=1) if kind == "mapping" else few.X
        rows = X.toarray() if kind in ("coo", "csr") else np.asarray(X)
        assert rows.tolist() == numbers[expected].tolist()
        assert few.image.tolist() == expected
        assert few.box.tolist() == boxes.box[expected].tolist()


def test_an_exact_id_wins_over_an_equal_number(tmp_path):
    truth = make_truth([[0, 0, 1, 1]], images=[{"id": 7}, {"id": "007"}, {"id": "08"}, {"id": "008"}])
    annotations = detection.read_annotations(write(tmp_path / "t.json", truth))
    found = annotations.find_images(["007", 7, 7.0, "7.0", "08"], "boxes")
    assert [annotations.images[index] for index in found] == ["007", "7", "7", "7", "08"]
    with pytest.raises(ValueError, match="refers to image '8'"):  # '08' or '008'
        annotations.find_images([8], "boxes")


INVALID_BOXES = {
    "negative": (lambda: make_boxes([[0, 0, 1, 1], [0, 0, -2, 1]]), r"boxes: row 2 .* got \[0.0, 0.0, -2.0, 1.0\]"),
    "infinite": (lambda: make_boxes([[0, 0, np.inf, 1]]), "boxes: row 1 must have finite numbers"),
    "corners": (lambda: make_boxes([[0, 0, 1]]), "rows of x, y, width and height"),
    "features": (lambda: make_boxes([[0, 0, 1, 1]], X=np.ones((3, 2))), "1 boxes but 3 rows of features"),
    "images": (lambda: detection.Boxes("b", np.arange(2), np.ones((3, 4))), "3 boxes but 2 image ids"),
}


@pytest.mark.parametrize("name", INVALID_BOXES)
def test_invalid_boxes_are_refused(name):
    make, words = INVALID_BOXES[name]
    with pytest.raises(ValueError, match=words):
        make()


INVALID_FILES = {
    "no json": ("{", "expected JSON"),
    "a list": ([], "an object with the lists images, annotations, categories"),
    "negative": (make_truth([[0, 0, 1, -1]]), "annotation 1 must have finite numbers and a width and height"),
    "no box": ({**make_truth([]), "annotations": [{"image_id": 7, "category_id": 1}]}, "annotation 1 has no 'bbox'"),
    "text": (make_truth([[0, 0, "1", 1]]), r"annotation 1 must have a box .* got \[0, 0, '1', 1\]"),
    "short": (make_truth([[0, 0, 1]]), r"annotation 1 must have a box .* got \[0, 0, 1\]"),
    "image": (make_truth([[0, 0, 1, 1]], images=[{"id": 8}]), "annotation 1 refers to image '7'"),
    "category": (make_truth([[0, 0, 1, 1]], categories=[{"id": 3}]), "annotation 1 refers to category '1'"),
    "twice": (make_truth([[0, 0, 1, 1]], images=[{"id": 7}, {"id": 7}]), "images must have unique ids"),
    "background": (
        make_truth([[0, 0, 1, 1]], categories=[{"id": 1, "name": "background"}]),
        "none may be 'background'",
    ),
}


@pytest.mark.parametrize("name", INVALID_FILES)
def test_invalid_annotations_are_refused(name, tmp_path):
    content, words = INVALID_FILES[name]
    path = tmp_path / "truth.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    with pytest.raises(ValueError, match=words) as error:
        detection.read_annotations(path)
    assert str(path) in str(error.value)


def test_unreadable_files_are_named(tmp_path):
    (tmp_path / "features.npz").write_bytes(b"nothing")
    (tmp_path / "boxes.parquet").write_bytes(b"nothing")
    for call in (
        lambda: detection.read_features(tmp_path / "features.npz"),
        lambda: detection.read_boxes(tmp_path / "boxes.parquet"),
        lambda: detection.read_boxes(write(tmp_path / "boxes.json", {"a": 1})),
    ):
        with pytest.raises(ValueError, match=str(tmp_path)):
            call()
