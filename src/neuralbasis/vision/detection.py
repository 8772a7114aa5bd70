"""Object detection with an additive model: classify candidate boxes and measure mean average precision (mAP).

    annotations = read_annotations("instances.json")        -> BoxAnnotations
    boxes       = read_boxes("boxes.json", "features.npz")  -> Boxes, one candidate box per row
    y           = assign(boxes, annotations)                -> (N,) classes to train a classifier on
    found       = evaluate(model, boxes, annotations)       -> Detection: precision and recall per class

Every box is a detection of every class, scored by the probability of that class; the background is not a detection.
pycocotools, which only this module imports, computes mAP as MS-COCO does. Near-duplicate boxes are not suppressed.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..data.frames import write_frame
from ..model.additive_model import AdditiveModel
from ..printable import escape
from .annotations import group_rows
from .boxes import BACKGROUND, BOX, CROWD, IMAGE, BoxAnnotations, Boxes, read_annotations, read_boxes, read_features

__all__ = [
    "BACKGROUND", "BOX", "COCO_THRESHOLDS", "CROWD", "IMAGE", "MAX_DETECTIONS", "THRESHOLDS", "Annotations", "Boxes",
    "Detection", "assign", "evaluate", "read_annotations", "read_boxes", "read_features",
]  # fmt: skip

Annotations = BoxAnnotations  # the public name in this module

# PAPER §4.3: mAP is averaged over overlaps of 0.5 to 0.9. MS-COCO also includes 0.95.
THRESHOLDS = tuple(np.linspace(0.5, 0.9, 9).round(2).tolist())
COCO_THRESHOLDS = (*THRESHOLDS, 0.95)
MAX_DETECTIONS = 100  # highest-scoring detections of a class that count in an image
MAX_LISTED = 20  # classes in the printed table


@dataclass(frozen=True, eq=False, repr=False)
class Detection:
    """Precision and recall of detections. It prints as a table, highest average precision first.

    Parameters
    ----------
    classes : K names
    thresholds : (T,) overlaps (intersection over union) from which a detection counts as correct
    precision : (T, K) average precision; NaN for a class without an annotated box
    recall : (T, K) share of the annotated boxes that are found; NaN for a class without an annotated box
    n_annotated : (K,) number of annotated boxes, crowds excluded
    n_boxes : number of candidate boxes
    n_images : number of annotated images

    Examples
    --------
    >>> cup, zero = np.array([[0, 0, 10, 10.0]]), np.zeros(1, int)
    >>> truth = Annotations("here", ("17",), ("7",), ("cup",), zero, zero, cup, zero > 0)
    >>> found = evaluate({"cup": [0.9]}, Boxes("boxes", np.array([17]), cup), truth)
    >>> found.by_class.round(6).tolist(), found.n_boxes
    ([1.0], 1)
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
        """(T,) mean over classes."""
        return np.nanmean(self.precision, axis=1)

    @property
    def by_class(self) -> np.ndarray:
        """(K,) mean over thresholds; NaN for a class without an annotated box."""
        return self.precision.mean(axis=0)

    def data(self) -> dict[str, Any]:
        """All figures as plain values that can be written as JSON."""
        by_threshold = zip(self.thresholds, self.by_threshold.tolist(), strict=True)
        return {
            "mAP": self.mean_average_precision,
            "by_threshold": {f"{threshold:g}": precision for threshold, precision in by_threshold},
            "by_class": self.to_rows(),
            "n_boxes": self.n_boxes,
            "n_images": self.n_images,
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """One dictionary per class."""
        figures = zip(self.classes, self.by_class, self.recall.mean(axis=0), self.n_annotated, strict=True)
        return [
            {
                "class": name,
                "average_precision": None if np.isnan(precision) else float(precision),
                "recall": None if np.isnan(recall) else float(recall),
                "n_annotated": int(count),
            }
            for name, precision, recall, count in figures
        ]

    def to_pandas(self) -> Any:
        """The rows of `to_rows` as a data frame."""
        return write_frame(self.to_rows())

    def __str__(self) -> str:
        by_threshold = zip(self.thresholds, self.by_threshold, strict=True)
        lines = [
            f"mAP {self.mean_average_precision:.4f}   {self.n_boxes:,} boxes, {self.n_images:,} images, "
            f"{int((self.n_annotated > 0).sum())} classes",
            f"by overlap  {'  '.join(f'{threshold:g}: {precision:.4f}' for threshold, precision in by_threshold)}",
            "",
        ]
        rows = sorted((row for row in self.to_rows() if row["n_annotated"]), key=lambda row: -row["average_precision"])
        names = [escape(row["class"]) for row in rows]
        width = max(map(len, names))
        lines.append(f"{'class':{width}}  precision  recall  annotated")
        for name, row in zip(names[:MAX_LISTED], rows, strict=False):
            figures = f"{row['average_precision']:9.4f}  {row['recall']:6.4f}  {row['n_annotated']:9,}"
            lines.append(f"{name:{width}}  {figures}")
        if len(rows) > MAX_LISTED:
            lines.append(f"… and {len(rows) - MAX_LISTED} more")
        return "\n".join(lines)

    __repr__ = __str__


def assign(boxes: Boxes, annotations: BoxAnnotations, overlap: float = 0.5) -> np.ndarray:
    """Assign each candidate box the class of the annotated box that it overlaps most, as a target for training.

    Parameters
    ----------
    boxes : candidate boxes
    annotations : ground truth
    overlap : minimum intersection over union; boxes below it are background

    Returns
    -------
    (N,) class names, "background", or "crowd" for boxes of which at least the share `overlap` lies inside a crowd and
    which match no other annotation. Leave crowd boxes out of the training set.

    Examples
    --------
    >>> cup, zero = np.array([[0, 0, 10, 10.0]]), np.zeros(1, int)
    >>> truth = Annotations("here", ("17",), ("7",), ("cup",), zero, zero, cup, zero > 0)
    >>> boxes = Boxes("boxes", np.array([17, 17]), np.array([[0, 0, 10, 8], [9, 9, 10, 10]]))
    >>> assign(boxes, truth).tolist()
    ['cup', 'background']
    """
    image = annotations.find_images(boxes.image.tolist(), boxes.place)
    labels = np.full(len(boxes), BACKGROUND, dtype=object)
    names, n_images = np.array(annotations.classes, dtype=object), len(annotations.images)
    for rows, truth in zip(group_rows(image, n_images), group_rows(annotations.image, n_images), strict=True):
        if not len(rows) or not len(truth):
            continue
        crowd = annotations.crowd[truth]
        # (n, g) intersection over union; for a crowd, intersection over the area of the candidate box.
        overlaps = _import_pycocotools().mask.iou(boxes.box[rows], annotations.box[truth], crowd.astype(int).tolist())
        labels[rows[(overlaps[:, crowd] >= overlap).any(axis=1)]] = CROWD
        objects = np.where(crowd, -1.0, overlaps)
        is_match = objects.max(axis=1) >= overlap
        labels[rows[is_match]] = names[annotations.label[truth[objects[is_match].argmax(axis=1)]]]
    return labels.astype(str)


def evaluate(
    model: Any, boxes: Boxes, annotations: BoxAnnotations, thresholds: Sequence[float] = THRESHOLDS,
    max_detections: int = MAX_DETECTIONS,
) -> Detection:  # fmt: skip
    """Measure the mean average precision of a model on candidate boxes.

    Parameters
    ----------
    model : source of the scores
        A fitted classifier or its `AdditiveModel`, whose classes are "background" and names or ids of the annotated
        categories; or scores (N, K) of the K annotated classes; or a mapping from class to scores (N,); or None, for
        the labels and scores of the boxes themselves.
    boxes : candidate boxes, with features if `model` is a classifier
    annotations : ground truth
    thresholds : overlaps from which a detection counts as correct; `COCO_THRESHOLDS` are those of MS-COCO
    max_detections : highest-scoring detections of a class that count in an image

    Returns
    -------
    Detection

    Examples
    --------
    >>> cup, zero = np.array([[0, 0, 10, 10.0]]), np.zeros(1, int)
    >>> truth = Annotations("here", ("17",), ("7",), ("cup",), zero, zero, cup, zero > 0)
    >>> boxes = Boxes("boxes", np.array([17, 17]), np.array([[0, 0, 10, 9.5], [9, 9, 10, 10]]))
    >>> round(evaluate({"cup": [0.9, 0.2]}, boxes, truth).mean_average_precision, 6)
    1.0
    """
    if annotations.crowd.all():  # also true without any annotation
        raise ValueError(f"{annotations.place} has no annotated box other than crowds; there is nothing to evaluate")
    classes, scores = _score_boxes(model, boxes, annotations)
    image = annotations.find_images(boxes.image.tolist(), boxes.place)
    by_class = []
    for label in range(len(annotations.classes)):
        rows, score = np.flatnonzero(classes == label), np.empty(0)
        if scores.ndim == 1:
            score = scores[rows]
        elif len(rows):
            rows, score = np.arange(len(scores)), scores[:, rows[0]]
        detections = image[rows], boxes.box[rows], score
        by_class.append(_compute_precision(annotations, label, *detections, thresholds, max_detections))
    precision, recall = (np.stack(part, axis=1) for part in zip(*by_class, strict=True))
    n_annotated = np.bincount(annotations.label[~annotations.crowd], minlength=len(annotations.classes))
    sizes = len(boxes), len(annotations.images)
    return Detection(annotations.classes, np.array(thresholds, float), precision, recall, n_annotated, *sizes)


def _score_boxes(model: Any, boxes: Boxes, annotations: BoxAnnotations) -> tuple[np.ndarray, np.ndarray]:
    """Scored classes (L,) and scores (N, L); or, without a model, the class (N,) and the score (N,) of each box."""
    if model is None:
        if boxes.label is None or boxes.score is None:
            raise ValueError(f"{boxes.place} has no labels and scores; give a model or scores")
        # `category_id` of MS-COCO results is an id, never a name.
        classes = annotations.find_classes(boxes.label.tolist(), boxes.place, ids_first=True)
        scores = np.asarray(boxes.score, dtype=float)
    elif hasattr(model, "predict"):
        labels = model.classes if isinstance(model, AdditiveModel) else getattr(model, "classes_", None)
        if labels is None:
            raise ValueError("detection needs a classifier, but this model is a regression")
        if boxes.X is None:
            raise ValueError(f"{boxes.place} has no features for the model; give them (features=, --features)")
        classes = annotations.find_classes(labels.tolist(), "the model")
        scores = model.predict_proba(boxes.X) if len(boxes) else np.zeros((0, len(classes)))
    elif isinstance(model, Mapping):
        classes, scores = annotations.find_classes(list(model), "scores"), np.column_stack(list(model.values()))
    else:
        classes, scores = np.arange(len(annotations.classes)), np.asarray(model, dtype=float)
    if model is not None and scores.shape != (len(boxes), len(classes)):
        expected = f"{(len(boxes), len(classes))}: a row for each box of {boxes.place}, a column for each class"
        raise ValueError(f"scores must have shape {expected}; got {scores.shape}")
    if len(bad := np.flatnonzero(~np.isfinite(np.atleast_2d(scores.T)).all(axis=0))):
        raise ValueError(f"{boxes.place}: the score of row {bad[0] + 1} must be a finite number")
    return classes, scores


def _compute_precision(
    annotations: BoxAnnotations, label: int, image: np.ndarray, box: np.ndarray, score: np.ndarray,
    thresholds: Sequence[float], max_detections: int,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Average precision and recall (T,) of one class; NaN if it has no annotated box other than crowds.

    All classes at once would need too much memory: pycocotools has a dictionary per detection.
    """
    rows, n_images = np.flatnonzero(annotations.label == label), len(annotations.images)
    if annotations.crowd[rows].all():
        return (np.full(len(thresholds), np.nan),) * 2
    tools = _import_pycocotools()

    def make_dataset(image: np.ndarray, box: np.ndarray, fields: list[dict[str, Any]]) -> Any:
        # pycocotools treats id 0 as "no match". The area would only select among size ranges, which are not used.
        records = [
            {"id": number, "image_id": index, "category_id": 1, "bbox": numbers, "area": 1.0} | more
            for number, (index, numbers, more) in enumerate(zip(image.tolist(), box.tolist(), fields, strict=True), 1)
        ]
        dataset = tools.COCO()
        images = [{"id": index} for index in range(n_images)]
        dataset.dataset = {"images": images, "categories": [{"id": 1}], "annotations": records}
        dataset.createIndex()
        return dataset

    with redirect_stdout(io.StringIO()):  # pycocotools prints progress
        crowd = [{"iscrowd": int(flag)} for flag in annotations.crowd[rows]]
        truth = make_dataset(annotations.image[rows], annotations.box[rows], crowd)
        found = make_dataset(image, box, [{"iscrowd": 0, "score": value} for value in score.tolist()])
        run = tools.COCOeval(truth, found, "bbox")
        run.params.iouThrs, run.params.maxDets = np.array(thresholds, dtype=float), [max_detections]
        run.params.areaRng, run.params.areaRngLbl = [[0, 1e10]], ["all"]
        run.evaluate()
        run.accumulate()
    return run.eval["precision"][:, :, 0, 0, 0].mean(axis=1), run.eval["recall"][:, 0, 0, 0]


def _import_pycocotools() -> Any:
    try:
        from pycocotools import mask
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    except ImportError as error:
        raise ImportError("detection needs pycocotools: pip install 'neuralbasis[detection]'") from error
    return SimpleNamespace(COCO=COCO, COCOeval=COCOeval, mask=mask)
