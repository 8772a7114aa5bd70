"""The recipe: from an estimator's parameters to a net and to training settings; defaults that depend on the data.

`check_parameters` raises before any work is done, `warn_unread` names parameters that a fit ignores; `make_net` and
`make_settings` turn "auto" into numbers.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import reduce
from numbers import Real
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from sklearn.base import is_classifier
from sklearn.utils import check_random_state

from .data.memory import read_limit
from .data.target import Sample
from .encoding.axis import SCALINGS, Axis
from .encoding.layout import Layout
from .encoding.sparse_codes import CodeFinder
from .losses.loss import Loss
from .networks import Basis, LinearStartBasis, MLPBasis, SplineBasis
from .networks.basis_net import BasisNet
from .terms.term import Plan, Term, plan_terms
from .training.boosting import FEW_ROWS
from .training.engines import GridEngine
from .training.low_rank import Regime
from .training.members import Settings
from .training.penalties import CURVATURE

# DIFF: the paper's network sees the place alone, is wider, normalises batches and ties classes. Behind Fourier inputs a
# smaller network without batch norm learned as well or better, faster, with coefficients for each class.
SMOOTHNESS = {CURVATURE: (10.0, 100.0), 1: (3.0, 3.0), 2: (60.0, 5.0), 3: (60.0, 5.0)}  # strength, floor; see `Penalty`
MAX_FREQUENCY = {1: 32.0, 2: 8.0, 3: 8.0}  # periods over the axis, by order of the term
FREQUENCY_DECAY = 1.5
MIN_STEPS, INTERACTION_STEPS = 140, (300, 2500)
AUTO_PAIRS = {"regression": 5, "classes": 3, "large": 5}  # times the number of columns; classes of a large table
MAX_AUTO_PAIRS = 300
AUTO_CHANCE = 0.3  # of taking any interaction if all are noise; of many rows, the share of noise among those taken
MAX_SCREENED = {2: 500, 3: 90}  # columns in which interactions of an order are searched
KNOTS: dict[int, tuple[int, ...]] = {2: (49, 25, 17, 13, 9, 5), 3: (13, 9, 7, 5, 4, 3)}  # all nest in 193
MAX_WEAK = 1e8  # rows × candidates × members × outputs beyond which weak pairs are not looked for
MAX_PICKED = 20  # interactions picked one after the other; the others as ranked at first
SMALL_TABLE = 2000
MIN_ANCHOR = 0.8  # share of rows with one value from which interactions are anchored there
MAX_ACTIVE = 40  # interactions active in a row from which the learning rate shrinks
MAX_NUMBERS = 7e6  # cells × members × outputs of the interactions
MAX_FREE = 1e6  # terms × members × classes beyond which classes are tied
MANY_CLASSES, MAX_FREE_MANY = 50, 1e5  # of many classes, each with few rows, sooner: tied, they learn from one another
MAX_TIED, MIN_MEMBERS = 1e6, 2  # terms × members × classes beyond which there are fewer members, and how few at least
TIED_SIZE, TIED_RIDGE = 1.0, 0.5  # first weights of tied classes, and what pulls them to 0, over the number of rows
MAX_SCORES = 1e8  # rows × classes beyond which "auto" is no pairs: they are found in the scores of all rows
BYTES_A_SCORE = 28  # of a row and class beside its members' scores, while interactions are found in them
BYTES_A_TERM = 16 * 4 * 8  # the smallest useful table, and what training holds beside it
LARGE_TABLE = 100_000  # rows from which there are fewer members and, of classes, more pairs
WIDE_KNOTS = {1: 65, 2: 17, 3: 9}  # of the axis that all columns of a wide table share
WIDE_BASES = {1: 4, 2: 2, 3: 2}  # of wide tables, by order of the term
WIDE_EPOCHS = 4, 4, 8, 16  # of wide tables, round by round
WIDE_GAIN = 0.02  # part of the validation loss that a round must gain, or it is the last
WIDE_NUMBERS, WIDE_SHARE = 20_000, 0.9  # terms × outputs, and absent values, from which a table is read by factors
MIN_WIDE, WIDE = 100, 0.25  # columns, and columns for each row, beyond which columns are chosen before training


@dataclass(frozen=True)
class Preset:
    """How much work "auto" stands for: members (fewer for a large table, and for a wide one), steps and pairs as
    multiples of the usual, and how many of the finest `KNOTS` are left out."""

    members: int
    members_large: int
    members_wide: int
    steps: float
    pairs: float
    coarser: int


PRESETS = {
    "fast": Preset(members=3, members_large=2, members_wide=2, steps=0.35, pairs=0.4, coarser=1),
    "default": Preset(members=7, members_large=4, members_wide=3, steps=1.0, pairs=1.0, coarser=0),
    "best": Preset(members=14, members_large=7, members_wide=7, steps=2.0, pairs=2.0, coarser=0),
}
STAGES = {1: "main effects", 2: "pairs", 3: "triples"}

# The published settings (PAPER §4.3), for comparison with our defaults.
PAPER = {
    "scaling": "minmax", "engine": "exact", "hidden": (256, 128, 128), "n_bases": 100, "n_interaction_bases": 200,
    "fourier": 0, "batch_norm": True, "tied_classes": True, "staged": False, "outer_bags": 1, "smoothness": 0.0,
    "refine": False,
}  # fmt: skip

_COUNTS = {
    "max_bins": 2, "n_interaction_bases": 1, "n_subnets": 1, "fourier": 0, "early_stopping_rounds": 0,
}  # fmt: skip
_AUTOMATIC = {"batch_size": 1, "max_steps": 1, "max_interaction_bins": 2, "outer_bags": 1, "n_bases": 1}
_SHARES = ("dropout", "basis_dropout")
_AMOUNTS = ("output_penalty", "weight_decay")
_CHOICES = {
    "preset": tuple(PRESETS),
    "scaling": ("auto", *SCALINGS),
    "engine": ("grid", "exact"),
    "heredity": ("strong", "weak", None),
}
_FLAGS = ("batch_norm", "staged", "refine", "verbose", "keep_cache", "warm_start")

# Path of a fit -> parameters that it never reads. Paths combine: an update may use splines. Parameters of something
# that was not requested (pairs with interactions=0, checkpoints without a folder) are not listed.
UNREAD: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "wide": (
        "max_interaction_bins", "heredity", "n_bases", "n_interaction_bases", "hidden", "n_subnets", "fourier",
        "batch_norm", "dropout", "basis_dropout", "staged", "refine", "smoothness", "learning_rate",
    ),
    "other basis": ("hidden", "fourier", "batch_norm", "dropout"),
    "no validation": ("early_stopping_rounds", "early_stopping_tolerance"),
    "update": (
        "feature_types", "max_bins", "knots", "max_interaction_bins", "interactions", "triples", "exclude", "max_terms",
        "heredity", "scaling", "staged", "cache_dir", "keep_cache", "checkpoint_dir", "checkpoint_every",
    ),
})  # fmt: skip
_REASONS = {
    "wide": "a table with this many columns, nearly all of whose values are absent, is fitted with a network and rates "
    "of its own; leave them at their defaults, or set scaling='quantile', which fits every term as in other tables and "
    "needs far more memory",
    "other basis": "only basis='mlp' has a network; leave them at their defaults, or set basis='mlp'",
    "no validation": "validation_size=0 holds out no rows to stop by; set validation_size to a share such as 0.15",
    "update": "an update keeps the knots and terms of the model, reads its rows into memory and writes no checkpoints; "
    "fit a new model to change them",
}


def check_parameters(estimator: Any) -> None:
    """One clear error for the first parameter that is wrong or contradicts another."""
    for name, smallest in _COUNTS.items():
        _require_integer(name, getattr(estimator, name), smallest)
    for name in _SHARES:
        _require(name, getattr(estimator, name), lambda v: _is_number(v) and 0 <= v < 1, "a number from 0 to below 1")
    for name in _AMOUNTS:
        _require(name, getattr(estimator, name), lambda v: _is_number(v) and v >= 0, "a number of at least 0")
    for name, choices in _CHOICES.items():
        _require(name, getattr(estimator, name), lambda v, c=choices: v in c, f"one of {choices}")
    for name in _FLAGS:
        _require(name, getattr(estimator, name), lambda v: isinstance(v, (bool, np.bool_, int)), "True or False")
    if not isinstance(estimator.tied_classes, str) or estimator.tied_classes != "auto":
        is_flag = isinstance(estimator.tied_classes, (bool, np.bool_, int))
        _require("tied_classes", estimator.tied_classes, lambda _: is_flag, "True, False or 'auto'")
    for name, smallest in _AUTOMATIC.items():
        if not isinstance(getattr(estimator, name), str) or getattr(estimator, name) != "auto":
            _require_integer(name, getattr(estimator, name), smallest, "'auto' or ")
    if estimator.max_terms is not None and estimator.max_terms != "auto":
        _require_integer("max_terms", estimator.max_terms, 1, "None, 'auto' or ")
    _require("knots", estimator.knots, lambda v: v is None or isinstance(v, Mapping), "None or a mapping of columns")
    _require("absent_value", estimator.absent_value, _is_number_or_missing, "a finite number or NaN")
    _require("learning_rate", estimator.learning_rate, lambda v: _is_number(v) and v > 0, "a number above 0")
    _require("validation_size", estimator.validation_size, _is_validation_size, "a share below 1 or a number of rows")
    _require("basis", estimator.basis, lambda v: v in ("mlp", "spline") or callable(v), "'mlp', 'spline' or a callable")
    _require("hidden", estimator.hidden, _is_sizes, "a sequence of positive integers")
    read_limit(estimator.memory_limit)
    if estimator.keep_cache and estimator.cache_dir is None:
        raise ValueError("keep_cache=True needs a cache_dir: a cache in a temporary folder would never be found again")
    _require("max_epochs", estimator.max_epochs, _is_none_or_positive, "None or a number above 0")
    _require("time_limit", estimator.time_limit, _is_none_or_positive, "None or seconds above 0")
    for name in ("smoothness", "early_stopping_tolerance"):
        _require(name, getattr(estimator, name), lambda v: v == "auto" or (_is_number(v) and v >= 0), "'auto' or >= 0")
    _check_surroundings(estimator)
    _check_contradictions(estimator)


def _check_surroundings(estimator: Any) -> None:
    """Parameters that concern the run rather than the model."""
    for name in ("cache_dir", "checkpoint_dir"):
        value = getattr(estimator, name)
        _require(name, value, lambda v: isinstance(v, (str, os.PathLike, type(None))), "None or a folder")
    every = estimator.checkpoint_every
    _require("checkpoint_every", every, lambda v: _is_number(v) and v >= 0, "seconds of at least 0")
    _require("callbacks", estimator.callbacks, _is_none_or_callables, "None or a list of callables")
    if estimator.n_jobs is not None and (not _is_integer(estimator.n_jobs) or estimator.n_jobs == 0):
        raise ValueError(f"n_jobs must be None, a number of threads, or -1 for all cores, not {estimator.n_jobs!r}")
    try:
        check_random_state(estimator.random_state)
    except ValueError as error:
        raise ValueError(
            f"random_state must be None, an integer from 0 to 2**32 - 1 or a RandomState: {error}"
        ) from None
    try:
        torch.zeros(1, device=torch.device(estimator.device)).cpu()
    except (TypeError, RuntimeError, AssertionError) as error:
        came = f"{estimator.device!r} ({str(error).splitlines()[0]})"
        raise ValueError(f"device must be 'cpu' or a torch device of this machine, not {came}") from None


def _check_contradictions(estimator: Any) -> None:
    if estimator.engine == "exact" and estimator.smoothness not in ("auto", 0):
        raise ValueError(
            f"smoothness={estimator.smoothness!r} contradicts engine='exact': only the grid engine can smooth; set "
            "smoothness=0 or engine='grid'"
        )
    if estimator.max_epochs is not None and estimator.max_steps != "auto":
        raise ValueError("max_steps and max_epochs contradict each other: give one of them")


def warn_unread(estimator: Any, changed: Collection[str], path: str = "", stacklevel: int = 3) -> None:
    """Warn once of parameters that were changed and that this fit never reads.

    Parameters
    ----------
    changed : names of parameters, see `summary.list_changed`
    path : "wide", "update", or "" for all others; its basis and its validation rows are found in the estimator
    stacklevel : see `warnings.warn`
    """
    taken = [path, *(["other basis"] if estimator.basis != "mlp" else [])]
    taken += ["no validation"] if estimator.validation_size == 0 else []
    parts = []
    for each in taken:
        if found := [name for name in UNREAD.get(each, ()) if name in changed]:
            listed = " and ".join(filter(None, [", ".join(found[:-1]), found[-1]]))
            parts.append(f"{listed} {'has' if len(found) == 1 else 'have'} no effect: {_REASONS[each]}")
    if parts:
        warnings.warn(". ".join(parts), UserWarning, stacklevel=stacklevel)


def settle(estimator: Any, n_rows: int, is_wide: bool = False, n_numbers: float = 1, rank: int = 0) -> Any:
    """A copy of the estimator in which the number of members is a number; `n_numbers` are terms × classes.

    Of several processes the first shows bars.
    """
    settled = copy(estimator)
    settled.verbose = estimator.verbose and rank == 0
    if estimator.outer_bags == "auto":
        preset = PRESETS[estimator.preset]
        usual = preset.members if n_rows < LARGE_TABLE else preset.members_large
        fitting = preset.members_wide if is_wide else max(MIN_MEMBERS, int(MAX_TIED // n_numbers))
        settled.outer_bags = min(usual, fitting)
    return settled


def count_numbers(estimator: Any, plan: Plan, classes: np.ndarray | None, n_rows: int) -> float:
    """Terms × classes, at most; 1 where there are no classes to tie."""
    if classes is None or len(classes) < 3:
        return 1
    n_columns = min(len(plan.features), count_terms(estimator, n_rows))
    n_found = min(math.comb(int(n_columns), 2), plan.n_pairs) + min(math.comb(int(n_columns), 3), plan.n_triples)
    return (n_columns + len(plan.listed) + n_found) * len(classes)


def count_terms(estimator: Any, n_rows: int) -> float:
    """Columns that all get a main effect; of more, some are chosen."""
    return max(MIN_WIDE, WIDE * n_rows) if estimator.max_terms == "auto" else estimator.max_terms or math.inf


def make_plan(estimator: Any, names: Sequence[str], classes: np.ndarray | None, n_rows: int) -> Plan:
    """The requested terms; "auto" pairs are some times the columns."""
    kind = "regression" if classes is None else "classes" if n_rows < LARGE_TABLE else "large"
    automatic = min(math.ceil(AUTO_PAIRS[kind] * PRESETS[estimator.preset].pairs * len(names)), MAX_AUTO_PAIRS)
    if classes is not None and n_rows * len(classes) > MAX_SCORES:
        automatic = 0
    return plan_terms(estimator.interactions, estimator.triples, estimator.exclude, names, automatic)


def choose_tied(estimator: Any, n_terms: float, n_outputs: int) -> bool:
    """Coefficients for each class, unless they would be too many."""
    if estimator.tied_classes != "auto":
        return bool(estimator.tied_classes)
    limit = MAX_FREE if n_outputs < MANY_CLASSES else min(MAX_FREE, MAX_FREE_MANY)
    return n_outputs > 1 and n_terms * n_outputs * estimator.outer_bags > limit


def count_channels(estimator: Any, n_terms: float, n_outputs: int) -> int:
    """Numbers in a cell of a stage with so many terms."""
    tied = choose_tied(estimator, n_terms, n_outputs)
    return estimator.outer_bags * (estimator.n_subnets if tied else n_outputs)


def choose_knots(
    estimator: Any, axes: Sequence[Axis], terms: Sequence[Term], n_rows: int, n_outputs: int
) -> dict[int, int]:
    """Knots of a column by order of the term: fewer for few rows, and while tables would be large."""
    knots, channels = {}, count_channels(estimator, len(terms), n_outputs)
    for order, sizes in KNOTS.items():
        requested = estimator.max_interaction_bins
        if requested != "auto":
            knots[order] = requested if order == 2 else max(2, round(requested / 4))
            continue
        counts = np.array([[len(axes[f].knots) for f in term] for term in terms if len(term) == order])
        sizes = sizes[max(PRESETS[estimator.preset].coarser, int(n_rows < SMALL_TABLE)) :]
        fitting = [k for k in sizes if np.minimum(counts, k).prod(axis=-1).sum() * channels <= MAX_NUMBERS]
        knots[order] = fitting[0] if fitting else sizes[-1]
    return knots


def check_memory(estimator: Any, plan: Plan, n_outputs: int, n_rows: int = 0) -> None:
    """Refuse more terms, or more scores of main effects to find interactions in, than could be held."""
    here = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else math.inf
    for order, kind, count in ((2, "pairs", plan.n_pairs), (3, "triples", plan.n_triples)):
        n_terms = min(math.comb(len(plan.features), order), count)
        needed = BYTES_A_TERM * n_terms * count_channels(estimator, n_terms, n_outputs)
        if needed > here:
            raise ValueError(
                f"{n_terms:,} {kind} of {len(plan.features):,} columns would take about {needed / 1e9:,.0f} GB, but "
                f"this machine has {here / 1e9:,.0f} GB; ask for a number of {kind}, such as 100, or list them by name"
            )
    needed = (BYTES_A_SCORE + 4 * estimator.outer_bags) * n_rows * n_outputs
    has_scores = estimator.staged or plan.must_search
    if (plan.listed or plan.n_pairs or plan.n_triples) and has_scores and needed > here:
        raise ValueError(
            f"interactions build on the scores of main effects, which of {n_rows:,} rows and {n_outputs:,} classes "
            f"would take about {needed / 1e9:,.0f} GB, but this machine has {here / 1e9:,.0f} GB; set interactions=0, "
            "or list them and set staged=False, which trains all terms at once"
        )


def make_net(
    estimator: Any, grid: GridEngine, objective: Loss, sample: Sample | None, n_rows: float,
    rng: np.random.Generator,
) -> BasisNet:  # fmt: skip
    """A net for the grid's terms, its intercept at the best constant model of the sample."""
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    orders = [len(term) for term in grid.layout.terms]
    bases = {order: _make_basis(estimator, order, orders.count(order), generator) for order in sorted(set(orders))}
    tied = choose_tied(estimator, len(orders), objective.n_outputs)
    ridge = choose_smoothness(estimator) * TIED_RIDGE / n_rows if objective.n_outputs > 1 else 0.0
    net = BasisNet(
        bases, {order: orders.count(order) for order in bases}, grid.cells.n_free, estimator.outer_bags,
        objective.n_outputs, estimator.n_subnets, tied, estimator.basis_dropout, ridge,
    )  # fmt: skip
    if tied and objective.n_outputs > 1:
        net.draw_mixes(TIED_SIZE / math.sqrt(net.n_subnets), generator)
    if sample is not None:
        net.intercept.data.add_(torch.from_numpy(objective.first_score(sample)))
    return net.to(grid.device)


def choose_bases(estimator: Any, n_terms: int) -> int:
    """B; "auto" grows with the logarithm of the number of main effects.

    PAPER appendix: what B shared bases cannot say of D shapes falls like D · exp(-B^γ), so B = O(log D) are enough.

    >>> from types import SimpleNamespace
    >>> [choose_bases(SimpleNamespace(n_bases="auto"), n_terms) for n_terms in (1, 10, 1000, 100_000)]
    [8, 18, 38, 59]
    """
    return round(8 + 4.4 * math.log(n_terms)) if estimator.n_bases == "auto" else estimator.n_bases


def _make_basis(estimator: Any, order: int, n_terms: int, generator: torch.Generator) -> Basis:
    copies = estimator.outer_bags * estimator.n_subnets
    n_bases = choose_bases(estimator, n_terms) if order == 1 else estimator.n_interaction_bases
    if callable(estimator.basis):
        return estimator.basis(order, n_bases, copies, generator)
    if estimator.basis == "spline":
        return SplineBasis(order, n_bases, copies)
    return MLPBasis(
        order, n_bases, copies, estimator.hidden, estimator.fourier, MAX_FREQUENCY[order],
        FREQUENCY_DECAY, estimator.batch_norm, estimator.dropout, generator,
    )  # fmt: skip


def make_wide_basis(estimator: Any, finder: CodeFinder, generator: torch.Generator) -> Basis:
    """Starts as the value itself (the product of several), as what says that there is one, the others by chance."""
    cells, order = finder.inner_cells, finder.features.shape[1]
    value = finder.axis.knots[cells - 1] - (0.0 if math.isnan(finder.absent) else finder.absent)
    value = np.ldexp(value, -math.frexp(np.abs(value).max(initial=0.0))[1])  # squares of huge values would overflow
    product = reduce(np.multiply.outer, [value] * order).ravel()
    size = math.sqrt((product**2).sum() / max(len(product), 1)) or 1.0
    start = np.zeros((len(product), WIDE_BASES[order]))
    start[:, 0], start[:, 1] = product / size, 1.0
    return LinearStartBasis(
        torch.from_numpy(start.astype(np.float32)), order, max_frequency=MAX_FREQUENCY[order], generator=generator
    )


def make_wide_settings(estimator: Any, n_rows: int, n_drawn: int) -> list[Settings]:
    """One after the other as long as held-out rows gain; just one where the number of epochs or steps is given."""
    batch_size = estimator.batch_size
    if batch_size == "auto":
        batch_size = int(2 ** np.clip(round(math.log2(max(n_rows, 2) / 300)), 5, 10))
    usual = replace(make_settings(estimator, n_rows, n_drawn), batch_size=batch_size, n_checkpoints=2)
    if estimator.max_steps != "auto":
        return [usual]
    given = estimator.max_epochs
    epochs = [PRESETS[estimator.preset].steps * count for count in WIDE_EPOCHS] if given is None else [given]
    steps = [max(1, math.ceil(count * n_drawn / min(batch_size, n_drawn))) for count in epochs]
    return [replace(usual, max_steps=count) for count in steps]


def make_regime(estimator: Any) -> Regime:
    """The usual one, with the output penalty that is requested."""
    return Regime(rate=0.08, base_rate=0.003, ridge=0.01, output_penalty=estimator.output_penalty)


def count_active(layout: Layout) -> float:
    """Mean number of interactions that contribute to a row."""
    return sum(1 - layout.anchored_share(index) for index, term in enumerate(layout.terms) if len(term) > 1)


def make_settings(
    estimator: Any, n_rows: int, n_drawn: int, order: int = 1, n_active: float = 0.0, tied: bool = False,
    information: float = 1.0,
) -> Settings:  # fmt: skip
    """Batch size and steps follow the number of rows, steps also what these tell, where they are "auto"; an epoch draws
    `n_drawn` rows.

    A step of Adam moves every coefficient alike, so a score moves the more, the more interactions are active in a row.
    """
    batch_size = choose_batch_size(n_rows, 1 if tied else order)
    batch_size = batch_size if estimator.batch_size == "auto" else estimator.batch_size
    max_steps = estimator.max_steps
    if max_steps == "auto":
        usual = choose_steps(n_rows, order, is_classifier(estimator), information)
        max_steps = max(MIN_STEPS if order == 1 else 1, round(PRESETS[estimator.preset].steps * usual))
    if estimator.max_epochs is not None:
        max_steps = max(1, math.ceil(estimator.max_epochs * n_drawn / min(batch_size, n_drawn)))
    tolerance, factor = estimator.early_stopping_tolerance, choose_smoothness(estimator)
    return Settings(
        learning_rate=estimator.learning_rate * min(1.0, math.sqrt(MAX_ACTIVE / max(n_active, 1.0))),
        weight_decay=estimator.weight_decay,
        batch_size=batch_size,
        max_steps=max_steps,
        early_stopping_rounds=estimator.early_stopping_rounds,
        early_stopping_tolerance=None if tolerance == "auto" else float(tolerance),
        smoothness={kind: (factor * strength, floor) for kind, (strength, floor) in SMOOTHNESS.items()},
        output_penalty=estimator.output_penalty,
        time_limit=estimator.time_limit,
        verbose=bool(estimator.verbose),
        callbacks=tuple(estimator.callbacks or ()),
        stage=STAGES[order] if estimator.staged else "all terms",
    )


def choose_smoothness(estimator: Any) -> float:
    """How strong penalties are, as a multiple of the usual."""
    automatic = 1.0 if estimator.engine == "grid" else 0.0
    return automatic if estimator.smoothness == "auto" else float(estimator.smoothness)


def list_chances(n_rows: int, n_terms: int) -> np.ndarray:
    """How many candidates of noise may be as strong as the first, the second, … (of many rows: Benjamini, Hochberg)."""
    return AUTO_CHANCE * (np.arange(1, n_terms + 1) if n_rows > FEW_ROWS else np.ones(n_terms))


def see_all_rows(settings: Settings, n_drawn: int) -> Settings:
    """At least as many steps as draw every row once."""
    return replace(settings, max_steps=max(settings.max_steps, math.ceil(n_drawn / settings.batch_size)))


def choose_batch_size(n_rows: int, order: int = 1) -> int:
    """A power of two near a twelfth of the rows, 64 … 8,192; near a third for interactions.

    A step of interactions costs the network on their many points whatever the batch, so larger batches come free and
    leave less noise; not so where classes are tied, whose rows weigh every term for every class.
    """
    share = 12 if order == 1 else 3
    return int(2 ** np.clip(round(math.log2(max(n_rows, 2) / share)), 6, 13))


def choose_steps(n_rows: int, order: int = 1, classes: bool = False, information: float = 1.0) -> int:
    """400 for a thousand rows, growing more slowly than they do; half as many for interactions, which need no fewer
    where rows are many. 2,500 at most for both.

    Fewer rows get fewer steps only where they have classes: a few rows often separate these, and then scores grow for
    as long as they are trained. A regression's do not. Interactions count rows by what they tell: of a rare class there
    is less to learn than the number of rows says, and main effects alone are worth every step.
    """
    if order > 1:
        return int(np.clip(200 * (information * n_rows / 1000) ** 0.45, *INTERACTION_STEPS))
    return int(np.clip(400 * (n_rows / 1000) ** 0.45, MIN_STEPS if classes else 400, 2500))


def _require(name: str, value: Any, is_right, expected: str) -> None:
    if not is_right(value):
        raise ValueError(f"{name} must be {expected}, not {value!r}")


def _require_integer(name: str, value: Any, smallest: int, others: str = "") -> None:
    _require(name, value, lambda v: _is_integer(v) and v >= smallest, f"{others}an integer of at least {smallest}")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _is_number_or_missing(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and not math.isinf(value)


def _is_none_or_positive(value: Any) -> bool:
    return value is None or (_is_number(value) and value > 0)


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _is_validation_size(value: Any) -> bool:
    return _is_number(value) and (bool(0 <= value < 1) or (_is_integer(value) and bool(value >= 1)))


def _is_sizes(value: Any) -> bool:
    return isinstance(value, Sequence) and all(_is_integer(size) and size > 0 for size in value)


def _is_none_or_callables(value: Any) -> bool:
    return value is None or (isinstance(value, Sequence) and all(map(callable, value)))
