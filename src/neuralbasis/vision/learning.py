"""Learning concepts: annotated pictures -> LearnedConcepts.

PAPER §4.1: classifiers are trained on "part locations and part-attribute labels" and applied to all patches. DIFF: the
paper does not define negatives. For "striped wing" they are wings without stripes and, because the maximum runs over
the whole picture, other parts and background patches. Patches next to a wing and wings with an unknown pattern are
ignored. Positives and negatives have equal total weight, and so have the two kinds of negatives.
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.ndimage import maximum_filter
from sklearn.metrics import average_precision_score, roc_auc_score

from .annotations import ABSENT, PRESENT, Annotations, Locations, group_rows
from .classifiers import calibrate, fit_classifiers
from .concept_file import BackboneSource, LearnedConcepts, Trust
from .features import BatchOptions, compute_logits, open_grid_store, stream_grids
from .pictures import picture_size

if TYPE_CHECKING:
    from .backbone import Backbone

MAX_HELD = 1000  # held-out pictures, whose grids stay in memory: 0.8 GB with ResNet-50
POSITIVE, IGNORED, NEGATIVE, ELSEWHERE = 1, 0, -1, -2  # ELSEWHERE: a negative at another part or in the background


class Patches(NamedTuple):
    """R training patches."""

    image: np.ndarray  # (R,) index of the picture
    position: np.ndarray  # (R,) row · w + column on the grid of features
    labels: np.ndarray  # (R, K) int8, POSITIVE, NEGATIVE, ELSEWHERE or IGNORED
    certainty: np.ndarray  # (R, K) float16, weight of the label, 0 to 1


def learn(
    annotations: Annotations, backbone: Backbone, cache: str | os.PathLike[str] | None, batches: BatchOptions,
    held_out: float, n_background: int, ridges: tuple[float, ...], max_axes: int, random_state: int,
) -> LearnedConcepts:  # fmt: skip
    """Learn all concepts that the training pictures show; `ConceptExtractor.fit` documents the parameters."""
    if not 0 < held_out < 1:
        raise ValueError(f"held_out must be a share of the pictures between 0 and 1, got {held_out}")
    train = annotations.select(annotations.is_train)
    rng = np.random.default_rng(random_state)
    sizes = _read_sizes(train)
    patches = sample_patches(train, sizes, backbone.shape[1:], n_background, rng)
    is_positive = np.zeros((len(train.images), len(train.concepts)), dtype=bool)
    positives, concepts = np.nonzero(patches.labels == POSITIVE)
    is_positive[patches.image[positives], concepts] = True
    is_held = hold_out(is_positive, held_out, rng)
    broken: dict[int, str] = {}
    features, grids = _compute_features(train, backbone, patches, is_held, batches, cache, broken)

    is_read = np.isfinite(features[:, 0])
    rows, held_rows = is_read & ~is_held[patches.image], is_read & is_held[patches.image]
    weights = balance_weights(patches.labels[rows], patches.certainty[rows])
    held_weights = balance_weights(patches.labels[held_rows], patches.certainty[held_rows])
    is_learned = np.abs(weights).sum(axis=0) > 0
    if not is_learned.any():
        first = next(iter(broken.values()), "no concept is both present and absent")
        raise ValueError(f"there is nothing to learn from: {len(broken)} training pictures could not be read ({first})")
    coefficients, intercepts, chosen = fit_classifiers(
        features[rows], weights[:, is_learned], features[held_rows], held_weights[:, is_learned], ridges, max_axes
    )

    held = np.array(sorted(grids), dtype=int)
    logits = np.zeros((len(held), len(chosen)), dtype=np.float32)
    for k, image in enumerate(held):
        logits[k] = compute_logits(grids[image][None], coefficients, intercepts)[0].max(axis=1)
    truth = train.truth()[:, is_learned]
    n_present, n_absent = ((truth[~is_held] == value).sum(axis=0) for value in (1, 0))
    names = np.array(train.concepts)
    measured = zip(names[is_learned], n_present, truth[held].T, logits.T, chosen, strict=True)
    return LearnedConcepts(
        names=tuple(names[is_learned].tolist()),
        parts=tuple(tuple(np.array(train.parts)[row].tolist()) for row in train.shows[is_learned]),
        coefficients=coefficients,
        intercepts=intercepts,
        calibration=calibrate(logits, truth[held], (n_present + 1) / (n_present + n_absent + 2)),
        trust=tuple(_measure_concept(*row) for row in measured),
        source=BackboneSource(backbone.name, backbone.side, backbone.digest, backbone.revision),
        left_out=tuple(names[~is_learned].tolist()),
        broken=tuple(broken.values()),
    )


def _read_sizes(annotations: Annotations) -> np.ndarray:
    """(N, 2) widths and heights. Locations must be pixels: fractions would all fall into the first patch."""
    located = annotations.locations
    if not annotations.concepts or not len(located.x):
        raise ValueError(
            "there is nothing to learn: expected training pictures with located parts and attributes, got "
            f"{annotations!r}"
        )
    sizes = np.array([picture_size(path) for path in annotations.images], dtype=float).reshape(-1, 2)
    points, limits = np.stack([located.x, located.y], axis=1), sizes[located.image]
    is_known = limits.min(axis=1) > 0
    if is_known.any() and points[is_known].max() <= 1:
        raise ValueError(
            "locations of parts must be pixels from the upper left corner of the picture, but all of them are at "
            "most 1; multiply x by the width and y by the height"
        )
    outside = np.flatnonzero(is_known & ((points < 0) | (points > limits)).any(axis=1))
    if len(outside):
        first = annotations.images[located.image[outside[0]]]
        warnings.warn(
            f"{len(outside):,} of {len(points):,} locations of parts are outside their picture and are moved to its "
            f"border, first in {first}",
            stacklevel=2,
        )
    return sizes


def hold_out(is_positive: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """(N,) bool, a random share of the pictures that leaves a positive picture of every concept for training."""
    n_held = min(max(round(share * len(is_positive)), 1), MAX_HELD)
    is_held, n_left = np.zeros(len(is_positive), dtype=bool), is_positive.sum(axis=0)
    for image in rng.permutation(len(is_positive)):
        if is_held.sum() == n_held:
            break
        if (n_left[is_positive[image]] > 1).all():
            is_held[image] = True
            n_left -= is_positive[image]
    return is_held


def _compute_features(
    annotations: Annotations, backbone: Backbone, patches: Patches, is_held: np.ndarray, batches: BatchOptions,
    cache: str | os.PathLike[str] | None, broken: dict[int, str],
) -> tuple[np.ndarray, dict[int, np.ndarray]]:  # fmt: skip
    """(R, C) float16 features of the patches, NaN in broken pictures; and the grids (C, h, w) of held-out pictures."""
    features = np.full((len(patches.image), backbone.shape[0]), np.nan, dtype=np.float16)
    grids: dict[int, np.ndarray] = {}
    rows_of = group_rows(patches.image, len(annotations.images))
    with open_grid_store(cache, backbone, is_writer=True) as store:
        every = range(len(annotations.images))
        for images, found in stream_grids(annotations.images, every, backbone, batches, broken, store):
            for image, grid in zip(images, found, strict=True):
                rows = rows_of[image]
                features[rows] = grid.reshape(len(grid), -1)[:, patches.position[rows]].T
                if is_held[image]:
                    grids[int(image)] = grid.copy()  # a view would keep the whole batch in memory
    return features, grids


def _measure_concept(name: str, n_train: int, truth: np.ndarray, logits: np.ndarray, ridge: float) -> Trust:
    """Quality of a concept on held-out pictures: truth (n,) is 1, 0 or -1 for unknown; logits (n,) are the largest."""
    is_known = truth >= 0
    n_present, n_absent = int((truth == 1).sum()), int((truth == 0).sum())
    auroc = ap = float("nan")
    if n_present and n_absent:
        auroc = float(roc_auc_score(truth[is_known], logits[is_known]))
        ap = float(average_precision_score(truth[is_known], logits[is_known]))
    share = n_present / max(n_present + n_absent, 1)
    return Trust(str(name), int(n_train), n_present, n_absent, auroc, ap, share, float(ridge))


def sample_patches(
    annotations: Annotations, sizes: np.ndarray, grid: tuple[int, int], n_background: int, rng: np.random.Generator
) -> Patches:
    """All patches with a part, and `n_background` patches per picture outside the bird.

    `sizes` (N, 2) are widths and heights. Pictures of size 0 are unreadable and have no patches. Locations outside
    their picture are moved to its border. A positive label wins over a negative one.
    """
    is_readable = sizes.min(axis=1)[annotations.locations.image] > 0
    located = Locations(*(field[is_readable] for field in annotations.locations))
    height, width = grid
    limits = sizes[located.image]
    column = np.clip(located.x * width / limits[:, 0], 0, width - 1).astype(int)
    row = np.clip(located.y * height / limits[:, 1], 0, height - 1).astype(int)
    has_part = np.zeros((len(sizes), len(annotations.parts), *grid), dtype=bool)  # (N, P, h, w)
    has_part[located.image, located.part, row, column] = True
    on_parts, row_of = np.unique((located.image * height + row) * width + column, return_inverse=True)
    background = _sample_background(has_part.max(axis=1), n_background, rng)
    image, position = np.divmod(np.concatenate([on_parts, background]), height * width)
    is_near = maximum_filter(has_part, (1, 1, 3, 3), mode="constant")  # extended by eight neighbours
    near = is_near[image, :, position // width, position % width]  # (R, P)
    is_elsewhere = near.astype(np.float32) @ annotations.shows.T.astype(np.float32) == 0
    labels = np.where(is_elsewhere, ELSEWHERE, IGNORED).astype(np.int8)
    certainty = is_elsewhere.astype(np.float16)
    for part in range(len(annotations.parts)):
        concepts = np.flatnonzero(annotations.shows[:, part])
        here = np.flatnonzero(located.part == part)
        present = annotations.present[np.ix_(located.row[here], concepts)]
        weight = annotations.weight[np.ix_(located.row[here], concepts)].astype(np.float16)
        for value, kind in ((ABSENT, NEGATIVE), (PRESENT, POSITIVE)):
            at, which = np.nonzero((present == value) & (weight > 0))
            rows, columns = row_of[here[at]], concepts[which]
            is_open = labels[rows, columns] != POSITIVE
            labels[rows[is_open], columns[is_open]] = kind
            certainty[rows[is_open], columns[is_open]] = weight[at[is_open], which[is_open]]
    return Patches(image, position, labels, certainty)


def _sample_background(is_part: np.ndarray, n_background: int, rng: np.random.Generator) -> np.ndarray:
    """Patches outside the box of all parts and its neighbours, as image · h · w + position."""
    in_box = _fill_span(is_part.max(axis=2))[:, :, None] & _fill_span(is_part.max(axis=1))[:, None, :]
    is_free = (~in_box & is_part.max(axis=(1, 2))[:, None, None]).reshape(len(is_part), -1)
    drawn = np.where(is_free, rng.random(is_free.shape), 2.0)
    order = np.argsort(drawn, axis=1, kind="stable")[:, :n_background]
    is_chosen = np.take_along_axis(is_free, order, axis=1)
    return (np.arange(len(is_free))[:, None] * is_free.shape[1] + order)[is_chosen]


def _fill_span(mask: np.ndarray) -> np.ndarray:
    """Each row from one position before its first true value to one after its last.

    >>> _fill_span(np.array([[0, 0, 1, 0, 1, 0, 0]], dtype=bool)).astype(int)
    array([[0, 1, 1, 1, 1, 1, 0]])
    """
    wide = maximum_filter(mask, (1, 3), mode="constant")
    after_first = np.maximum.accumulate(wide, axis=1)
    before_last = np.maximum.accumulate(wide[:, ::-1], axis=1)[:, ::-1]
    return after_first & before_last


def balance_weights(labels: np.ndarray, certainty: np.ndarray) -> np.ndarray:
    """(R, K) signed weights: positives sum to +½, negatives to −½, half of it elsewhere if there are both kinds.

    A concept without positives or without negatives has weight 0 everywhere.
    """
    weights = np.zeros(labels.shape, dtype=np.float32)
    kinds = (POSITIVE, NEGATIVE, ELSEWHERE)
    total = {kind: np.sum(np.where(labels == kind, certainty, 0), axis=0, dtype=float) for kind in kinds}
    is_learnable = (total[POSITIVE] > 0) & (total[NEGATIVE] + total[ELSEWHERE] > 0)
    n_kinds = np.maximum((total[NEGATIVE] > 0).astype(int) + (total[ELSEWHERE] > 0), 1)
    for kind, share in ((POSITIVE, 0.5), (NEGATIVE, -0.5 / n_kinds), (ELSEWHERE, -0.5 / n_kinds)):
        scale = (is_learnable * share / np.maximum(total[kind], 1e-12)).astype(np.float32)
        np.copyto(weights, certainty * scale, where=labels == kind)
    return weights
