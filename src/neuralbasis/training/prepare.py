"""Start: what training starts from: axes of the columns that take part, their numbers in tidy rows, and the plan.

Usually all columns take part. Of a table with more columns than rows, some are chosen first; a table of which nearly
all values are absent is stored, and all its columns share an axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .. import kernels
from ..config import WIDE_KNOTS, WIDE_NUMBERS, WIDE_SHARE, count_terms
from ..data.columns import Columns
from ..data.sparse import is_present, to_sparse
from ..data.target import Sample, order_rows, take_rows, tidy_rows
from ..encoding.axis import Axis, unused_axis
from ..encoding.encoder import Encoder, check_knots
from ..encoding.sparse_codes import pool_axis
from ..losses.loss import Loss, choose_loss
from ..model.additive_model import AdditiveModel
from ..model.shapes import LowRankShape
from ..terms.features import Selection, select_columns
from ..terms.term import Plan, Ranked, Term
from .rows import Rows, place_rows

if TYPE_CHECKING:
    from ..encoding.disk_cache import Block
    from ..encoding.profile import Profile

WIDE_UNITS = 1e-25, 1e15  # deviations of a target whose coefficients single precision, and a file, hold


@dataclass(frozen=True, eq=False)
class Start:
    """What training starts from.

    `features` are the places of the columns that take part in the whole table, `whole` the axes of all; None: all
    columns take part. A wide table is stored, with one axis for all columns.
    """

    encoder: Encoder
    numbers: Any
    sample: Sample
    objective: Loss
    rows: Rows
    plan: Plan
    features: Sequence[int] | None = None
    whole: Encoder | None = None

    def widen(self, model: AdditiveModel) -> AdditiveModel:
        """A model of the columns that take part as one of the whole table."""
        if self.whole is None:
            return model
        tables = [shape for shape in model.shapes if not isinstance(shape, LowRankShape)]
        shapes = tuple(replace(shape, term=self._widen_term(shape.term)) for shape in tables)
        return replace(model, encoder=self.whole, shapes=shapes)

    def widen_ranked(self, ranked: Ranked) -> Ranked:
        return ranked._replace(features=self._widen_term(ranked.features))

    def _widen_term(self, term: Term) -> Term:
        return term if self.features is None else tuple(self.features[feature] for feature in term)


def make_start(
    columns: Columns, sample: Sample, classes: np.ndarray | None, plan: Plan, parameters: Any, wide: bool,
    rng: np.random.Generator,
) -> Start:  # fmt: skip
    """The start that a table asks for."""
    check_knots(parameters.knots, columns.names)
    must_choose = len(plan.features) > count_terms(parameters, columns.n_rows)
    make = share_axis if wide else choose_columns if must_choose else take_columns
    return make(columns, sample, classes, plan, parameters, rng)


def is_wide(parameters: Any, columns: Columns, plan: Plan, classes: np.ndarray | None) -> bool:
    """Is this a table of so many columns, of which rows have so few values, that it is read by factors?

    A rule on what the table holds, not on how it comes. Other bases, engines and scalings read tables only.
    """
    plain = parameters.scaling == "auto" and parameters.engine == "grid" and parameters.basis == "mlp"
    plain = plain and parameters.tied_classes in ("auto", False) and str(parameters.device) == "cpu"
    plain = plain and not parameters.knots
    if not plain or columns.columns is not None or parameters.feature_types is not None:
        return False
    n_terms, n_outputs = len(plan.features) + len(plan.listed), 1 if classes is None else max(1, len(classes) - 1)
    if n_terms * n_outputs < WIDE_NUMBERS:
        return False
    if columns.sparse is not None:
        present = len(columns.sparse.value)
    else:
        assert columns.matrix is not None
        present = int(is_present(columns.matrix, parameters.absent_value).sum())
    return bool(present <= (1 - WIDE_SHARE) * columns.n_rows * len(columns))


def share_axis(
    columns: Columns, sample: Sample, classes: np.ndarray | None, plan: Plan, parameters: Any, rng: np.random.Generator
) -> Start:
    """Start with a stored table, one axis for all its columns."""
    if plan.n_triples or (plan.n_pairs and not plan.is_automatic):
        raise ValueError(
            f"interactions={parameters.interactions!r} and triples={parameters.triples!r} ask for a search, but of a "
            f"table with {len(columns):,} columns, nearly all of whose values are absent, interactions are not "
            "searched; list them as tuples of columns"
        )
    stored = columns.sparse
    if stored is None:
        assert columns.matrix is not None
        stored = to_sparse(columns.matrix, parameters.absent_value)
    weights = None if (sample.weights == 1).all() else sample.weights
    axis = pool_axis(stored, weights, max_knots=min(parameters.max_bins, WIDE_KNOTS[1]))
    encoder = Encoder(tuple(Axis(name, axis.kind, axis.knots, axis.places) for name in columns.names))
    numbers, tidy = tidy_rows(stored, sample, columns.names)
    objective, rows = place_sample(tidy, classes, parameters, rng)
    low, high = WIDE_UNITS
    if not low <= objective.unit <= high:
        raise ValueError(
            f"the target's standard deviation is {objective.unit:.1e}, but a model of a very wide sparse table keeps "
            f"its coefficients in single precision, from {low:.0e} to {high:.0e}; multiply the target by a constant"
        )
    return Start(encoder, numbers, tidy, objective, rows, plan)


def take_columns(
    columns: Columns, sample: Sample, classes: np.ndarray | None, plan: Plan, parameters: Any, rng: np.random.Generator
) -> Start:
    """Start with all columns."""
    encoder = fit_encoder(columns, sample, parameters)
    numbers, tidy = tidy_rows(encoder.numbers(columns), sample, encoder.names)
    objective, rows = place_sample(tidy, classes, parameters, rng)
    return Start(encoder, numbers, tidy, objective, rows, plan)


def take_sample_rows(block: Block, profile: Profile, plan: Plan, parameters: Any, rng: np.random.Generator) -> Start:
    """Start with the bench of a larger table, whose rows stand for all: in densities, and in what penalties weigh."""
    numbers, tidy = tidy_rows(block.numbers, Sample(block.y, block.weights), profile.encoder.names)
    if profile.classes is not None and len(found := np.unique(tidy.y)) < 2:
        raise ValueError(
            f"of {len(tidy.y):,} random rows, all are of class {profile.classes[found[0]]!r} of the target "
            f"{profile.roles.target!r}; give more memory, or fewer rows of this class"
        )
    objective, rows = place_sample(tidy, profile.classes, parameters, rng)
    weight = profile.weight_sum / tidy.weights.sum() if len(tidy.y) < profile.n_rows else 1.0
    rows = replace(rows, n_effective=profile.weight_sum if profile.whole_weights else float(profile.n_rows))
    return Start(profile.encoder, numbers, replace(tidy, weights=weight * tidy.weights), objective, rows, plan)


def choose_columns(
    columns: Columns, sample: Sample, classes: np.ndarray | None, plan: Plan, parameters: Any, rng: np.random.Generator
) -> Start:
    """Start with the columns that say most, and those of listed interactions; the others are not even given an axis."""
    is_plain = columns.columns is None and parameters.feature_types is None
    whole = None if is_plain else fit_encoder(columns, sample, parameters)
    plain: Any = columns.matrix if columns.sparse is None else columns.sparse
    numbers = plain if whole is None else whole.numbers(columns)
    order, tidy = order_rows(numbers, sample, columns.names)
    objective, rows = place_sample(tidy, classes, parameters, rng)
    found = select_columns(
        numbers, np.arange(columns.n_rows)[order], -objective.first_slope(tidy), tidy.weights,
        choose_judges(rows, tidy, objective, parameters, rng), columns.names, plan.features,
        None if parameters.max_terms == "auto" else parameters.max_terms, kernels.count_threads(parameters.n_jobs),
        rng.spawn(1)[0],
    )  # fmt: skip
    plan, features = plan.restrict(found.features.tolist())
    few = columns.take(features)
    encoder = fit_encoder(few, sample, parameters) if whole is None else whole.take(features)
    if whole is None:
        axes = dict(zip(features, encoder.axes, strict=True))
        whole = Encoder(tuple(axes.get(f) or unused_axis(name) for f, name in enumerate(columns.names)))
    if bool(rows.held_out.any()):
        rows = replace(rows, member_mask=spread_member_mask(found, features))
    return Start(encoder, take_rows(encoder.numbers(few), order), tidy, objective, rows, plan, features, whole)


def place_sample(
    sample: Sample, classes: np.ndarray | None, parameters: Any, rng: np.random.Generator
) -> tuple[Loss, Rows]:
    """What is to be minimised, and the rows with those that each member holds out."""
    objective = choose_loss(sample, classes)
    size, device = parameters.validation_size, parameters.device
    return objective, place_rows(sample, objective, parameters.outer_bags, size, rng, device)


def fit_encoder(columns: Columns, sample: Sample, parameters: Any) -> Encoder:
    weights = None if (sample.weights == 1).all() else sample.weights
    scaling = "quantile" if parameters.scaling == "auto" else parameters.scaling
    knots = {name: values for name, values in (parameters.knots or {}).items() if name in columns.names}
    return Encoder.fit(columns, weights, parameters.feature_types, scaling, parameters.max_bins, knots)


def choose_judges(rows: Rows, sample: Sample, objective: Loss, parameters: Any, rng: np.random.Generator) -> np.ndarray:
    """(N, M) rows that each member holds out; where it holds out none, columns are chosen without a seventh of them."""
    if not bool(rows.held_out.any()):
        child = rng.spawn(1)[0]
        rows = place_rows(sample, objective, max(3, parameters.outer_bags), 1 / 7, child, parameters.device)
    return rows.held_out.cpu().numpy()


def spread_member_mask(found: Selection, features: Sequence[int]) -> torch.Tensor | None:
    """(features, M) which member speaks of which column: those it chose, and all that only interactions need."""
    chosen = dict(zip(found.features.tolist(), found.member_mask, strict=True))
    everyone = np.ones(found.member_mask.shape[1], dtype=bool)
    member_mask = np.stack([chosen.get(feature, everyone) for feature in features])
    return None if member_mask.all() else torch.from_numpy(member_mask)
