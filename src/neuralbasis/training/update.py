"""Update: new rows correct a fitted model. Its knots, levels and terms stay.

    f_t <- f_t + share_t · g_t         g: a correction of every term on its own knots, learned on what the model leaves

An update is a fit (`training.fit`) whose rows start from the model's scores. Learners propose corrections of all terms;
their usual share is that of the new rows among all rows the model has seen, and held-out rows move every share from
there: to 1 where the data have changed, to 0 where a correction is noise. Training weights of old and new rows add up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from ..config import FitConfig
from ..data.columns import Columns, weigh_codes
from ..data.target import Sample, tidy_rows
from ..distributed.process_group import ProcessGroup
from ..encoding.axis import Axis, level_axis
from ..encoding.encoder import Encoder
from ..encoding.layout import Layout, flatten
from ..losses.loss import Loss, choose_loss
from ..model.additive_model import AdditiveModel
from ..model.density import is_silent
from ..model.merge import centre_shapes, count_rows, plain_shape
from ..model.purify import Table
from ..model.shapes import Shape, make_shapes
from ..model.summary import Summary
from ..terms.term import Plan
from .checkpointer import Checkpointer
from .codes import Codes
from .compile import compile_members
from .rows import Rows, place_rows
from .schedule import Ensemble, Trainer
from .tables import InMemory
from .wide import WideTrainer


@dataclass(frozen=True, eq=False)
class UpdateTable(InMemory):
    """New rows of a fitted model, with its columns in its order."""

    model: AdditiveModel
    columns: Columns
    sample: Sample
    target: str | None = None

    @property
    def classes(self) -> np.ndarray | None:
        return self.model.classes

    @contextmanager
    def open(
        self, config: FitConfig, group: ProcessGroup, seed: int, checkpointer: Checkpointer
    ) -> Iterator[UpdateTable]:
        yield self

    def kinds(self, config: FitConfig, plan: Plan) -> Collection[str]:
        return ["update", *(["wide"] if self.model.is_wide else [])]

    def encode(self, config: FitConfig, plan: Plan, rng: np.random.Generator) -> Codes:
        """The rows on the model's axes, to which new levels are added, and with the model's scores."""
        given = self.model.scores(self.columns)
        sample = replace(self.sample, init=given if self.sample.init is None else given + self.sample.init)
        if self.model.is_wide:
            return self._encode_wide(sample, config, rng)
        used = sorted({feature for term in self.model.terms for feature in term})
        known = learn_levels(_renumber(self.model, used), self.columns.take(used), sample.weights)
        numbers, tidy = tidy_rows(known.encoder.numbers(self.columns.take(used)), sample, known.encoder.names)
        loss, rows = self._place_rows(tidy, config, rng)
        whole = Encoder(tuple(dict(zip(used, known.encoder.axes, strict=True)).get(f, axis) for f, axis in
                              enumerate(self.model.encoder.axes)))  # fmt: skip
        plan = Plan(tuple(range(len(used))), (), 0, 0, frozenset())
        return Codes(
            known.encoder, numbers, tidy, loss, rows, plan, self.classes, self.n_rows, len(self.columns), used, whole,
            layout=lay_out_model(known), usual=_find_share(count_rows(known), tidy),
        )  # fmt: skip

    def _encode_wide(self, sample: Sample, config: FitConfig, rng: np.random.Generator) -> Codes:
        """The rows of a wide model."""
        factors, encoder = self.model.factors, self.model.encoder
        numbers, tidy = tidy_rows(self.model.store(self.columns), sample, encoder.names)
        loss, rows = self._place_rows(tidy, config, rng)
        terms = [term for term in self.model.terms if len(term) > 1]
        mains = tuple(term[0] for term in self.model.terms if len(term) == 1)
        return Codes(
            encoder, numbers, tidy, loss, rows, Plan(mains, tuple(terms), 0, 0, frozenset()), self.classes, self.n_rows,
            len(self.columns), wide=True, factors=factors, usual=_find_share(factors[0].total, tidy),
        )  # fmt: skip

    def _place_rows(self, tidy: Sample, config: FitConfig, rng: np.random.Generator) -> tuple[Loss, Rows]:
        # The correction of a regression has to find a new mean: held-out rows must confirm it as well.
        loss = replace(choose_loss(tidy, self.classes), shift=0.0)
        copies = not config.network.plain_training
        return loss, place_rows(tidy, loss, config.outer_bags, config.validation_size, rng, config.device, copies)

    def compile(self, ensemble: Ensemble, codes: Codes, config: FitConfig, summary: Summary) -> AdditiveModel:
        """The model plus its corrections."""
        if isinstance(ensemble, WideTrainer):
            return replace(
                self.model, intercept=self.model.intercept + ensemble.intercept, summary=self._add(summary),
                shapes=make_shapes(ensemble.factors, self.model.encoder),
            )  # fmt: skip
        assert isinstance(ensemble, Trainer)
        assert codes.features is not None
        assert codes.whole is not None
        tables, intercepts = compile_members(ensemble.stages, codes.rows.n_effective)
        known = _renumber(learn_levels(self.model, self.columns, self.sample.weights), codes.features)
        found = {shape.term: plain_shape(shape) for shape in known.shapes}
        shapes = []
        for table in tables:
            shape = found.get(table.term)
            if shape is None:  # the model has no such term
                zeros = np.zeros((*table.weights.shape, known.n_outputs))
                shape = Shape(table.term, table.axes, zeros, zeros, np.zeros_like(table.weights))
            shapes.append(_add(shape, table, ensemble.shares.get(table.term, codes.usual), codes.loss.unit))
        moves = intercepts.reshape(-1, codes.loss.n_outputs).mean(axis=0) * codes.loss.unit
        if len(moves) > 1:  # only differences between classes matter
            moves = moves - moves.mean()
        shapes, intercept = centre_shapes(shapes, self.model.intercept + moves)
        shapes = [replace(shape, term=tuple(codes.features[f] for f in shape.term)) for shape in shapes]
        return replace(
            self.model, encoder=codes.whole, intercept=intercept, shapes=tuple(shapes), summary=self._add(summary)
        )

    def _add(self, summary: Summary) -> Summary | None:
        """Rows added up; validation and history are the update's, "updates" lists the rows of each."""
        before = self.model.summary
        if before is None:
            return None
        updates = [*before.parameters.get("updates", []), self.n_rows]
        return replace(
            before, parameters={**before.parameters, "updates": updates}, n_rows=before.n_rows + self.n_rows,
            validation=summary.validation, history=summary.history, date=summary.date, versions=summary.versions,
        )  # fmt: skip


def _find_share(n_old: float, new: Sample) -> float:
    """Share of the new rows among all rows."""
    n_new = float(new.weights.sum())
    return n_new / (n_old + n_new)


def lay_out_model(model: AdditiveModel) -> Layout:
    """The model's own axes and terms, features and terms sorted by name, see `layout.lay_out`."""
    names, turned = model.encoder.names, []
    for shape in model.shapes:
        by_name = sorted((names[feature], d) for d, feature in enumerate(shape.term))
        turned.append((tuple(shape.term[d] for _, d in by_name), tuple(shape.axes[d] for _, d in by_name)))
    turned.sort(key=lambda item: (len(item[0]), [names[feature] for feature in item[0]]))
    return flatten(model.encoder.axes, [term for term, _ in turned], [axes for _, axes in turned])


def _add(shape: Shape, table: Table, share: float, unit: float) -> Shape:
    """A shape plus its correction, of which a share was kept.

    The variance is that share of the correction's and the rest of the shape's own: the bands are those of the old rows
    where nothing was learned, those of the new rows where the old shape was wrong.
    """
    values = np.where(is_silent(table.axes, table.weights)[..., None], 0.0, table.to_outputs())
    members = values.reshape(*table.weights.shape, -1, shape.scores.shape[-1])
    share, spread = min(share, 1.0), shape.spread
    if members.shape[-2] > 1 and share > 0:
        spread = members.std(axis=-2, ddof=1) * unit / share
    return replace(
        shape, scores=shape.scores + members.mean(axis=-2) * unit, weights=shape.weights + table.weights,
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
            codes, names = columns[feature].to_labels()
            counts = dict(zip(names, weigh_codes(codes, len(names), weights).tolist(), strict=True))
            levels = set(axis.levels)
            new = {level: count for level, count in counts.items() if level not in levels and count > 0}
            if new:
                own = np.ones(len(axis.levels)) if axis.mass is None else axis.mass
                mass = np.r_[own, list(new.values())]
                axes[feature] = level_axis(axis.name, axis.kind, [*axis.levels, *new], mass)
    plain = [plain_shape(shape) for shape in model.shapes]
    shapes = [_widen(shape, axes[shape.term[0]]) if len(shape.term) == 1 else shape for shape in plain]
    return replace(model, encoder=Encoder(tuple(axes)), shapes=tuple(shapes))


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
