"""Learning: annotated pictures -> Knowledge. The line of data is the body of `learn`."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

from .annotations import Annotations
from .classifiers import RIDGES, Classifiers, calibrate, fit_classifiers
from .concept_file import Knowledge, Source, Trust
from .feature_grids import Plan, find_peaks, open_grids, stream_grids
from .patches import YES, Cells, choose_cells, weigh
from .pictures import picture_size

if TYPE_CHECKING:
    from .backbone import Backbone

MAX_HELD = 1000  # pictures whose grids are kept in memory meanwhile: 0.8 GB of ResNet-50's


class Wishes(NamedTuple):
    """What `ConceptExtractor.fit` was asked for; it says what they mean."""

    held_out: float = 0.2
    n_background: int = 2
    ridges: tuple[float, ...] = RIDGES
    max_axes: int = 512
    random_state: int = 0


class Seen(NamedTuple):
    """What the network saw in pictures to learn from.

    features : (R, C) float16 of the cells, NaN where a picture is broken
    grids : (C, h, w) of the pictures held out, by their places
    broken : what was wrong with pictures, by their places
    """

    features: np.ndarray
    grids: dict[int, np.ndarray]
    broken: dict[int, str]


def learn(
    annotations: Annotations, backbone: Backbone, wishes: Wishes, plan: Plan, cache: str | os.PathLike[str] | None
) -> Knowledge:
    """Learn all concepts that the training pictures show."""
    chosen = annotations.select(annotations.is_train)
    _check(chosen, wishes)
    rng = np.random.default_rng(wishes.random_state)
    sizes = np.array([picture_size(path) for path in chosen.images], dtype=float).reshape(-1, 2)
    _check_places(chosen, sizes)
    cells = choose_cells(chosen, sizes, backbone.shape[1:], wishes.n_background, rng)
    is_held = hold_out(list_shown(cells, len(chosen.images)), wishes.held_out, rng)
    seen = look(chosen, backbone, cells, is_held, plan, cache)
    found, is_taught = _fit(cells, seen, is_held, wishes)
    truth = chosen.truth()[:, is_taught]
    rows = np.array(sorted(seen.grids), dtype=int)
    peaks = np.zeros((len(rows), len(found.ridges)), dtype=np.float32)
    for k, row in enumerate(rows):
        peaks[k] = find_peaks(seen.grids[row][None], found.coefficients, found.intercepts)[0]
    names = np.array(chosen.concepts)
    parts = [tuple(np.array(chosen.parts)[row].tolist()) for row in chosen.shows[is_taught]]
    counts, n_absent = ((truth[~is_held] == value).sum(axis=0) for value in (1, 0))
    told = zip(names[is_taught], counts, truth[rows].T, peaks.T, found.ridges, strict=True)
    return Knowledge(
        names=tuple(names[is_taught].tolist()),
        parts=tuple(parts),
        coefficients=found.coefficients,
        intercepts=found.intercepts,
        calibration=calibrate(peaks, truth[rows], (counts + 1) / (counts + n_absent + 2)),
        trust=tuple(judge(*row) for row in told),
        source=Source(backbone.name, backbone.side, backbone.digest, backbone.revision),
        left_out=tuple(names[~is_taught].tolist()),
        broken=tuple(seen.broken.values()),
    )


def list_shown(cells: Cells, n_images: int) -> np.ndarray:
    """(N, K) bool, pictures with a cell that says yes."""
    found = np.zeros((n_images, cells.says.shape[1]), dtype=bool)
    rows, concepts = np.nonzero(cells.says == YES)
    found[cells.image[rows], concepts] = True
    return found


def hold_out(shown: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Which pictures no classifier learns from: a share of them, but none that is the last to show a concept.

    >>> hold_out(np.eye(4, 3, dtype=bool), 0.5, np.random.default_rng(0)).tolist()
    [False, False, False, True]
    """
    n_held = min(max(round(share * len(shown)), 1), MAX_HELD)
    found, left = np.zeros(len(shown), dtype=bool), shown.sum(axis=0)
    for image in rng.permutation(len(shown)):
        if found.sum() == n_held:
            break
        if (left[shown[image]] > 1).all():
            found[image] = True
            left -= shown[image]
    return found


def look(
    annotations: Annotations,
    backbone: Backbone,
    cells: Cells,
    is_held: np.ndarray,
    plan: Plan,
    cache: str | os.PathLike[str] | None,
) -> Seen:
    """Send all pictures through the network once."""
    features = np.full((len(cells.image), backbone.shape[0]), np.nan, dtype=np.float16)
    order = np.argsort(cells.image, kind="stable")
    bounds = np.searchsorted(cells.image[order], np.arange(len(annotations.images) + 1))
    seen = Seen(features, {}, {})
    with open_grids(cache, backbone, is_new=True) as shelf:
        for found in stream_grids(annotations.images, backbone, plan, seen.broken, shelf, is_kept=True):
            for row, grid in zip(found.rows, found.features, strict=True):
                rows = order[bounds[row] : bounds[row + 1]]
                features[rows] = grid.reshape(len(grid), -1)[:, cells.cell[rows]].T
                if is_held[row]:
                    seen.grids[int(row)] = grid.copy()  # a view would hold its whole batch
    return seen


def judge(name: str, n_train: int, truth: np.ndarray, peaks: np.ndarray, ridge: float) -> Trust:
    """A concept by the pictures held out: (n,) 1 yes, 0 no, -1 unknown, and their largest logits."""
    is_known = truth >= 0
    n_yes, n_no = int((truth == 1).sum()), int((truth == 0).sum())
    auroc = ap = float("nan")
    if n_yes and n_no:
        auroc = float(roc_auc_score(truth[is_known], peaks[is_known]))
        ap = float(average_precision_score(truth[is_known], peaks[is_known]))
    return Trust(str(name), int(n_train), n_yes, n_no, auroc, ap, n_yes / max(n_yes + n_no, 1), float(ridge))


def _fit(cells: Cells, seen: Seen, is_held: np.ndarray, wishes: Wishes) -> tuple[Classifiers, np.ndarray]:
    """The classifiers, and which concepts they are of: those with a yes and a no to learn from."""
    is_seen = np.isfinite(seen.features[:, 0])
    rows, held_rows = is_seen & ~is_held[cells.image], is_seen & is_held[cells.image]
    weights = weigh(cells.says[rows], cells.trust[rows])
    held_weights = weigh(cells.says[held_rows], cells.trust[held_rows])
    is_taught = np.abs(weights).sum(axis=0) > 0
    if not is_taught.any():
        first = next(iter(seen.broken.values()), "no concept is both present and absent")
        raise ValueError(f"there is nothing to learn from: {len(seen.broken)} pictures could not be read ({first})")
    found = fit_classifiers(
        seen.features[rows],
        weights[:, is_taught],
        seen.features[held_rows],
        held_weights[:, is_taught],
        wishes.ridges,
        wishes.max_axes,
    )
    return found, is_taught


def _check_places(annotations: Annotations, sizes: np.ndarray) -> None:
    """Places are pixels: fractions would all fall into the first cell, and what lies outside falls on the border."""
    place = annotations.locations
    points, limits = np.stack([place.x, place.y], axis=1), sizes[place.image]
    is_known = limits.min(axis=1) > 0
    if is_known.any() and points[is_known].max() <= 1:
        raise ValueError(
            "places of parts must be pixels of their pictures, from the upper left corner; all of these are at most 1: "
            "multiply x by the width and y by the height"
        )
    outside = np.flatnonzero(is_known & ((points < 0) | (points > limits)).any(axis=1))
    if len(outside):
        first = annotations.images[place.image[outside[0]]]
        warnings.warn(
            f"{len(outside):,} of {len(points):,} places of parts lie outside their picture and are taken for its "
            f"border, first in {first}",
            stacklevel=2,
        )


def _check(annotations: Annotations, wishes: Wishes) -> None:
    if not 0 < wishes.held_out < 1:
        raise ValueError(f"held_out is a share of the pictures between 0 and 1, got {wishes.held_out}")
    if not annotations.concepts or not len(annotations.locations.x):
        raise ValueError(
            "there is nothing to learn: expected annotations with parts, their places and attributes, for pictures to "
            f"fit on; got {annotations!r}"
        )
