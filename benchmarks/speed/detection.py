"""Detection at the size of the paper's Common Objects: boxes with sparse features, a hundred thousand pairs, and mAP.

    python -m benchmarks run speed.detection                   # 200,000 boxes to fit, 58,525 to test, 114 classes
    python -m benchmarks run speed.detection --rows 20000 --test-rows 5000 --pairs 5000

Features and classes are those of `benchmarks.speed.sparse_pairs`: generated, as the paper's set is proprietary. Every row is
a candidate box of a drawn picture; the annotated box of a thing lies near it, the first class is the background. One
epoch is trained. mAP is over overlaps 0.5 to 0.9; that of all classes at once, as pycocotools' users compute it, is
compared on the first pictures.
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

BOXES_A_PICTURE = 8
COMPARED = 200  # pictures
TOLERANCE = 1e-9
USUAL = Sizes(n_test=58_525)
QUICK = Sizes(1500, 400, 500, 45, 100, 0.95)


@dataclass(frozen=True, eq=False)
class Pictures:
    boxes: detection.Boxes
    annotations: detection.Annotations


def draw_pictures(table: Objects, n_classes: int, seed: int) -> Pictures:
    """Boxes of these rows, and annotated ones that overlap those of things more or less."""
    rng, n_rows = np.random.default_rng(seed), len(table.y)
    image = np.sort(rng.integers(0, max(1, n_rows // BOXES_A_PICTURE), n_rows))
    box = np.c_[rng.uniform(0, 800, (n_rows, 2)), rng.uniform(30, 200, (n_rows, 2))]
    things = np.flatnonzero(table.y > 0)
    moved = box[things] + rng.normal(0, 0.08, (len(things), 4)) * np.tile(box[things, 2:], 2)
    ids, names = np.arange(image.max() + 1).astype(str), [f"thing {k:03d}" for k in range(1, n_classes)]
    annotations = detection.Annotations(
        "drawn", tuple(ids), tuple(map(str, range(1, n_classes))), tuple(names), image[things], table.y[things] - 1,
        moved, np.zeros(len(things), dtype=bool),
    )  # fmt: skip
    return Pictures(detection.Boxes("drawn", image, box, table.X), annotations)


def judge_at_once(scores: np.ndarray, boxes: detection.Boxes, annotations: detection.Annotations) -> float:
    """mAP by pycocotools, all classes in one run."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    n_classes = len(annotations.classes)
    things = zip(annotations.image.tolist(), annotations.label.tolist(), annotations.box.tolist(), strict=True)
    truth = [
        {"id": i, "image_id": image, "category_id": k, "bbox": box, "area": box[2] * box[3], "iscrowd": 0}
        for i, (image, k, box) in enumerate(things, 1)
    ]
    found = [
        {"image_id": int(image), "category_id": k, "bbox": box.tolist(), "score": float(own[k])}
        for image, box, own in zip(boxes.image, boxes.box, scores, strict=True)
        for k in range(n_classes)
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        there = COCO()
        images = [{"id": i} for i in range(len(annotations.images))]
        there.dataset = {"images": images, "categories": [{"id": k} for k in range(n_classes)], "annotations": truth}
        there.createIndex()
        judged = COCOeval(there, there.loadRes(found), "bbox")
        judged.params.iouThrs = np.array(detection.THRESHOLDS)
        judged.evaluate()
        judged.accumulate()
    precision = judged.eval["precision"][:, :, :, 0, -1]
    return float(precision[precision > -1].mean())


def compare(model: Any, pictures: Pictures) -> float:
    """How far mAP on the first pictures is from that of one run."""
    few = pictures.boxes.take(pictures.boxes.image < COMPARED)
    known, own = pictures.annotations, pictures.annotations.image < COMPARED
    truth = detection.Annotations(
        known.place, known.images[:COMPARED], known.categories, known.classes, known.image[own], known.label[own],
        known.box[own], known.crowd[own],
    )  # fmt: skip
    scores = np.zeros((len(few), len(known.classes)))
    place = {name: k for k, name in enumerate(known.classes)}
    spoken = [(column, place[name]) for column, name in enumerate(model.classes_) if name in place]
    probability = model.predict_proba(few.X)
    for column, k in spoken:
        scores[:, k] = probability[:, column]
    return abs(detection.evaluate(scores, few, truth).mean_average_precision - judge_at_once(scores, few, truth))


def measure(sizes: Sizes) -> list[list[str]]:
    """Lines of the table: what, value, target, verdict."""
    world = make_world(sizes.n_columns, sizes.n_classes, sizes.sparsity, max(1, sizes.n_pairs // PLANTED_SHARE))
    train = draw_pictures(draw_objects(world, sizes.n_rows, seed=1), sizes.n_classes, seed=1)
    test = draw_pictures(draw_objects(world, sizes.n_test, seed=2), sizes.n_classes, seed=2)
    pairs = [tuple(pair) for pair in find_frequent_pairs(train.boxes.X, sizes.n_pairs).tolist()]
    assigning, y = time_once(lambda: detection.assign(train.boxes, train.annotations))
    before = resident_mb()
    with PeakMemory() as memory:
        fitting, model = time_once(
            lambda: NeuralBasisClassifier(interactions=pairs, max_epochs=1, random_state=0).fit(train.boxes.X, y)
        )
    with PeakMemory() as judging:
        seconds, found = time_once(lambda: detection.evaluate(model, test.boxes, test.annotations))
    chance = np.random.default_rng(0).random((len(test.boxes), len(test.annotations.classes)))
    by_chance = detection.evaluate(chance, test.boxes, test.annotations).mean_average_precision
    error = compare(model, test)
    return [
        ["boxes assigned to classes, seconds", format_number(assigning), "–", "–"],
        [f"fit with {len(pairs):,} pairs, one epoch, seconds", format_number(fitting), "–", "–"],
        ["fit, peak MB (before: the tables)", f"{memory.mb:,.0f} ({before:,.0f})", "–", "–"],
        [f"mAP of {len(test.boxes):,} boxes, seconds", format_number(seconds), "–", "–"],
        ["mAP, peak MB", f"{judging.mb:,.0f}", "–", "–"],
        ["mAP", f"{found.mean_average_precision:.4f}", "–", "–"],
        ["mAP of random scores", f"{by_chance:.4f}", "–", "–"],
        [
            f"distance, {COMPARED} pictures at once",
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
