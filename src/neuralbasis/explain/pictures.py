"""Explanation of one picture by a model whose columns are concepts.

In: a row of concepts, the picture as an array, and for each concept a grid of how strongly it was found at each place.
Out: the contributions of the strongest terms, each with its heat map. `vision` computes the concepts and the grids.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .explanation import Explanation, Value, find_output
from .rows import LocalExplanation, RowView, explain_local


class PictureTerm(NamedTuple):
    """A term in a picture: its contribution, and where its concepts were found.

    Parameters
    ----------
    name : name of the term
    values : values of its columns
    contribution : contribution to the explained score
    heat : (h, w) how strongly it was found at each place, or None; for a pair, the maximum of its two concepts

    Examples
    --------
    >>> PictureTerm("red crown", (0.9,), 1.2, None).contribution
    1.2
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
    """Explain the prediction of one picture: contributions of its concepts, and where they were found.

    Parameters
    ----------
    model : AdditiveModel or fitted estimator whose columns are concepts
    row : the picture's concepts, as a dict or a table of one row
    picture : array (height, width, 3) or (height, width) of 0 … 255; the grids cover all of it
    heat : dict of column names and grids (h, w): how strongly the concept was found at each place
    label : class whose score is explained, for three or more classes; None takes the predicted class
    actual : the true class or value of the picture, optional
    n_terms : number of terms listed separately, largest contributions first

    Returns
    -------
    PictureExplanation

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisRegressor
    >>> X = np.linspace(0, 1, 60)[:, None]
    >>> model = NeuralBasisRegressor(feature_names=["red"], max_steps=20).fit(X, X[:, 0])
    >>> found = explain_picture(model, {"red": 0.9}, np.zeros((8, 8)), {"red": [[0.1, 0.9]]})
    >>> found.terms[0].name, found.terms[0].heat.shape, found.picture.shape
    ('red', (1, 2), (8, 8, 3))
    """
    local = explain_local(model, row, None if actual is None else np.array([actual], dtype=object))
    if len(local.scores) != 1:
        raise ValueError(f"expected the concepts of one picture; got {len(local.scores)} rows. Select one row")
    if n_terms < 1:
        raise ValueError(f"n_terms must be 1 or more; got {n_terms!r}")
    view = local.row(0)
    if label is not None and len(local.intercept) == 1:
        raise ValueError("label needs a model with three or more classes; this model has a single score: omit it")
    output = view.output if label is None else find_output(local.model, label)[0]
    return PictureExplanation(local.model, local, output, read_picture(picture), _read_heat(local, heat or {}), n_terms)


@dataclass(frozen=True, eq=False, repr=False)
class PictureExplanation(Explanation):
    """One picture, and the contribution of each term to the score of a class.

    Parameters
    ----------
    model : the model
    local : the explanation of its row
    output : index of the explained score
    picture : (height, width, 3) of 0 … 255
    heat : grids (h, w) by column name
    n_terms : number of terms listed separately

    Examples
    --------
    >>> from neuralbasis import NeuralBasisRegressor
    >>> X = np.linspace(0, 1, 60)[:, None]
    >>> model = NeuralBasisRegressor(feature_names=["red"], max_steps=20).fit(X, X[:, 0])
    >>> found = explain_picture(model, {"red": 0.9}, np.zeros((8, 8)), {"red": [[0.1, 0.9]]})
    >>> found.heat["red"].tolist()
    [[0.1, 0.9]]
    """

    local: LocalExplanation
    output: int
    picture: np.ndarray
    heat: Mapping[str, np.ndarray]
    n_terms: int

    @property
    def row(self) -> RowView:
        """The explained row."""
        return self.local.row(0)

    @property
    def terms(self) -> tuple[PictureTerm, ...]:
        """The terms with the largest absolute contributions, strongest first."""
        row, sizes = self.row, self.row.contributions[:, self.output]
        order = np.argsort(-np.abs(sizes), kind="stable")[: self.n_terms]
        found = [(row.names[i], row.values[i], float(sizes[i]), self._find_heat(row.terms[i])) for i in order]
        return tuple(PictureTerm(*one) for one in found)

    def _find_heat(self, term: int) -> np.ndarray | None:
        grids = [self.heat.get(self.columns[feature]) for feature in self.model.terms[term]]
        known = [grid for grid in grids if grid is not None]
        return np.maximum.reduce(known) if known else None

    def visualize(self) -> Any:
        """A matplotlib figure: the picture, its contributions, and where the strongest concepts were found."""
        from .. import plot

        return plot.picture(self)

    def __repr__(self) -> str:
        height, width, _ = self.picture.shape
        return f"PictureExplanation({width} × {height}, prediction {self.row.prediction!r})"


def read_picture(picture: Any) -> np.ndarray:
    """An array of colours or greys, 0 … 255, as bytes (height, width, 3); a fourth channel is dropped."""
    array = np.asarray(picture)
    is_picture = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))
    if not is_picture or 0 in array.shape or array.dtype.kind not in "uif":
        raise ValueError(
            "a picture must be an array of numbers from 0 to 255, (height, width) or (height, width, 3); got "
            f"{array.dtype} of shape {array.shape}"
        )
    if array.dtype != np.uint8 and not (array.min() >= 0 and array.max() <= 255):
        raise ValueError(
            f"a picture must contain numbers from 0 to 255; got {array.min():g} … {array.max():g}. Pass the picture "
            "before normalisation"
        )
    if array.dtype.kind == "f" and 0 < array.max() <= 1:
        raise ValueError(
            f"a picture must contain numbers from 0 to 255; the largest is {array.max():g}, which is nearly black: "
            "multiply the picture by 255"
        )
    colours = np.repeat(array[..., None], 3, axis=2) if array.ndim == 2 else array[..., :3]
    return np.ascontiguousarray(np.rint(colours) if array.dtype.kind == "f" else colours).astype(np.uint8)


def _read_heat(local: LocalExplanation, heat: Mapping[str, Any]) -> dict[str, np.ndarray]:
    unknown = [name for name in heat if name not in local.columns]
    if unknown:
        raise ValueError(
            f"heat names {unknown[0]!r}, which is not a column of the model; its columns are {list(local.columns[:20])}"
        )
    grids = {name: np.asarray(grid, dtype=float) for name, grid in heat.items()}
    for name, grid in grids.items():
        if grid.ndim != 2 or grid.size == 0 or not np.isfinite(grid).all():
            raise ValueError(f"heat of {name!r} must be a grid (h, w) of finite numbers; got shape {grid.shape}")
    if len({grid.shape for grid in grids.values()}) > 1:
        raise ValueError(f"heat must contain grids of one size; got {sorted({grid.shape for grid in grids.values()})}")
    return grids
