"""BasisNet: the paper's idea. Shared bases, one row of coefficients per term, and every shape is a small product.

    f_t(x) = Σ_k h_k(x) a_tk                      PAPER §3.2, eq. NBM; terms of order o share a basis with o inputs
    g_l    = f_0l + Σ_t f_t w_tl                  tied classes (the paper): one shape per term, weighted for each class
    g_l    = f_0l + Σ_t Σ_k h_k a_tkl             free classes (our default): coefficients for each class

`table(points)` evaluates all cells of all terms at once, for all members: (cells, C), C = M · K, or M · S for tied
classes. An engine (`training.engines`) chooses the points and which cell reads which point. `combine` turns what rows
looked up in the table into scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import torch
from torch import Tensor, nn
from torch.nn import functional

from .basis import Basis

RIDGE_FLOOR = 0.02  # mean square of values below which their ridge does not grow


def count_block_rows(numbers: int) -> int:
    """Rows to process at a time if each has `numbers` numbers."""
    return max(1, min(65_536, (1 << 24) // numbers))


@dataclass(frozen=True, eq=False)
class CellGroup:
    """Some cells of one order, their points and terms, and for each cell its point and term among these."""

    cells: Tensor
    points: Tensor
    terms: Tensor
    point: Tensor
    term: Tensor


@dataclass(frozen=True, eq=False)
class OrderPoints:
    """Points of the terms of one order: places (P, o), weight (P,), and for each cell its term and its point."""

    places: Tensor
    weight: Tensor
    term: Tensor
    point: Tensor

    @cached_property
    def groups(self) -> tuple[CellGroup, ...]:
        """Groups of cells whose terms have similar sizes, if a product per group saves most of the work."""

        def collect(cells: Tensor) -> CellGroup:
            points, point = self.point[cells].unique(return_inverse=True)
            terms, term = self.term[cells].unique(return_inverse=True)
            return CellGroup(cells, points, terms, point, term)

        def work(groups: Sequence[CellGroup]) -> int:
            return sum(len(group.points) * len(group.terms) for group in groups)

        size = torch.bincount(self.term).clamp(min=1)[self.term]
        bucket = (size.float().log2() / 2).round().long()
        groups = tuple(collect(torch.nonzero(bucket == value)[:, 0]) for value in bucket.unique())
        whole = (collect(torch.arange(len(self.term), device=self.term.device)),)
        return groups if 4 * work(groups) < work(whole) else whole

    @cached_property
    def restore(self) -> Tensor:
        """Index of every cell in the concatenated groups."""
        return torch.cat([group.cells for group in self.groups]).argsort()


@dataclass(frozen=True, eq=False)
class Points:
    """Where the bases are evaluated, and the source of every cell of the flat table.

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
    n_free : cells with a parameter of their own: levels of nominal columns and missing values
    n_members, n_outputs, n_subnets : M, K, S
    tied : one shape per term for all classes (the paper), or coefficients for each class
    basis_dropout : share of basis values dropped in training
    ridge : of the weights of tied classes, see `add_gradients`
    """

    zero: Tensor
    free_mask: Tensor | None

    def __init__(
        self, bases: Mapping[int, Basis], n_terms: Mapping[int, int], n_free: int, n_members: int, n_outputs: int,
        n_subnets: int = 1, tied: bool = False, basis_dropout: float = 0.0, ridge: float = 0.0,
    ):  # fmt: skip
        super().__init__()
        self.n_members, self.n_outputs, self.n_subnets = n_members, n_outputs, n_subnets
        self.tied, self.basis_dropout, self.ridge = tied, basis_dropout, ridge
        self.bases = nn.ModuleDict({str(order): basis for order, basis in bases.items()})
        copies, per_term = n_members * n_subnets, 1 if tied else n_outputs
        self.coefficients, self.offsets, self.mixes = nn.ParameterDict(), nn.ParameterDict(), nn.ParameterDict()
        for order, basis in bases.items():
            count, key = n_terms[order], str(order)
            self.coefficients[key] = nn.Parameter(torch.zeros(copies, basis.n_bases, count * per_term))
            if tied:
                self.offsets[key] = nn.Parameter(torch.zeros(copies, 1, count))
                self.mixes[key] = nn.Parameter(torch.ones(copies, count, n_outputs) / n_subnets)
        channels = copies if tied else n_members * n_outputs
        self.free = nn.Parameter(torch.zeros(n_free, channels))
        self.intercept = nn.Parameter(torch.zeros(n_members, n_outputs))
        self.register_buffer("zero", torch.zeros(1, channels))
        self.register_buffer("free_mask", None)
        for order in bases:
            self.register_buffer(f"term_mask_{order}", None)

    def set_member_mask(self, member_mask: Mapping[int, Tensor], free: Tensor) -> None:
        """Set the terms, order -> (T, M), and the free cells (free, M) that each member uses; its others are 0."""
        for order, mask in member_mask.items():
            setattr(self, f"term_mask_{order}", mask.T.repeat_interleave(self.n_subnets, dim=0).float())  # (M·S, T)
        self.free_mask = free.repeat_interleave(self.zero.shape[1] // self.n_members, dim=1).float()

    @torch.no_grad()
    def draw_mixes(self, size: float, generator: torch.Generator) -> None:
        """Draw random weights of terms in classes, with mean 0 over the classes. Equal weights would never train."""
        for mix in self.mixes.values():
            mix.copy_(size * torch.randn(mix.shape, generator=generator))
            mix.sub_(mix.mean(dim=2, keepdim=True))

    @property
    def block_rows(self) -> int:
        """Rows to score at a time."""
        per_term = sum(mix.shape[1] for mix in self.mixes.values()) if self.tied else 1
        return count_block_rows(per_term * self.zero.shape[1] + self.n_members * self.n_outputs)

    def combine(self, parts: Tensor) -> Tensor:
        """Sums over the terms (b, 1, M · K), or tied the terms' values (b, T, M · S), -> scores (b, M, K)."""
        if not self.tied:
            return parts.view(len(parts), self.n_members, self.n_outputs) + self.intercept
        copies = torch.bmm(parts.permute(2, 0, 1), self.mix().to(parts.dtype))  # (M·S, b, K)
        return copies.unflatten(0, (self.n_members, self.n_subnets)).sum(1).transpose(0, 1) + self.intercept

    @torch.no_grad()
    def pull(self, parts: Tensor, slope: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Backward pass of `combine`: gradients (b, M, K) of the scores -> those of the parts, and those of the
        parameters for `add_gradients`."""
        if not self.tied:
            return slope.reshape(parts.shape), [slope.sum(dim=0)]
        copies = slope.transpose(0, 1).repeat_interleave(self.n_subnets, dim=0)  # (M·S, b, K)
        of_mix = torch.bmm(parts.permute(2, 1, 0), copies)  # (M·S, T, K)
        mix = self.mix().transpose(1, 2).to(slope.dtype)
        return torch.bmm(copies, mix).permute(1, 2, 0).contiguous(), [slope.sum(dim=0), of_mix]

    def add_gradients(self, own: Sequence[Tensor]) -> None:
        """Add the gradients of `pull` to the intercept and the weights of tied classes.

        The ridge of the weights shrinks as they grow, like the variance of a prior that is estimated.
        """
        intercept, *of_mix = (grad.to(self.intercept.dtype) for grad in own)
        add_gradient(self.intercept, intercept)
        for grad in of_mix:
            sizes = [mix.shape[1] for mix in self.mixes.values()]
            for mix, part in zip(self.mixes.values(), grad.split(sizes, dim=1), strict=True):
                power = mix.detach().square().mean(dim=(1, 2), keepdim=True)
                add_gradient(mix, part + self.ridge / (power + RIDGE_FLOOR) * mix.detach())

    def mix(self) -> Tensor:
        """Weights (M · S, T, K) of tied terms in the classes, terms by order."""
        return torch.cat(list(self.mixes.values()), dim=1)

    def table(self, points: Points) -> Tensor:
        """All cells of all terms, (cells, C)."""
        parts = [self._cells(order, chosen) for order, chosen in points.orders.items()]
        # Adam moves every parameter by about the learning rate. A shape sums many bases, a level is one parameter:
        # without a factor, levels of strong nominal columns would not reach their values in a few hundred steps.
        free = 5 * (self.free if self.free_mask is None else self.free * self.free_mask)
        return _Pick.apply(torch.cat([*parts, free, self.zero]), 0, points.source)

    def _cells(self, order: int, points: OrderPoints) -> Tensor:
        key = str(order)
        values = self.bases[key](points.places, points.weight)  # (M·S, P, B)
        values = functional.dropout(values, self.basis_dropout, self.training)
        coefficients = self.coefficients[key].unflatten(2, (-1, 1 if self.tied else self.n_outputs))  # (M·S, B, T, L)
        cells = multiply_cells(values, coefficients, points)  # (M·S, cells, L)
        if self.tied:
            cells = cells + self.offsets[key].transpose(1, 2).index_select(1, points.term)
        if (mask := getattr(self, f"term_mask_{order}")) is not None:
            cells = cells * mask.index_select(1, points.term)[..., None]
        if self.tied:
            return cells[..., 0].transpose(0, 1)
        members = cells.unflatten(0, (self.n_members, self.n_subnets)).sum(1)  # (M, cells, K)
        return members.transpose(0, 1).flatten(1)

    def part(self, first: int, last: int) -> BasisNet:
        """A copy of members first … last - 1; the bases must be `separable`."""
        part = deepcopy(self)
        for name, tensor in chain(part.named_parameters(), part.named_buffers()):
            tensor.data = self._members_of(name, tensor, first, last).clone()
        part.n_members = last - first
        for module in part.bases.modules():
            if isinstance(module, Basis):
                module.n_copies = part.n_members * self.n_subnets
        return part

    @torch.no_grad()
    def absorb(self, part: BasisNet, first: int) -> None:
        """Copy the values of members first … from a part."""
        own = dict(self.named_parameters())
        for name, tensor in part.named_parameters():
            self._members_of(name, own[name], first, first + part.n_members).copy_(tensor)

    def _members_of(self, name: str, tensor: Tensor, first: int, last: int) -> Tensor:
        """The members' slice of a tensor: along the first dimension, or the channels along the second."""
        dim = 1 if name in ("free", "zero", "free_mask") else 0
        width = tensor.shape[dim] // self.n_members
        return tensor.detach().narrow(dim, first * width, (last - first) * width)

    def count_parameters(self) -> int:
        """Parameters of one member, as the paper counts them."""
        return sum(p.numel() for p in self.parameters()) // self.n_members


def add_gradient(parameter: nn.Parameter, grad: Tensor) -> None:
    """Add to a parameter's gradient, which may not exist yet."""
    parameter.grad = grad if parameter.grad is None else parameter.grad.add_(grad)


class _Pick(torch.autograd.Function):
    """index_select of entries that are read once: the backward pass copies instead of adding, several times as fast.

    Many cells read the zero of the table, but it needs no gradient.
    """

    @staticmethod
    def forward(ctx, values: Tensor, dim: int, index: Tensor) -> Tensor:
        ctx.dim, ctx.shape = dim, values.shape
        ctx.save_for_backward(index)
        return values.index_select(dim, index)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None, None]:
        (index,) = ctx.saved_tensors
        return grad.new_zeros(ctx.shape).index_copy_(ctx.dim, index, grad), None, None


def multiply_cells(values: Tensor, coefficients: Tensor, points: OrderPoints) -> Tensor:
    """h(point of a cell) · a(term of a cell): values (Q, P, B), coefficients (Q, B, T, L) -> (Q, cells, L)."""
    is_whole = len(points.groups) == 1 and len(points.groups[0].terms) == coefficients.shape[2]
    parts = []
    for group in points.groups:
        h = values if is_whole else values.index_select(1, group.points)
        a = coefficients if is_whole else coefficients.index_select(2, group.terms)
        n_points, (n_terms, n_values) = h.shape[1], a.shape[2:]
        if n_points * n_terms <= h.shape[2] * len(group.term):  # less memory than a row of bases for every cell
            product = torch.bmm(h, a.flatten(2)).view(len(h), n_points * n_terms, n_values)
            parts.append(_Pick.apply(product, 1, group.point * n_terms + group.term))
        else:
            chosen = a.index_select(2, group.term)
            parts.append(torch.einsum("qcb,qbcl->qcl", h.index_select(1, group.point), chosen))
    return parts[0] if is_whole else _Pick.apply(torch.cat(parts, dim=1), 1, points.restore)
