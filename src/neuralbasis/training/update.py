"""Update: a fitted model goes on with new rows. Its knots, levels and terms stay; its tables are corrected.

    f_t <- f_t + share_t · g_t         g: a correction of every term on its own knots, learned on what the model leaves

A correction is trained as a model is, all terms together, from rows that start with the model's scores. Without reason
to think otherwise, old and new rows count alike: share = new / (old + new). Rows that members hold out move a share
from there as far as they are sure: to 1 where the world has changed, to 0 where a correction is noise. If they do not
gain, the model stays. Training weights of old and new rows add up, so that the next update weighs right.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, replace

import numpy as np
import torch
from scipy.optimize import lsq_linear
from sklearn.utils import check_random_state

from .. import kernels
from ..config import FitConfig
from ..data.columns import Columns
from ..data.sparse import SparseMatrix
from ..data.target import Sample, take_rows, tidy_rows
from ..encoding.axis import Axis, level_axis
from ..encoding.encoder import Encoder
from ..encoding.layout import Layout, flatten
from ..losses.loss import Loss, SquaredError, choose_loss
from ..model.additive_model import AdditiveModel
from ..model.merge import centre_shapes, count_rows, plain_shape
from ..model.purify import Table, is_silent
from ..model.shapes import LowRankShape, Shape
from ..model.summary import Summary, find_versions, read_clock, to_plain
from ..serialization.model_file import check_columns
from .compile import compile_members
from .cuts import cut
from .defaults import count_active, make_net, make_settings
from .engines import GridEngine
from .fit import seeded_dropout
from .history import History
from .lookup import choose_lookup
from .loop import train_net, training_threads
from .refine import refine
from .rows import Rows, place_rows
from .stage import Stage

DOUBT = 0.3  # standard deviation of a term's share around the usual one, before any row is seen
MAX_JUDGES = 20_000  # held-out rows that choose the shares
BLOCK_NUMBERS = 1 << 22  # contributions of members that are looked up at a time
EXACT = 1e-12  # loss of a regression that leaves nothing to learn
N_STEPS = 3  # of Newton's method; one less would not know the noise of a regression that has moved far


def update_model(
    config: FitConfig, model: AdditiveModel, columns: Columns, sample: Sample
) -> tuple[AdditiveModel, History]:
    """The model with what new rows say, see `NeuralBasisRegressor.update`; its columns come in the model's order."""
    if any(isinstance(shape, LowRankShape) for shape in model.shapes):
        raise ValueError("a model of a very wide sparse table, whose terms are kept in factors, cannot be updated")
    history = History(started=time.monotonic())
    rng = np.random.default_rng(check_random_state(config.random_state).randint(2**31))
    config = config.resolve(columns.n_rows)
    given = model.scores(columns)
    sample = replace(sample, init=given if sample.init is None else given + sample.init)
    used = sorted({feature for term in model.terms for feature in term})
    known = learn_levels(_renumber(model, used), columns.take(used), sample.weights)
    check_columns(known.encoder.axes, config.given, len(model.shapes))
    with training_threads(), seeded_dropout(rng):
        numbers, tidy = tidy_rows(known.encoder.numbers(columns.take(used)), sample, known.encoder.names)
        shapes, intercept = correct(known, numbers, tidy, config, history, rng)
    axes = list(model.encoder.axes)
    for feature, axis in zip(used, known.encoder.axes, strict=True):
        axes[feature] = axis
    shapes = [replace(shape, term=tuple(used[feature] for feature in shape.term)) for shape in shapes]
    summary = None if model.summary is None else _add_summary(model.summary, columns.n_rows, history)
    return (
        replace(model, encoder=Encoder(tuple(axes)), intercept=intercept, shapes=tuple(shapes), summary=summary),
        history,
    )


def correct(
    model: AdditiveModel, numbers: np.ndarray | SparseMatrix, sample: Sample, config: FitConfig, history: History,
    rng: np.random.Generator,
) -> tuple[list[Shape], np.ndarray]:  # fmt: skip
    """Shapes and intercept of the model with its correction, as far as that is kept."""
    objective, threads = _choose_objective(sample, model.classes), kernels.count_threads(config.n_jobs)
    rows = place_rows(sample, objective, config.outer_bags, config.validation_size, rng, config.device)
    layout = lay_out_model(model)
    grid = GridEngine(layout, layout.encode(numbers, threads), sample.weights, threads, config.device)
    stage = _train(grid, rows, objective, config, history, rng)
    tables, intercepts = compile_members([stage])
    n_old, n_new = count_rows(model), float(sample.weights.sum())
    shares = np.full(len(tables) + 1, n_new / (n_old + n_new))
    if bool(rows.held_out.any()):
        judges = Judges(model.encoder.axes, tables, intercepts, numbers, rows.cpu(), objective, threads)
        shares = choose_shares(judges, shares, history)
    shapes = [
        _add(_find(model, table), table, share, objective, config.outer_bags)
        for table, share in zip(tables, shares[1:], strict=True)
    ]
    moves = intercepts.reshape(-1, objective.n_outputs).mean(axis=0) * objective.unit
    if len(moves) > 1:  # only differences between classes matter
        moves = moves - moves.mean()
    return centre_shapes(shapes, model.intercept + shares[0] * moves)


def _choose_objective(sample: Sample, classes: np.ndarray | None) -> Loss:
    """A new mean of a regression's target is for the correction to find: held-out rows must confirm it as well."""
    if classes is not None:
        return choose_loss(sample, classes)
    assert sample.init is not None
    return replace(SquaredError.of(sample), shift=0.0)


def lay_out_model(model: AdditiveModel) -> Layout:
    """The model's own axes and terms, features and terms sorted by name, see `layout.lay_out`."""
    names, turned = model.encoder.names, []
    for shape in model.shapes:
        by_name = sorted((names[feature], d) for d, feature in enumerate(shape.term))
        turned.append((tuple(shape.term[d] for _, d in by_name), tuple(shape.axes[d] for _, d in by_name)))
    turned.sort(key=lambda item: (len(item[0]), [names[feature] for feature in item[0]]))
    return flatten(model.encoder.axes, [term for term, _ in turned], [axes for _, axes in turned])


def _train(
    grid: GridEngine, rows: Rows, objective: Loss, config: FitConfig, history: History, rng: np.random.Generator
) -> Stage:
    """The trained correction."""
    assert rows.init is not None
    if bool(rows.held_out.any()):
        losses = objective.loss(rows.init, rows.target).expand(rows.held_out.shape)
        history.constant = float(rows.validate(losses).sum())
        history.add("before", 0, history.constant, keep=True)
    net = make_net(config, grid, objective, None, rows.n_effective, rng)
    if objective.link == "identity":  # a new mean may be far away
        shares, rest = rows.weights[:, None] * ~rows.held_out, rows.target[:, None] - rows.init[:, 0]
        net.intercept.data.add_(((shares * rest).sum(dim=0) / shares.sum(dim=0))[:, None])
    n_rows, order = len(rows.target), max(len(term) for term in grid.layout.terms)
    active, n_drawn = count_active(grid.layout), int(rows.copies.sum())
    settings = make_settings(config, n_rows, n_drawn, order, active, information=rows.information)
    settings = replace(settings, stage="update")
    train_net(net, grid, grid, rows, objective, settings, history, rng)
    stage, is_over = Stage(net, grid), history.stopped_by in ("time_limit", "callback")
    if config.refine and not config.output_penalty and not is_over:
        stage = cut(refine(stage, rows, objective, history, grid.threads), rows, objective, history, grid.threads)
    return stage


class Judges:
    """Rows that members hold out, and what each member's correction says of its own; the intercept is its first term.

    tables, intercepts : of all members, channels (M · K)
    """

    def __init__(
        self, axes: Sequence[Axis], tables: Sequence[Table], intercepts: np.ndarray, numbers: np.ndarray | SparseMatrix,
        rows: Rows, objective: Loss, threads: int,
    ):  # fmt: skip
        held = np.flatnonzero(rows.held_out.any(dim=1).numpy())
        self.held = held[:: -(-len(held) // MAX_JUDGES)]
        self.rows, self.objective, self.intercepts = rows, objective, torch.from_numpy(intercepts)
        self.n_rows = rows.n_effective * len(held) / len(rows.target)
        layout = flatten(axes, [table.term for table in tables], [table.axes for table in tables])
        positions = layout.encode(take_rows(numbers, self.held), threads)
        self.lookup = choose_lookup(positions, layout, threads, torch.device("cpu"))
        self.table = torch.from_numpy(np.concatenate([t.to_outputs().reshape(-1, len(intercepts)) for t in tables]))

    def weigh(self, shares: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Mean validation loss at these shares of the terms (1 + T,), its slope and its curvature."""
        count, n_outputs = len(shares), self.objective.n_outputs
        loss, slope, curvature = 0.0, np.zeros(count), np.zeros((count, count))
        weights = self.rows.validation_parts(torch.from_numpy(self.held)).double()
        step = max(1, BLOCK_NUMBERS // (count * len(self.intercepts)))
        for first in range(0, len(self.held), step):
            part = np.arange(first, min(first + step, len(self.held)))
            says, weight = self._hear(part), weights[part]  # (b, 1 + T, M, K), (b, M)
            target, init = self.rows.take(torch.from_numpy(self.held[part]))
            assert init is not None
            scores = init + torch.einsum("btmk,t->bmk", says, torch.from_numpy(shares))
            variance = self.objective.variance(scores)
            # Twice the diagonal bounds the curvature of several classes, so that steps never go too far.
            bound = torch.ones_like(scores) if variance is None else variance * min(n_outputs, 2)
            own, flat = weight > 0, says.transpose(0, 1)
            mine = flat[:, own].flatten(1)
            loss += float((self.objective.loss(scores, target) * weight).sum())
            slope += (mine @ (self.objective.slope(scores, target) * weight[..., None])[own].flatten()).numpy()
            curvature += ((mine * (bound * weight[..., None])[own].flatten()) @ mine.T).numpy()
        return loss, slope, curvature

    def _hear(self, part: np.ndarray) -> torch.Tensor:
        found = self.lookup.gather(self.lookup.take(part), self.table, True)
        whole = torch.cat([self.intercepts.expand(len(part), 1, -1), found], dim=1)
        return whole.unflatten(2, (-1, self.objective.n_outputs))


def choose_shares(judges: Judges, usual: np.ndarray, history: History) -> np.ndarray:
    """(1 + T,) shares of the corrections to keep, each within 0 … 1: where held-out rows lose least; all 0 if they do
    not gain.

    They are pulled to the usual shares as if these were known but for `DOUBT`.
    """
    shares, is_linear = usual, judges.objective.link == "identity"
    for _ in range(N_STEPS):
        loss, slope, curvature = judges.weigh(shares)
        scale = judges.n_rows / (2 * max(loss, EXACT) if is_linear else 1)  # to the unit of a likelihood
        root = np.linalg.cholesky(scale * curvature + np.eye(len(usual)) / DOUBT**2).T
        pull = scale * slope + (shares - usual) / DOUBT**2
        shares = lsq_linear(root, root @ shares - np.linalg.solve(root.T, pull), bounds=(0, 1)).x
    before, after = judges.weigh(np.zeros_like(shares))[0], judges.weigh(shares)[0]
    gains = after < before
    history.add("shares", 0, after if gains else before, keep=True)
    return shares if gains else np.zeros_like(shares)


def _find(model: AdditiveModel, table: Table) -> Shape:
    """What the model says of a term; nothing, if it has none."""
    if table.term in model.terms:
        return plain_shape(model.shapes[model.terms.index(table.term)])
    zeros = np.zeros((*table.weights.shape, model.n_outputs))
    return Shape(table.term, table.axes, zeros, zeros, np.zeros_like(table.weights))


def _add(shape: Shape, table: Table, share: float, objective: Loss, n_members: int) -> Shape:
    """A shape with so much of its correction; the variance is so much of the correction's and the rest of its own.

    That is as uncertain as the rows that now speak: the old ones where nothing was learned, the new ones where the old
    were wrong. Sums would grow with every update.
    """
    values = np.where(is_silent(table.axes, table.weights)[..., None], 0.0, table.to_outputs())
    members = values.reshape(*table.weights.shape, n_members, -1)
    spread = members.std(axis=-2, ddof=1) * objective.unit if n_members > 1 else shape.spread
    return replace(
        shape, scores=shape.scores + share * members.mean(axis=-2) * objective.unit,
        weights=shape.weights + table.weights,
        spread=np.hypot(np.sqrt(1 - share) * shape.spread, np.sqrt(share) * spread),
    )  # fmt: skip


def learn_levels(model: AdditiveModel, columns: Columns, weights: np.ndarray) -> AdditiveModel:
    """The model with a knot for every level of a nominal column that only the new rows have; it says 0 there.

    Interactions, whose axes keep the levels that were frequent, read it as unseen. An order cannot be guessed: new
    levels of an ordinal column stay unseen.
    """
    axes = list(model.encoder.axes)
    for feature, axis in enumerate(axes):
        if axis.kind == "nominal" and axis.levels is not None:
            labels = columns[feature].to_labels()
            assert labels.codes is not None
            assert labels.levels is not None
            known = labels.codes >= 0
            mass = np.bincount(labels.codes[known], weights[known], minlength=len(labels.levels))
            axes[feature] = _add_levels(axis, dict(zip(labels.levels, mass.tolist(), strict=True)))
    plain = [plain_shape(shape) for shape in model.shapes]
    shapes = [_widen(shape, axes[shape.term[0]]) if len(shape.term) == 1 else shape for shape in plain]
    return replace(model, encoder=Encoder(tuple(axes)), shapes=tuple(shapes))


def _add_levels(axis: Axis, mass: dict[str, float]) -> Axis:
    """The axis with the levels of this mass that it has not, behind its own."""
    known = set(axis.levels or ())
    new = {level: count for level, count in mass.items() if level not in known and count > 0}
    if not new:
        return axis
    own = np.ones(len(known)) if axis.mass is None else axis.mass
    return level_axis(axis.name, axis.kind, [*(axis.levels or ()), *new], np.r_[own, list(new.values())])


def _widen(shape: Shape, axis: Axis) -> Shape:
    """A main effect on its column's axis, with zeros for levels behind those it has."""
    count = axis.n_cells - shape.axes[0].n_cells
    if not count:
        return shape
    end, tables = [shape.axes[0].n_cells - 1] * count, (shape.scores, shape.spread, shape.weights)
    scores, spread, weights = (np.insert(table, end, 0.0, axis=0) for table in tables)
    return Shape(shape.term, (axis,), scores, spread, weights)


def _renumber(model: AdditiveModel, used: Sequence[int]) -> AdditiveModel:
    """The model of some columns, all that its terms speak of."""
    number = {feature: index for index, feature in enumerate(used)}
    shapes = [replace(plain_shape(shape), term=tuple(number[f] for f in shape.term)) for shape in model.shapes]
    return replace(model, encoder=model.encoder.take(used), shapes=tuple(shapes))


def _add_summary(summary: Summary, n_rows: int, history: History) -> Summary:
    """Rows added up; validation and history are the update's, "updates" lists the rows of each."""
    events = {name: value for name, value in asdict(history).items() if name != "started"}
    updates = [*summary.parameters.get("updates", []), n_rows]
    return replace(
        summary, parameters={**summary.parameters, "updates": updates}, n_rows=summary.n_rows + n_rows,
        validation=to_plain(history.validation[history.best]) if history.best >= 0 else None,
        history=to_plain(events), date=read_clock(), versions=find_versions(),
    )  # fmt: skip
