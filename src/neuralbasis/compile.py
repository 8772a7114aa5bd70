"""Compile: BasisNet + axes -> AdditiveModel. The only file that sees both worlds, besides the estimators.

The net is evaluated on the knots of every term; each member's tables are centred over the training rows (mean
contribution 0, moved to the intercept), the model is their mean and the spread is their standard deviation.
"""

from __future__ import annotations

import numpy as np
import torch

from .encoder import Encoder
from .model import AdditiveModel, Shape
from .net import BasisNet
from .objective import Objective
from .train.points import GridEngine


def compile_model(
    net: BasisNet, encoder: Encoder, grid: GridEngine, objective: Objective, classes: np.ndarray | None = None,
    n_jobs: int | None = None,
) -> AdditiveModel:  # fmt: skip
    """Tables of all terms on the grid's knots, in the target's unit."""
    net.eval()
    with torch.no_grad():
        flat = net.table(grid.points).double().cpu().numpy() * objective.unit
        intercepts = net.intercept.double().cpu().numpy() * objective.unit + objective.shift  # (M, K)
    members = flat.reshape(len(flat), net.n_members, net.n_outputs)
    if net.n_outputs > 1:  # only differences between classes matter: make each cell sum to zero over the classes
        members = members - members.mean(axis=2, keepdims=True)
        intercepts = intercepts - intercepts.mean(axis=1, keepdims=True)
    shapes = []
    for index in range(len(grid.layout.terms)):
        cells = grid.layout.cells_of(index)
        table, mean = centre(members[cells], grid.cell_weight[cells], grid.cells.based[cells])
        intercepts = intercepts + mean
        shapes.append(_make_shape(grid, index, table))
    shapes.sort(key=lambda shape: (len(shape.term), shape.term))
    return AdditiveModel(encoder, intercepts.mean(axis=0), tuple(shapes), objective.link, classes, n_jobs)


def _make_shape(grid: GridEngine, index: int, table: np.ndarray) -> Shape:
    """Mean and spread of a term's table (cells, M, K), its axes in the order of the features."""
    term, axes = grid.layout.terms[index], grid.layout.axes_of(index)
    order = np.argsort(term)
    cells = table.reshape(*grid.layout.table_shape(index), *table.shape[1:]).transpose(*order, len(term), len(term) + 1)
    weights = grid.cell_weight[grid.layout.cells_of(index)].reshape(grid.layout.table_shape(index)).transpose(order)
    spread = cells.std(axis=-2, ddof=1) if table.shape[1] > 1 else np.zeros_like(cells[..., 0, :])
    return Shape(tuple(term[d] for d in order), tuple(axes[d] for d in order), cells.mean(axis=-2), spread, weights)


def centre(table: np.ndarray, weight: np.ndarray, based: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean zero over the training rows; cells that no basis and no row speaks for contribute nothing.

    table (cells, M, K) -> centred table, mean (M, K)
    """
    mean = np.tensordot(weight / weight.sum(), table, axes=1)
    centred = table - mean
    centred[~based & (weight == 0)] = 0.0
    return centred, mean
