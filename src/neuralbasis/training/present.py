"""Training on the present values of a sparse table: the paper's sparse form of the exact engine, for main effects.

    score = f_0 + Σ_i w_i (f_i(x_i) - f_i(absent))        i: columns present in the row;  f_i(x) = Σ_k a_ik h_k(x)

PAPER "Sparse architecture": a step evaluates the shared network once on the distinct places of the batch and on that of
the absent value. Each present value then costs one row of coefficients; no step touches the columns that its batch
lacks. In: a grid whose rows are sparse. Out: a `Stage` of tables.
DIFF: contributions are relative to the absent value. This is the same class of functions, since Σ_i w_i f_i(absent) is
one constant, but no sum over all columns is needed, and the penalties act on present values only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .. import kernels
from ..data.sparse import SparseMatrix, find_entries
from ..losses.loss import Loss
from ..networks import Basis
from ..networks.basis_net import BasisNet, add_gradient
from .checkpointer import require, require_bounded
from .engines import GridEngine
from .low_rank import CHUNK
from .members import FlatAdamW, Settings, WithGradient, schedule
from .rows import Rows
from .stage import Stage

N_PARTS = 4  # of the terms of a batch; fixed, since sums must not depend on the number of threads


@dataclass(frozen=True, eq=False)
class PresentBatch:
    """Present values of some rows, sorted by term."""

    terms: np.ndarray  # (J,) distinct terms
    begin: np.ndarray  # (J + 1,) where the values of each begin
    point: np.ndarray  # (E,)
    row: np.ndarray  # (E,) within the batch
    absent: np.ndarray  # (J,) point of the absent value of each term


@dataclass(frozen=True, eq=False)
class PresentValues:
    """Present values of all rows, as points at which the bases are evaluated; point P stands for missing values.

    DIFF: places are rounded to half precision, 11 significant bits. A table of real numbers has then at most 15,361
    distinct places, and the cost of the network does not grow with the batch. Knots are further apart in most tables.
    """

    starts: np.ndarray  # (N + 1,) where the values of each row start
    term: np.ndarray  # (E,)
    point: np.ndarray  # (E,)
    absent: np.ndarray  # (T,) point of the absent value
    cell_starts: np.ndarray  # (T + 1,) where the cells of each term start
    cell_point: np.ndarray  # (cells,) points of the cells, -1 for unseen values
    places: np.ndarray  # (P,)
    weight: np.ndarray  # (P,) rows on each point

    @classmethod
    def of(cls, grid: GridEngine) -> PresentValues:
        """The present values of the rows of a grid of main effects."""
        layout, positions, cells = grid.layout, grid.positions, grid.cells
        assert isinstance(positions, SparseMatrix)
        term_of = np.full(len(layout.axes), -1)
        term_of[layout.term_axis] = np.arange(len(layout.terms))
        term = term_of[positions.column]
        kept = term >= 0
        starts, term = np.r_[0, np.cumsum(kept)][positions.starts], term[kept]
        place_of = np.concatenate(cells.places)[:, 0]

        def find_places(term: np.ndarray, position: np.ndarray) -> np.ndarray:
            """Places of positions on the axes of terms, NaN where the value is missing."""
            whole = np.floor(position).astype(np.int64)
            cell, part = layout.term_offset[term] + whole, position - whole
            here = place_of[cell]
            step = np.where(part > 0, place_of[np.minimum(cell + 1, len(place_of) - 1)] - here, 0.0)
            return here + part * step

        parts = [
            find_places(term, positions.value[kept].astype(float)),
            find_places(np.arange(len(layout.terms)), positions.absent[layout.term_axis].astype(float)),
            place_of,
        ]
        code = np.concatenate(parts).astype(np.float16).view(np.uint16)
        is_missing = np.isnan(np.concatenate(parts))
        found = np.zeros(1 << 16, dtype=bool)
        found[code[~is_missing]] = True
        n_points = int(found.sum())
        point = np.where(is_missing, n_points, np.cumsum(found)[code] - 1).astype(np.int32)
        own, absent, cell_point = np.split(point, np.cumsum([len(parts[0]), len(parts[1])]))
        places = np.flatnonzero(found).astype(np.uint16).view(np.float16).astype(np.float32)
        cell_starts = np.r_[layout.term_offset, layout.n_cells].astype(np.int64)
        unseen = ~cells.based & (cells.free < 0)
        weight = count_points(own, absent, n_points)
        return cls(
            starts, term.astype(np.int32), own, absent, cell_starts, np.where(unseen, -1, cell_point), places, weight
        )

    def take(self, rows: np.ndarray, work: np.ndarray) -> PresentBatch:
        """The present values of some rows; `work` (T,) is an array of zeros."""
        starts, entries = find_entries(self.starts, rows)
        term, size = self.term[entries], len(entries)
        terms, begin, entry, row = (np.empty(size + 1, np.int64) for _ in range(4))
        found = kernels.sort_entries(starts, term, work, terms, begin, entry, row)
        terms = terms[:found]
        point = self.point[entries[entry[:size]]]
        return PresentBatch(terms, begin[: found + 1], point, row[:size], self.absent[terms])


def count_points(point: np.ndarray, absent: np.ndarray, n_points: int) -> np.ndarray:
    """(P,) weight of each point in batch normalisation.

    PAPER "Sparse architecture": the absent value is appended once. Nearly all values are absent: weighted by their
    number, the network would be normalised by this one point.
    """
    weight = np.bincount(point, minlength=n_points + 1).astype(np.float32)
    weight[np.unique(absent)] += 1
    return weight[:n_points]


def reads_present(grid: GridEngine, rows: Rows) -> bool:
    """Whether a grid is trained on its present values: large and sparse, with main effects of numbers only."""
    positions, layout = grid.positions, grid.layout
    if not isinstance(positions, SparseMatrix) or rows.member_mask is not None or rows.target.device.type != "cpu":
        return False
    is_plain = all(len(term) == 1 for term in layout.terms) and all(axis.kind != "nominal" for axis in layout.axes)
    return is_plain and has_few_present(len(positions.value), len(positions), len(layout.terms))


def has_few_present(n_present: int, n_rows: int, n_terms: int) -> bool:
    """Whether a table is trained on its present values: 1,000 columns, and at most a tenth of the values present."""
    return n_terms >= 1000 and n_present <= 0.1 * n_rows * n_terms


class PresentMembers:
    """All members of a net with the coefficients of their terms; trained by the loop like `Members`.

    `net` has the bases and the intercept, and no terms. Q = members × subnets copies each have coefficients (T, B + 1),
    the last for missing values, and weights (T, K) of their terms in the outputs, which are trained for tied classes.
    DIFF: AdamW by rows. The moments of a term and the number of its steps change only in batches that have it, so a
    step costs as much as its batch; weight decay of the other steps is applied when the term is next used. Dense AdamW
    would go on moving absent terms along old moments. No average over steps is kept, as in the paper.
    """

    moving = "coefficients", "mean", "square", "mix", "mix_mean", "mix_square", "count", "seen"

    def __init__(
        self, net: BasisNet, values: PresentValues, rows: Rows, loss: Loss, settings: Settings,
        generator: torch.Generator, threads: int,
    ):  # fmt: skip
        self.net, self.values, self.rows, self.loss, self.settings = net, values, rows, loss, settings
        self.threads, self.steps, self.clock, self.shares = threads, 0, 0.0, rows.shares()
        n_terms, self.n_copies = len(values.absent), net.n_members * net.n_subnets
        basis = net.bases["1"]
        assert isinstance(basis, Basis)
        sizes = self.n_copies, n_terms, basis.n_bases + 1
        self.coefficients, self.mean, self.square = (np.zeros(sizes, np.float32) for _ in range(3))
        self._draw(n_terms, basis.n_bases, generator)
        self.mix_mean, self.mix_square = (np.zeros(self.mix.shape if net.tied else (self.n_copies, 1, 1), np.float32)
                                          for _ in range(2))  # fmt: skip
        self.count, self.seen, self.work = np.zeros(n_terms, np.int64), np.zeros(n_terms), np.zeros(n_terms, np.int64)
        self.optimizer = FlatAdamW(net.parameters(), settings.weight_decay, 0.0, settings.beta)
        self.kept = [values.copy() for values in self._list_values()]
        self.held = np.flatnonzero(rows.held_out.any(dim=1).numpy())
        self.held_weights = rows.validation_parts(torch.from_numpy(self.held))
        self.validates = len(self.held) > 0
        net.train()

    def _draw(self, n_terms: int, n_bases: int, generator: torch.Generator) -> None:
        """Start values. One output, or one for each class: only the coefficients are trained from 0, as in `BasisNet`.

        DIFF: tied classes start as linear layers usually do, with random shapes of small weights in the classes. With
        large random weights, as `BasisNet` draws them, a rare word would keep a random profile of classes: the few
        steps in which it occurs cannot turn it.
        """
        net, shape = self.net, (self.n_copies, n_terms, self.net.n_outputs)
        if not net.tied or net.n_outputs == 1:
            self.mix = np.full(shape, 1 / net.n_subnets if net.tied else 1.0, np.float32)
            return
        self.mix = ((2 * torch.rand(shape, generator=generator) - 1) / math.sqrt(n_terms)).numpy()
        draw = (2 * torch.rand(self.n_copies, n_terms, n_bases, generator=generator) - 1) / math.sqrt(n_bases)
        self.coefficients[..., :-1] = draw.numpy()

    def advance(self, _pool: Rows, batches: Sequence[np.ndarray], _noise: float) -> None:
        """A step for every batch."""
        for batch in batches:
            self.steps += 1
            share = schedule(self.steps / self.settings.max_steps, self.settings.warm_up)
            self.step(batch, self.settings.learning_rate * share)

    def step(self, rows: np.ndarray, rate: float) -> None:
        """One step of all parameters at this learning rate."""
        where = torch.from_numpy(rows)
        batch = self.values.take(rows, self.work)
        self._shrink(batch.terms)
        bases, table, local = self.evaluate(batch)
        found = self.contribute(local, table)
        target, init = self.rows.take(where)
        scores = self._score(local, found, len(rows))
        slope = self.loss.slope(scores if init is None else scores + init, target)
        slope = slope * (self.shares[where] / len(rows))[..., None]
        add_gradient(self.net.intercept, slope.sum(dim=0))
        back = self._move(local, found, slope.float(), table, rate, len(rows))
        if bases.requires_grad:
            WithGradient.apply(bases, torch.from_numpy(back[:, :-1, :-1])).backward()
        self.optimizer.step(rate)

    def evaluate(self, batch: PresentBatch) -> tuple[Tensor, np.ndarray, PresentBatch]:
        """Bases (Q, p, B) on the points of a batch, the same as an array (Q, p + 1, B + 1) with the missing value, and
        the batch with these points.

        PAPER: basis dropout drops whole functions. DIFF: the exact engine of dense tables drops single values; here the
        bases at a value and at the absent value must be dropped together, since their difference contributes.
        """
        n_points = len(self.values.places)
        used = np.zeros(n_points + 1, dtype=bool)
        used[batch.point] = used[batch.absent] = True
        place = np.where(used, np.cumsum(used) - 1, 0).astype(np.int32)
        place[n_points] = size = int(used[:n_points].sum())
        point, absent = place[batch.point], place[batch.absent]
        places = torch.from_numpy(self.values.places[used[:n_points], None])
        bases = self.net.bases["1"](places, torch.from_numpy(count_points(point, absent, size)))
        bases = nn.functional.dropout(torch.ones(len(bases), 1, bases.shape[2]), self.net.basis_dropout) * bases
        local = PresentBatch(batch.terms, batch.begin, point, batch.row, absent)
        return bases, add_missing(bases), local

    def contribute(self, batch: PresentBatch, table: np.ndarray) -> np.ndarray:
        """(Q, E) contributions of the values of a batch before they are mixed."""
        out = np.empty((self.n_copies, len(batch.point)), np.float32)
        for copy, values in enumerate(out):
            arrays = batch.terms, batch.begin, batch.point, batch.absent, self.coefficients[copy], table[copy], values

            def work(_part: int, first: int, last: int, arrays=arrays) -> int:
                return kernels.contribute_present(first, last, *arrays)

            kernels.share_rows(work, len(batch.terms), self.threads, min_rows=256)
        return out

    def _score(self, batch: PresentBatch, found: np.ndarray, n_rows: int) -> Tensor:
        """(b, M, K) scores."""
        scores = np.zeros((self.net.n_members, n_rows, self.net.n_outputs), np.float32)
        for copy, values in enumerate(found):
            member = copy // self.net.n_subnets
            kernels.mix_present(batch.terms, batch.begin, batch.row, values, self.mix[copy], scores[member])
        return torch.from_numpy(scores).transpose(0, 1) + self.net.intercept.detach()

    def _move(
        self, batch: PresentBatch, found: np.ndarray, slope: Tensor, table: np.ndarray, rate: float, n_rows: int
    ) -> np.ndarray:
        """Move the coefficients and weights of the terms of a batch; returns the gradient of the table."""
        slopes = slope.transpose(0, 1).contiguous().numpy()
        (first_decay, second_decay), decay = self.optimizer.betas, rate * self.settings.weight_decay
        rates = np.array([rate, 1 - decay, first_decay, second_decay, self.optimizer.epsilon, self.net.tied], "f4")
        penalty = np.float32(2 * self.settings.output_penalty / n_rows)
        self.count[batch.terms] += 1
        back, edges = (
            np.zeros((N_PARTS, *table.shape), np.float32),
            len(batch.terms) * np.arange(N_PARTS + 1) // N_PARTS,
        )
        for copy in range(self.n_copies):
            own = [getattr(self, name)[copy] for name in self.moving[:6]]
            given = found[copy], slopes[copy // self.net.n_subnets], penalty, table[copy], self.count, rates, *own
            arrays = batch.terms, batch.begin, batch.point, batch.absent, batch.row, *given

            def work(_part: int, first: int, last: int, arrays=arrays, copy=copy) -> int:
                for part in range(first, last):
                    kernels.step_present(edges[part], edges[part + 1], *arrays, back[part, copy])
                return -1

            kernels.share_rows(work, N_PARTS, self.threads, min_rows=1)
        self.clock += math.log1p(-decay)
        self.seen[batch.terms] = self.clock
        return back.sum(axis=0)

    def _shrink(self, terms: np.ndarray) -> None:
        """Apply the weight decay that these terms have missed."""
        if not self.settings.weight_decay:
            return
        factor = np.exp(self.clock - self.seen[terms]).astype(np.float32)
        self.seen[terms] = self.clock
        for values in [*self.coefficients, *(self.mix if self.net.tied else ())]:
            arrays = terms, factor, values

            def work(_part: int, first: int, last: int, arrays=arrays) -> int:
                return kernels.shrink_rows(first, last, *arrays)

            kernels.share_rows(work, len(terms), self.threads, min_rows=256)

    @torch.no_grad()
    def find_table(self) -> np.ndarray:
        """(Q, P + 1, B + 1) bases at all points, with the moments of all rows."""
        self._shrink(np.arange(len(self.seen)))
        self.net.eval()
        places, weight = torch.from_numpy(self.values.places[:, None]), torch.from_numpy(self.values.weight)
        table = add_missing(self.net.bases["1"](places, weight))
        self.net.train()
        return table

    @torch.no_grad()
    def validation_losses(self) -> Tensor:
        """(held-out rows,) parts of the mean validation loss of the members."""
        if not self.validates:
            return torch.empty(0)
        table, found = self.find_table(), []
        for first in range(0, len(self.held), CHUNK):
            rows = self.held[first : first + CHUNK]
            batch = self.values.take(rows, self.work)
            scores = self._score(batch, self.contribute(batch, table), len(rows)).double()
            target, init = self.rows.take(torch.from_numpy(rows))
            losses = self.loss.loss(scores if init is None else scores + init, target)
            found.append((losses * self.held_weights[first : first + CHUNK]).sum(1))
        return torch.cat(found)

    def make_stage(self, grid: GridEngine) -> Stage:
        """Tables of all terms, zero at absent values; of tied classes with the weights of the terms."""
        values, net = self.values, self.net
        point = np.where(values.cell_point < 0, len(values.places), values.cell_point)
        terms = np.arange(len(values.absent))
        batch = PresentBatch(terms, values.cell_starts, point, np.empty(0), values.absent)
        table = torch.from_numpy(np.where(values.cell_point < 0, 0.0, self.contribute(batch, self.find_table())))
        if net.tied:
            net.mixes["1"] = nn.Parameter(torch.from_numpy(self.mix))
            return Stage(grid, net.intercept.detach(), table.T.float().contiguous(), net.eval())
        members = table.view(net.n_members, net.n_subnets, -1).sum(1)
        return Stage(grid, net.intercept.detach(), members.T.float().contiguous())

    def keep(self) -> None:
        self._shrink(np.arange(len(self.seen)))
        for kept, values in zip(self.kept, self._list_values(), strict=True):
            np.copyto(kept, values)

    def restore(self) -> None:
        for kept, values in zip(self.kept, self._list_values(), strict=True):
            np.copyto(values, kept)
        self.seen[:] = self.clock
        self.net.eval()

    def _list_values(self) -> list[np.ndarray]:
        return [self.optimizer.values.numpy(), self.coefficients, self.mix]

    def state(self) -> dict[str, Any]:
        return {
            "steps": self.steps, "clock": self.clock, "optimizer": self.optimizer.state(), "kept": self.kept,
            **{name: getattr(self, name) for name in self.moving},
        }  # fmt: skip

    def resume(self, state: dict[str, Any]) -> None:
        self.steps, self.clock = state["steps"], state["clock"]
        require(-math.inf < self.clock <= 0 and bool((state["seen"] >= self.clock).all()), "a decay is out of range")
        require(bool((state["count"] >= 0).all()), "a number of steps is out of range")
        require_bounded(map(torch.from_numpy, state["kept"]))
        self.kept = state["kept"]
        self.optimizer.restore(state["optimizer"])
        for name in self.moving:
            getattr(self, name)[:] = state[name]


def add_missing(bases: Tensor) -> np.ndarray:
    """Bases (Q, p, B) -> an array (Q, p + 1, B + 1) whose last row and column stand for the missing value."""
    table = np.zeros((bases.shape[0], bases.shape[1] + 1, bases.shape[2] + 1), np.float32)
    table[:, :-1, :-1] = bases.detach().numpy()
    table[:, -1, -1] = 5  # as free cells in `BasisNet.table`
    return table
