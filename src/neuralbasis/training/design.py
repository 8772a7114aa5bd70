"""Design: the rows of the regression behind the evidence, their functions and weights.

In: a fitted model, codes, rows and the bases of terms. Out: functions (n, p) of rows, the target, and scores of terms
that are taken as they are. Everything is in the unit of the loss.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from ..encoding.layout import Layout, line_up
from ..model.additive_model import AdditiveModel
from .codes import Codes
from .rows import Rows
from .term_basis import TermBasis

MAX_DESIGN = 2e7  # rows × coefficients; more rows are sampled for the information matrix


class Design:
    """Rows of the regression: their functions (n, p), target, weights, given scores and the present ones (N, K)."""

    def __init__(self, bases: Sequence[TermBasis], model: AdditiveModel, codes: Codes, rows: Rows):
        rows, layout, loss = rows.cpu(), model.layout, codes.loss
        self.bases, self.is_class = bases, codes.classes is not None
        index = {tuple(sorted(term)): number for number, term in enumerate(layout.terms)}
        self.axes = [find_axes(layout, index[basis.term]) for basis in bases]
        self.positions = layout.encode(codes.numbers, 1)
        ends = np.cumsum([0, *[basis.size for basis in bases]]).tolist()
        self.slices = [slice(*pair) for pair in pairwise(ends)]
        self.size, self.n_rows = ends[-1], len(rows.target)
        self.target = rows.target.double().numpy()
        self.weights = rows.weights.double().numpy() * (rows.n_effective / self.n_rows)
        self.scores = (model.score_numbers(codes.numbers) - loss.shift) / loss.unit
        self.given = np.zeros_like(self.scores)
        if codes.rows.init is not None:
            self.given = codes.rows.init[:, 0].double().cpu().numpy()
            self.scores = self.scores + self.given
        self.scale = 2.0 if self.is_class else 1.0
        self.noise = None if self.is_class else find_noise(rows)
        self.chosen = np.arange(self.n_rows)
        if self.n_rows * self.size > MAX_DESIGN:
            drawn = np.random.default_rng(0).permutation(self.n_rows)
            self.chosen = np.sort(drawn[: int(MAX_DESIGN / self.size)])
        self.is_sampled = len(self.chosen) < self.n_rows
        self.functions = self.read(self.chosen)

    def give(self, model: AdditiveModel, codes: Codes) -> None:
        """Count the scores of these terms as given."""
        if model.shapes:
            self.given = self.given + model.score_numbers(codes.numbers) / codes.loss.unit

    def read(self, rows: np.ndarray) -> np.ndarray:
        """(n, p) functions of some rows."""
        found, positions = np.empty((len(rows), self.size)), self.positions[rows]
        for basis, axes, part in zip(self.bases, self.axes, self.slices, strict=True):
            found[:, part] = basis.read([each.astype(float) for each in line_up(positions, axes)])
        return found

    def row_blocks(self) -> Iterator[np.ndarray]:
        step = max(1, int(MAX_DESIGN / self.size / 4))
        for first in range(0, self.n_rows, step):
            yield np.arange(first, min(first + step, self.n_rows))


def find_axes(layout: Layout, index: int) -> np.ndarray:
    """Axes of a term in the order of its features."""
    own = layout.term_axis[layout.term_start[index] :][: len(layout.terms[index])]
    return own[np.argsort(layout.terms[index])]


def find_noise(rows: Rows) -> float | None:
    """Mean squared residual of a regression over held-out rows; None if no row is held out."""
    assert rows.init is not None
    parts = rows.weights[:, None].double() * rows.held_out
    if not bool(parts.any()):
        return None
    squares = (rows.target[:, None].double() - rows.init[..., 0].double()) ** 2
    return float(np.clip(float((parts * squares).sum() / parts.sum()), 1e-8, 1.0))
