"""Detection: things found in pictures. One row a candidate box; a model of classes scores it, and mean average
precision says how well the boxes then meet the annotated ones, as MS-COCO defines it, computed by pycocotools.

    annotations.json -> Annotations        boxes and their features -> Boxes        assign -> classes to train on
    model, Boxes, Annotations -> evaluate -> Detection

Every box is a detection of every class, with the probability of that class as its score; the background is no
detection. Boxes are taken as they come: suppress near copies before, if there are any.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any
from zipfile import BadZipFile

import numpy as np

from ..data.columns import Column, is_missing, level_text, list_names
from ..data.frames import read_columns, read_frame, write_frame
from ..model.additive_model import AdditiveModel
from ..printable import escape

# PAPER §4.3: mAP is averaged over 0.5 to 0.9. MS-COCO's own goes one step further, to 0.95.
THRESHOLDS = tuple(np.linspace(0.5, 0.9, 9).round(2).tolist())
COCO_THRESHOLDS = (*THRESHOLDS, 0.95)
MAX_DETECTIONS = 100  # of a class in a picture that count, the highest scores first
BACKGROUND, CROWD = "background", "crowd"
IMAGE, BOX = "image_id", ("x", "y", "w", "h")  # columns of a table of boxes
MAX_LISTED = 20

_WHOLE = re.compile(r"([+-]?[0-9]+)(?:\.0*)?")
_LISTS = ("images", "annotations", "categories")

Path = str | os.PathLike[str]


@dataclass(frozen=True, eq=False, repr=False)
class Annotations:
    """What there is to find.

    place : the file they came from, for messages
    images : I ids of the pictures, as texts
    categories, classes : K ids of the classes, as texts, and their names
    image, label : (G,) of each annotated box its picture and its class, as places in `images` and `classes`
    box : (G, 4) x, y, width, height
    crowd : (G,) does it stand for many things at once? Boxes in it are neither right nor wrong
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
        return f"Annotations({len(self.box):,} boxes, {len(self.images):,} images, {len(self.classes)} classes)"

    def find_images(self, ids: Sequence[Any], place: str) -> np.ndarray:
        """(N,) places of these pictures."""
        hint = "give the annotations of all images, or leave such rows out"
        return _find(
            ids,
            self._image_places,
            lambda row, text: f"{place}: row {row} is of image {text!r}, which is not in {self.place}; {hint}",
        )

    def find_classes(self, labels: Sequence[Any], place: str, ids_first: bool = False) -> np.ndarray:
        """(N,) places of classes given by name or by id; -1 for the background.

        A text that is the name of one class and the id of another is the name, with `ids_first` the id.
        """
        by_name, by_id = ({text: k for k, text in enumerate(texts)} for texts in (self.classes, self.categories))
        known = {**by_name, **by_id} if ids_first else {**by_id, **by_name}
        expected = f"expected {BACKGROUND!r} or a class of {self.place}: {list_names(self.classes)}"
        return _find(
            labels,
            {**known, BACKGROUND: -1},
            lambda number, text: f"{place}: class {text!r} (number {number}) is not known; {expected}",
        )

    @cached_property
    def _image_places(self) -> dict[str, int]:
        return {image: place for place, image in enumerate(self.images)}


@dataclass(frozen=True, eq=False, repr=False)
class Boxes:
    """Candidate boxes, one a row.

    place : the file they came from, for messages
    image : (N,) ids of the pictures
    box : (N, 4) x, y, width, height
    X : their features, any table that a model reads (N, D); None if there are none
    label : (N,) a class or the background for each, by id or name; None if that is not said
    score : (N,) how sure a detector is of the label; None if that is not said

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
            raise ValueError(f"{self.place}: boxes must be rows of x, y, width and height, not of shape {box.shape}")
        _check_boxes(box, f"{self.place}: row")
        object.__setattr__(self, "box", box)
        for name in ("image", "label", "score"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, np.asarray(getattr(self, name)))
        for name in ("image", "X", "label", "score"):
            held = getattr(self, name)
            if held is not None and (count := _count_rows(held)) != len(box):
                what = {"image": "ids of images", "X": "rows of features"}.get(name, f"{name}s")
                raise ValueError(f"{self.place} has {len(box):,} boxes, but there are {count:,} {what}; give one a box")

    def __len__(self) -> int:
        return len(self.box)

    def __repr__(self) -> str:
        return f"Boxes({len(self):,} rows)"

    def take(self, rows: np.ndarray) -> Boxes:
        """These rows, given by numbers or as a mask."""
        chosen = np.arange(len(self))[rows]
        label, score = (None if held is None else held[chosen] for held in (self.label, self.score))
        X = None if self.X is None else _take_rows(self.X, chosen)
        return replace(self, image=self.image[chosen], box=self.box[chosen], X=X, label=label, score=score)


@dataclass(frozen=True, eq=False, repr=False)
class Detection:
    """How well boxes meet the annotations. It prints as a table, the best found classes first.

    classes : K names
    thresholds : (T,) of the overlap (intersection over union) from which a box counts as right
    precision : (T, K) average precision; NaN for a class without an annotated box
    recall : (T, K) share of the annotated boxes that are found at all, likewise
    n_annotated : (K,) annotated boxes, crowds aside
    n_boxes, n_images : candidate boxes, and annotated pictures
    """

    classes: tuple[str, ...]
    thresholds: np.ndarray
    precision: np.ndarray
    recall: np.ndarray
    n_annotated: np.ndarray
    n_boxes: int
    n_images: int

    @property
    def mean_average_precision(self) -> float:
        """mAP: the mean over thresholds and classes."""
        return float(np.nanmean(self.precision))

    @property
    def by_threshold(self) -> np.ndarray:
        """(T,) the mean over classes."""
        return np.nanmean(self.precision, axis=1)

    @property
    def by_class(self) -> np.ndarray:
        """(K,) the mean over thresholds, NaN for a class without an annotated box."""
        return self.precision.mean(axis=0)

    def data(self) -> dict[str, Any]:
        """All of it in plain values, ready for JSON."""
        by_threshold = zip(self.thresholds, self.by_threshold.tolist(), strict=True)
        return {
            "mAP": self.mean_average_precision,
            "by_threshold": {f"{threshold:g}": found for threshold, found in by_threshold},
            "by_class": self.to_rows(),
            "n_boxes": self.n_boxes,
            "n_images": self.n_images,
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """A record a class."""
        found = zip(self.classes, self.by_class, self.recall.mean(axis=0), self.n_annotated, strict=True)
        return [
            {"class": name, "average_precision": _plain(ap), "recall": _plain(recall), "n_annotated": int(count)}
            for name, ap, recall, count in found
        ]

    def to_pandas(self) -> Any:
        """The same as a frame."""
        return write_frame(self.to_rows())

    def __str__(self) -> str:
        parts = "  ".join(f"{t:g}: {ap:.4f}" for t, ap in zip(self.thresholds, self.by_threshold, strict=True))
        lines = [
            f"mAP {self.mean_average_precision:.4f}   {self.n_boxes:,} boxes, {self.n_images:,} images, "
            f"{int((self.n_annotated > 0).sum())} classes",
            f"by overlap  {parts}",
            "",
        ]
        rows = sorted((row for row in self.to_rows() if row["n_annotated"]), key=lambda row: -row["average_precision"])
        names = [escape(row["class"]) for row in rows]
        width = max(map(len, names))
        lines.append(f"{'class':{width}}  precision  recall  annotated")
        for name, row in zip(names[:MAX_LISTED], rows, strict=False):
            figures = f"{row['average_precision']:9.4f}  {row['recall']:6.4f}  {row['n_annotated']:9,}"
            lines.append(f"{name:{width}}  {figures}")
        return "\n".join([*lines, *([f"… and {len(rows) - MAX_LISTED} more"] if len(rows) > MAX_LISTED else [])])

    __repr__ = __str__


def read_annotations(path: Path) -> Annotations:
    """Annotations in MS-COCO's form: a JSON file with the lists `images`, `annotations` and `categories`.

    Of an annotation `image_id`, `category_id` and `bbox` (x, y, width, height) are needed; `iscrowd` is 0 where it is
    not there. `area` is not read: boxes of all sizes are judged alike.
    """
    place, found = os.fspath(path), _read_json(path)
    if not isinstance(found, dict) or not all(isinstance(found.get(name), list) for name in _LISTS):
        raise ValueError(f"{place}: expected MS-COCO's form, an object with the lists {', '.join(_LISTS)}")
    images, categories = (_sort_ids(found[name], f"{place}: {name}") for name in ("images", "categories"))
    names = {level_text(one["id"]): str(one.get("name", one["id"])) for one in found["categories"]}
    classes = tuple(names[category] for category in categories)
    if len(set(classes)) < len(classes) or {BACKGROUND, CROWD} & set(classes):
        raise ValueError(f"{place}: names of categories must differ, and none may be {BACKGROUND!r} or {CROWD!r}")
    given, what = found["annotations"], f"{place}: annotation"
    box = _read_box(_take(given, "bbox", what), what)
    return Annotations(
        place, images, categories, classes,
        _place_ids(_take(given, "image_id", what), images, what, "image"),
        _place_ids(_take(given, "category_id", what), categories, what, "category"),
        box, np.array([bool(one.get("iscrowd", 0)) for one in given], dtype=bool),
    )  # fmt: skip


def read_boxes(
    path: Path, features: Any = None, *, image: str = IMAGE, box: Sequence[str] = BOX, label: str | None = None,
    score: str | None = None,
) -> Boxes:  # fmt: skip
    """Candidate boxes with their features.

    Parameters
    ----------
    path : where the boxes are
        A JSON list in MS-COCO's form of results (`image_id`, `bbox`, and `category_id` and `score` if there are any),
        or a CSV or Parquet file with the columns named below.
    features : their features, a row a box
        A file (.npz of a SciPy sparse matrix, .npy, CSV or Parquet), or any table that a model reads. None: all other
        columns of a CSV or Parquet file.
    image, box, label, score : columns of the picture, of x, y, width and height, and of the class and a detector's
        score of it if they are known

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


def _read_results(place: str, features: Any) -> Boxes:
    given, what = _read_json(place), f"{place}: row"
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise ValueError(f"{place}: expected a list of boxes, each with image_id and bbox")
    box, images = _read_box(_take(given, "bbox", what), what), np.array(_take(given, "image_id", what))
    label, score = (
        np.array(_take(given, name, what)) if not given or name in given[0] else None
        for name in ("category_id", "score")
    )
    return Boxes(place, images, box, read_features(features), label, score)


def _read_table(
    place: str, features: Any, image: str, box: Sequence[str], label: str | None, score: str | None
) -> Boxes:
    frame = read_frame(place)
    columns, own = read_columns(frame), [name for name in (image, *box, label, score) if name is not None]
    known = dict(zip(own, columns.select(own), strict=True))
    numbers = np.stack([_read_numbers(known[name]) for name in box], axis=1)
    others = [name for name in columns.names if name not in own]
    X = frame.select(others) if features is None and others else read_features(features)
    labels = None if label is None else _spell(frame, label, place)
    scores = None if score is None else _read_numbers(known[score])
    return Boxes(place, _spell(frame, image, place), numbers, X, labels, scores)


def read_features(features: Any) -> Any:
    """A feature matrix from its file; any other table as it is."""
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
        raise ValueError(f"{place}: expected {expected}, but it cannot be read: {error}") from error


def assign(boxes: Boxes, annotations: Annotations, overlap: float = 0.5) -> np.ndarray:
    """(N,) class of each box, to train on: that of the annotated box which it overlaps most.

    An overlap (intersection over union) of less than `overlap` is the background. Boxes that only a crowd claims,
    because they lie in it by that share of their own area, are "crowd": leave them out.

    Examples
    --------
    >>> cup = np.array([[0, 0, 10, 10.0]])
    >>> nought = np.zeros(1, int)
    >>> truth = Annotations("here", ("17",), ("7",), ("cup",), nought, nought, cup, nought > 0)
    >>> boxes = Boxes("boxes", np.array([17, 17]), np.array([[0, 0, 10, 8], [9, 9, 10, 10]]))
    >>> assign(boxes, truth).tolist()
    ['cup', 'background']
    """
    iou = _import_coco().mask.iou
    image = annotations.find_images(boxes.image.tolist(), boxes.place)
    found = np.full(len(boxes), BACKGROUND, dtype=object)
    names, n_images = np.array(annotations.classes, dtype=object), len(annotations.images)
    for own, there in zip(_group(image, n_images), _group(annotations.image, n_images), strict=True):
        if not len(own) or not len(there):
            continue
        crowd = annotations.crowd[there]
        overlaps = iou(boxes.box[own], annotations.box[there], crowd.astype(int).tolist())  # in a crowd: of the box
        found[own[(overlaps[:, crowd] >= overlap).any(axis=1)]] = CROWD
        things = np.where(crowd, -1.0, overlaps)
        is_hit = things.max(axis=1) >= overlap
        found[own[is_hit]] = names[annotations.label[there[things[is_hit].argmax(axis=1)]]]
    return found.astype(str)


def evaluate(
    model: Any, boxes: Boxes, annotations: Annotations, thresholds: Sequence[float] = THRESHOLDS,
    max_detections: int = MAX_DETECTIONS,
) -> Detection:  # fmt: skip
    """Mean average precision of a model on boxes.

    Parameters
    ----------
    model : what scores the boxes
        A fitted classifier or its `AdditiveModel`, whose classes are names or ids of the annotations' categories, and
        "background"; or scores (N, K) of the annotations' K classes, or a mapping of class -> scores (N,); or None: the
        boxes' own labels and scores.
    thresholds : of the overlap from which a box is right; `COCO_THRESHOLDS` are those of MS-COCO
    max_detections : of a class in a picture that count, the highest scores first
    """
    if annotations.crowd.all():  # also where there is no annotation
        raise ValueError(f"{annotations.place} has no annotated box (crowds aside), so that there is nothing to find")
    classes, scores = _score(model, boxes, annotations)
    image = annotations.find_images(boxes.image.tolist(), boxes.place)
    found = []
    for k in range(len(annotations.classes)):
        rows, score = _pick(classes, scores, k)
        found.append(_measure_class(annotations, k, image[rows], boxes.box[rows], score, thresholds, max_detections))
    precision, recall = (np.stack(part, axis=1) for part in zip(*found, strict=True))
    counts = np.bincount(annotations.label[~annotations.crowd], minlength=len(annotations.classes))
    return Detection(
        annotations.classes, np.array(thresholds, float), precision, recall, counts, len(boxes), len(annotations.images)
    )


def _score(model: Any, boxes: Boxes, annotations: Annotations) -> tuple[np.ndarray, np.ndarray]:
    """Classes (L,) that are spoken of, and scores (N, L); or the one class of each box (N,) and its score (N,)."""
    if model is None:
        if boxes.label is None or boxes.score is None:
            raise ValueError(f"{boxes.place} has no labels and scores of its own; give a model or scores")
        # Detectors give ids: `category_id` of MS-COCO's results is nothing else.
        classes = annotations.find_classes(boxes.label.tolist(), boxes.place, ids_first=True)
        scores = np.asarray(boxes.score, dtype=float)
    elif hasattr(model, "predict"):
        labels = model.classes if isinstance(model, AdditiveModel) else getattr(model, "classes_", None)
        if labels is None:
            raise ValueError("detection needs a model of classes; this one is a regression")
        if boxes.X is None:
            raise ValueError(f"{boxes.place} has no features for a model to read; give them (features=, --features)")
        classes = annotations.find_classes(labels.tolist(), "the model")
        scores = model.predict_proba(boxes.X) if len(boxes) else np.zeros((0, len(classes)))
    elif isinstance(model, Mapping):
        classes, scores = annotations.find_classes(list(model), "scores"), np.column_stack(list(model.values()))
    else:
        classes, scores = np.arange(len(annotations.classes)), np.asarray(model, dtype=float)
    if model is not None and scores.shape != (len(boxes), len(classes)):
        expected = f"{(len(boxes), len(classes))}: a row for each box of {boxes.place}, a column for each class"
        raise ValueError(f"scores must be of shape {expected}, not {scores.shape}")
    if len(bad := np.flatnonzero(~np.isfinite(np.atleast_2d(scores.T)).all(axis=0))):
        raise ValueError(f"{boxes.place}: the score of row {bad[0] + 1} must be a finite number")
    return classes, scores


def _pick(classes: np.ndarray, scores: np.ndarray, label: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows that speak of a class, and what they say."""
    own = np.flatnonzero(classes == label)
    if scores.ndim == 1:
        return own, scores[own]
    return (np.arange(len(scores)), scores[:, own[0]]) if len(own) else (own, np.empty(0))


def _measure_class(
    annotations: Annotations, label: int, image: np.ndarray, box: np.ndarray, score: np.ndarray,
    thresholds: Sequence[float], max_detections: int,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Average precision and recall (T,) of one class, by pycocotools: all classes at once would be a record for every
    box and class."""
    truth, n_images = np.flatnonzero(annotations.label == label), len(annotations.images)
    if annotations.crowd[truth].all():
        return (np.full(len(thresholds), np.nan),) * 2
    given = {"iscrowd": annotations.crowd[truth].astype(int)}
    came = {"iscrowd": np.zeros(len(box), int), "score": score}
    coco = _import_coco()
    with redirect_stdout(io.StringIO()):  # it prints as it goes
        there = _record(coco, n_images, annotations.image[truth], annotations.box[truth], given)
        judge = coco.COCOeval(there, _record(coco, n_images, image, box, came), "bbox")
        judge.params.iouThrs, judge.params.maxDets = np.array(thresholds, dtype=float), [max_detections]
        judge.params.areaRng, judge.params.areaRngLbl = [[0, 1e10]], ["all"]
        judge.evaluate()
        judge.accumulate()
    return judge.eval["precision"][:, :, 0, 0, 0].mean(axis=1), judge.eval["recall"][:, 0, 0, 0]


def _record(coco: Any, n_images: int, image: np.ndarray, box: np.ndarray, others: Mapping[str, np.ndarray]) -> Any:
    """Boxes of one class as pycocotools holds them. It takes id 0 for none, so all are counted anew from 1. The area
    chooses among sizes, which are not told apart here: it is the same for all."""
    columns = [held.tolist() for held in others.values()]
    records = [
        {"id": number, "image_id": one, "category_id": 1, "bbox": numbers, "area": 1.0}
        | dict(zip(others, rest, strict=True))
        for number, (one, numbers, *rest) in enumerate(zip(image.tolist(), box.tolist(), *columns, strict=True), 1)
    ]
    held = coco.COCO()
    images = [{"id": index} for index in range(n_images)]
    held.dataset = {"images": images, "categories": [{"id": 1}], "annotations": records}
    held.createIndex()
    return held


def _import_coco() -> Any:
    try:
        from pycocotools import mask
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    except ImportError as error:
        raise ImportError("detection needs pycocotools: pip install 'neuralbasis[detection]'") from error
    return SimpleNamespace(COCO=COCO, COCOeval=COCOeval, mask=mask)


def _read_json(path: Path) -> Any:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: expected JSON, but it cannot be read: {error}") from error


def _sort_ids(records: Sequence[Any], what: str) -> tuple[str, ...]:
    """Ids as texts, in their order, which pycocotools takes where scores are equal."""
    ids = _take(records, "id", f"{what}, entry")
    if len(set(map(level_text, ids))) < len(ids):
        raise ValueError(f"{what} must have ids that differ, but one comes twice")
    return tuple(map(level_text, sorted(ids, key=lambda one: (isinstance(one, str), one))))


def _take(records: Sequence[Any], name: str, what: str) -> list[Any]:
    """One field of all records."""
    for number, record in enumerate(records, 1):
        if not isinstance(record, dict) or record.get(name) is None:
            raise ValueError(f"{what} {number} has no {name!r}")
    return [record[name] for record in records]


def _place_ids(ids: Sequence[Any], known: Sequence[str], what: str, kind: str) -> np.ndarray:
    return _find(
        ids,
        {text: place for place, text in enumerate(known)},
        lambda number, text: f"{what} {number} is of {kind} {text!r}, which the file does not list; add it there",
    )


def _find(came: Sequence[Any], known: Mapping[str, int], complain: Callable[[int, str], str]) -> np.ndarray:
    """Places of values by their texts, or by the numbers that these write; `complain` writes the error of a number,
    from 1, and its text."""
    found = np.empty(len(came), dtype=np.int64)
    by_number: dict[str, int] | None = None
    for index, text in enumerate(map(level_text, came)):
        place = known.get(text)
        if place is None:
            by_number = _number_texts(known) if by_number is None else by_number
            place = by_number.get(_plain_text(text))
        if place is None:
            raise ValueError(complain(index + 1, text))
        found[index] = place
    return found


def _number_texts(known: Mapping[str, int]) -> dict[str, int]:
    """The same by plain numbers; where two texts write one number, only the plain one counts."""
    times = Counter(map(_plain_text, known))
    return {_plain_text(text): place for text, place in known.items() if times[_plain_text(text)] == 1} | {
        text: place for text, place in known.items() if text == _plain_text(text)
    }


def _plain_text(text: str) -> str:
    """The whole number that a text writes, as files of other kinds write it.

    >>> [_plain_text(text) for text in ("000000000139", "17.0", "9007199254740993", "a7", "1.5")]
    ['139', '17', '9007199254740993', 'a7', '1.5']
    """
    found = _WHOLE.fullmatch(text)
    return str(int(found[1])) if found else text


def _read_box(boxes: Sequence[Any], what: str) -> np.ndarray:
    for number, box in enumerate(boxes, 1):
        if not isinstance(box, list) or len(box) != 4 or not all(type(side) in (int, float) for side in box):
            raise ValueError(f"{what} {number} must have a box of x, y, width and height, not {box!r}")
    found = np.array(boxes, dtype=float).reshape(-1, 4)
    _check_boxes(found, what)
    return found


def _check_boxes(box: np.ndarray, what: str) -> None:
    bad = ~np.isfinite(box).all(axis=1) | (box[:, 2:] < 0).any(axis=1)
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(
            f"{what} {row + 1} must have finite numbers and a width and height of at least 0, not "
            f"{box[row].tolist()} (x, y, width, height)"
        )


def _read_numbers(column: Column) -> np.ndarray:
    numbers = column.to_numbers().numbers
    assert numbers is not None
    return numbers


def _spell(frame: Any, name: str, place: str) -> np.ndarray:
    """Texts of a column of ids or classes, as they stand in the file: ids may be longer than a float is exact."""
    values = frame[name].to_pylist()
    for row, value in enumerate(values, 1):
        if is_missing(value):
            raise ValueError(f"{place}: column {name!r} has no value in row {row}")
    return np.array(list(map(level_text, values)), dtype=object)


def _group(place: np.ndarray, count: int) -> Iterator[np.ndarray]:
    """Rows at each place 0 … count - 1."""
    order = np.argsort(place, kind="stable")
    return iter(np.split(order, np.searchsorted(place[order], np.arange(1, count))))


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


def _plain(value: float) -> float | None:
    return None if value != value else float(value)
