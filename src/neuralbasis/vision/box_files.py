"""Readers of detection files: annotations, candidate boxes and their features.

    read_annotations   MS-COCO annotations (.json)                            -> BoxAnnotations
    read_boxes         MS-COCO results (.json), CSV or Parquet                -> Boxes
    read_features      SciPy sparse matrix (.npz), array (.npy), CSV, Parquet -> table of features

Errors name the file and the row or annotation, counted from 1.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any
from zipfile import BadZipFile

import numpy as np

from ..data.columns import Column, is_missing, level_text
from ..data.frames import read_columns, read_frame
from .boxes import BACKGROUND, CROWD, BoxAnnotations, Boxes, check_boxes, find_indices

IMAGE, BOX = "image_id", ("x", "y", "w", "h")  # default columns of a table of boxes
_LISTS = ("images", "annotations", "categories")

Path = str | os.PathLike[str]


def read_annotations(path: Path) -> BoxAnnotations:
    """Read annotations in MS-COCO format.

    The file is a JSON object with the lists `images`, `annotations` and `categories`. An annotation needs `image_id`,
    `category_id` and `bbox` (x, y, width, height); `iscrowd` defaults to 0. `area` is ignored, since boxes of all sizes
    are evaluated together.

    Parameters
    ----------
    path : JSON file

    Examples
    --------
    >>> import tempfile
    >>> truth = {
    ...     "images": [{"id": 17}],
    ...     "categories": [{"id": 7, "name": "cup"}],
    ...     "annotations": [{"image_id": 17, "category_id": 7, "bbox": [0, 0, 4, 5]}],
    ... }
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(f"{folder}/instances.json", "w") as file:
    ...         json.dump(truth, file)
    ...     read_annotations(f"{folder}/instances.json")
    BoxAnnotations(1 boxes, 1 images, 1 classes)
    """
    place, document = os.fspath(path), _read_json(path)
    if not isinstance(document, dict) or not all(isinstance(document.get(name), list) for name in _LISTS):
        raise ValueError(f"{place}: expected MS-COCO annotations, an object with the lists {', '.join(_LISTS)}")
    images, categories = (_sort_ids(document[name], f"{place}: {name}") for name in ("images", "categories"))
    names = {level_text(record["id"]): str(record.get("name", record["id"])) for record in document["categories"]}
    classes = tuple(names[category] for category in categories)
    if len(set(classes)) < len(classes) or {BACKGROUND, CROWD} & set(classes):
        raise ValueError(f"{place}: category names must be unique, and none may be {BACKGROUND!r} or {CROWD!r}")
    records, what = document["annotations"], f"{place}: annotation"
    box = _parse_boxes(_take_field(records, "bbox", what), what)
    return BoxAnnotations(
        place=place,
        images=images,
        categories=categories,
        classes=classes,
        image=_index_ids(_take_field(records, "image_id", what), images, what, "image"),
        label=_index_ids(_take_field(records, "category_id", what), categories, what, "category"),
        box=box,
        crowd=np.array([bool(record.get("iscrowd", 0)) for record in records], dtype=bool),
    )


def read_boxes(
    path: Path, features: Any = None, *, image: str = IMAGE, box: Sequence[str] = BOX, label: str | None = None,
    score: str | None = None,
) -> Boxes:  # fmt: skip
    """Read candidate boxes and their features.

    Parameters
    ----------
    path : file of boxes
        A JSON list of MS-COCO results (`image_id`, `bbox`, optionally `category_id` and `score`), or a CSV or Parquet
        file with the columns named below.
    features : features of the boxes, one row per box
        A file (.npz of a SciPy sparse matrix, .npy, CSV or Parquet), or any table that a model reads. By default, all
        other columns of a CSV or Parquet file.
    image : column of the image id
    box : columns of x, y, width and height
    label, score : columns of a detector's class and its score, if the table has them

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(f"{folder}/boxes.csv", "w") as file:
    ...         _ = file.write("image_id,x,y,w,h,round,red\\n17,0,0,4,5,0.9,0.1\\n17,3,3,8,8,0.2,0.7\\n")
    ...     boxes = read_boxes(f"{folder}/boxes.csv")
    >>> boxes.image.tolist(), boxes.box[0].tolist(), boxes.X.column_names
    (['17', '17'], [0.0, 0.0, 4.0, 5.0], ['round', 'red'])
    """
    place = os.fspath(path)
    if place.endswith(".json"):
        return _read_results(place, features)
    return _read_table(place, features, image, box, label, score)


def read_features(features: Any) -> Any:
    """Read a table of features from a file; any other table is returned unchanged.

    Parameters
    ----------
    features : path of a SciPy sparse matrix (.npz), an array (.npy), a CSV or a Parquet file; or a table
    """
    if not isinstance(features, (str, os.PathLike)):
        return features
    place = os.fspath(features)
    try:
        if place.endswith(".npz"):
            from scipy.sparse import load_npz

            return load_npz(place).tocsr()
        return np.load(place) if place.endswith(".npy") else read_frame(place)
    except (ValueError, KeyError, EOFError, BadZipFile) as error:
        expected = "a SciPy sparse matrix (.npz), an array (.npy), CSV or Parquet"
        raise ValueError(f"{place} cannot be read; expected {expected} ({error})") from error


def _read_results(place: str, features: Any) -> Boxes:
    """Boxes in MS-COCO's format of detection results."""
    records, what = _read_json(place), f"{place}: row"
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise ValueError(f"{place}: expected a list of boxes, each with image_id and bbox")
    box = _parse_boxes(_take_field(records, "bbox", what), what)
    images = np.array(_take_field(records, "image_id", what))
    label, score = (
        np.array(_take_field(records, name, what)) if not records or name in records[0] else None
        for name in ("category_id", "score")
    )
    return Boxes(place, images, box, read_features(features), label, score)


def _read_table(
    place: str, features: Any, image: str, box: Sequence[str], label: str | None, score: str | None
) -> Boxes:
    """Boxes in the columns of a CSV or Parquet file."""
    frame = read_frame(place)
    columns, own = read_columns(frame), [name for name in (image, *box, label, score) if name is not None]
    by_name = dict(zip(own, columns.select(own), strict=True))
    numbers = np.stack([_read_numbers(by_name[name]) for name in box], axis=1)
    others = [name for name in columns.names if name not in own]
    X = frame.select(others) if features is None and others else read_features(features)
    labels = None if label is None else _read_texts(frame, label, place)
    scores = None if score is None else _read_numbers(by_name[score])
    return Boxes(place, _read_texts(frame, image, place), numbers, X, labels, scores)


def _read_json(path: Path) -> Any:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)} cannot be read; expected JSON ({error})") from error


def _sort_ids(records: Sequence[Any], what: str) -> tuple[str, ...]:
    """Sorted ids as text. pycocotools breaks ties of scores in this order."""
    ids = _take_field(records, "id", f"{what}, entry")
    if len(set(map(level_text, ids))) < len(ids):
        raise ValueError(f"{what} must have unique ids, but one id is repeated")
    return tuple(map(level_text, sorted(ids, key=lambda key: (isinstance(key, str), key))))


def _take_field(records: Sequence[Any], name: str, what: str) -> list[Any]:
    """One required field of all records."""
    for number, record in enumerate(records, 1):
        if not isinstance(record, dict) or record.get(name) is None:
            raise ValueError(f"{what} {number} has no {name!r}")
    return [record[name] for record in records]


def _index_ids(ids: Sequence[Any], known: Sequence[str], what: str, kind: str) -> np.ndarray:
    return find_indices(
        ids,
        {text: index for index, text in enumerate(known)},
        lambda number, text: f"{what} {number} refers to {kind} {text!r}, which the file does not list; add it there",
    )


def _parse_boxes(boxes: Sequence[Any], what: str) -> np.ndarray:
    """Lists of four numbers -> (N, 4)."""
    for number, box in enumerate(boxes, 1):
        if not isinstance(box, list) or len(box) != 4 or not all(type(value) in (int, float) for value in box):
            raise ValueError(f"{what} {number} must have a box of x, y, width and height, got {box!r}")
    found = np.array(boxes, dtype=float).reshape(-1, 4)
    check_boxes(found, what)
    return found


def _read_numbers(column: Column) -> np.ndarray:
    numbers = column.to_numbers().numbers
    assert numbers is not None
    return numbers


def _read_texts(frame: Any, name: str, place: str) -> np.ndarray:
    """A column of ids or classes as text. Ids may have more digits than a float represents exactly."""
    values = frame[name].to_pylist()
    for row, value in enumerate(values, 1):
        if is_missing(value):
            raise ValueError(f"{place}: column {name!r} has no value in row {row}")
    return np.array(list(map(level_text, values)), dtype=object)
