"""The networks of the paper's comparison as torch modules, and their numbers of parameters.

    additive   g_l = Σ_t w_tl f_t + w_0l        terms t: columns, with `order=2` also pairs of columns, and so on
    NAM        f_t: one network per term        64-64-32 ReLU with batch norm, or 1,024 ExU units with ReLU-1
    NBM        f_t = Σ_k a_tk h_k + c_t         h: 256-128-128 with batch norm, shared by the terms of an order
    MLP        g: one network of all columns

Written from the paper (§3.2, §4.2, appendix) and its published numbers of parameters. The numbers settle what the text
leaves open: NAM has batch norm, bases have it on hidden layers only, and NB²M has 200 bases for main effects as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

HIDDEN = (256, 128, 128)  # of a basis network
N_BASES = {1: 100, 2: 200, 3: 200}  # by the highest order of the terms; all orders have as many
SUBNET = (64, 64, 32)  # of a network for one term
N_EXU = 1024
MLP_SHAPES = (128, 128, 64, 64, 64), (1024, 512, 512), (2048, 1024)


def list_terms(n_columns: int, order: int) -> list[np.ndarray]:
    """For each order up to this one, the columns (T, o) of its terms.

    >>> [terms.tolist() for terms in list_terms(3, 2)]
    [[[0], [1], [2]], [[0, 1], [0, 2], [1, 2]]]
    """
    columns = np.arange(n_columns)
    found = [columns[:, None]]
    for _ in range(order - 1):
        last = found[-1][:, -1]
        smaller = np.repeat(found[-1], n_columns - 1 - last, axis=0)
        larger = np.concatenate([columns[first + 1 :] for first in last]) if len(last) else columns[:0]
        found.append(np.column_stack([smaller, larger]))
    return found


class AdditiveNetwork(nn.Module):
    """Scores (b, K) of rows (b, D): networks compute the shapes of the terms, weights for each class add them up.

    Parameters
    ----------
    n_columns, n_outputs : D and K
    order : largest number of columns in a term
    n_subnets : shapes per term, each with its own class weights
    feature_dropout : share of shapes that training drops
    """

    def __init__(
        self, n_columns: int, n_outputs: int, order: int = 1, n_subnets: int = 1, feature_dropout: float = 0.0
    ):
        super().__init__()
        self.terms, self.n_subnets = list_terms(n_columns, order), n_subnets
        for at, terms in enumerate(self.terms):
            self.register_buffer(f"columns_{at + 1}", torch.from_numpy(terms), persistent=False)
        self.dropout = nn.Dropout(feature_dropout)
        self.classes = nn.Linear(n_subnets * self.n_terms, n_outputs)

    @property
    def n_terms(self) -> int:
        return sum(map(len, self.terms))

    def shapes_of_order(self, order: int, values: Tensor) -> Tensor:
        """Values (T, o, b) of the columns of the terms -> shapes (S · T, b)."""
        raise NotImplementedError

    def shapes(self, rows: Tensor) -> Tensor:
        """Rows (b, D) -> shapes (S · T, b); for each order, subnet by subnet."""
        across = rows.T.contiguous()
        parts = [
            self.shapes_of_order(at + 1, across[getattr(self, f"columns_{at + 1}")]) for at in range(len(self.terms))
        ]
        return torch.cat(parts)

    def combine(self, shapes: Tensor) -> Tensor:
        """Shapes (S · T, b) -> scores (b, K)."""
        return self.classes(self.dropout(shapes.T))

    def forward(self, rows: Tensor) -> Tensor:
        return self.combine(self.shapes(rows))

    @torch.no_grad()
    def contributions(self, rows: Tensor) -> Tensor:
        """Contribution of each term to the scores, (b, T, K)."""
        pieces = (self.shapes(rows).T[..., None] * self.classes.weight.T).split(
            [self.n_subnets * len(terms) for terms in self.terms], dim=1
        )
        return torch.cat([piece.unflatten(1, (self.n_subnets, -1)).sum(dim=1) for piece in pieces], dim=1)


class PaperNetwork(AdditiveNetwork):
    """NBM, NB²M and NB³M as published: the basis network is evaluated on every value of the table.

    >>> count_numbers(PaperNetwork(8, 1)), count_numbers(PaperNetwork(54, 7, order=2))
    (64661, 462631)
    """

    def __init__(self, n_columns: int, n_outputs: int, order: int = 1, n_bases: int | None = None, n_subnets: int = 1):
        super().__init__(n_columns, n_outputs, order, n_subnets)
        size = n_bases or N_BASES[order]
        self.bases, self.coefficients, self.offsets = nn.ModuleList(), nn.ParameterList(), nn.ParameterList()
        for at, terms in enumerate(self.terms):
            self.bases.append(nn.ModuleList(make_basis_network(at + 1, size) for _ in range(n_subnets)))
            self.coefficients.append(nn.Parameter(torch.randn(n_subnets, len(terms), size) / size**0.5))
            self.offsets.append(nn.Parameter(torch.zeros(n_subnets, len(terms), 1)))

    def shapes_of_order(self, order: int, values: Tensor) -> Tensor:
        n_terms, _, n_rows = values.shape
        points, at = values.transpose(1, 2).reshape(n_terms * n_rows, order), order - 1
        parts = [
            torch.bmm(basis(points).view(n_terms, n_rows, -1), coefficients[..., None])[..., 0] + offsets
            for basis, coefficients, offsets in zip(
                self.bases[at], self.coefficients[at], self.offsets[at], strict=True
            )
        ]
        return torch.cat(parts)


def make_basis_network(n_inputs: int, n_bases: int) -> nn.Sequential:
    """(points, o) -> (points, B).

    DIFF: neuralbasis' own network of this size also normalises the bases themselves.
    """
    return make_layers([n_inputs, *HIDDEN, n_bases], batch_norm=True)


def make_layers(sizes: Sequence[int], batch_norm: bool, dropout: float = 0.0) -> nn.Sequential:
    """Linear layers of these sizes; between two of them batch norm, ReLU and dropout."""
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(sizes[:-1]):
        norm = [nn.BatchNorm1d(n_out)] if batch_norm else []
        drop = [nn.Dropout(dropout)] if dropout else []
        layers += [nn.Linear(n_in, n_out), *norm, nn.ReLU(), *drop]
    return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))


class NeuralAdditive(AdditiveNetwork):
    """NAM and NA²M: one network per term; all networks of an order share one batched product per layer.

    `units` is "relu" (64-64-32) or "exu" (1,024); `dropout` applies to hidden units.

    >>> count_numbers(NeuralAdditive(8, 1)), count_numbers(NeuralAdditive(8, 1, order=2))
    (53777, 243785)
    """

    def __init__(
        self, n_columns: int, n_outputs: int, order: int = 1, units: str = "relu", n_subnets: int = 1,
        dropout: float = 0.0, feature_dropout: float = 0.0,
    ):  # fmt: skip
        if units not in ("relu", "exu"):
            raise ValueError(f"units must be 'relu' or 'exu', got {units!r}")
        super().__init__(n_columns, n_outputs, order, n_subnets, feature_dropout)
        kind = {"relu": ReluNets, "exu": ExuNets}[units]
        self.nets = nn.ModuleList(kind(n_subnets * len(terms), at + 1, dropout) for at, terms in enumerate(self.terms))

    def shapes_of_order(self, order: int, values: Tensor) -> Tensor:
        return self.nets[order - 1](values.repeat(self.n_subnets, 1, 1))


class ReluNets(nn.Module):
    """(Q, o, b) -> (Q, b): Q networks 64-64-32 side by side.

    Rows are the last axis: each unit of each network is then a channel of torch's batch norm. 39 networks on 1,024
    rows, forward and backward on one core, took 56 ms; grouped convolutions took 69 ms with rows last and 192 ms with
    rows first. With dropout, drawing the masks takes as long as everything else.
    """

    def __init__(self, n_nets: int, n_inputs: int, dropout: float = 0.0):
        super().__init__()
        self.weights, self.biases, self.norms = nn.ParameterList(), nn.ParameterList(), nn.ModuleList()
        for n_in, n_out in pairwise([n_inputs, *SUBNET, 1]):
            bound = 1 / math.sqrt(n_in)
            self.weights.append(nn.Parameter(torch.empty(n_nets, n_out, n_in).uniform_(-bound, bound)))
            self.biases.append(nn.Parameter(torch.empty(n_nets, n_out, 1).uniform_(-bound, bound)))
        self.norms.extend(nn.BatchNorm1d(n_nets * size) for size in SUBNET)
        self.dropout = nn.Dropout(dropout)

    def forward(self, values: Tensor) -> Tensor:
        for weight, bias, norm in zip(self.weights, self.biases, self.norms, strict=False):
            units = torch.baddbmm(bias, weight, values)  # (Q, units, b)
            normed = norm(units.view(1, -1, units.shape[2])).view_as(units)
            values = self.dropout(functional.relu(normed))
        return torch.baddbmm(self.biases[-1], self.weights[-1], values)[:, 0]


class ExuNets(nn.Module):
    """(Q, o, b) -> (Q, b): Q networks of one layer of units min(max(Σ_j e^w_j (x_j - c_j), 0), 1), side by side.

    The exponents start near 4: a unit is then a step within a fiftieth of the axis (NAM, appendix).
    """

    def __init__(self, n_nets: int, n_inputs: int, dropout: float = 0.0):
        super().__init__()
        self.exponents = nn.Parameter(nn.init.trunc_normal_(torch.empty(n_nets, N_EXU, n_inputs), 4.0, 0.5, 3.0, 5.0))
        self.centres = nn.Parameter(nn.init.trunc_normal_(torch.empty(n_nets, N_EXU, n_inputs), 0.5, 0.5, -1.0, 2.0))
        bound = 1 / math.sqrt(N_EXU)
        self.weight = nn.Parameter(torch.empty(n_nets, 1, N_EXU).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(n_nets, 1, 1))
        self.dropout = nn.Dropout(dropout)

    def forward(self, values: Tensor) -> Tensor:
        slopes = self.exponents.exp()
        start = -(slopes * self.centres).sum(dim=2, keepdim=True)
        units = torch.baddbmm(start, slopes, values).clamp(0, 1)  # (Q, units, b)
        return torch.baddbmm(self.bias, self.weight, self.dropout(units))[:, 0]


def make_network(learner: str, n_columns: int, n_outputs: int, **options: Any) -> nn.Module:
    """The module of a learner: "linear", "nam", "nbm" or "mlp" (`shape` is one of three, `batch_norm`, `dropout`)."""
    if learner == "linear":
        return nn.Linear(n_columns, n_outputs)
    if learner == "mlp":
        shape = options.pop("shape", 0)
        return make_layers([n_columns, *MLP_SHAPES[shape], n_outputs], options.pop("batch_norm", True), **options)
    kinds = {"nam": NeuralAdditive, "nbm": PaperNetwork}
    if learner not in kinds:
        raise ValueError(f"learner must be one of {['linear', 'mlp', *kinds]}, got {learner!r}")
    return kinds[learner](n_columns, n_outputs, **options)


def count_parameters(learner: str, n_columns: int, n_outputs: int, **options: Any) -> int:
    """Number of trained parameters of a learner's network; `options` as in `make_network`.

    The module is built on torch's meta device and takes no memory, so the paper's largest networks can be counted.

    >>> count_parameters("nam", 146_016, 20)
    984293876
    """
    with torch.device("meta"):
        return count_numbers(make_network(learner, n_columns, n_outputs, **options))


def count_numbers(net: nn.Module) -> int:
    return sum(parameter.numel() for parameter in net.parameters())
