"""The networks of the paper's comparison as torch modules, how they are trained, how many parameters they have.

    additive   g_l = Σ_t w_tl f_t + w_0l        terms t: columns, with `order=2` pairs of columns too, and so on
    NAM        f_t: a network for each term     64-64-32 ReLU with batch norm, or 1,024 ExU units with ReLU-1
    NBM        f_t = Σ_k a_tk h_k + c_t         h: 256-128-128 with batch norm, shared by the terms of an order
    MLP        g: one network of all columns

Written from the paper (§3.2, §4.2, appendix) and its published numbers of parameters, which tell what the text leaves
open: NAM has batch norm, bases have it on hidden layers only, and NB²M has 200 bases for its main effects as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
    """Scores (b, K) of rows (b, D): networks say the shapes of the terms, weights for each class add them up.

    Parameters
    ----------
    n_columns, n_outputs : D and K
    order : terms of up to so many columns
    n_subnets : shapes that each term has, each with class weights of its own
    feature_dropout : share of shapes that are dropped in training
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
        """What each term adds to the scores, (b, T, K)."""
        pieces = (self.shapes(rows).T[..., None] * self.classes.weight.T).split(
            [self.n_subnets * len(terms) for terms in self.terms], dim=1
        )
        return torch.cat([piece.unflatten(1, (self.n_subnets, -1)).sum(dim=1) for piece in pieces], dim=1)


class PaperNetwork(AdditiveNetwork):
    """NBM, NB²M and NB³M as published: the basis network is evaluated on every cell of the table.

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
    """NAM and NA²M: a network for each term, all networks of an order in one batched product a layer.

    `units` is "relu" (64-64-32) or "exu" (1,024); `dropout` is of hidden units.

    >>> count_numbers(NeuralAdditive(8, 1)), count_numbers(NeuralAdditive(8, 1, order=2))
    (53777, 243785)
    """

    def __init__(
        self, n_columns: int, n_outputs: int, order: int = 1, units: str = "relu", n_subnets: int = 1,
        dropout: float = 0.0, feature_dropout: float = 0.0,
    ):  # fmt: skip
        if units not in ("relu", "exu"):
            raise ValueError(f"units is 'relu' or 'exu', not {units!r}")
        super().__init__(n_columns, n_outputs, order, n_subnets, feature_dropout)
        kind = {"relu": ReluNets, "exu": ExuNets}[units]
        self.nets = nn.ModuleList(kind(n_subnets * len(terms), at + 1, dropout) for at, terms in enumerate(self.terms))

    def shapes_of_order(self, order: int, values: Tensor) -> Tensor:
        return self.nets[order - 1](values.repeat(self.n_subnets, 1, 1))


class ReluNets(nn.Module):
    """(Q, o, b) -> (Q, b): Q networks 64-64-32 side by side.

    Rows lie last, so that what is a channel for each network and unit is a channel for torch's batch norm too. Of 39
    networks on 1,024 rows, forward and back, this took 56 ms of one core; grouped convolutions took 69 ms with rows
    last and 192 ms with rows first, a loop over the networks 56 ms. Dropout draws its masks as slowly as all the rest.
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

    The exponents start near 4, so that a unit is a step within a fiftieth of the axis (NAM, its appendix).
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
        raise ValueError(f"a network is one of {['linear', 'mlp', *kinds]}, not {learner!r}")
    return kinds[learner](n_columns, n_outputs, **options)


def count_parameters(learner: str, n_columns: int, n_outputs: int, **options: Any) -> int:
    """Trained numbers of a learner's network, counted on the module itself; `options` as in `make_network`.

    The module holds no memory while it is counted, so that it may be as large as the paper's largest.

    >>> count_parameters("nam", 146_016, 20)
    984293876
    """
    with torch.device("meta"):
        return count_numbers(make_network(learner, n_columns, n_outputs, **options))


def count_numbers(net: nn.Module) -> int:
    return sum(parameter.numel() for parameter in net.parameters())


@dataclass(frozen=True)
class Training:
    """How a network is trained: AdamW, cosine from the learning rate to zero.

    `output_penalty` counts the mean square of the shapes of an additive network, over rows and shapes. With validation
    rows the state with the lowest loss among `n_checkpoints` is kept, and training ends after `patience` of them
    without a lower one; 0 goes on to the end.
    """

    epochs: int
    batch_size: int = 1024
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    output_penalty: float = 0.0
    n_checkpoints: int = 50
    patience: int = 0


class Fitted:
    """A trained network that predicts; targets were brought to mean 0 and deviation 1."""

    def __init__(self, net: nn.Module, shift: float, unit: float):
        self.net, self.shift, self.unit = net.eval(), shift, unit

    @property
    def term_features_(self) -> list[tuple[int, ...]]:
        """Columns of each term of an additive network."""
        return [tuple(map(int, term)) for terms in self.net.terms for term in terms]

    def contributions(self, X: Any) -> np.ndarray:
        """(N, T), with three classes or more (N, T, K), in the unit of the scores."""
        found = torch.cat([self.net.contributions(part) for part in split_rows(X)])
        return self.unit * (found[..., 0] if found.shape[2] == 1 else found).double().numpy()

    @torch.no_grad()
    def scores(self, X: Any) -> np.ndarray:
        """(N, K)"""
        found = torch.cat([self.net(part) for part in split_rows(X)])
        return self.shift + self.unit * found.double().numpy()


class FittedRegressor(Fitted):
    """Predicts the target."""

    def predict(self, X: Any) -> np.ndarray:
        return self.scores(X)[:, 0]


class FittedClassifier(Fitted):
    """Predicts classes; two classes have one score, the log odds of the second."""

    def __init__(self, net: nn.Module, classes: np.ndarray):
        super().__init__(net, 0.0, 1.0)
        self.classes_ = classes

    def predict_proba(self, X: Any) -> np.ndarray:
        scores = self.scores(X)
        if scores.shape[1] == 1:
            scores = np.hstack([np.zeros_like(scores), scores])
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def fit_network(
    learner: str, options: dict[str, Any], training: Training, X: Any, y: Any, task: str, seed: int,
    validation: tuple[Any, Any] | None = None,
) -> FittedRegressor | FittedClassifier:  # fmt: skip
    """A learner's network, trained on a table of numbers (an array, or CSR); the same seed gives the same network."""
    check_numbers(X)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if task == "regression":
            shift, unit = float(np.mean(y)), float(np.std(y)) or 1.0
            net = make_network(learner, X.shape[1], 1, **options)
            train(net, X, (np.asarray(y) - shift) / unit, training, _scale(validation, shift, unit))
            return FittedRegressor(net, shift, unit)
        classes, codes = np.unique(y, return_inverse=True)
        net = make_network(learner, X.shape[1], 1 if len(classes) == 2 else len(classes), **options)
        held = None if validation is None else (validation[0], np.searchsorted(classes, validation[1]))
        train(net, X, codes, training, held)
        return FittedClassifier(net, classes)


def _scale(validation: tuple[Any, Any] | None, shift: float, unit: float) -> tuple[Any, Any] | None:
    return None if validation is None else (validation[0], (np.asarray(validation[1]) - shift) / unit)


def check_numbers(X: Any) -> None:
    """Networks read numbers: no levels, no gaps."""
    values = X.data if hasattr(X, "indptr") else np.asarray(X)
    if values.dtype.kind not in "fiub" or not np.isfinite(values).all():
        raise ValueError(
            "a network needs a table of finite numbers, but there are levels or gaps; prepare the table first: "
            "benchmarks.datasets.paper.prepare turns levels into numbers; fill or drop the gaps"
        )


def train(net: nn.Module, X: Any, y: np.ndarray, training: Training, validation: tuple[Any, Any] | None = None) -> None:
    """Fit `net` in place; `y` are numbers, or classes as integers."""
    target = as_target(y)
    optimizer = torch.optim.AdamW(net.parameters(), training.learning_rate, weight_decay=training.weight_decay)
    n_rows, size = len(target), min(training.batch_size, len(target))
    n_steps = math.ceil(n_rows / size) * training.epochs
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)
    watch = None if validation is None else Watch(net, *validation, training)
    every = max(1, n_steps // training.n_checkpoints)
    for step, rows in enumerate(draw_batches(n_rows, size, training.epochs), start=1):
        net.train()
        optimizer.zero_grad()
        measure_batch(net, take_rows(X, rows), target[rows], training.output_penalty).backward()
        optimizer.step()
        schedule.step()
        if watch is not None and (step % every == 0 or step == n_steps) and watch.look():
            break
    if watch is not None:
        net.load_state_dict(watch.best)
    net.eval()


class Watch:
    """Looks at the loss of validation rows and keeps the best state."""

    def __init__(self, net: nn.Module, X: Any, y: np.ndarray, training: Training):
        self.net, self.X, self.target, self.patience = net, X, as_target(y), training.patience
        self.lowest, self.waited, self.best = math.inf, 0, copy_state(net)

    @torch.no_grad()
    def look(self) -> bool:
        """True when training should stop."""
        self.net.eval()
        scores = torch.cat([self.net(part) for part in split_rows(self.X)])
        loss = float(find_loss(scores, self.target))
        if loss < self.lowest:
            self.lowest, self.waited, self.best = loss, 0, copy_state(self.net)
        else:
            self.waited += 1
        return 0 < self.patience <= self.waited


def draw_batches(n_rows: int, size: int, epochs: int) -> Iterator[Tensor]:
    """Shuffled rows, every row once in an epoch; batches of an epoch differ by one row at most (none is too small for
    batch norm)."""
    n_batches = math.ceil(n_rows / size)
    for _ in range(epochs):
        yield from torch.randperm(n_rows).tensor_split(n_batches)


def measure_batch(net: nn.Module, rows: Tensor, target: Tensor, output_penalty: float) -> Tensor:
    """The loss that is minimised."""
    if not isinstance(net, AdditiveNetwork):
        return find_loss(net(rows), target)
    shapes = net.shapes(rows)
    loss = find_loss(net.combine(shapes), target)
    return loss + output_penalty * shapes.square().mean() if output_penalty else loss


def find_loss(scores: Tensor, target: Tensor) -> Tensor:
    """Mean squared error of numbers; cross-entropy of classes, two of which have one score."""
    if target.dtype.is_floating_point:
        return functional.mse_loss(scores[:, 0], target)
    if scores.shape[1] == 1:
        return functional.binary_cross_entropy_with_logits(scores[:, 0], target.float())
    return functional.cross_entropy(scores, target)


def as_target(y: np.ndarray) -> Tensor:
    y = np.asarray(y)
    return torch.from_numpy(y.astype(np.float32 if y.dtype.kind == "f" else np.int64))


def take_rows(X: Any, rows: Any) -> Tensor:
    """Some rows of an array or a sparse matrix, dense."""
    found = X[rows.numpy() if isinstance(rows, Tensor) else rows]
    return torch.from_numpy(np.ascontiguousarray(found.toarray() if hasattr(found, "toarray") else found, np.float32))


def split_rows(X: Any, size: int = 1024) -> Iterator[Tensor]:
    """All rows, so many at a time."""
    for first in range(0, X.shape[0], size):
        yield take_rows(X, slice(first, first + size))


def copy_state(net: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in net.state_dict().items()}


def thread_counts() -> list[int]:
    """One thread and all. On a busy machine more can be slower: the network is timed with both, the faster counts."""
    return sorted({1, torch.get_num_threads()})
