"""A generalization bound that depends on the number of bases B.

    L(ĝ) - L(g*)  ≤  2 ‖w‖ √(B / N)  +  D · C1 / C2 · exp(-C2 · B^γ)  +  5 √(log(4 / δ) / N)
                     complexity          truncation                      chance

The bound holds with probability 1 - δ, for a 1-Lipschitz loss within [0, 1] and shapes in a ball of an RKHS whose j-th
eigenvalue is at most C1 · exp(-C2 · j^γ), γ ≥ 1. ĝ is the best fit to N rows among models with B shared bases. g* is
the best model with an unrestricted shape for each of D columns. PAPER appendix, "Learning-Theoretic Guarantees for
Basis Models in a RKHS".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Bound:
    """The three terms of the bound: numbers, or arrays if the arguments were arrays."""

    complexity: Any
    truncation: Any
    chance: Any

    @property
    def total(self) -> Any:
        return self.complexity + self.truncation + self.chance


@dataclass(frozen=True)
class Decay:
    """Eigenvalues of the kernel: the j-th is at most C1 · exp(-C2 · j^γ).

    c1 : above 0, at most 1
    c2 : above 0
    gamma : at least 1
    """

    c1: float = 1.0
    c2: float = 1.0
    gamma: float = 1.0

    def __post_init__(self) -> None:
        if not (0 < self.c1 <= 1 and self.c2 > 0 and self.gamma >= 1):
            raise ValueError(f"the bound needs 0 < c1 <= 1, c2 > 0 and gamma >= 1; got {self}")

    def sum_beyond(self, n_bases: Any) -> Any:
        """An upper bound on the sum of all eigenvalues after the first B.

        The sum is at most ∫ C1 exp(-C2 t^γ) dt from B to infinity. Since γ t^(γ-1) ≥ 1 there, multiplying the integrand
        by it gives an upper bound with a closed form: C1 / C2 · exp(-C2 · B^γ).

        DIFF: the paper's lemma ends with exp(-B^γ), without C2, which is too small for C2 < 1. Its theorem prints C2 /
        C1 instead of the lemma's C1 / C2. This is the result of the proof.
        """
        return self.c1 / self.c2 * np.exp(-self.c2 * np.power(n_bases, self.gamma))


def generalization_bound(
    n_bases: Any,
    n_columns: Any,
    n_rows: Any,
    *,
    weight_norm: float = 1.0,
    decay: Decay = Decay(),  # noqa: B008  frozen
    delta: float = 0.05,
) -> Bound:
    """Upper bound on the excess loss of a model with B shared bases over the best additive model.

    Parameters
    ----------
    n_bases, n_columns, n_rows : B, D and N, each at least 1; arrays are broadcast
    weight_norm : ‖w‖, norm of the weights of the shapes in the score
    decay : decay of the kernel's eigenvalues
    delta : probability that the bound fails

    Examples
    --------
    >>> bound = generalization_bound(10, n_columns=8, n_rows=10_000)
    >>> [f"{term:.4f}" for term in (bound.complexity, bound.truncation, bound.chance, bound.total)]
    ['0.0632', '0.0004', '0.1047', '0.1683']
    """
    n_bases, n_columns, n_rows = (np.asarray(count, dtype=float)[()] for count in (n_bases, n_columns, n_rows))
    if min(np.min(n_bases), np.min(n_columns), np.min(n_rows)) < 1:
        raise ValueError("n_bases, n_columns and n_rows must be at least 1")
    if not (0 < delta <= 1 and weight_norm > 0):
        raise ValueError(f"delta must be above 0 and at most 1, weight_norm above 0; got {delta!r} and {weight_norm!r}")
    return Bound(
        complexity=2 * weight_norm * np.sqrt(n_bases / n_rows),
        truncation=n_columns * decay.sum_beyond(n_bases),
        chance=5 * np.sqrt(math.log(4 / delta) / n_rows),
    )


def best_n_bases(n_columns: int, n_rows: int, *, weight_norm: float = 1.0, decay: Decay = Decay()) -> int:  # noqa: B008
    """The number of bases with the lowest bound.

    For γ = 1 it solves C2 · B = log(D · C1 · √(N B) / ‖w‖), so it grows like log D.

    Examples
    --------
    >>> [best_n_bases(n_columns, n_rows=10_000) for n_columns in (1, 10, 100, 1000, 10_000)]
    [5, 8, 10, 13, 15]
    """
    generalization_bound(1, n_columns, n_rows, weight_norm=weight_norm, decay=decay)  # checks the arguments
    limit = 1
    # One more basis costs at least ‖w‖ / √(N (B + 1)). Once that exceeds the truncation, no larger B is better.
    while n_columns * decay.sum_beyond(limit) > weight_norm / math.sqrt(n_rows * (limit + 1)):
        limit *= 2
    counts = np.arange(1, limit + 1)
    bound = generalization_bound(counts, n_columns, n_rows, weight_norm=weight_norm, decay=decay)
    return int(counts[np.argmin(bound.total)])
