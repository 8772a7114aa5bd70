"""Small detection data sets that several tests use."""

from __future__ import annotations

import json

import numpy as np

from neuralbasis.vision import detection


def write(path, content):
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def make_truth(boxes, labels=None, crowd=None, first_id=1, **others) -> dict:
    """Annotations of one image with these boxes."""
    labels = labels or [1] * len(boxes)
    annotations = [
        {"id": first_id + i, "image_id": 7, "category_id": label, "bbox": box, "iscrowd": crowd[i] if crowd else 0}
        for i, (box, label) in enumerate(zip(boxes, labels, strict=True))
    ]  # fmt: skip
    names = {1: "cup", 2: "bed"}
    categories = [{"id": c, "name": names[c]} for c in sorted({*labels})]
    return {"images": [{"id": 7}], "annotations": annotations, "categories": categories, **others}


def make_boxes(boxes, **others) -> detection.Boxes:
    return detection.Boxes("boxes", np.full(len(boxes), 7), np.array(boxes, dtype=float), **others)
