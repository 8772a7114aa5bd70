"""Simplify main effects: of all curves within narrow limits, take one with the fewest turns.

A turn that the rows do not support is removed: between the remaining turns, the curve is the nearest one that only
rises or only falls (isotonic regression). The picture then shows a bump only where there is evidence of one. Davies and
Kovac (2001) simplify regressions by the same principle.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import isotonic_regression

from ..model.additive_model import AdditiveModel
from ..model.shapes import AnyShape, Shape

# A curve may move by its standard error, and at most by this share of its own deviation. On the tables of `choosing`,
# this removes 80 % of the turns and raises the loss by 0.1 %. Without the share, wide bands would flatten curves.
N_DEVIATIONS = 0.1


def simplify_model(model: AdditiveModel, smoothness: float) -> AdditiveModel:
    """The model with simplified main effects of ordered columns; their weighted means stay as they are.

    smoothness : factor of how far a curve may move; 0 leaves all curves as they are
    """
    return replace(model, shapes=tuple(_simplify_shape(shape, smoothness) for shape in model.shapes))


def _simplify_shape(shape: AnyShape, smoothness: float) -> AnyShape:
    has_errors = isinstance(shape, Shape) and shape.evidence is not None
    if not (has_errors and smoothness) or len(shape.term) > 1 or shape.axes[0].kind == "nominal":
        return shape
    assert isinstance(shape, Shape)
    unit = float(np.abs(shape.scores).max()) or 1.0  # squares in the unit of the target could underflow
    before, weights = np.asarray(shape.scores) / unit, np.asarray(shape.weights)
    scores, errors = before.copy(), np.asarray(shape.spread) / unit
    for output in range(scores.shape[-1]):
        deviation = np.sqrt(np.average(scores[:, output] ** 2, weights=weights))
        limits = np.minimum(errors[1:-1, output], N_DEVIATIONS * deviation)
        scores[1:-1, output] = simplify_curve(scores[1:-1, output], smoothness * limits, weights[1:-1])
    change = unit * (scores - before)
    if change.shape[-1] > 1:  # only differences between classes matter
        change -= change.mean(axis=-1, keepdims=True)
    change -= np.where((weights > 0)[:, None], np.average(change, axis=0, weights=weights), 0.0)
    members = None if shape.members is None else shape.members + change[:, None]
    return replace(shape, scores=shape.scores + change, members=members)


def simplify_curve(values: np.ndarray, limits: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The curve (G,) with the fewest turns within the limits around the values, and nearest to them between two turns.

    >>> simplify_curve(np.array([0.0, 1.0, 0.8, 3.0, 0.0]), np.full(5, 0.2), np.ones(5)).round(2).tolist()
    [0.0, 0.9, 0.9, 3.0, 0.0]
    """
    turns = find_turns(values - limits, values + limits, values)
    found = np.array(values)
    weights = np.maximum(weights, 1e-6 * max(weights.sum(), 1e-300))
    for first, last in zip([0, *turns], [*turns, len(values) - 1], strict=True):
        piece = slice(first, last + 1)
        rises = values[last] >= values[first]
        own = weights[piece].copy()
        own[[0, -1]] *= 1e6  # turns and ends stay where they are
        found[piece] = isotonic_regression(values[piece], weights=own, increasing=bool(rises)).x
    return found


def find_turns(lower: np.ndarray, upper: np.ndarray, values: np.ndarray) -> list[int]:
    """Indices of the turns of a curve between two bounds with as few turns as possible.

    >>> find_turns(np.array([0.0, 1.0, 0.5, 0.0]), np.array([0.4, 1.4, 0.9, 0.4]), np.array([0.2, 1.2, 0.7, 0.2]))
    [1]
    """
    turns: list[int] = []
    start, sign, bound_low, bound_high = 0, 0, -np.inf, np.inf
    for index in range(len(values)):
        bound_low, bound_high = max(bound_low, lower[index]), min(bound_high, upper[index])
        if sign == 0 and bound_low > bound_high:
            sign = 1 if lower[index] == bound_low else -1
        elif (sign > 0 and upper[index] < bound_low) or (sign < 0 and lower[index] > bound_high):
            own = values[start : index + 1]
            start += int(own.argmax() if sign > 0 else own.argmin())
            turns.append(start)
            sign = -sign
            bound_low, bound_high = lower[start : index + 1].max(), upper[start : index + 1].min()
            if sign > 0:
                bound_low = lower[index]
            else:
                bound_high = upper[index]
    return turns
