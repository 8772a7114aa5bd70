"""LowRankNet: shared bases on one axis with coefficients for every term of a wide sparse table, and its training.

    score = f_0 + Σ_codes Σ_b h_b(x) a_tb      codes: terms whose features are all present in a row, see `sparse_codes`

The bases are evaluated on the cells of the axis; a code interpolates between them, and the coefficients of its term
turn the result into scores. A step costs as much as its batch has codes: it does not touch other coefficients, and
their ridge is applied when they are next touched. All members share the bases and have their own coefficients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor, nn

from .. import kernels
from ..encoding.sparse_codes import CodeFinder, SparseCodes
from ..losses.loss import Loss
from ..networks import Basis
from ..networks.basis_net import add_gradient
from .checkpointer import require, require_bounded
from .members import FlatAdamW, Settings, WithGradient, schedule
from .rows import Rows

CHUNK = 8192  # rows scored at a time


@dataclass(frozen=True)
class LearningRates:
    """Learning rates and penalties of a `LowRankNet`."""

    rate: float = 0.08  # of the coefficients, at the maximum of the schedule
    base_rate: float = 0.003  # of the bases
    ridge: float = 0.01  # see `find_ridge`
    output_penalty: float = 0.0


class LowRankNet(nn.Module):
    """Bases by order on the cells of a shared axis, intercepts (M, K), coefficients by order (T, B, M · K).

    `finders` have the terms of each order and their axis, `mass` (cells,) the mean number of codes of a row on each
    cell. A basis is trained, or fixed: a table (cells, B) of its values. It has one copy.
    """

    def __init__(
        self, finders: Mapping[int, CodeFinder], bases: Mapping[int, Basis | Tensor], mass: Mapping[int, np.ndarray],
        n_members: int, n_outputs: int,
    ):  # fmt: skip
        super().__init__()
        self.finders, self.n_members, self.n_outputs = dict(finders), n_members, n_outputs
        self.bases = nn.ModuleDict({str(order): basis for order, basis in bases.items() if isinstance(basis, Basis)})
        self.fixed = {order: table for order, table in bases.items() if isinstance(table, Tensor)}
        sizes = {order: basis.n_bases if isinstance(basis, Basis) else basis.shape[1] for order, basis in bases.items()}
        self.intercept = nn.Parameter(torch.zeros(n_members, n_outputs))
        self.missing = nn.Parameter(torch.ones(1, 0 if 1 in self.fixed else sizes[1]))
        self.coefficients = {
            order: np.zeros((len(finder.features), sizes[order], n_members * n_outputs), np.float32)
            for order, finder in finders.items()
        }
        self.points = {order: _Cells(finder, mass[order]) for order, finder in finders.items()}

    def table(self, order: int) -> Tensor:
        """(cells, B): values of the bases on all cells, with mean square 1 over the codes of a row."""
        points, values = self.points[order], self._values(order)
        values = values * self._normalize(order, values)
        return values.new_zeros(points.n_cells, values.shape[1]).index_copy(0, points.cells, values)

    def scale(self, order: int) -> Tensor:
        """(B,) factors by which `table` multiplies the values of the bases."""
        return self._normalize(order, self._values(order))

    def _values(self, order: int) -> Tensor:
        points = self.points[order]
        if order in self.fixed:
            return self.fixed[order][points.cells]
        values = self.bases[str(order)](points.places, points.weight)[0]
        return torch.cat([values, self.missing]) if points.has_missing else values

    def _normalize(self, order: int, values: Tensor) -> Tensor:
        return ((self.points[order].mass[:, None] * values.square()).sum(dim=0) + 1e-12).rsqrt()


class _Cells:
    """Cells of a shared axis that take values of the bases: their places (P, o) and mass. Those of order 1 end with the
    missing value, which has its own parameter in every basis."""

    def __init__(self, finder: CodeFinder, mass: np.ndarray):
        order, axis = finder.features.shape[1], finder.axis
        self.n_cells = finder.side**order
        grids = np.meshgrid(*[finder.inner_cells] * order, indexing="ij")
        cells = np.ravel_multi_index([grid.ravel() for grid in grids], (finder.side,) * order)
        places = np.stack([axis.places[grid.ravel() - 1] for grid in grids], axis=1)
        self.has_missing = order == 1 and finder.absent_cell > 0
        filled = np.r_[cells, 0] if self.has_missing else cells
        self.places = torch.from_numpy(places.astype(np.float32))
        self.weight = torch.from_numpy(np.maximum(mass[cells], 1e-9).astype(np.float32))
        self.cells = torch.from_numpy(filled)
        self.mass = torch.from_numpy(mass[filled].astype(np.float32))


def count_mass(finder: CodeFinder, codes: SparseCodes, weights: np.ndarray) -> np.ndarray:
    """(cells,) weighted mean number of codes of a row on each cell."""
    mass = np.zeros((finder.side ** codes.position.shape[1], 1))
    for part, row in codes.chunks():
        kernels.pull_bases(part.position, finder.side, weights[row, None] / weights.sum(), mass)
    return mass[:, 0]


def find_ridge(codes: SparseCodes, n_terms: int, rates: LearningRates) -> np.ndarray:
    """(T,) ridge of the terms, larger for terms with more codes.

    PAPER §4.3: the output penalty is on the mean square of f_t. The bases have a mean square of 1 over all codes of a
    row together, so the penalty of a term is proportional to its share of the codes.
    """
    count = np.bincount(codes.term, minlength=n_terms)
    share = count / max(len(codes.term), 1)
    return rates.ridge / len(codes) * np.sqrt(n_terms * share) + rates.output_penalty * share


class _CoefficientLearner:
    """Trains the coefficients of one order: AdaGrad with one rate per term, and a ridge that is applied late."""

    def __init__(self, net: LowRankNet, order: int, codes: SparseCodes, ridge: np.ndarray, threads: int):
        self.net, self.order, self.codes, self.threads = net, order, codes, threads
        self.values, self.ridge, self.side = net.coefficients[order], ridge, net.finders[order].side
        n_terms = len(self.values)
        self.power, self.seen, self.clock = np.zeros(n_terms), np.zeros(n_terms), 0.0
        self.count = np.zeros(n_terms, np.int64)

    def begin(self, rows: np.ndarray, scores: np.ndarray) -> None:
        """Take a batch, apply the ridge its terms have missed, and add their contributions to scores (b, C)."""
        self.batch, self.table = self.codes.take(rows), self.net.table(self.order)
        self.sorted = self.batch.sort(self.count)
        self.shrink(self.sorted[0])
        self.blend = self.batch.blend(self.table.detach().numpy(), self.side, self.threads)
        self.batch.add_scores(self.blend, self.values, scores, self.threads)

    def end(self, slope: np.ndarray, rate: float) -> None:
        """Move the coefficients against the slope (b, C) of the scores, and add the gradient of the bases."""
        back, is_fixed = np.empty_like(self.blend), not self.table.requires_grad

        def work(_part: int, first: int, last: int) -> int:
            return kernels.step_terms(first, last, *self.sorted, self.blend, slope, self.values, self.power, rate, back)

        kernels.share_rows(work, len(self.sorted[0]), self.threads, min_rows=256)
        self.clock += rate
        if not is_fixed:
            grad = np.zeros(self.table.shape, np.float32)
            kernels.pull_bases(self.batch.position, self.side, back, grad)
            WithGradient.apply(self.table, torch.from_numpy(grad / self.net.n_members)).backward()

    def state(self) -> dict[str, Any]:
        return {"values": self.values, "power": self.power, "seen": self.seen, "clock": self.clock}

    def resume(self, state: dict[str, Any]) -> None:
        self.clock = state["clock"]
        for name in ("values", "power", "seen"):
            getattr(self, name)[:] = state[name]

    def shrink(self, terms: np.ndarray) -> None:
        """Apply the ridge that these terms have missed."""
        arrays = self.values, self.power, self.seen, self.clock, self.ridge

        def work(_part: int, first: int, last: int) -> int:
            return kernels.shrink_terms(first, last, terms, *arrays)

        kernels.share_rows(work, len(terms), self.threads)

    def add_scores(self, rows: np.ndarray, scores: np.ndarray) -> None:
        chosen = self.codes.take(rows)
        blend = chosen.blend(self.net.table(self.order).numpy(), self.side, self.threads)
        chosen.add_scores(blend, self.values, scores, self.threads)


class LowRankMembers:
    """All members of a LowRankNet with their rows and optimisers; trained by the loop like `Members`."""

    def __init__(
        self, net: LowRankNet, codes: Mapping[int, SparseCodes], rows: Rows, loss: Loss, settings: Settings,
        rates: LearningRates, threads: int,
    ):  # fmt: skip
        self.net, self.rows, self.loss, self.rates = net, rows, loss, rates
        self.shares, self.scale = rows.shares(), 1.0
        self.begin(settings)
        self.learners = [
            _CoefficientLearner(net, order, found, find_ridge(found, len(net.coefficients[order]), rates), threads)
            for order, found in codes.items()
        ]
        self.optimizer = FlatAdamW(net.parameters(), settings.weight_decay, 0.0)
        self.held = np.flatnonzero(rows.held_out.any(dim=1).numpy())
        weights = rows.held_out[self.held] * rows.weights[self.held, None]
        self.held_weights = weights / weights.sum(0) / net.n_members
        self.validates = len(self.held) > 0

    def begin(self, settings: Settings) -> None:
        """A new round of steps, from the current state."""
        self.settings, self.steps = settings, 0

    def advance(self, _pool: Rows, batches: Sequence[np.ndarray], _noise: float) -> None:
        """A step for every batch."""
        for batch in batches:
            self.steps += 1
            self._step(batch, schedule(self.steps / self.settings.max_steps))

    def _step(self, batch: np.ndarray, rate_share: float) -> None:
        where = torch.from_numpy(batch)
        target, init = self.rows.take(where)
        scores = self._intercepts(len(batch))
        for learner in self.learners:
            learner.begin(batch, scores)
        slope = self.loss.slope(self._given(scores, init), target) * (self.shares[where] / len(batch))[..., None]
        add_gradient(self.net.intercept, slope.sum(dim=0))
        flat = slope.reshape(len(batch), -1).numpy()
        for learner in self.learners:
            learner.end(flat, self.rates.rate * rate_share)
        self.optimizer.step(self.rates.base_rate * rate_share)

    def _intercepts(self, n_rows: int) -> np.ndarray:
        return np.tile(self.net.intercept.detach().numpy().ravel(), (n_rows, 1))

    def _given(self, scores: np.ndarray, init: Tensor | None) -> Tensor:
        found = torch.from_numpy(scores).view(len(scores), self.net.n_members, self.net.n_outputs)
        return found if init is None else found + init

    @torch.no_grad()
    def validation_losses(self) -> Tensor:
        """(held-out rows,) parts of the mean validation loss of the members, at the best scale of all coefficients.

        A few epochs find the direction of the coefficients long before their size; more epochs overfit.
        """
        if not self.validates:
            return torch.empty(0)
        self._catch_up()
        target, init = self.rows.take(torch.from_numpy(self.held))
        given, terms = self._given(self._intercepts(len(self.held)), init), self.sum_terms(self.held)
        some = slice(None, None, max(1, len(self.held) // CHUNK))

        def lose(scale: float, part: slice) -> Tensor:
            losses = self.loss.loss(given[part].double() + scale * terms[part], target[part])
            return (losses * self.held_weights[part]).sum(1)

        found = minimize_scalar(
            lambda log: float(lose(math.exp(log), some).sum()), bounds=(-1.5, 1.5), method="bounded"
        )
        self.scale = math.exp(found.x)
        return lose(self.scale, slice(None))

    @torch.no_grad()
    def sum_terms(self, rows: np.ndarray) -> Tensor:
        """(rows, M, K) contributions of all terms together."""
        added = np.zeros((len(rows), self.net.n_members * self.net.n_outputs), np.float32)
        learners = [learner for learner in self.learners if learner.values.any()]  # the others add 0
        for first in range(0, len(rows), CHUNK):
            chunk = slice(first, first + CHUNK)
            for learner in learners:
                learner.add_scores(rows[chunk], added[chunk])
        return self._given(added, None)

    def _catch_up(self) -> None:
        for learner in self.learners:
            learner.shrink(np.arange(len(learner.values)))

    def keep(self) -> None:
        self._catch_up()
        self.kept = self.optimizer.values.clone(), [learner.values.copy() for learner in self.learners], self.scale

    def restore(self) -> None:
        self.optimizer.values.copy_(self.kept[0])
        for learner, values in zip(self.learners, self.kept[1], strict=True):
            learner.values[:] = values
        self.scale = self.kept[2]
        self.net.eval()

    def state(self) -> dict[str, Any]:
        values, coefficients, scale = self.kept
        return {
            "steps": self.steps, "scale": self.scale, "optimizer": self.optimizer.state(),
            "learners": [learner.state() for learner in self.learners],
            "kept": {"values": values.numpy(), "coefficients": coefficients, "scale": scale},
        }  # fmt: skip

    def resume(self, state: dict[str, Any]) -> None:
        kept, self.steps, self.scale = state["kept"], state["steps"], state["scale"]
        scales = [self.scale, kept["scale"], *(found["clock"] + 1 for found in state["learners"])]
        require(all(0 < scale < math.inf for scale in scales), "a scale or a learning rate is out of range")
        require_bounded(map(torch.from_numpy, [kept["values"], *kept["coefficients"]]))
        self.kept = torch.from_numpy(kept["values"]), kept["coefficients"], kept["scale"]
        self.optimizer.restore(state["optimizer"])
        for learner, found in zip(self.learners, state["learners"], strict=True):
            learner.resume(found)

    def apply_scale(self) -> None:
        """Multiply the coefficients by the best scale on held-out rows."""
        for learner in self.learners:
            learner.values *= np.float32(self.scale)
