"""Families of generated problems with known effects: "jumps/3000" has 3,000 training rows and 10,000 test rows.

    score = intercept + Σ_j f_j(x_j)        y = score + noise, or a class drawn from the score

A column is a function of a normal draw z, and its effect f_j is a function of the value. The effects are drawn from the
family and the seed; each is centred, and all are scaled together on a separate sample such that their sum has the
family's deviation. The seed also draws the rows and the noise. "jumps_binary" is "jumps" with two classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np
from scipy.special import expit, ndtr

from .dataset import Dataset, Truth
from .planted import draw_loadings, plant_pairs

SIZES = (300, 3_000, 30_000, 300_000)
TEST_ROWS, QUICK_ROWS, QUICK_TEST_ROWS = 10_000, 200, 1_000
REFERENCE_ROWS = 20_000  # on which effects are centred and scaled
N_COLUMNS = 8
LOGIT_DEVIATION = 2.0
LOGISTIC_VARIANCE = np.pi**2 / 3
MIN_ROWS_PER_CLASS = 5
LEVELS = (3, 10, 50, 300, 3_000)
SPECIAL_VALUES = ((0.0, 0.0, 1.0), (99_999.0, 40_000.0, 12_000.0), (-9.0, 20.0, 5.0))  # value, mean and deviation

Curve = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Column:
    """Values as a function of normal draws, and the effect of a value; `n_levels` if values are level numbers."""

    write: Callable[[np.random.Generator, np.ndarray], np.ndarray]
    effect: Curve
    n_levels: int = 0


@dataclass(frozen=True)
class Family:
    """Settings shared by the problems of a family.

    make_columns : draws the columns for a number of rows
    n_classes : 0 is a regression
    deviation : of the sum of the effects
    positives : share of the second of two classes
    """

    make_columns: Callable[[np.random.Generator, int], list[Column]]
    n_classes: int = 0
    deviation: float = 1.0
    noise: float = 0.5
    positives: float = 0.5
    correlation: float = 0.0

    def with_two_classes(self) -> Family:
        """The same family with two classes; keeps the signal-to-noise ratio of a noisy regression."""
        share = 1 / self.noise**2
        deviation = np.sqrt(share * LOGISTIC_VARIANCE) if share < 1 else LOGIT_DEVIATION
        return replace(self, n_classes=2, deviation=deviation, noise=0.0)


def draw_wave(rng: np.random.Generator) -> Curve:
    """A smooth curve on (0, 1)."""
    turns = np.arange(1, 5)
    sizes, phases = rng.normal(size=4) / turns, rng.uniform(0, 2 * np.pi, size=4)
    return lambda u: np.sin(np.pi * np.outer(u, turns) + phases) @ sizes


def draw_steps(rng: np.random.Generator) -> Curve:
    """Piecewise constant on (0, 1) with one to four jumps."""
    cuts = np.sort(rng.uniform(0.1, 0.9, size=rng.integers(1, 5)))
    heights = np.cumsum(rng.choice([-1, 1], size=len(cuts) + 1) * rng.uniform(0.5, 1.5, size=len(cuts) + 1))
    return lambda u: heights[np.searchsorted(cuts, u)]


def draw_jump(rng: np.random.Generator) -> float:
    return rng.choice([-1, 1]) * rng.uniform(1.5, 3)


def keep(_rng: np.random.Generator, normal: np.ndarray) -> np.ndarray:
    return normal


def normal_column(curve: Curve) -> Column:
    return Column(keep, lambda x: curve(ndtr(x)))


def smooth_columns(rng: np.random.Generator, n_rows: int) -> list[Column]:
    return [normal_column(draw_wave(rng)) for _ in range(N_COLUMNS)]


def jump_columns(rng: np.random.Generator, n_rows: int) -> list[Column]:
    """Steps, in every other column added to a wave."""

    def add(wave: Curve, steps: Curve) -> Curve:
        return lambda u: wave(u) + steps(u)

    curves = [draw_steps(rng) for _ in range(N_COLUMNS)]
    curves[1::2] = [add(draw_wave(rng), steps) for steps in curves[1::2]]
    return [normal_column(curve) for curve in curves]


def spike_columns(rng: np.random.Generator, n_rows: int) -> list[Column]:
    """5 to 25 % of the rows have one special value with its own effect."""

    def spike(special: float, mean: float, deviation: float) -> Column:
        share, jump, wave = rng.uniform(0.05, 0.25), draw_jump(rng), draw_wave(rng)

        def write(rows: np.random.Generator, normal: np.ndarray) -> np.ndarray:
            return np.where(rows.random(len(normal)) < share, special, mean + deviation * normal)

        return Column(write, lambda x: np.where(x == special, jump, wave(ndtr((x - mean) / deviation))))

    return [spike(*SPECIAL_VALUES[j % len(SPECIAL_VALUES)]) for j in range(N_COLUMNS)]


def tail_columns(rng: np.random.Generator, n_rows: int) -> list[Column]:
    """Lognormal, Cauchy, Pareto, and uniform over eight decades; effects are smooth in the rank."""

    def tail(write: Curve, rank: Curve) -> Column:
        wave = draw_wave(rng)
        return Column(lambda _, normal: write(normal), lambda x: wave(rank(x)))

    kinds = [
        (lambda z: np.exp(2 * z), lambda x: ndtr(np.log(x) / 2)),
        (lambda z: np.tan(np.pi * (ndtr(z) - 0.5)), lambda x: np.arctan(x) / np.pi + 0.5),
        (lambda z: ndtr(-z) ** (-1 / 1.2), lambda x: 1 - x**-1.2),
        (lambda z: 10 ** (8 * ndtr(z) - 2), lambda x: (np.log10(x) + 2) / 8),
    ]
    return [tail(*kinds[j % len(kinds)]) for j in range(N_COLUMNS)]


def integer_columns(rng: np.random.Generator, n_rows: int) -> list[Column]:
    """3 to 12 values, each with its effect."""

    def integer(n_values: int) -> Column:
        heights = rng.normal(size=n_values)
        return Column(lambda _, normal: np.floor(n_values * ndtr(normal)), lambda x: heights[x.astype(int)])

    return [integer(int(n_values)) for n_values in rng.integers(3, 13, size=N_COLUMNS)]


def mostly_irrelevant_columns(rng: np.random.Generator, n_rows: int) -> list[Column]:
    """5 of 60 have an effect."""
    useful = rng.permutation(60) < 5
    return [normal_column(draw_wave(rng) if is_useful else np.zeros_like) for is_useful in useful]


def level_columns(rng: np.random.Generator, n_rows: int) -> list[Column]:
    """Columns of 3 to 3,000 levels, at most one for five rows, early ones more frequent; and two of numbers."""

    def level(n_levels: int) -> Column:
        heights = rng.normal(size=n_levels)
        return Column(lambda _, normal: np.floor(n_levels * ndtr(normal) ** 2), lambda x: heights[x], n_levels)

    return [*[level(min(count, n_rows // 5)) for count in LEVELS], *smooth_columns(rng, n_rows)[:2]]


def missing_columns(rng: np.random.Generator, n_rows: int) -> list[Column]:
    """Three complete columns, three with uninformative missing values, two whose missing values have an effect."""

    def holed(share: float, informative: bool) -> Column:
        wave = draw_wave(rng)
        height = draw_jump(rng) if informative else wave(np.linspace(0.0005, 0.9995, 1000)).mean()

        def write(rows: np.random.Generator, normal: np.ndarray) -> np.ndarray:
            return np.where(rows.random(len(normal)) < share, np.nan, normal)

        return Column(write, lambda x: np.where(np.isnan(x), height, wave(ndtr(x))))

    holes = [(0.05, False), (0.2, False), (0.5, False), (0.1, True), (0.3, True)]
    return [*smooth_columns(rng, n_rows)[:3], *[holed(*hole) for hole in holes]]


def draw_table(
    columns: Sequence[Column], correlation: float, rng: np.random.Generator, n_rows: int
) -> tuple[list[np.ndarray], Any]:
    """The values of each column (levels by number), and the table: an array, or a frame if there are levels."""
    common, own = rng.normal(size=(n_rows, 1)), rng.normal(size=(n_rows, len(columns)))
    normal = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own
    values = [column.write(rng, z) for column, z in zip(columns, normal.T, strict=True)]
    if not any(column.n_levels for column in columns):
        return values, np.column_stack(values)
    values = [x.astype(int) if column.n_levels else x for column, x in zip(columns, values, strict=True)]
    return values, _write_frame(columns, values)


def _write_frame(columns: Sequence[Column], values: Sequence[np.ndarray]) -> Any:
    """Level 7 of 50 is the text "50-07"; a column has all its levels in every part."""
    import pandas as pd

    def write(column: Column, x: np.ndarray) -> Any:
        if not column.n_levels:
            return x
        digits = len(str(column.n_levels - 1))
        return pd.Categorical.from_codes(x, [f"{column.n_levels}-{k:0{digits}}" for k in range(column.n_levels)])

    pairs = zip(columns, values, strict=True)
    return pd.DataFrame({f"x{j}": write(column, x) for j, (column, x) in enumerate(pairs)})


def read_table(columns: Sequence[Column], X: Any) -> list[np.ndarray]:
    """The values of each column, levels by their number."""
    if isinstance(X, np.ndarray):
        return list(X.T)
    parts = (X.iloc[:, j] for j in range(len(columns)))
    return [
        part.cat.codes.to_numpy() if column.n_levels else part.to_numpy()
        for column, part in zip(columns, parts, strict=True)
    ]


def stack_effects(columns: Sequence[Column], values: Sequence[np.ndarray]) -> np.ndarray:
    return np.column_stack([column.effect(x) for column, x in zip(columns, values, strict=True)])


def find_truth(family: Family, columns: Sequence[Column], rng: np.random.Generator) -> Truth:
    """Centred effects with relative deviations of 0.5 to 1.5, whose sum has the family's deviation."""
    found = stack_effects(columns, draw_table(columns, family.correlation, rng, REFERENCE_ROWS)[0])
    means, deviations = found.mean(axis=0), found.std(axis=0)
    weights = rng.uniform(0.5, 1.5, size=len(columns)) / np.where(deviations > 0, deviations, 1)
    weights *= family.deviation / ((found - means) @ weights).std()

    def effects(X: Any) -> np.ndarray:
        return (stack_effects(columns, read_table(columns, X)) - means) * weights

    intercept = find_intercept((found - means) @ weights, family.positives) if family.n_classes == 2 else 0.0
    return Truth(effects, intercept, family.noise)


def find_intercept(scores: np.ndarray, share: float) -> float:
    """The intercept with which the mean probability of these logits is `share`."""
    from scipy.optimize import brentq

    return float(brentq(lambda intercept: expit(scores + intercept).mean() - share, -30, 30))


def draw_target(family: Family, truth: Truth, loadings: np.ndarray, X: Any, rng: np.random.Generator) -> np.ndarray:
    """Draw the target; classes come from the softmax of scores with class weights."""
    if family.n_classes == 0:
        return truth.scores(X) + truth.noise * rng.normal(size=len(X))
    if family.n_classes == 2:
        scores = np.column_stack([np.zeros(len(X)), truth.scores(X)])
    else:
        scores = truth.effects(X) @ loadings
    return fill_classes(scores + rng.gumbel(size=scores.shape))


def fill_classes(scores: np.ndarray) -> np.ndarray:
    """The class of the highest score (N, K); a class with too few rows gets its likeliest rows of the largest class."""
    found = scores.argmax(axis=1)
    for k in range(scores.shape[1]):
        n_lacking = MIN_ROWS_PER_CLASS - (found == k).sum()
        if n_lacking > 0:
            rows = np.flatnonzero(found == np.bincount(found).argmax())
            found[rows[np.argsort(-scores[rows, k], kind="stable")[:n_lacking]]] = k
    return found


def make_additive(family: Family, n_rows: int, n_test: int, truth_rng: Any, *rngs: Any) -> Dataset:
    """Columns with additive effects; the truth is known if there is one score."""
    columns = family.make_columns(truth_rng, n_rows)
    truth = find_truth(family, columns, truth_rng)
    loadings = draw_loadings(truth_rng, len(columns), max(1, family.n_classes))
    parts = []
    for size, rng in zip((n_rows, n_test), rngs, strict=True):
        X = draw_table(columns, family.correlation, rng, size)[1]
        parts.append((X, draw_target(family, truth, loadings, X, rng)))
    return join_parts(*parts, None if family.n_classes > 2 else truth)


def make_separable(n_rows: int, n_test: int, truth_rng: Any, *rngs: Any) -> Dataset:
    """Two classes on the sides of a plane with a gap between them; the true logit is infinite."""
    across = truth_rng.normal(size=N_COLUMNS)
    across /= np.linalg.norm(across)
    parts = []
    for size, rng in zip((n_rows, n_test), rngs, strict=True):
        X = rng.normal(size=(size, N_COLUMNS))
        side = X @ across > 0
        parts.append((X + 0.2 * np.where(side, 1, -1)[:, None] * across, side.astype(int)))
    return join_parts(*parts)


def make_pairs(n_classes: int, n_rows: int, n_test: int, truth_rng: Any, *_: Any) -> Dataset:
    """Planted pairs; the truth is omitted, since pairs of correlated columns also have main effects."""
    data = plant_pairs(n_classes, int(truth_rng.integers(2**31)), n_rows + n_test).data
    return join_parts((data.X[:n_rows], data.y[:n_rows]), (data.X[n_rows:], data.y[n_rows:]))


def join_parts(train: tuple[Any, np.ndarray], test: tuple[Any, np.ndarray], truth: Truth | None = None) -> Dataset:
    task = "regression" if train[1].dtype == float else "classification"
    return Dataset("", *train, task, Dataset("", *test, task, truth=truth), truth)


SMOOTH = Family(smooth_columns)
REGRESSIONS = {
    "smooth": SMOOTH,
    "jumps": Family(jump_columns),
    "spikes": Family(spike_columns),
    "tails": Family(tail_columns),
    "integers": Family(integer_columns),
    "irrelevant": Family(mostly_irrelevant_columns),
    "correlated": replace(SMOOTH, correlation=0.9),
    "levels": Family(level_columns),
    "missing": Family(missing_columns),
    "noisy": replace(SMOOTH, noise=np.sqrt(20)),  # 5 % as much variance in the signal
}
ADDITIVE = {
    **REGRESSIONS,
    **{f"{name}_binary": family.with_two_classes() for name, family in REGRESSIONS.items()},
    "rare": replace(SMOOTH.with_two_classes(), positives=0.002),
    "classes3": replace(SMOOTH, n_classes=3, deviation=LOGIT_DEVIATION),
    "classes20": replace(SMOOTH, n_classes=20, deviation=LOGIT_DEVIATION),
}
# name -> function of (rows, test rows, and generators of the truth, the rows and the test rows)
FAMILIES: dict[str, Callable[..., Dataset]] = {
    **{name: partial(make_additive, family) for name, family in ADDITIVE.items()},
    "separable": make_separable,
    "pairs": partial(make_pairs, 0),
    "pairs_binary": partial(make_pairs, 2),
}
MIN_ROWS = {"rare": 3_000}  # fewer rows would have hardly any positives


def generate(key: str, quick: bool = False, seed: int = 0) -> Dataset:
    """The problem of a key and seed; a quick one has 200 rows."""
    family, _, rows = key.partition("/")
    if family not in FAMILIES or not rows.isdecimal():
        raise ValueError(f"a generated problem is family/rows, the family one of {sorted(FAMILIES)}, not {key!r}")
    sizes = (QUICK_ROWS, QUICK_TEST_ROWS) if quick else (int(rows), TEST_ROWS)
    data = FAMILIES[family](*sizes, *np.random.default_rng([crc32(family.encode()), seed]).spawn(3))
    return replace(data, name=key, test=replace(data.test, name=f"{key}, test"))
