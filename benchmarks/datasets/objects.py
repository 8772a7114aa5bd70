"""Tables like the paper's Common Objects: detection scores in (0, 1], nearly all of them absent.

    score_l = Σ_i w_il g_i(x_i) + Σ_p v_pl x_a x_b        class: drawn from the softmax of the scores

Every row has a topic, and the columns of a topic occur together, so pairs of columns exist. Columns have four shapes g:
identity, square, square root, and a step at one half. Pairs are planted among the most frequent ones. Rows are drawn in
pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_softmax

N_TOPICS = 20
TOPICS_PER_COLUMN = 2
TOPIC_LIFT = 30.0  # relative frequency of a column within its topics
N_WEIGHTED = 12  # classes with a weight for a column or a pair
MAIN_DEVIATION, PAIR_DEVIATION = 3.0, 1.5  # deviations of the two parts of the scores
PIECE = 10_000  # rows drawn at a time
COUNTED = 20_000  # rows in which pairs are counted

SHAPES = (
    lambda x: x,
    lambda x: x**2,
    lambda x: np.sqrt(x),
    lambda x: (x > 0.5) * 1.0,
)


@dataclass(frozen=True, eq=False)
class World:
    """Distribution of rows: probabilities (topics, D) of columns, and weights of columns (D, K) and pairs (P, K)."""

    probabilities: np.ndarray
    main_weights: np.ndarray
    pairs: np.ndarray
    pair_weights: np.ndarray

    def draw_columns(self, rng: np.random.Generator, n_rows: int) -> Any:
        """A piece of the table, (n, D) CSR, float32."""
        from scipy.sparse import csr_array

        topic = rng.integers(len(self.probabilities), size=n_rows)
        row, column = np.nonzero(
            rng.random((n_rows, self.probabilities.shape[1]), dtype=np.float32) < self.probabilities[topic]
        )
        starts = np.searchsorted(row, np.arange(n_rows + 1))
        values = 1 - rng.random(len(row), dtype=np.float32) ** 2
        return csr_array(
            (values, column.astype(np.int32), starts.astype(np.int32)), shape=(n_rows, len(self.probabilities.T))
        )

    def main_scores(self, X: Any) -> np.ndarray:
        """(n, K)."""
        shaped = X.copy()
        for kind, shape in enumerate(SHAPES):
            own = X.indices % len(SHAPES) == kind
            shaped.data[own] = shape(X.data[own])
        return shaped @ self.main_weights

    def pair_scores(self, X: Any) -> np.ndarray:
        """(n, K)."""
        by_column = X.tocsc()
        return by_column[:, self.pairs[:, 0]].multiply(by_column[:, self.pairs[:, 1]]).tocsr() @ self.pair_weights

    def scores(self, X: Any) -> np.ndarray:
        return self.main_scores(X) + self.pair_scores(X)


@dataclass(frozen=True, eq=False)
class Objects:
    """A table (N, D) CSR, the classes of its rows, and log loss and accuracy of the true distribution."""

    X: Any
    y: np.ndarray
    log_loss: float
    accuracy: float


def make_world(n_columns: int, n_classes: int, sparsity: float, n_pairs: int, seed: int = 0) -> World:
    """A distribution with `n_pairs` planted pairs."""
    rng = np.random.default_rng(seed)
    usual = rng.lognormal(0.0, 0.7, n_columns)
    lift = np.ones((N_TOPICS, n_columns))
    lift[rng.integers(N_TOPICS, size=(TOPICS_PER_COLUMN, n_columns)), np.arange(n_columns)] = TOPIC_LIFT
    weight = usual * lift
    scale = brentq(lambda s: np.exp(-s * weight).mean() - sparsity, 0.0, 1e3)
    world = World(
        (1 - np.exp(-scale * weight)).astype(np.float32),
        draw_weights(rng, n_columns, n_classes),
        np.zeros((0, 2), int),
        np.zeros((0, n_classes), np.float32),
    )
    X = world.draw_columns(rng, COUNTED)
    pairs = find_frequent_pairs(X, 20 * n_pairs)
    pairs = pairs[rng.permutation(len(pairs))[:n_pairs]]
    world = replace(world, pairs=pairs, pair_weights=draw_weights(rng, len(pairs), n_classes))
    mains, together = world.main_scores(X[:PIECE]).std(), world.pair_scores(X[:PIECE]).std()
    return replace(
        world,
        main_weights=world.main_weights * np.float32(MAIN_DEVIATION / mains),
        pair_weights=world.pair_weights * np.float32(PAIR_DEVIATION / together),
    )


def draw_weights(rng: np.random.Generator, n_terms: int, n_classes: int) -> np.ndarray:
    """(terms, K) normal for some classes, 0 for the others."""
    is_weighted = rng.random((n_terms, n_classes)) < N_WEIGHTED / max(n_classes, N_WEIGHTED)
    return (is_weighted * rng.normal(size=(n_terms, n_classes))).astype(np.float32)


def find_frequent_pairs(X: Any, n_pairs: int) -> np.ndarray:
    """(P, 2) pairs of columns that occur together in the first rows, the most frequent first."""
    seen = (X[:COUNTED] > 0).astype(np.float32)
    together = np.triu((seen.T @ seen).toarray(), k=1)
    order = np.argsort(-together, axis=None, kind="stable")[:n_pairs]
    first, second = np.unravel_index(order, together.shape)
    exist = together[first, second] > 0
    return np.stack([first[exist], second[exist]], axis=1)


def draw_objects(world: World, n_rows: int, seed: int) -> Objects:
    """Draw rows of this distribution."""
    from scipy.sparse import vstack

    pieces = list(_draw_pieces(world, n_rows, np.random.default_rng(seed)))
    y = np.concatenate([target for _, target, _ in pieces])
    chances = np.concatenate([known for _, _, known in pieces])
    return Objects(
        vstack([X for X, _, _ in pieces], format="csr"), y, -float(chances[:, 0].mean()), float(chances[:, 1].mean())
    )


def _draw_pieces(world: World, n_rows: int, rng: np.random.Generator) -> Iterator[tuple[Any, np.ndarray, np.ndarray]]:
    """Pieces of the table, classes of their rows, their true log probabilities, and whether they are the likeliest."""
    for first in range(0, n_rows, PIECE):
        X = world.draw_columns(rng, min(PIECE, n_rows - first))
        scores = world.scores(X)
        y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
        log_chance = log_softmax(scores, axis=1)[np.arange(len(y)), y]
        yield X, y, np.stack([log_chance, scores.argmax(axis=1) == y], axis=1)
