"""Compile: stages of trained tables + axes -> AdditiveModel.

Stages are evaluated on the knots of every term and added. The tables of each member are purified over the density of
the training rows (effects of fewer features move to their own terms, means to the intercept). The model is the mean
over members, its spread their standard deviation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from ..encoding.encoder import Encoder
from ..losses.loss import Loss
from ..model.additive_model import AdditiveModel
from ..model.density import is_silent, smooth_density
from ..model.purify import Table, purify
from ..model.shapes import Shape, TiedShape
from ..model.summary import Summary
from ..terms.term import Term
from .stage import Stage

MAX_NUMBERS = 10_000_000  # above, tables of tied classes stay low-rank


def compile_model(
    stages: Sequence[Stage], encoder: Encoder, loss: Loss, classes: np.ndarray | None = None,
    n_jobs: int | None = None, summary: Summary | None = None, n_rows: float | None = None,
) -> AdditiveModel:  # fmt: skip
    """Tables of all terms on the grids' knots, in the target's unit; see `smooth_density` for `n_rows`."""
    n_members, n_outputs = len(stages[0].intercept), loss.n_outputs
    tables, intercepts = compile_members(stages, n_rows)
    ordered = sorted(tables, key=lambda table: (len(table.term), table.term))
    # Members of larger main effects are not kept, only their spread.
    keep = sum(table.values.size for table in ordered if len(table.term) == 1) <= 5_000_000
    shapes = [_make_shape(table, loss.unit, n_members, n_outputs, keep) for table in ordered]
    intercept = intercepts.reshape(n_members, n_outputs).mean(axis=0) * loss.unit + loss.shift
    if n_outputs > 1:
        intercept = intercept - intercept.mean()
    encoder = replace(encoder, axes=stages[0].grid.layout.axes[: len(encoder.axes)])  # steps may have added knots
    return AdditiveModel(encoder, intercept, tuple(shapes), loss.link, classes, n_jobs, summary)


def compile_members(stages: Sequence[Stage], n_rows: float | None = None) -> tuple[list[Table], np.ndarray]:
    """Purified tables of all members, channels (M · K), and their intercepts (M · K,), in the unit of the loss."""
    intercepts = np.sum([stage.intercept.double().cpu().numpy() for stage in stages], axis=0)
    tables = _merge(table for stage in stages for table in _read_tables(stage))
    with threadpool_limits(1):  # more threads slow many small solves down
        return purify(tables, intercepts.ravel(), partial(smooth_density, n_rows=n_rows))


def _read_tables(stage: Stage) -> Iterator[Table]:
    """Tables of a stage, channels (M · K), or with a mix where classes are tied; axes in the order of the features."""
    grid, (n_members, n_outputs) = stage.grid, stage.intercept.shape
    with torch.no_grad():
        flat = stage.table().double().cpu().numpy()
        mixes = stage.net.mix().double().cpu().numpy() if stage.net is not None and stage.net.tied else None
    fold = len(flat) * n_members * n_outputs <= MAX_NUMBERS
    for index, term in enumerate(grid.layout.terms):
        shape, cells, order = grid.layout.table_shape(index), grid.layout.cells_of(index), np.argsort(term)
        values, mix = flat[cells], None if mixes is None else _spread_mix(mixes[:, index], n_members)
        if mix is None:
            values = _centre_classes(values, n_outputs)
        elif fold:
            values, mix = values @ mix, None
        yield Table(
            tuple(term[d] for d in order),
            tuple(grid.layout.axes_of(index)[d] for d in order),
            values.reshape(*shape, -1).transpose(*order, len(shape)),
            grid.cell_weight[cells].reshape(shape).transpose(order),
            mix,
        )


def _merge(tables: Iterable[Table]) -> list[Table]:
    """One table per term: later stages are added to the first, on its knots; those of interactions are the same."""
    found: dict[Term, Table] = {}
    for table in tables:
        before = found.setdefault(table.term, table)
        if before is table:
            continue
        if before.mix is None or table.mix is None:
            values = table.to_outputs()
            if len(table.term) == 1:
                (axis,), (finer,) = table.axes, before.axes
                values = axis.carry(values, finer)
            found[table.term] = replace(before, values=before.to_outputs() + values, mix=None)
        else:
            values, mix = np.concatenate([before.values, table.values], -1), np.concatenate([before.mix, table.mix])
            found[table.term] = replace(before, values=values, mix=mix)
    return list(found.values())


def _centre_classes(values: np.ndarray, n_outputs: int) -> np.ndarray:
    """Make the values (…, M · K) of every member sum to 0 over the classes: only their differences matter."""
    if n_outputs == 1:
        return values
    members = values.reshape(len(values), -1, n_outputs)
    return (members - members.mean(axis=2, keepdims=True)).reshape(values.shape)


def _spread_mix(mix: np.ndarray, n_members: int) -> np.ndarray:
    """Weights (M · S, K) of one term's copies -> (M · S, M · K): a copy has weight 0 in other members."""
    copies, n_outputs = mix.shape
    wide = np.zeros((n_members, copies // n_members, n_members, n_outputs))
    own = np.arange(n_members)
    wide[own, :, own] = mix.reshape(n_members, -1, n_outputs)
    return _centre_classes(wide.reshape(copies, -1), n_outputs)


def _make_shape(table: Table, unit: float, n_members: int, n_outputs: int, keep: bool) -> Shape | TiedShape:
    """Mean and spread of a purified table, in the target's unit; the members of a main effect, if they are kept."""
    bare = np.where(is_silent(table.axes, table.weights)[..., None], 0.0, table.values)
    values = bare * unit
    if table.mix is not None:
        return TiedShape(table.term, table.axes, values, table.mix.reshape(-1, n_members, n_outputs), table.weights)
    cells = values.reshape(*values.shape[:-1], n_members, n_outputs)
    # Squares in the target's unit could underflow.
    bare = bare.reshape(cells.shape)
    spread = unit * bare.std(axis=-2, ddof=1) if n_members > 1 else np.zeros_like(cells[..., 0, :])
    members = cells if keep and len(table.term) == 1 else None
    return Shape(table.term, table.axes, cells.mean(axis=-2), spread, table.weights, members)
