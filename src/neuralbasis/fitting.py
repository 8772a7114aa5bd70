"""fit_model: the line of data, from raw columns and a target to an AdditiveModel. Everything random is drawn here.

columns -> encoder -> terms -> layout -> positions -> net -> train -> compile
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state

from . import kernels
from .columns import Columns
from .compile import compile_model
from .encoder import Encoder
from .history import History
from .layout import lay_out
from .model import AdditiveModel
from .objective import choose_objective
from .recipe import make_net, make_settings
from .sample import Sample, tidy_rows
from .terms import choose_terms
from .train import ExactEngine, GridEngine, place_rows, train, training_threads


def fit_model(
    parameters: Any, columns: Columns, sample: Sample, classes: np.ndarray | None
) -> tuple[AdditiveModel, History]:
    """Fit with an estimator's parameters (checked before); `classes` are labels, None for a regression."""
    rng = np.random.default_rng(check_random_state(parameters.random_state).randint(2**31))
    threads = kernels.count_threads(parameters.n_jobs)

    weights = None if (sample.weights == 1).all() else sample.weights
    encoder = Encoder.fit(columns, weights, parameters.feature_types, parameters.scaling, parameters.max_bins)
    terms = choose_terms(parameters.interactions, encoder.names)
    layout = lay_out(encoder.axes, terms, _max_knots(parameters))
    positions = layout.encode(encoder.numbers(columns), threads)
    positions, sample = tidy_rows(positions, sample, layout.axes_by_name())
    objective = choose_objective(sample, classes)
    with training_threads(), seeded_dropout(rng):
        grid = GridEngine(layout, positions, sample.weights, threads, parameters.device)
        net = make_net(parameters, grid, objective, sample, rng)
        engine = grid if parameters.engine == "grid" else ExactEngine(grid)
        rows = place_rows(sample, objective, parameters.outer_bags, parameters.validation_size, rng, grid.device)
        history = train(
            net, grid, engine, rows, objective, make_settings(parameters, len(positions), int(rows.copies.sum())), rng
        )
    return compile_model(net, encoder, grid, objective, classes, parameters.n_jobs), history


@contextmanager
def seeded_dropout(rng: np.random.Generator) -> Iterator[None]:
    """torch's global generator, which dropout draws from, seeded by `rng`; the caller's state comes back."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.spawn(1)[0].integers(2**31)))  # a child: other draws stay as they are
        yield


def _max_knots(parameters: Any) -> dict[int, int]:
    """Knots by order of a term."""
    return {2: parameters.max_interaction_bins, 3: max(2, parameters.max_interaction_bins // 3)}
