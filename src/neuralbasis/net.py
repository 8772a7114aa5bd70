"""BasisNet: the paper's idea. Shared bases, one row of coefficients a term, and every shape is a small product.

    f_t(x) = Σ_k h_k(x) a_tk                      PAPER §3.2, eq. NBM; terms of order o share a basis with o inputs
    g_l    = f_0l + Σ_t f_t w_tl                  tied classes (the paper): one shape a term, weighed for each class
    g_l    = f_0l + Σ_t Σ_k h_k a_tkl             free classes (our default): coefficients for each class

`table(points)` evaluates all cells of all terms at once, for all members: (cells, M · K). Which points the bases see,
and which cell reads which point, is chosen by an engine (`train.points`): that is the only difference between engines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from .bases import Basis


@dataclass(frozen=True, eq=False)
class OrderPoints:
    """Points of the terms of one order: places (P, o), weight (P,), and for each cell its term and its point."""

    places: Tensor
    weight: Tensor
    term: Tensor
    point: Tensor


@dataclass(frozen=True, eq=False)
class Points:
    """Where the bases are evaluated, and where every cell of the flat table takes its value from.

    `source` (cells,) indexes [cells of order 1, cells of order 2, …, free cells, one zero].
    """

    orders: Mapping[int, OrderPoints]
    source: Tensor


class BasisNet(nn.Module):
    """Bases by order, coefficients by term, free cells, intercepts; M members with K outputs side by side.

    Parameters
    ----------
    bases : order of a term -> its Basis, made for n_members · n_subnets copies
    n_terms : order of a term -> number of terms of that order
    n_free : cells with a number of their own: levels of nominal columns and missing values
    n_members, n_outputs, n_subnets : M, K, S
    tied : one shape a term for all classes (the paper), or coefficients for each class
    basis_dropout : share of basis values dropped in training
    """

    zero: Tensor

    def __init__(
        self,
        bases: Mapping[int, Basis],
        n_terms: Mapping[int, int],
        n_free: int,
        n_members: int,
        n_outputs: int,
        n_subnets: int = 1,
        tied: bool = False,
        basis_dropout: float = 0.0,
    ):
        super().__init__()
        self.n_members, self.n_outputs, self.n_subnets = n_members, n_outputs, n_subnets
        self.tied, self.basis_dropout = tied, basis_dropout
        self.bases = nn.ModuleDict({str(order): basis for order, basis in bases.items()})
        copies, per_term = n_members * n_subnets, 1 if tied else n_outputs
        self.coefficients, self.offsets, self.mixes = nn.ParameterDict(), nn.ParameterDict(), nn.ParameterDict()
        for order, basis in bases.items():
            count, key = n_terms[order], str(order)
            self.coefficients[key] = nn.Parameter(torch.zeros(copies, basis.n_bases, count * per_term))
            if tied:
                self.offsets[key] = nn.Parameter(torch.zeros(copies, 1, count))
                self.mixes[key] = nn.Parameter(torch.ones(copies, count, n_outputs) / n_subnets)
        self.free = nn.Parameter(torch.zeros(n_free, n_members * n_outputs))
        self.intercept = nn.Parameter(torch.zeros(n_members, n_outputs))
        self.register_buffer("zero", torch.zeros(1, n_members * n_outputs))

    def table(self, points: Points) -> Tensor:
        """All cells of all terms, (cells, M · K)."""
        parts = [self._cells(order, chosen) for order, chosen in points.orders.items()]
        return torch.cat([*parts, self.free, self.zero]).index_select(0, points.source)

    def _cells(self, order: int, points: OrderPoints) -> Tensor:
        key = str(order)
        values = self.bases[key](points.places, points.weight)  # (M·S, P, B)
        values = functional.dropout(values, self.basis_dropout, self.training)
        coefficients = self.coefficients[key].unflatten(2, (-1, 1 if self.tied else self.n_outputs))  # (M·S, B, T, L)
        cells = _multiply(values, coefficients, points)  # (M·S, cells, L)
        if self.tied:
            offset = self.offsets[key].transpose(1, 2).index_select(1, points.term)
            cells = (cells + offset) * self.mixes[key].index_select(1, points.term)
        members = cells.unflatten(0, (self.n_members, self.n_subnets)).sum(1)  # (M, cells, K)
        return members.transpose(0, 1).flatten(1)

    def count_parameters(self) -> int:
        """Parameters of one member, as the paper counts them."""
        return sum(p.numel() for p in self.parameters()) // self.n_members


def _multiply(values: Tensor, coefficients: Tensor, points: OrderPoints) -> Tensor:
    """h(point of a cell) · a(term of a cell): values (Q, P, B), coefficients (Q, B, T, L) -> (Q, cells, L)."""
    n_points, (n_terms, n_values) = values.shape[1], coefficients.shape[2:]
    if n_points * n_terms <= values.shape[2] * len(points.term):  # less memory than a row of bases for every cell
        product = torch.bmm(values, coefficients.flatten(2)).view(len(values), n_points * n_terms, n_values)
        return product.index_select(1, points.point * n_terms + points.term)
    chosen = coefficients.index_select(2, points.term)
    return torch.einsum("qcb,qbcl->qcl", values.index_select(1, points.point), chosen)
