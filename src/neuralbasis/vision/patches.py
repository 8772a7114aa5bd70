"""Training data of the concept classifiers: patches of pictures and their labels.

    Annotations, picture sizes -> Patches: (R,) picture and position on the grid; (R, K) label and certainty

PAPER §4.1: classifiers are trained on "part locations and part-attribute labels" and applied to all patches. DIFF: the
paper does not define negatives. For "striped wing" they are wings without stripes and, because the maximum runs over
the whole picture, other parts and background patches. Patches next to a wing and wings with an unknown pattern are
ignored. Positives and negatives have equal total weight, and so have the two kinds of negatives.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .annotations import ABSENT, PRESENT, Annotations, Locations

POSITIVE, IGNORED, NEGATIVE, ELSEWHERE = 1, 0, -1, -2  # ELSEWHERE: a negative at another part or in the background


class Patches(NamedTuple):
    """R training patches.

    image : (R,) index of the picture
    position : (R,) row · w + column on the grid of features
    labels : (R, K) int8, POSITIVE, NEGATIVE, ELSEWHERE or IGNORED
    certainty : (R, K) float16, weight of the label, 0 to 1
    """

    image: np.ndarray
    position: np.ndarray
    labels: np.ndarray
    certainty: np.ndarray


def find_positions(x: np.ndarray, y: np.ndarray, sizes: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """Grid positions (n,) of points in pictures of sizes (n, 2), width and height; points outside are clipped.

    >>> find_positions(np.array([0, 99, 250]), np.array([0, 50, 10]), np.array([[100, 100]] * 3), (4, 4))
    array([ 0, 11,  3])
    """
    column = np.clip(x * grid[1] / sizes[:, 0], 0, grid[1] - 1).astype(int)
    row = np.clip(y * grid[0] / sizes[:, 1], 0, grid[0] - 1).astype(int)
    return row * grid[1] + column


def sample_patches(
    annotations: Annotations, sizes: np.ndarray, grid: tuple[int, int], n_background: int, rng: np.random.Generator
) -> Patches:
    """All patches with a part, and `n_background` patches per picture outside the bird.

    Pictures of size 0 are unreadable and have no patches.
    """
    is_readable = sizes.min(axis=1)[annotations.locations.image] > 0
    located = Locations(*(field[is_readable] for field in annotations.locations))
    position = find_positions(located.x, located.y, sizes[located.image], grid)
    has_part = np.zeros((len(sizes), len(annotations.parts), *grid), dtype=bool)  # (N, P, h, w)
    has_part[located.image, located.part, position // grid[1], position % grid[1]] = True
    n_positions = grid[0] * grid[1]
    on_parts, row_of = np.unique(located.image * n_positions + position, return_inverse=True)
    background = _sample_background(has_part.max(axis=1), n_background, rng)
    image, position = np.divmod(np.concatenate([on_parts, background]), n_positions)
    near = _dilate(has_part)[image, :, position // grid[1], position % grid[1]]  # (R, P)
    is_elsewhere = near.astype(np.float32) @ annotations.shows.T.astype(np.float32) == 0
    labels = np.where(is_elsewhere, ELSEWHERE, IGNORED).astype(np.int8)
    patches = Patches(image, position, labels, is_elsewhere.astype(np.float16))
    _label_parts(patches, annotations, located, row_of)
    return patches


def balance_weights(labels: np.ndarray, certainty: np.ndarray) -> np.ndarray:
    """(R, K) signed weights: positives sum to +½, negatives to −½, half of it elsewhere if there are both kinds.

    A concept without positives or without negatives has weight 0 everywhere.

    >>> balance_weights(np.array([[POSITIVE], [POSITIVE], [NEGATIVE], [ELSEWHERE]]), np.ones((4, 1))).T
    array([[ 0.25,  0.25, -0.25, -0.25]], dtype=float32)
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


def _label_parts(patches: Patches, annotations: Annotations, located: Locations, row_of: np.ndarray) -> None:
    """Write the annotations of located parts into `patches`, in place; a positive label wins over a negative one."""
    labels, certainty = patches.labels, patches.certainty
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


def _dilate(mask: np.ndarray) -> np.ndarray:
    """A mask (…, h, w) extended by the eight neighbours of each true patch."""
    wide = mask.copy()
    wide[..., 1:, :] |= mask[..., :-1, :]
    wide[..., :-1, :] |= mask[..., 1:, :]
    tall = wide.copy()
    wide[..., 1:] |= tall[..., :-1]
    wide[..., :-1] |= tall[..., 1:]
    return wide


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
    wide = mask.copy()
    wide[:, 1:] |= mask[:, :-1]
    wide[:, :-1] |= mask[:, 1:]
    after_first = np.maximum.accumulate(wide, axis=1)
    before_last = np.maximum.accumulate(wide[:, ::-1], axis=1)[:, ::-1]
    return after_first & before_last
