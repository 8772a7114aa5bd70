"""Standard deviation of shapes over models with different seeds, from the records of jobs of shapes."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

MODELS = 100  # of the paper; with fewer there is no verdict


@dataclass(frozen=True, eq=False)
class Spread:
    """Shapes (models, readings, columns, points) and their mean deviations by reading."""

    shapes: np.ndarray
    overall: dict[str, float]
    points: np.ndarray
    density: np.ndarray
    value: float
    fit_seconds: float

    @property
    def n_models(self) -> int:
        return len(self.shapes)


def measure_stability(lines: Sequence[Mapping[str, Any]]) -> Spread | None:
    """PAPER §4.5: standard deviation of each shape over the models, averaged over points and columns.

    None with fewer than two models.
    """
    shapes = np.array([shape for line in lines for shape in line["shapes"]])
    if len(shapes) < 2:
        return None
    deviations = shapes.std(axis=0, ddof=1).mean(axis=(1, 2))  # (readings,)
    first = lines[0]
    return Spread(
        shapes,
        dict(zip(first["readings"], map(float, deviations), strict=True)),
        np.array(first["points"]),
        np.array(first["density"]),
        statistics.fmean(line["value"] for line in lines),
        statistics.median(line["fit_seconds"] for line in lines),
    )
