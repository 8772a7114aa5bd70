"""Records of object detection: annotated boxes and candidate boxes.

`BoxAnnotations` holds the ground truth of a data set, `Boxes` the boxes that a detector proposes, one per row, with
their features. Boxes are rows of x, y, width and height in pixels, from the upper left corner. Ids of images and
classes are compared as text, so 139, "139.0" and "000139" are the same id unless a data set lists several of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..data.columns import level_text, list_names
from ..data.frames import read_columns

BACKGROUND, CROWD = "background", "crowd"  # reserved labels of boxes that belong to no class
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
        hint = "add the image to the annotations or remove the row"
        return find_indices(
            ids,
            self._image_index,
            lambda row, text: f"{place}: row {row} refers to image {text!r}, which is not in {self.place}; {hint}",
        )

    def find_classes(self, labels: Sequence[Any], place: str, ids_first: bool = False) -> np.ndarray:
        """(N,) indices into `classes` of class names or ids; -1 for the background.

        A text that is the name of one class and the id of another is read as the name, or as the id with `ids_first`.
        """
        by_name, by_id = ({text: k for k, text in enumerate(texts)} for texts in (self.classes, self.categories))
        index = {**by_name, **by_id} if ids_first else {**by_id, **by_name}
        expected = f"expected {BACKGROUND!r} or a class of {self.place}: {list_names(self.classes)}"
        return find_indices(
            labels,
            {**index, BACKGROUND: -1},
            lambda number, text: f"{place}: unknown class {text!r} (number {number}); {expected}",
        )

    @cached_property
    def _image_index(self) -> dict[str, int]:
        return {image: index for index, image in enumerate(self.images)}


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
        check_boxes(box, f"{self.place}: row")
        object.__setattr__(self, "box", box)
        for name in ("image", "label", "score"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, np.asarray(getattr(self, name)))
        for name in ("image", "X", "label", "score"):
            values = getattr(self, name)
            if values is not None and (count := _count_rows(values)) != len(box):
                what = {"image": "image ids", "X": "rows of features"}.get(name, f"{name}s")
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


def check_boxes(box: np.ndarray, what: str) -> None:
    """Refuse boxes (N, 4) that are not finite or have a negative size; `what` names a row in the message."""
    bad = ~np.isfinite(box).all(axis=1) | (box[:, 2:] < 0).any(axis=1)
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(
            f"{what} {row + 1} must have finite numbers and a width and height of at least 0, got "
            f"{box[row].tolist()} (x, y, width, height)"
        )


def find_indices(values: Sequence[Any], known: Mapping[str, int], explain: Callable[[int, str], str]) -> np.ndarray:
    """Look up values by their text, then by the integer that the text denotes.

    `explain` returns the error message for the number of an unknown value, counted from 1, and its text.
    """
    found = np.empty(len(values), dtype=np.int64)
    by_number: dict[str, int] | None = None
    for position, text in enumerate(map(level_text, values)):
        index = known.get(text)
        if index is None:
            by_number = _index_by_number(known) if by_number is None else by_number
            index = by_number.get(_normalize_integer(text))
        if index is None:
            raise ValueError(explain(position + 1, text))
        found[position] = index
    return found


def _index_by_number(known: Mapping[str, int]) -> dict[str, int]:
    """`known` with normalized keys. If several texts denote one integer, only the normalized text is kept."""
    counts = Counter(map(_normalize_integer, known))
    unique = {_normalize_integer(text): index for text, index in known.items() if counts[_normalize_integer(text)] == 1}
    return unique | {text: index for text, index in known.items() if text == _normalize_integer(text)}


def _normalize_integer(text: str) -> str:
    """The integer that a text denotes, without leading zeros and decimals; other texts unchanged.

    >>> [_normalize_integer(text) for text in ("000000000139", "17.0", "9007199254740993", "a7", "1.5")]
    ['139', '17', '9007199254740993', 'a7', '1.5']
    """
    found = _INTEGER.fullmatch(text)
    return str(int(found[1])) if found else text


def _count_rows(table: Any) -> int:
    return int(table.shape[0]) if hasattr(table, "shape") else read_columns(table).n_rows


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
