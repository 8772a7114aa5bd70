"""Cells: which cells of which pictures teach which concept.

    Annotations, sizes of the pictures -> Cells: (R,) picture and cell; (R, K) what the cell says of the concept

The paper trains classifiers on "part locations and part-attribute labels" and takes the maximum over all cells; what
counts as a no it leaves open. Here, for "striped wing": wings without stripes and, since the maximum will also see
everything else, other parts and cells beside the bird. Neither neighbours of a wing's cell nor wings of which nothing
is known count. Yes and no weigh the same in total, and so do the two kinds of no.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .annotations import ABSENT, PRESENT, Annotations, Locations

YES, NOTHING, NO, ELSEWHERE = 1, 0, -1, -2


class Cells(NamedTuple):
    """R cells to learn from.

    image : (R,) place of the picture        cell : (R,) row · w + column in its grid
    says : (R, K) int8, YES, NO, ELSEWHERE or NOTHING        trust : (R, K) float16, certainty of a YES or NO
    """

    image: np.ndarray
    cell: np.ndarray
    says: np.ndarray
    trust: np.ndarray


def find_cells(x: np.ndarray, y: np.ndarray, sizes: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """The cells that hold these points of pictures of (width, height).

    >>> find_cells(np.array([0, 99, 250]), np.array([0, 50, 10]), np.array([[100, 100]] * 3), (4, 4))
    array([ 0, 11,  3])
    """
    column = np.clip(x * grid[1] / sizes[:, 0], 0, grid[1] - 1).astype(int)
    row = np.clip(y * grid[0] / sizes[:, 1], 0, grid[0] - 1).astype(int)
    return row * grid[1] + column


def choose_cells(
    annotations: Annotations, sizes: np.ndarray, grid: tuple[int, int], n_background: int, rng: np.random.Generator
) -> Cells:
    """All cells with a part, and a few beside the bird; a picture of size 0 cannot be read and has none."""
    is_readable = sizes.min(axis=1)[annotations.locations.image] > 0
    place = Locations(*(field[is_readable] for field in annotations.locations))
    cell = find_cells(place.x, place.y, sizes[place.image], grid)
    marks = np.zeros((len(sizes), len(annotations.parts), *grid), dtype=bool)  # (N, P, h, w)
    marks[place.image, place.part, cell // grid[1], cell % grid[1]] = True
    n_cells = grid[0] * grid[1]
    held, of_location = np.unique(place.image * n_cells + cell, return_inverse=True)
    beside = _choose_background(marks.max(axis=1), n_background, rng)
    image, cell = np.divmod(np.concatenate([held, beside]), n_cells)
    near = _widen(marks)[image, :, cell // grid[1], cell % grid[1]]  # (R, P)
    is_elsewhere = near.astype(np.float32) @ annotations.shows.T.astype(np.float32) == 0
    says = np.where(is_elsewhere, ELSEWHERE, NOTHING).astype(np.int8)
    trust = is_elsewhere.astype(np.float16)
    _hear(annotations, place, of_location, says, trust)
    return Cells(image, cell, says, trust)


def weigh(says: np.ndarray, trust: np.ndarray) -> np.ndarray:
    """(R, K) signed weights: yes +½ in total, no −½, of which half elsewhere; 0 throughout if there is no yes or no no.

    >>> weigh(np.array([[YES], [YES], [NO], [ELSEWHERE]]), np.ones((4, 1))).T
    array([[ 0.25,  0.25, -0.25, -0.25]], dtype=float32)
    """
    found = np.zeros(says.shape, dtype=np.float32)
    total = {kind: np.sum(np.where(says == kind, trust, 0), axis=0, dtype=float) for kind in (YES, NO, ELSEWHERE)}
    is_taught = (total[YES] > 0) & (total[NO] + total[ELSEWHERE] > 0)
    n_noes = np.maximum((total[NO] > 0).astype(int) + (total[ELSEWHERE] > 0), 1)
    for kind, share in ((YES, 0.5), (NO, -0.5 / n_noes), (ELSEWHERE, -0.5 / n_noes)):
        scale = (is_taught * share / np.maximum(total[kind], 1e-12)).astype(np.float32)
        np.copyto(found, trust * scale, where=says == kind)
    return found


def _hear(annotations: Annotations, place: Locations, row_of: np.ndarray, says: np.ndarray, trust: np.ndarray) -> None:
    """Write what is said at the locations into the rows of their cells; where two disagree, a yes counts."""
    for part in range(len(annotations.parts)):
        concepts = np.flatnonzero(annotations.shows[:, part])
        here = np.flatnonzero(place.part == part)
        told = annotations.present[np.ix_(place.row[here], concepts)]
        weight = annotations.weight[np.ix_(place.row[here], concepts)].astype(np.float16)
        for value, kind in ((ABSENT, NO), (PRESENT, YES)):
            at, which = np.nonzero((told == value) & (weight > 0))
            rows, columns = row_of[here[at]], concepts[which]
            is_free = says[rows, columns] != YES
            says[rows[is_free], columns[is_free]] = kind
            trust[rows[is_free], columns[is_free]] = weight[at[is_free], which[is_free]]


def _widen(marks: np.ndarray) -> np.ndarray:
    """Marks with their neighbours, eight each."""
    wide = marks.copy()
    wide[..., 1:, :] |= marks[..., :-1, :]
    wide[..., :-1, :] |= marks[..., 1:, :]
    tall = wide.copy()
    wide[..., 1:] |= tall[..., :-1]
    wide[..., :-1] |= tall[..., 1:]
    return wide


def _choose_background(is_part: np.ndarray, n_background: int, rng: np.random.Generator) -> np.ndarray:
    """Cells outside the box of all parts and its neighbours, as picture · cells + cell: a few of each picture."""
    in_box = _span(is_part.max(axis=2))[:, :, None] & _span(is_part.max(axis=1))[:, None, :]
    free = (~in_box & is_part.max(axis=(1, 2))[:, None, None]).reshape(len(is_part), -1)
    drawn = np.where(free, rng.random(free.shape), 2.0)
    order = np.argsort(drawn, axis=1, kind="stable")[:, :n_background]
    is_taken = np.take_along_axis(free, order, axis=1)
    return (np.arange(len(free))[:, None] * free.shape[1] + order)[is_taken]


def _span(marks: np.ndarray) -> np.ndarray:
    """From one before the first mark of each row to one behind its last.

    >>> _span(np.array([[0, 0, 1, 0, 1, 0, 0]], dtype=bool)).astype(int)
    array([[0, 1, 1, 1, 1, 1, 0]])
    """
    wide = marks.copy()
    wide[:, 1:] |= marks[:, :-1]
    wide[:, :-1] |= marks[:, 1:]
    behind = np.maximum.accumulate(wide, axis=1)
    before = np.maximum.accumulate(wide[:, ::-1], axis=1)[:, ::-1]
    return behind & before
