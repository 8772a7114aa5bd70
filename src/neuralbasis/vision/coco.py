"""Overlaps and average precision as MS-COCO defines them, computed by pycocotools.

Only this module imports pycocotools. Boxes are (N, 4) arrays of x, y, width and height.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from .boxes import BoxAnnotations


class BoxScores(NamedTuple):
    """Detections of one class: (n,) index of the image, (n, 4) box, (n,) score."""

    image: np.ndarray
    box: np.ndarray
    score: np.ndarray


def compute_overlaps(boxes: np.ndarray, truth: np.ndarray, crowd: np.ndarray) -> np.ndarray:
    """(n, g) intersection over union; for a crowd, intersection over the area of the candidate box."""
    return _import_pycocotools().mask.iou(boxes, truth, crowd.astype(int).tolist())


def compute_class_precision(
    annotations: BoxAnnotations, label: int, found: BoxScores, thresholds: Sequence[float], max_detections: int
) -> tuple[np.ndarray, np.ndarray]:
    """Average precision and recall (T,) of one class; NaN if it has no annotated box other than crowds.

    Classes are evaluated one at a time: pycocotools needs a dictionary per detection, and every box is a detection of
    every class.
    """
    rows, n_images = np.flatnonzero(annotations.label == label), len(annotations.images)
    if annotations.crowd[rows].all():
        return (np.full(len(thresholds), np.nan),) * 2
    tools = _import_pycocotools()
    crowd = [{"iscrowd": int(flag)} for flag in annotations.crowd[rows]]
    scores = [{"iscrowd": 0, "score": score} for score in found.score.tolist()]
    with redirect_stdout(io.StringIO()):  # pycocotools prints progress
        truth = _make_dataset(tools, n_images, annotations.image[rows], annotations.box[rows], crowd)
        detections = _make_dataset(tools, n_images, found.image, found.box, scores)
        run = tools.COCOeval(truth, detections, "bbox")
        run.params.iouThrs, run.params.maxDets = np.array(thresholds, dtype=float), [max_detections]
        run.params.areaRng, run.params.areaRngLbl = [[0, 1e10]], ["all"]
        run.evaluate()
        run.accumulate()
    return run.eval["precision"][:, :, 0, 0, 0].mean(axis=1), run.eval["recall"][:, 0, 0, 0]


def _make_dataset(tools: Any, n_images: int, image: np.ndarray, box: np.ndarray, fields: list[dict[str, Any]]) -> Any:
    """Boxes of one class as a pycocotools data set, with additional fields for each box.

    Ids are counted from 1, since pycocotools treats id 0 as "no match". The area is constant: it would only select
    among size ranges, which are not used.
    """
    records = [
        {"id": number, "image_id": index, "category_id": 1, "bbox": numbers, "area": 1.0} | more
        for number, (index, numbers, more) in enumerate(zip(image.tolist(), box.tolist(), fields, strict=True), 1)
    ]
    dataset = tools.COCO()
    images = [{"id": index} for index in range(n_images)]
    dataset.dataset = {"images": images, "categories": [{"id": 1}], "annotations": records}
    dataset.createIndex()
    return dataset


def _import_pycocotools() -> Any:
    try:
        from pycocotools import mask
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    except ImportError as error:
        raise ImportError("detection needs pycocotools: pip install 'neuralbasis[detection]'") from error
    return SimpleNamespace(COCO=COCO, COCOeval=COCOeval, mask=mask)
