"""Learning concepts: annotated pictures -> LearnedConcepts.

`learn` is the sequence of steps: sample training patches, hold out pictures, compute features, fit linear classifiers,
calibrate them and measure them on the held-out pictures.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

from .annotations import Annotations
from .classifiers import RIDGES, Classifiers, calibrate, fit_classifiers
from .concept_file import BackboneSource, LearnedConcepts, Trust
from .feature_grids import BatchOptions, compute_max_logits, open_grid_store, stream_grids
from .patches import POSITIVE, Patches, balance_weights, sample_patches
from .pictures import picture_size

if TYPE_CHECKING:
    from .backbone import Backbone

MAX_HELD = 1000  # held-out pictures, whose grids stay in memory: 0.8 GB with ResNet-50


@dataclass(frozen=True)
class LearningOptions:
    """Parameters of `ConceptExtractor.fit`, which documents them."""

    held_out: float = 0.2
    n_background: int = 2
    ridges: tuple[float, ...] = RIDGES
    max_axes: int = 512
    random_state: int = 0


class PatchFeatures(NamedTuple):
    """Features of the training pictures.

    features : (R, C) float16 of the patches, NaN where a picture is broken
    grids : (C, h, w) of the held-out pictures, by their index
    broken : reasons why pictures could not be read, by their index
    """

    features: np.ndarray
    grids: dict[int, np.ndarray]
    broken: dict[int, str]


def learn(
    annotations: Annotations,
    backbone: Backbone,
    options: LearningOptions,
    batches: BatchOptions,
    cache: str | os.PathLike[str] | None,
) -> LearnedConcepts:
    """Learn all concepts that the training pictures show."""
    train = annotations.select(annotations.is_train)
    _check_inputs(train, options)
    rng = np.random.default_rng(options.random_state)
    sizes = np.array([picture_size(path) for path in train.images], dtype=float).reshape(-1, 2)
    _check_locations(train, sizes)
    patches = sample_patches(train, sizes, backbone.shape[1:], options.n_background, rng)
    is_held = hold_out(find_positive_pictures(patches, len(train.images)), options.held_out, rng)
    found = compute_features(train, backbone, patches, is_held, batches, cache)
    classifiers, is_learned = _fit(patches, found, is_held, options)
    truth = train.truth()[:, is_learned]
    rows = np.array(sorted(found.grids), dtype=int)
    logits = np.zeros((len(rows), len(classifiers.ridges)), dtype=np.float32)
    for k, row in enumerate(rows):
        logits[k] = compute_max_logits(found.grids[row][None], classifiers.coefficients, classifiers.intercepts)[0]
    names = np.array(train.concepts)
    parts = [tuple(np.array(train.parts)[row].tolist()) for row in train.shows[is_learned]]
    n_present, n_absent = ((truth[~is_held] == value).sum(axis=0) for value in (1, 0))
    measured = zip(names[is_learned], n_present, truth[rows].T, logits.T, classifiers.ridges, strict=True)
    return LearnedConcepts(
        names=tuple(names[is_learned].tolist()),
        parts=tuple(parts),
        coefficients=classifiers.coefficients,
        intercepts=classifiers.intercepts,
        calibration=calibrate(logits, truth[rows], (n_present + 1) / (n_present + n_absent + 2)),
        trust=tuple(measure_concept(*row) for row in measured),
        source=BackboneSource(backbone.name, backbone.side, backbone.digest, backbone.revision),
        left_out=tuple(names[~is_learned].tolist()),
        broken=tuple(found.broken.values()),
    )


def find_positive_pictures(patches: Patches, n_images: int) -> np.ndarray:
    """(N, K) bool, pictures with a positive patch of a concept."""
    found = np.zeros((n_images, patches.labels.shape[1]), dtype=bool)
    rows, concepts = np.nonzero(patches.labels == POSITIVE)
    found[patches.image[rows], concepts] = True
    return found


def hold_out(is_positive: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """(N,) bool, a random share of the pictures that leaves a positive picture of every concept for training.

    >>> hold_out(np.eye(4, 3, dtype=bool), 0.5, np.random.default_rng(0)).tolist()
    [False, False, False, True]
    """
    n_held = min(max(round(share * len(is_positive)), 1), MAX_HELD)
    is_held, n_left = np.zeros(len(is_positive), dtype=bool), is_positive.sum(axis=0)
    for image in rng.permutation(len(is_positive)):
        if is_held.sum() == n_held:
            break
        if (n_left[is_positive[image]] > 1).all():
            is_held[image] = True
            n_left -= is_positive[image]
    return is_held


def compute_features(
    annotations: Annotations,
    backbone: Backbone,
    patches: Patches,
    is_held: np.ndarray,
    batches: BatchOptions,
    cache: str | os.PathLike[str] | None,
) -> PatchFeatures:
    """Run the network once on all pictures; keep the features of the patches and the grids of held-out pictures."""
    features = np.full((len(patches.image), backbone.shape[0]), np.nan, dtype=np.float16)
    order = np.argsort(patches.image, kind="stable")
    bounds = np.searchsorted(patches.image[order], np.arange(len(annotations.images) + 1))
    found = PatchFeatures(features, {}, {})
    with open_grid_store(cache, backbone, is_writer=True) as store:
        for batch in stream_grids(annotations.images, backbone, batches, found.broken, store, is_writer=True):
            for row, grid in zip(batch.rows, batch.features, strict=True):
                rows = order[bounds[row] : bounds[row + 1]]
                features[rows] = grid.reshape(len(grid), -1)[:, patches.position[rows]].T
                if is_held[row]:
                    found.grids[int(row)] = grid.copy()  # a view would keep the whole batch in memory
    return found


def measure_concept(name: str, n_train: int, truth: np.ndarray, logits: np.ndarray, ridge: float) -> Trust:
    """Quality of a concept on held-out pictures: truth (n,) is 1, 0 or -1 for unknown; logits (n,) are the largest."""
    is_known = truth >= 0
    n_present, n_absent = int((truth == 1).sum()), int((truth == 0).sum())
    auroc = ap = float("nan")
    if n_present and n_absent:
        auroc = float(roc_auc_score(truth[is_known], logits[is_known]))
        ap = float(average_precision_score(truth[is_known], logits[is_known]))
    share = n_present / max(n_present + n_absent, 1)
    return Trust(str(name), int(n_train), n_present, n_absent, auroc, ap, share, float(ridge))


def _fit(
    patches: Patches, found: PatchFeatures, is_held: np.ndarray, options: LearningOptions
) -> tuple[Classifiers, np.ndarray]:
    """The classifiers, and (K,) bool: which concepts have positive and negative training patches."""
    is_read = np.isfinite(found.features[:, 0])
    rows, held_rows = is_read & ~is_held[patches.image], is_read & is_held[patches.image]
    weights = balance_weights(patches.labels[rows], patches.certainty[rows])
    held_weights = balance_weights(patches.labels[held_rows], patches.certainty[held_rows])
    is_learned = np.abs(weights).sum(axis=0) > 0
    if not is_learned.any():
        first = next(iter(found.broken.values()), "no concept is both present and absent")
        raise ValueError(
            f"there is nothing to learn from: {len(found.broken)} training pictures could not be read ({first})"
        )
    classifiers = fit_classifiers(
        found.features[rows],
        weights[:, is_learned],
        found.features[held_rows],
        held_weights[:, is_learned],
        options.ridges,
        options.max_axes,
    )
    return classifiers, is_learned


def _check_locations(annotations: Annotations, sizes: np.ndarray) -> None:
    """Locations must be pixels: fractions would all fall into the first patch."""
    located = annotations.locations
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


def _check_inputs(annotations: Annotations, options: LearningOptions) -> None:
    if not 0 < options.held_out < 1:
        raise ValueError(f"held_out must be a share of the pictures between 0 and 1, got {options.held_out}")
    if not annotations.concepts or not len(annotations.locations.x):
        raise ValueError(
            "there is nothing to learn: expected training pictures with located parts and attributes, got "
            f"{annotations!r}"
        )
