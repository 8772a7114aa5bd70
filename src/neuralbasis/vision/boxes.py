"""Boxes of object detection: annotated boxes, candidate boxes, and the readers of their files.

A box is a row of x, y, width and height in pixels, from the upper left corner. Ids of images and classes are compared
as text, so 139, "139.0" and "000139" are the same id unless a data set lists several of them. Errors name the file and
the row or annotation, counted from 1.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zipfile import BadZipFile

import numpy as np

from ..data.columns import is_missing, level_text, list_names
from ..data.frames import read_columns, read_frame
from .annotations import index_values

BACKGROUND, CROWD = "background", "crowd"  # reserved labels of boxes that belong to no class
IMAGE, BOX = "image_id", ("x", "y", "w", "h")  # default columns of a table of boxes
_LISTS = ("images", "annotations", "categories")
_INTEGER = re.compile(r"([+-]?[0-9]+)(?:\.0*)?")


@dataclass(frozen=True, eq=False, repr=False)
class BoxAnnotations:
    """Annotated boxes of I images and K classes.

    Parameters
    ----------
    place : name of the file, used in error messages
    images : I image ids, as text
    categories : K class ids, as text
    classes : K class names
    image : (G,) index into `images` of each annotated box
    label : (G,) index into `classes` of each annotated box
    box : (G, 4) x, y, width, height
    crowd : (G,) bool, whether the box covers a group of objects; detections inside it are ignored

    Examples
    --------
    >>> zero = np.zeros(1, int)
    >>> truth = BoxAnnotations("here", ("17",), ("7",), ("cup",), zero, zero, np.array([[0, 0, 10, 10.0]]), zero > 0)
    >>> truth
    BoxAnnotations(1 boxes, 1 images, 1 classes)
    """

    place: str
    images: tuple[str, ...]
    categories: tuple[str, ...]
    classes: tuple[str, ...]
    image: np.ndarray
    label: np.ndarray
    box: np.ndarray
    crowd: np.ndarray

    def __repr__(self) -> str:
        return f"BoxAnnotations({len(self.box):,} boxes, {len(self.images):,} images, {len(self.classes)} classes)"

    def find_images(self, ids: Sequence[Any], place: str) -> np.ndarray:
        """(N,) indices into `images` of these ids; `place` names their file in the error message."""
        hint = f"which is not in {self.place}; add the image to the annotations or remove the row"
        index = index_values(self.images)
        return _find_indices(ids, index, lambda n, text: f"{place}: row {n} refers to image {text!r}, {hint}")

    def find_classes(self, labels: Sequence[Any], place: str, ids_first: bool = False) -> np.ndarray:
        """(N,) indices into `classes` of class names or ids; -1 for the background.

        A text that is the name of one class and the id of another is read as the name, or as the id with `ids_first`.
        """
        by_name, by_id = index_values(self.classes), index_values(self.categories)
        index = (by_name | by_id if ids_first else by_id | by_name) | {BACKGROUND: -1}
        expected = f"expected {BACKGROUND!r} or a class of {self.place}: {list_names(self.classes)}"
        return _find_indices(labels, index, lambda n, text: f"{place}: unknown class {text!r} (number {n}); {expected}")


@dataclass(frozen=True, eq=False, repr=False)
class Boxes:
    """N candidate boxes, one per row.

    Parameters
    ----------
    place : name of the file, used in error messages
    image : (N,) image ids
    box : (N, 4) x, y, width, height
    X : (N, D) features in any table that a model reads, or None
    label : (N,) a class or the background for each box, by id or name, or None
    score : (N,) a detector's score of the label, or None

    Examples
    --------
    >>> boxes = Boxes("boxes", np.array([1, 1, 2]), np.array([[0, 0, 4, 4], [8, 8, 2, 2], [1, 1, 3, 5.0]]))
    >>> boxes, boxes.take(np.array([0, 2])).image.tolist()
    (Boxes(3 rows), [1, 2])
    """

    place: str
    image: np.ndarray
    box: np.ndarray
    X: Any = None
    label: np.ndarray | None = None
    score: np.ndarray | None = None

    def __post_init__(self):
        box = np.asarray(self.box, dtype=float)
        if box.ndim != 2 or box.shape[1] != 4:
            raise ValueError(f"{self.place}: boxes must be rows of x, y, width and height, got shape {box.shape}")
        _check_boxes(box, f"{self.place}: row")
        object.__setattr__(self, "box", box)
        for name, what in (("image", "image ids"), ("X", "rows of features"), ("label", "labels"), ("score", "scores")):
            values = getattr(self, name)
            if values is None:
                continue
            if name != "X":
                values = np.asarray(values)
                object.__setattr__(self, name, values)
            count = int(values.shape[0]) if hasattr(values, "shape") else read_columns(values).n_rows
            if count != len(box):
                raise ValueError(f"{self.place} has {len(box):,} boxes but {count:,} {what}; give one for each box")

    def __len__(self) -> int:
        return len(self.box)

    def __repr__(self) -> str:
        return f"Boxes({len(self):,} rows)"

    def take(self, rows: np.ndarray) -> Boxes:
        """The boxes at these indices or where this mask is true."""
        chosen = np.arange(len(self))[rows]
        label, score = (None if values is None else values[chosen] for values in (self.label, self.score))
        X = None if self.X is None else _take_rows(self.X, chosen)
        return replace(self, image=self.image[chosen], box=self.box[chosen], X=X, label=label, score=score)


def read_annotations(path: str | os.PathLike[str]) -> BoxAnnotations:
    """Read annotations in MS-COCO format.

    The file is a JSON object with the lists `images`, `annotations` and `categories`. An annotation needs `image_id`,
    `category_id` and `bbox` (x, y, width, height); `iscrowd` defaults to 0. `area` is ignored, since boxes of all sizes
    are evaluated together.

    Parameters
    ----------
    path : JSON file

    Returns
    -------
    BoxAnnotations

    Examples
    --------
    >>> import tempfile
    >>> truth = {"images": [{"id": 17}], "categories": [{"id": 7, "name": "cup"}], "annotations": []}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(f"{folder}/instances.json", "w") as file:
    ...         json.dump(truth, file)
    ...     read_annotations(f"{folder}/instances.json")
    BoxAnnotations(0 boxes, 1 images, 1 classes)
    """
    place = os.fspath(path)
    document = _read_json(place)
    if not isinstance(document, dict) or not all(isinstance(document.get(name), list) for name in _LISTS):
        raise ValueError(f"{place}: expected MS-COCO annotations, an object with the lists {', '.join(_LISTS)}")
    images, categories = (_sort_ids(document[name], f"{place}: {name}") for name in ("images", "categories"))
    names = {level_text(record["id"]): str(record.get("name", record["id"])) for record in document["categories"]}
    classes = tuple(names[category] for category in categories)
    if len(set(classes)) < len(classes) or {BACKGROUND, CROWD} & set(classes):
        raise ValueError(f"{place}: category names must be unique, and none may be {BACKGROUND!r} or {CROWD!r}")
    records, what = document["annotations"], f"{place}: annotation"
    box = _parse_boxes(records, what)

    def index_ids(kind: str, known: Sequence[str]) -> np.ndarray:
        ids, hint = _take_field(records, f"{kind}_id", what), "which the file does not list; add it there"
        return _find_indices(ids, index_values(known), lambda n, text: f"{what} {n} refers to {kind} {text!r}, {hint}")

    image, label = index_ids("image", images), index_ids("category", categories)
    crowd = np.array([bool(record.get("iscrowd", 0)) for record in records], dtype=bool)
    return BoxAnnotations(place, images, categories, classes, image, label, box, crowd)


def read_boxes(
    path: str | os.PathLike[str], features: Any = None, *, image: str = IMAGE, box: Sequence[str] = BOX,
    label: str | None = None, score: str | None = None,
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

    Returns
    -------
    Boxes

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
        records, what = _read_json(place), f"{place}: row"
        if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
            raise ValueError(f"{place}: expected a list of boxes, each with image_id and bbox")
        numbers = _parse_boxes(records, what)
        images = np.array(_take_field(records, "image_id", what))
        labels, scores = (
            np.array(_take_field(records, name, what)) if not records or name in records[0] else None
            for name in ("category_id", "score")
        )
        return Boxes(place, images, numbers, read_features(features), labels, scores)
    frame = read_frame(place)
    columns, own = read_columns(frame), [name for name in (image, *box, label, score) if name is not None]
    by_name = dict(zip(own, columns.select(own), strict=True))
    numbers = np.stack([by_name[name].to_numbers() for name in box], axis=1)
    others = [name for name in columns.names if name not in own]
    X = frame.select(others) if features is None and others else read_features(features)
    labels = None if label is None else _read_texts(frame, label, place)
    scores = None if score is None else by_name[score].to_numbers()
    return Boxes(place, _read_texts(frame, image, place), numbers, X, labels, scores)


def read_features(features: Any) -> Any:
    """Read a table of features from a file; any other table is returned unchanged.

    Parameters
    ----------
    features : path of a SciPy sparse matrix (.npz), an array (.npy), a CSV or a Parquet file; or a table

    Returns
    -------
    Any table that a model reads

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/features.npy", np.eye(2))
    ...     read_features(f"{folder}/features.npy").shape
    (2, 2)
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


def _read_json(place: str) -> Any:
    try:
        with open(place, encoding="utf-8") as file:
            return json.load(file)
    except ValueError as error:
        raise ValueError(f"{place} cannot be read; expected JSON ({error})") from error


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


def _parse_boxes(records: Sequence[Any], what: str) -> np.ndarray:
    """(N, 4) boxes in the field `bbox` of the records."""
    boxes = _take_field(records, "bbox", what)
    for number, box in enumerate(boxes, 1):
        if not isinstance(box, list) or len(box) != 4 or not all(type(value) in (int, float) for value in box):
            raise ValueError(f"{what} {number} must have a box of x, y, width and height, got {box!r}")
    found = np.array(boxes, dtype=float).reshape(-1, 4)
    _check_boxes(found, what)
    return found


def _check_boxes(box: np.ndarray, what: str) -> None:
    """Refuse boxes (N, 4) that are not finite or have a negative size; `what` names a row in the message."""
    bad = ~np.isfinite(box).all(axis=1) | (box[:, 2:] < 0).any(axis=1)
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(
            f"{what} {row + 1} must have finite numbers and a width and height of at least 0, got "
            f"{box[row].tolist()} (x, y, width, height)"
        )


def _read_texts(frame: Any, name: str, place: str) -> np.ndarray:
    """A column of ids or classes as text. Ids may have more digits than a float represents exactly."""
    values = frame[name].to_pylist()
    for row, value in enumerate(values, 1):
        if is_missing(value):
            raise ValueError(f"{place}: column {name!r} has no value in row {row}")
    return np.array(list(map(level_text, values)), dtype=object)


def _find_indices(values: Sequence[Any], known: Mapping[str, int], explain: Callable[[int, str], str]) -> np.ndarray:
    """Look up values by their text, then by the integer that the text denotes.

    `explain` returns the error message for the number of an unknown value, counted from 1, and its text.
    """
    keys = {name: _normalize_integer(name) for name in known}
    counts = Counter(keys.values())
    # If several known texts denote one integer, only its normalized text matches.
    by_number = {key: known[name] for name, key in keys.items() if counts[key] == 1 or name == key}
    texts = list(map(level_text, values))
    found = [known[text] if text in known else by_number.get(_normalize_integer(text)) for text in texts]
    if None in found:
        number = found.index(None)
        raise ValueError(explain(number + 1, texts[number]))
    return np.array(found, dtype=np.int64)


def _normalize_integer(text: str) -> str:
    """The integer that a text denotes, without leading zeros and decimals; other texts unchanged."""
    found = _INTEGER.fullmatch(text)
    return str(int(found[1])) if found else text


def _take_rows(table: Any, rows: np.ndarray) -> Any:
    """Rows of any table that a model reads."""
    if hasattr(table, "tocsr"):
        return table.tocsr()[rows]
    if isinstance(table, Mapping):
        return {name: _take_rows(column, rows) for name, column in table.items()}
    if isinstance(table, (list, tuple)):
        return [table[row] for row in rows]
    if hasattr(table, "iloc"):
        return table.iloc[rows]
    return table.take(rows) if hasattr(table, "take") and not isinstance(table, np.ndarray) else table[rows]
