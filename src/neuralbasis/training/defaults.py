"""Defaults that depend on the data: knots, bases, batch sizes, steps, learning rates, and the networks they make.

In: a `FitConfig` and properties of the rows. Out: numbers, `Settings` of a training run, networks.
benchmarks/NOTEBOOK.md records how the values were chosen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
import torch

from ..config import LARGE_TABLE, PRESETS, FitConfig
from ..data.target import Sample
from ..encoding.axis import Axis
from ..encoding.sparse_codes import CodeFinder
from ..losses.loss import Loss
from ..networks import Basis, BasisNet, LinearStartBasis, MLPBasis, SplineBasis
from ..networks.basis_net import Points
from ..terms.term import Plan, Term, plan_terms
from .engines import GridEngine
from .members import Settings
from .penalties import CURVATURE

# DIFF: the paper's network has the place as its only input, is wider, uses batch norm and ties classes. With Fourier
# inputs, a smaller network without batch norm and with coefficients for each class was faster and at least as accurate.
SMOOTHNESS = {CURVATURE: (10.0, 100.0), 1: (3.0, 3.0), 2: (60.0, 5.0), 3: (60.0, 5.0)}  # strength, floor; see `Penalty`
MAX_FREQUENCY = {1: 32.0, 2: 8.0, 3: 8.0}  # periods over the axis, by order of the term
MIN_STEPS = 140  # of main effects
KNOTS: dict[int, tuple[int, ...]] = {2: (49, 25, 17, 13, 9, 5), 3: (13, 9, 7, 5, 4, 3)}  # all nest in 193
FEW_ROWS = 10_000  # up to which automatic pairs must be stronger than all noise, and weaker ones get steps
MAX_NUMBERS = 7e6  # cells × members × outputs of interactions, at most
MAX_FREE = 1e6  # terms × members × classes beyond which classes are tied
WIDE_KNOTS = {1: 65, 2: 17, 3: 9}  # of the axis that all columns of a wide table share
WIDE_BASES = {1: 4, 2: 2, 3: 2}  # of wide tables, by order of the term


def count_numbers(config: FitConfig, plan: Plan, classes: np.ndarray | None, n_rows: int) -> float:
    """Terms × classes, at most; 1 where there are no classes to tie."""
    if classes is None or len(classes) < 3:
        return 1
    n_columns = min(len(plan.features), count_terms(config, n_rows))
    n_found = min(math.comb(int(n_columns), 2), plan.n_pairs) + min(math.comb(int(n_columns), 3), plan.n_triples)
    return (n_columns + len(plan.listed) + n_found) * len(classes)


def count_terms(config: FitConfig, n_rows: int) -> float:
    """Number of columns up to which all get a main effect."""
    if isinstance(config.max_terms, str):
        return max(100, 0.25 * n_rows)
    return config.max_terms or math.inf


def make_plan(config: FitConfig, names: Sequence[str], classes: np.ndarray | None, n_rows: int) -> Plan:
    """The requested terms; "auto" pairs are a multiple of the number of columns, at most 300.

    They are none where the scores of all rows and classes, which screening needs, would be too many.
    """
    multiple = 3 if classes is not None and n_rows < LARGE_TABLE else 5
    automatic = min(math.ceil(multiple * PRESETS[config.preset].pairs * len(names)), 300)
    if classes is not None and n_rows * len(classes) > 1e8:
        automatic = 0
    return plan_terms(config.interactions, config.triples, config.exclude, names, automatic)


def choose_tied(config: FitConfig, n_terms: float, n_outputs: int) -> bool:
    """Whether classes are tied: by default if coefficients for each class would be too many.

    The limit is lower for many classes, which have few rows each and learn more when tied.
    """
    if config.network.tied_classes is not None:
        return bool(config.network.tied_classes)
    limit = MAX_FREE if n_outputs < 50 else MAX_FREE / 10
    return n_outputs > 1 and n_terms * n_outputs * config.outer_bags > limit


def count_channels(config: FitConfig, n_terms: float, n_outputs: int) -> int:
    """Numbers per cell of a stage with `n_terms` terms."""
    tied = choose_tied(config, n_terms, n_outputs)
    return config.outer_bags * (config.network.n_subnets if tied else n_outputs)


def choose_knots(
    config: FitConfig, axes: Sequence[Axis], terms: Sequence[Term], n_rows: int, n_outputs: int
) -> dict[int, int]:
    """Knots of a column by order of the term: fewer for few rows and for large tables."""
    requested = config.max_interaction_bins
    if requested is not None:
        return {2: requested, 3: max(2, round(requested / 4))}
    knots, channels = {}, count_channels(config, len(terms), n_outputs)
    for order, sizes in KNOTS.items():
        counts = np.array([[len(axes[f].knots) for f in term] for term in terms if len(term) == order])
        sizes = sizes[max(PRESETS[config.preset].coarser, int(n_rows < 2000)) :]
        fitting = [k for k in sizes if np.minimum(counts, k).prod(axis=-1).sum() * channels <= MAX_NUMBERS]
        knots[order] = fitting[0] if fitting else sizes[-1]
    return knots


def make_net(
    config: FitConfig, grid: GridEngine, loss: Loss, sample: Sample | None, n_rows: float,
    rng: np.random.Generator, bare: bool = False,
) -> BasisNet:  # fmt: skip
    """A net for the grid's terms, its intercept at the best constant model of the sample.

    bare : the bases and the intercept only, without parameters of terms and cells
    """
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    orders = [len(term) for term in grid.layout.terms]
    bases = {order: _make_basis(config, order, orders.count(order), generator) for order in sorted(set(orders))}
    if callable(config.network.basis):
        _check_values(bases, grid.points)
    tied = choose_tied(config, len(orders), loss.n_outputs)
    ridge = choose_smoothness(config) * 0.5 / n_rows if loss.n_outputs > 1 else 0.0
    net = BasisNet(
        bases, {order: 0 if bare else orders.count(order) for order in bases}, 0 if bare else grid.cells.n_free,
        config.outer_bags,
        loss.n_outputs, config.network.n_subnets, tied, config.network.basis_dropout, ridge,
    )  # fmt: skip
    if tied and loss.n_outputs > 1 and not bare:
        net.draw_mixes(1 / math.sqrt(net.n_subnets), generator)
    if sample is not None:
        net.intercept.data.add_(torch.from_numpy(loss.first_score(sample)))
    return net.to(grid.device)


def _make_basis(config: FitConfig, order: int, n_terms: int, generator: torch.Generator) -> Basis:
    copies, n_bases = config.outer_bags * config.network.n_subnets, config.network.n_interaction_bases
    if order == 1:
        n_bases = choose_bases(n_terms) if config.network.n_bases is None else config.network.n_bases
    network = config.network
    if callable(network.basis):
        return network.basis(order, n_bases, copies, generator)
    if network.basis == "spline":
        return SplineBasis(order, n_bases, copies)
    return MLPBasis(
        order, n_bases, copies, network.hidden, network.fourier, MAX_FREQUENCY[order], 1.5, network.batch_norm,
        network.dropout, generator, network.relu_bases,
    )  # fmt: skip


def choose_bases(n_terms: int) -> int:
    """B for this number of main effects.

    PAPER appendix: the error of B shared bases for D shapes falls like D · exp(-B^γ), so B = O(log D) are enough.

    >>> [choose_bases(n_terms) for n_terms in (1, 10, 1000, 100_000)]
    [8, 18, 38, 59]
    """
    return round(8 + 4.4 * math.log(n_terms))


def _check_values(bases: dict[int, Basis], points: Points) -> None:
    """Refuse a basis of the user that is not finite at the knots."""
    for order, basis in bases.items():
        chosen = points.orders[order]
        with torch.no_grad(), torch.random.fork_rng(devices=[]):  # the basis may draw random numbers
            values = basis.eval()(chosen.places.cpu(), chosen.weight.cpu())
        basis.train()
        if not bool(values.isfinite().all()):
            is_wrong = ~values.isfinite().all(dim=2).all(dim=0)
            place = ", ".join(f"{each:g}" for each in chosen.places.cpu()[is_wrong][0].tolist())
            raise ValueError(
                f"the basis {type(basis).__name__} of order {order} returned values that are not finite, such as at "
                f"the point ({place}); all its values on [0, 1] must be finite numbers"
            )


def make_wide_basis(finder: CodeFinder, generator: torch.Generator) -> Basis:
    """A basis that starts with the value itself (a product in interactions), 1 where present, and random others."""
    cells, order = finder.inner_cells, finder.features.shape[1]
    value = finder.axis.knots[cells - 1] - (0.0 if math.isnan(finder.absent) else finder.absent)
    value = np.ldexp(value, -math.frexp(np.abs(value).max(initial=0.0))[1])  # squares of huge values would overflow
    product = reduce(np.multiply.outer, [value] * order).ravel()
    size = math.sqrt((product**2).sum() / max(len(product), 1)) or 1.0
    start = np.zeros((len(product), WIDE_BASES[order]), dtype=np.float32)
    start[:, 0], start[:, 1] = product / size, 1.0
    return LinearStartBasis(torch.from_numpy(start), order, MAX_FREQUENCY[order], generator)


def make_wide_settings(config: FitConfig, n_rows: int, n_drawn: int) -> list[Settings]:
    """Settings of successive rounds, which end when the held-out loss stops falling; one round if epochs or steps are
    given."""
    batch_size = config.network.batch_size
    if batch_size is None:
        batch_size = int(2 ** np.clip(round(math.log2(max(n_rows, 2) / 300)), 5, 10))
    usual = replace(make_settings(config, n_rows, n_drawn), batch_size=batch_size, n_checkpoints=2)
    if config.max_steps is not None:
        return [usual]
    given = config.network.max_epochs
    epochs = [PRESETS[config.preset].steps * count for count in (4, 4, 8, 16)] if given is None else [given]
    steps = [max(1, math.ceil(count * n_drawn / min(batch_size, n_drawn))) for count in epochs]
    return [replace(usual, max_steps=count) for count in steps]


def make_settings(
    config: FitConfig, n_rows: int, n_drawn: int, order: int = 1, n_active: float = 0.0, tied: bool = False,
    information: float = 1.0, title: str | None = None, n_terms: int = 1,
) -> Settings:  # fmt: skip
    """Settings of a stage; an epoch draws `n_drawn` rows.

    PAPER §3.2: the output penalty is on the mean of f² over rows and terms, beside the squared error. Ours is on the
    sum over terms, beside half the squared error.

    "auto" batch sizes follow the number of rows; "auto" steps follow the number of rows and their information. Adam
    moves every coefficient equally, so scores move faster the more interactions are active in a row: the rate shrinks
    if they are more than 40.
    """
    batch_size = (
        choose_batch_size(n_rows, 1 if tied else order)
        if config.network.batch_size is None
        else config.network.batch_size
    )
    max_steps = config.max_steps
    if max_steps is None:
        usual = choose_steps(n_rows, order, config.classifier, information)
        max_steps = max(MIN_STEPS if order == 1 else 1, round(PRESETS[config.preset].steps * usual))
    if config.network.max_epochs is not None:
        max_steps = max(1, math.ceil(config.network.max_epochs * n_drawn / min(batch_size, n_drawn)))
    tolerance, factor = config.network.early_stopping_tolerance, choose_smoothness(config)
    plain = config.network.plain_training
    kind = {1: "main effects", 2: "pairs", 3: "triples"}[order] if config.network.staged else "all terms"
    return Settings(
        learning_rate=config.learning_rate * (1.0 if plain else min(1.0, math.sqrt(40 / max(n_active, 1.0)))),
        weight_decay=config.network.weight_decay,
        batch_size=batch_size,
        max_steps=max_steps,
        early_stopping_rounds=config.early_stopping_rounds,
        early_stopping_tolerance=None if tolerance is None else float(tolerance),
        smoothness={kind: (factor * strength, floor) for kind, (strength, floor) in SMOOTHNESS.items()},
        output_penalty=config.network.output_penalty / n_terms * (1.0 if config.classifier else 0.5),
        beta=0.999 if plain else 0.99,
        warm_up=0.0 if plain else 0.05,
        averaging=0.0 if plain else 0.05,
        time_limit=config.time_limit,
        verbose=bool(config.verbose),
        callbacks=tuple(config.callbacks or ()),
        stage=title or kind,
    )


def choose_smoothness(config: FitConfig) -> float:
    """Strength of the penalties as a multiple of the default."""
    automatic = 1.0 if config.network.engine == "grid" else 0.0
    return automatic if config.smoothness is None else float(config.smoothness)


def choose_batch_size(n_rows: int, order: int = 1) -> int:
    """A power of two near a twelfth of the rows, 64 … 8,192; near a third for interactions.

    The cost of a step of interactions is mostly the network at their many points: larger batches are almost free and
    less noisy. Tied classes are the exception, since every row weighs every term for every class.
    """
    share = 12 if order == 1 else 3
    return int(2 ** np.clip(round(math.log2(max(n_rows, 2) / share)), 6, 13))


def choose_steps(n_rows: int, order: int = 1, classes: bool = False, information: float = 1.0) -> int:
    """400 for main effects and 200 for interactions at 1,000 rows, growing with the power 0.45 to 2,500 at most.

    Fewer rows get fewer steps only in classification: a few rows are often separable, and then scores grow without
    limit. The steps of interactions depend on the rows' information: a rare class supports fewer of them. Large tables
    have half the members and twice the steps of interactions.
    """
    if order > 1:
        usual = np.clip(200 * (information * n_rows / 1000) ** 0.45, 300, 2500)
        return int(2 * usual if n_rows >= LARGE_TABLE else usual)
    return int(np.clip(400 * (n_rows / 1000) ** 0.45, MIN_STEPS if classes else 400, 2500))
