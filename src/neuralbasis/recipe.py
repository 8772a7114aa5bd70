"""The recipe: from an estimator's parameters to a net and to training settings; defaults that depend on the data.

`check_parameters` raises before any work is done; `make_net` and `make_settings` turn "auto" into numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state

from .axis import SCALINGS
from .bases import Basis, MLPBasis, SplineBasis
from .net import BasisNet
from .objective import Objective
from .sample import Sample
from .train import GridEngine, Settings

# DIFF: the paper's network sees the place alone, is wider, normalises batches and ties classes. Behind Fourier inputs a
# smaller network without batch norm learned as well or better, faster, with coefficients for each class.
SMOOTHNESS = 3.0
MAX_FREQUENCY = {1: 32.0, 2: 8.0, 3: 8.0}  # periods over the axis, by order of the term
FREQUENCY_DECAY = 1.5

# The published settings (PAPER §4.3), for comparison with our defaults.
PAPER = {
    "scaling": "minmax", "engine": "exact", "hidden": (256, 128, 128), "n_bases": 100, "fourier": 0, "batch_norm": True,
    "tied_classes": True, "outer_bags": 1, "smoothness": 0.0,
}  # fmt: skip

_COUNTS = {"max_bins": 2, "max_interaction_bins": 2, "n_bases": 1, "n_subnets": 1, "outer_bags": 1, "fourier": 0}
_COUNTS |= {"early_stopping_rounds": 0}
_SHARES = ("dropout", "basis_dropout")
_AMOUNTS = ("output_penalty", "weight_decay", "early_stopping_tolerance")
_CHOICES = {"scaling": SCALINGS, "engine": ("grid", "exact")}
_FLAGS = ("batch_norm", "tied_classes", "verbose")


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
    for name in ("batch_size", "max_steps"):
        if getattr(estimator, name) != "auto":
            _require_integer(name, getattr(estimator, name), 1)
    _require("learning_rate", estimator.learning_rate, lambda v: _is_number(v) and v > 0, "a number above 0")
    _require("validation_size", estimator.validation_size, _is_validation_size, "a share below 1 or a number of rows")
    _require("basis", estimator.basis, lambda v: v in ("mlp", "spline") or callable(v), "'mlp', 'spline' or a callable")
    _require("hidden", estimator.hidden, _is_sizes, "a sequence of positive integers")
    _require("max_epochs", estimator.max_epochs, _is_none_or_positive, "None or a number above 0")
    _require("time_limit", estimator.time_limit, _is_none_or_positive, "None or seconds above 0")
    _require("smoothness", estimator.smoothness, lambda v: v == "auto" or (_is_number(v) and v >= 0), "'auto' or >= 0")
    _check_surroundings(estimator)
    _check_contradictions(estimator)


def _check_surroundings(estimator: Any) -> None:
    """Parameters that concern the run rather than the model."""
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


def make_net(
    estimator: Any, grid: GridEngine, objective: Objective, sample: Sample, rng: np.random.Generator
) -> BasisNet:
    """A net for the grid's terms, its intercept at the best constant model."""
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    orders = [len(term) for term in grid.layout.terms]
    bases = {order: _make_basis(estimator, order, generator) for order in sorted(set(orders))}
    net = BasisNet(
        bases, {order: orders.count(order) for order in bases}, grid.cells.n_free, estimator.outer_bags,
        objective.n_outputs, estimator.n_subnets, estimator.tied_classes, estimator.basis_dropout,
    )  # fmt: skip
    with torch.no_grad():
        net.intercept.add_(torch.from_numpy(objective.first_score(sample)))
    return net.to(grid.device)


def _make_basis(estimator: Any, order: int, generator: torch.Generator) -> Basis:
    copies = estimator.outer_bags * estimator.n_subnets
    if callable(estimator.basis):
        return estimator.basis(order, estimator.n_bases, copies, generator)
    if estimator.basis == "spline":
        return SplineBasis(order, estimator.n_bases, copies)
    return MLPBasis(
        order, estimator.n_bases, copies, estimator.hidden, estimator.fourier, MAX_FREQUENCY[order],
        FREQUENCY_DECAY, estimator.batch_norm, estimator.dropout, generator,
    )  # fmt: skip


def make_settings(estimator: Any, n_rows: int, n_drawn: int) -> Settings:
    """Batch size and steps follow the number of rows where they are "auto"; an epoch draws `n_drawn` rows."""
    batch_size = choose_batch_size(n_rows) if estimator.batch_size == "auto" else estimator.batch_size
    max_steps = choose_steps(n_rows) if estimator.max_steps == "auto" else estimator.max_steps
    if estimator.max_epochs is not None:
        max_steps = max(1, math.ceil(estimator.max_epochs * n_drawn / min(batch_size, n_drawn)))
    automatic = SMOOTHNESS if estimator.engine == "grid" else 0.0
    return Settings(
        learning_rate=estimator.learning_rate,
        weight_decay=estimator.weight_decay,
        batch_size=batch_size,
        max_steps=max_steps,
        early_stopping_rounds=estimator.early_stopping_rounds,
        early_stopping_tolerance=estimator.early_stopping_tolerance,
        smoothness=automatic if estimator.smoothness == "auto" else SMOOTHNESS * float(estimator.smoothness),
        output_penalty=estimator.output_penalty,
        time_limit=estimator.time_limit,
        verbose=bool(estimator.verbose),
        callbacks=tuple(estimator.callbacks or ()),
    )


def choose_batch_size(n_rows: int) -> int:
    """A power of two near a twelfth of the rows, 64 … 8,192."""
    return int(2 ** np.clip(round(math.log2(max(n_rows, 2) / 12)), 6, 13))


def choose_steps(n_rows: int) -> int:
    """400 up to a thousand rows, then growing more slowly than the rows, 2,500 at most."""
    return int(np.clip(400 * (n_rows / 1000) ** 0.45, 400, 2500))


def _require(name: str, value: Any, is_right, expected: str) -> None:
    if not is_right(value):
        raise ValueError(f"{name} must be {expected}, not {value!r}")


def _require_integer(name: str, value: Any, smallest: int) -> None:
    _require(name, value, lambda v: _is_integer(v) and v >= smallest, f"an integer of at least {smallest}")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


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
