"""Pictures: why one picture has its prediction, where its columns are concepts that were seen in it.

In: a row of concepts, the picture as an array, and for each concept the grid of places where it was looked for. Out:
the contributions of the strongest terms, each with its heat map. Files, networks and grids are others' business: all
that comes in are numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .explanation import Explanation, Value, find_output
from .rows import LocalExplanation, RowView, explain_local


class Sight(NamedTuple):
    """A term in a picture: what it contributes, and where it was seen.

    Parameters
    ----------
    name : of the term
    values : of its columns
    contribution : to the score that is explained
    heat : (h, w) how strongly it was seen at each place of the grid, or None; of a pair, the stronger of the two
    """

    name: str
    values: tuple[Value, ...]
    contribution: float
    heat: np.ndarray | None


def explain_picture(
    model: Any,
    row: Any,
    picture: Any,
    heat: Mapping[str, Any] | None = None,
    label: Any = None,
    actual: Any = None,
    n_terms: int = 8,
) -> PictureExplanation:
    """Why a picture has its prediction, and where in it the reasons were seen.

    Parameters
    ----------
    model : AdditiveModel or fitted estimator, whose columns are concepts
    row : the picture's concepts, a dict or a table of one row
    picture : array (height, width, 3) or (height, width) of 0 … 255, the part that the grids cover
    heat : for columns by name, a grid (h, w) of how strongly the concept was seen at each place
    label : the class, of three or more, whose score is explained; None takes the predicted one
    actual : what the picture really shows, optional
    n_terms : how many terms are shown one by one, the largest contributions first

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisRegressor
    >>> X = np.linspace(0, 1, 60)[:, None]
    >>> model = NeuralBasisRegressor(feature_names=["red"], max_steps=20).fit(X, X[:, 0])
    >>> found = explain_picture(model, {"red": 0.9}, np.zeros((8, 8)), {"red": [[0.1, 0.9]]})
    >>> found.sights[0].name, found.sights[0].heat.shape, found.picture.shape
    ('red', (1, 2), (8, 8, 3))
    """
    local = explain_local(model, row, None if actual is None else np.array([actual], dtype=object))
    if len(local.scores) != 1:
        raise ValueError(f"expected the concepts of one picture, not of {len(local.scores)}; choose one row")
    if n_terms < 1:
        raise ValueError(f"n_terms must be 1 or more, not {n_terms!r}")
    view = local.row(0)
    if label is not None and len(local.intercept) == 1:
        raise ValueError("label needs a model of three classes or more; this one has a single score: leave it out")
    output = view.output if label is None else find_output(local.model, label)[0]
    return PictureExplanation(local.model, local, output, read_picture(picture), _read_heat(local, heat or {}), n_terms)


@dataclass(frozen=True, eq=False, repr=False)
class PictureExplanation(Explanation):
    """One picture, and what each term contributes to the score of a class.

    Parameters
    ----------
    model : the model
    local : the explanation of its row
    output : which of the K scores is explained
    picture : (height, width, 3) of 0 … 255
    heat : grids (h, w) by the names of columns
    n_terms : how many terms are shown one by one
    """

    local: LocalExplanation
    output: int
    picture: np.ndarray
    heat: Mapping[str, np.ndarray]
    n_terms: int

    @property
    def row(self) -> RowView:
        return self.local.row(0)

    @property
    def sights(self) -> tuple[Sight, ...]:
        """The terms with the largest contributions, for the class or against it, the strongest first."""
        row = self.row
        order = np.argsort(-np.abs(row.contributions[:, self.output]), kind="stable")[: self.n_terms]
        sizes = row.contributions[:, self.output].tolist()
        return tuple(Sight(row.names[i], row.values[i], sizes[i], self._see(row.terms[i])) for i in order.tolist())

    def _see(self, term: int) -> np.ndarray | None:
        grids = [self.heat.get(self.columns[feature]) for feature in self.model.terms[term]]
        known = [grid for grid in grids if grid is not None]
        return np.maximum.reduce(known) if known else None

    def visualize(self) -> Any:
        """A matplotlib figure: the picture, its contributions, and where the strongest concepts were seen."""
        from .. import plot

        return plot.picture(self)

    def __repr__(self) -> str:
        height, width, _ = self.picture.shape
        return f"PictureExplanation({width} × {height}, prediction {self.row.prediction!r})"


def read_picture(picture: Any) -> np.ndarray:
    """(height, width, 3) bytes from an array of colours or greys, 0 … 255; a fourth channel is left out."""
    array = np.asarray(picture)
    is_picture = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))
    if not is_picture or 0 in array.shape or array.dtype.kind not in "uif":
        raise ValueError(
            "a picture must be an array of numbers from 0 to 255, (height, width) or (height, width, 3); got "
            f"{array.dtype} of shape {array.shape}"
        )
    if array.dtype != np.uint8 and not (array.min() >= 0 and array.max() <= 255):
        raise ValueError(
            f"a picture must hold numbers from 0 to 255, not {array.min():g} … {array.max():g}; give it as it was "
            "before it was normalised"
        )
    if array.dtype.kind == "f" and 0 < array.max() <= 1:
        raise ValueError(
            f"a picture must hold numbers from 0 to 255; this one reaches only {array.max():g} and would be black: "
            "multiply it by 255"
        )
    colours = np.repeat(array[..., None], 3, axis=2) if array.ndim == 2 else array[..., :3]
    return np.ascontiguousarray(np.rint(colours) if array.dtype.kind == "f" else colours).astype(np.uint8)


def _read_heat(local: LocalExplanation, heat: Mapping[str, Any]) -> dict[str, np.ndarray]:
    unknown = [name for name in heat if name not in local.columns]
    if unknown:
        raise ValueError(f"heat names {unknown[0]!r}, which is no column of the model: {list(local.columns[:20])}")
    grids = {name: np.asarray(grid, dtype=float) for name, grid in heat.items()}
    for name, grid in grids.items():
        if grid.ndim != 2 or grid.size == 0 or not np.isfinite(grid).all():
            raise ValueError(f"heat of {name!r} must be a grid (h, w) of finite numbers; its shape is {grid.shape}")
    if len({grid.shape for grid in grids.values()}) > 1:
        raise ValueError(f"heat must hold grids of one size, not {sorted({grid.shape for grid in grids.values()})}")
    return grids
