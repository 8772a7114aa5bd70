"""Object detection at the size of the paper's Common Objects: sparse features, 100,000 pairs, and mAP.

    python -m benchmarks run speed.detection                   # 200,000 boxes to fit, 58,525 to test, 114 classes
    python -m benchmarks run speed.detection --rows 20000 --test-rows 5000 --pairs 5000

Features and classes are those of `speed.sparse_pairs`: generated, since the paper's set is proprietary. Every row is a
candidate box of a drawn image. Annotated boxes of objects lie near it; the first class is the background. One epoch is
trained. mAP is over overlaps from 0.5 to 0.9. On the first images it is compared with pycocotools.
"""

from __future__ import annotations

import argparse
import contextlib
import io
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralbasis import NeuralBasisClassifier
from neuralbasis.vision import detection

from ..datasets.objects import Objects, draw_objects, find_frequent_pairs, make_world
from ..results.markdown import format_number, format_verdict, print_table
from .resources import PeakMemory, resident_mb, time_once
from .sparse_pairs import PLANTED_SHARE, Sizes

BOXES_PER_IMAGE = 8
COMPARED = 200  # images
TOLERANCE = 1e-9
USUAL = Sizes(n_test=58_525)
QUICK = Sizes(1500, 400, 500, 45, 100, 0.95)


@dataclass(frozen=True, eq=False)
class Images:
    """Candidate boxes and annotations."""

    boxes: detection.Boxes
    annotations: detection.Annotations


def draw_images(table: Objects, n_classes: int, seed: int) -> Images:
    """Boxes of these rows, and annotated boxes that overlap those of objects to varying degrees."""
    rng, n_rows = np.random.default_rng(seed), len(table.y)
    image = np.sort(rng.integers(0, max(1, n_rows // BOXES_PER_IMAGE), n_rows))
    box = np.c_[rng.uniform(0, 800, (n_rows, 2)), rng.uniform(30, 200, (n_rows, 2))]
    objects = np.flatnonzero(table.y > 0)
    moved = box[objects] + rng.normal(0, 0.08, (len(objects), 4)) * np.tile(box[objects, 2:], 2)
    ids, names = np.arange(image.max() + 1).astype(str), [f"object {k:03d}" for k in range(1, n_classes)]
    annotations = detection.Annotations(
        "drawn", tuple(ids), tuple(map(str, range(1, n_classes))), tuple(names), image[objects], table.y[objects] - 1,
        moved, np.zeros(len(objects), dtype=bool),
    )  # fmt: skip
    return Images(detection.Boxes("drawn", image, box, table.X), annotations)


def compute_map_with_pycocotools(
    scores: np.ndarray, boxes: detection.Boxes, annotations: detection.Annotations
) -> float:
    """mAP by pycocotools, all classes in one run."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    n_classes = len(annotations.classes)
    objects = zip(annotations.image.tolist(), annotations.label.tolist(), annotations.box.tolist(), strict=True)
    truth = [
        {"id": i, "image_id": image, "category_id": k, "bbox": box, "area": box[2] * box[3], "iscrowd": 0}
        for i, (image, k, box) in enumerate(objects, 1)
    ]
    found = [
        {"image_id": int(image), "category_id": k, "bbox": box.tolist(), "score": float(own[k])}
        for image, box, own in zip(boxes.image, boxes.box, scores, strict=True)
        for k in range(n_classes)
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        truth_set = COCO()
        images = [{"id": i} for i in range(len(annotations.images))]
        truth_set.dataset = {
            "images": images,
            "categories": [{"id": k} for k in range(n_classes)],
            "annotations": truth,
        }
        truth_set.createIndex()
        evaluator = COCOeval(truth_set, truth_set.loadRes(found), "bbox")
        evaluator.params.iouThrs = np.array(detection.THRESHOLDS)
        evaluator.evaluate()
        evaluator.accumulate()
    precision = evaluator.eval["precision"][:, :, :, 0, -1]
    return float(precision[precision > -1].mean())


def compare(model: Any, images: Images) -> float:
    """Difference between our mAP and that of pycocotools on the first images."""
    few = images.boxes.take(images.boxes.image < COMPARED)
    known, own = images.annotations, images.annotations.image < COMPARED
    truth = detection.Annotations(
        known.place, known.images[:COMPARED], known.categories, known.classes, known.image[own], known.label[own],
        known.box[own], known.crowd[own],
    )  # fmt: skip
    scores = np.zeros((len(few), len(known.classes)))
    place = {name: k for k, name in enumerate(known.classes)}
    known_columns = [(column, place[name]) for column, name in enumerate(model.classes_) if name in place]
    probability = model.predict_proba(few.X)
    for column, k in known_columns:
        scores[:, k] = probability[:, column]
    return abs(
        detection.evaluate(scores, few, truth).mean_average_precision - compute_map_with_pycocotools(scores, few, truth)
    )


def measure(sizes: Sizes) -> list[list[str]]:
    """Rows of the table: name, value, target, verdict."""
    world = make_world(sizes.n_columns, sizes.n_classes, sizes.sparsity, max(1, sizes.n_pairs // PLANTED_SHARE))
    train = draw_images(draw_objects(world, sizes.n_rows, seed=1), sizes.n_classes, seed=1)
    test = draw_images(draw_objects(world, sizes.n_test, seed=2), sizes.n_classes, seed=2)
    pairs = [tuple(pair) for pair in find_frequent_pairs(train.boxes.X, sizes.n_pairs).tolist()]
    assigning, y = time_once(lambda: detection.assign(train.boxes, train.annotations))
    before = resident_mb()
    with PeakMemory() as memory:
        fitting, model = time_once(
            lambda: NeuralBasisClassifier(interactions=pairs, network__max_epochs=1, random_state=0).fit(
                train.boxes.X, y
            )
        )
    with PeakMemory() as judging:
        seconds, found = time_once(lambda: detection.evaluate(model, test.boxes, test.annotations))
    random_scores = np.random.default_rng(0).random((len(test.boxes), len(test.annotations.classes)))
    random_map = detection.evaluate(random_scores, test.boxes, test.annotations).mean_average_precision
    error = compare(model, test)
    return [
        ["boxes assigned to classes, seconds", format_number(assigning), "–", "–"],
        [f"fit with {len(pairs):,} pairs, one epoch, seconds", format_number(fitting), "–", "–"],
        ["fit, peak MB (before: the tables)", f"{memory.mb:,.0f} ({before:,.0f})", "–", "–"],
        [f"mAP of {len(test.boxes):,} boxes, seconds", format_number(seconds), "–", "–"],
        ["mAP, peak MB", f"{judging.mb:,.0f}", "–", "–"],
        ["mAP", f"{found.mean_average_precision:.4f}", "–", "–"],
        ["mAP of random scores", f"{random_map:.4f}", "–", "–"],
        [
            f"difference from pycocotools, {COMPARED} images",
            f"{error:.1e}",
            f"≤ {TOLERANCE:g}",
            format_verdict(error <= TOLERANCE),
        ],
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=USUAL.n_rows)
    parser.add_argument("--test-rows", type=int, default=USUAL.n_test)
    parser.add_argument("--columns", type=int, default=USUAL.n_columns)
    parser.add_argument("--classes", type=int, default=USUAL.n_classes)
    parser.add_argument("--pairs", type=int, default=USUAL.n_pairs)
    parser.add_argument("--sparsity", type=float, default=USUAL.sparsity, help="share of absent values")
    parser.add_argument("--quick", action="store_true", help="tiny tables")
    given = parser.parse_args()
    requested = Sizes(given.rows, given.test_rows, given.columns, given.classes, given.pairs, given.sparsity)
    sizes = QUICK if given.quick else requested
    print(f"{sizes.n_rows:,} boxes × {sizes.n_columns:,} features, {sizes.n_classes - 1} classes and the background\n")
    print_table(["detection", "value", "target", "verdict"], measure(sizes))


if __name__ == "__main__":
    main()
