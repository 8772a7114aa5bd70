"""Shape: one term's table, plain or in factors. What a model is made of, and what its file holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .axis import Axis
from .terms import Term


@dataclass(frozen=True, eq=False)
class Shape:
    """One term's table.

    Parameters
    ----------
    term : the features, increasing
    axes : one axis a feature: the column's own for a main effect, a coarser one for an interaction
    scores : (c_1, …, c_o, K) contribution of each cell; along each axis: missing, knots, unseen
    spread : standard deviation of `scores` over the members, same shape
    weights : (c_1, …, c_o) training weight that fell on each cell
    members : (c_1, …, c_o, M, K) tables of all members, whose mean is `scores`; kept for main effects, None elsewhere
    """

    term: Term
    axes: tuple[Axis, ...]
    scores: np.ndarray
    spread: np.ndarray
    weights: np.ndarray
    members: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class TiedShape:
    """One term's table in factors, for many classes: all classes share a few shapes and weigh them.

    Parameters
    ----------
    term, axes, weights : see `Shape`
    values : (c_1, …, c_o, C) shapes
    mix : (C, M, K) weight of each shape in each class of each member
    """

    term: Term
    axes: tuple[Axis, ...]
    values: np.ndarray
    mix: np.ndarray
    weights: np.ndarray

    @property
    def scores(self) -> np.ndarray:
        return self.values @ self.mix.mean(axis=1)

    @property
    def members(self) -> np.ndarray:
        return np.tensordot(self.values, self.mix, 1)

    @property
    def spread(self) -> np.ndarray:
        members = self.members
        return members.std(axis=-2, ddof=1) if self.mix.shape[1] > 1 else np.zeros_like(members[..., 0, :])
