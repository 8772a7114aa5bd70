"""Sketches are exact for few values and within their stated error for many; merging and serializing keep both."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis import kernels
from neuralbasis.data import LevelSketch, NumberSketch, TextSketch
from neuralbasis.encoding import continuous_axis

POINTS = NumberSketch().max_exact
FEW = 64  # limit of distinct values above which a test sketch is thinned


def sketch_of(values: np.ndarray, weights: np.ndarray | None = None, step: int = 1000, **options: int) -> NumberSketch:
    sketch = NumberSketch(**options)
    for first in range(0, len(values), step):
        part = slice(first, first + step)
        sketch.add(values[part], None if weights is None else weights[part])
    return sketch


def send(sketch: Any) -> Any:
    """The sketch that another process receives."""
    return pickle.loads(pickle.dumps(sketch))


def rank_error(points: tuple[np.ndarray, np.ndarray], values: np.ndarray, weights: np.ndarray | None = None) -> float:
    """The largest distance of a point's middle rank from the true ranks of its value, as a share of the weight."""
    order = np.argsort(values)
    ordered = values[order]
    total = np.r_[0.0, np.cumsum(np.ones(len(values)) if weights is None else weights[order])]
    middle = np.cumsum(points[1]) - points[1] / 2
    low = total[np.searchsorted(ordered, points[0], "left")]
    high = total[np.searchsorted(ordered, points[0], "right")]
    return float(np.maximum(low - middle, middle - high).max() / total[-1])


def equal(one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def count_values(values: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct values, and the weight of each."""
    distinct, place = np.unique(values, return_inverse=True)
    return distinct, np.bincount(place, mass, len(distinct))


def apply(kernel: Any, points: tuple[np.ndarray, np.ndarray], *limits: int) -> tuple[np.ndarray, np.ndarray]:
    """The points that a kernel keeps."""
    values, mass = np.empty(len(points[0])), np.empty(len(points[0]))
    count = kernel(*points, *limits, values, mass)
    return values[:count], mass[:count]


def test_few_distinct_values_are_exact_for_many_rows() -> None:
    rng = np.random.default_rng(0)
    values = rng.choice(rng.normal(size=POINTS), 200_000)
    sketch = sketch_of(values, step=50_000)
    distinct, count = np.unique(values, return_counts=True)
    assert equal(sketch.points(), (distinct, count))
    assert sketch.error == 0


def test_missing_values_are_left_out() -> None:
    sketch = sketch_of(np.array([1.0, np.nan, 2.0, np.nan]), np.array([1.0, 2.0, 3.0, 0.5]))
    assert equal(sketch.points(), (np.array([1.0, 2.0]), np.array([1.0, 3.0])))
    assert len(sketch_of(np.full(5, np.nan)).points()[0]) == 0


@pytest.mark.parametrize("order", ["random", "sorted", "alternating"])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_ranks_are_within_the_error(order: str, is_weighted: bool) -> None:
    rng = np.random.default_rng(1)
    values = rng.lognormal(size=600_000)
    if order != "random":
        values.sort()
    if order == "alternating":
        values = np.r_[values[::2], values[1::2][::-1]]
    weights = rng.exponential(size=len(values)) if is_weighted else None
    sketch = sketch_of(values, weights, step=60_000)
    points = sketch.points()
    assert 0 < sketch.error < 8 / POINTS
    assert rank_error(points, values, weights) <= sketch.error
    assert points[0][[0, -1]].tolist() == [values.min(), values.max()]
    np.testing.assert_allclose(points[1].sum(), len(values) if weights is None else weights.sum())


def test_frequent_values_keep_their_weight() -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(size=500_000)
    heavy = rng.random(len(values))
    values[heavy < 0.3], values[heavy > 0.98] = 0.25, -1.5
    sketch = sketch_of(values, step=60_000)
    found = dict(zip(*(part.tolist() for part in sketch.points()), strict=True))
    for value in (0.25, -1.5):
        assert abs(found[value] - (values == value).sum()) <= sketch.error * len(values)
    axis = continuous_axis("x", *sketch.points())
    assert {0.25, -1.5} <= set(axis.knots.tolist())


@pytest.mark.parametrize("scaling", ["quantile", "gaussian", "minmax"])
@pytest.mark.parametrize("kind", ["normal", "long-tailed", "frequent"])
def test_axes_are_near_those_of_all_rows(kind: str, scaling: str) -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=300_000)
    if kind == "long-tailed":
        values = np.exp(values)
    if kind == "frequent":
        values[rng.random(len(values)) < 0.3] = 0.25
    axis = continuous_axis("x", *sketch_of(values, step=60_000).points(), scaling)
    known = continuous_axis("x", values, None, scaling)
    assert abs(len(axis.knots) - len(known.knots)) <= 0.03 * len(known.knots)
    moved = np.interp(axis.knots, known.knots, known.places) - axis.places
    assert np.abs(moved).max() <= 2 / 192
    assert np.abs(moved).mean() <= 0.25 / 192


values_of_columns = st.lists(
    st.one_of(st.integers(-50, 50).map(float), st.floats(-1e6, 1e6), st.just(np.nan)), max_size=300
).map(np.array)


@settings(deadline=None, max_examples=60)
@given(values_of_columns, values_of_columns, st.booleans())
def test_merged_sketches_are_within_the_error_of_both_parts(
    one: np.ndarray, other: np.ndarray, is_weighted: bool
) -> None:
    one, other = one.astype(float), other.astype(float)
    both = np.r_[one, other]
    weights = np.random.default_rng(0).integers(1, 5, len(both)).astype(float) if is_weighted else None
    parts = (None, None) if weights is None else (weights[: len(one)], weights[len(one) :])
    merged = sketch_of(one, parts[0], step=40, max_exact=FEW)
    merged.merge(sketch_of(other, parts[1], step=40, max_exact=FEW))
    known = ~np.isnan(both)
    mass = np.ones(len(both)) if weights is None else weights
    points = merged.points()
    assert points[1].sum() == mass[known].sum()
    if len(np.unique(both[known])) <= FEW:
        assert merged.error == 0
        assert equal(points, count_values(both[known], mass[known]))
    if known.any():
        assert rank_error(points, both[known], mass[known]) <= merged.error + 1e-12
    assert merged.is_whole == bool((both[known] == np.rint(both[known])).all())
    assert merged.is_single == bool((both[known].astype(np.float32) == both[known]).all())


@settings(deadline=None, max_examples=40)
@given(values_of_columns, st.booleans())
def test_a_sketch_survives_bytes(values: np.ndarray, is_sealed: bool) -> None:
    sketch = sketch_of(values.astype(float), step=40, max_exact=FEW)
    if is_sealed:
        sketch.seal()
    read = send(sketch)
    assert equal(read.points(), sketch.points())
    assert (read.error, read.is_whole) == (sketch.error, sketch.is_whole)
    sketch.merge(sketch_of(np.arange(300.0), step=40, max_exact=FEW))
    read.merge(sketch_of(np.arange(300.0), step=40, max_exact=FEW))
    assert equal(read.points(), sketch.points())


def test_a_sealed_sketch_is_small_and_within_its_error() -> None:
    values = np.random.default_rng(3).normal(size=300_000)
    sketch = sketch_of(values, step=50_000)
    before = sketch.error
    sketch.seal()
    assert len(sketch.points()[0]) <= 2 * POINTS
    assert sketch.error == pytest.approx(before + 1.5 / POINTS)
    assert rank_error(sketch.points(), values) <= sketch.error
    thinned = sketch_of(np.arange(POINTS + 100.0))  # many points, not thinned before the seal
    assert thinned.error == 0
    thinned.seal()
    assert thinned.error == 1.5 / POINTS
    exact = sketch_of(np.arange(100.0))
    exact.seal()
    assert exact.error == 0


@settings(deadline=None, max_examples=12)
@given(st.integers(0, 1000), st.sampled_from([2, 5, 24]), st.sampled_from([256, POINTS]))
def test_the_error_counts_every_thinning_after_the_seal(seed: int, n_sketches: int, n_points: int) -> None:
    """Sealed sketches of several parts are merged two by two: the error grows with the logarithm of their number."""
    rng = np.random.default_rng(seed)
    parts = [rng.lognormal(size=rng.integers(4000, 20_000)) for _ in range(n_sketches)]
    sketches = [sketch_of(values, step=500, max_exact=FEW) for values in parts]
    for sketch in sketches:
        sketch.seal(n_points)
    sealed = max(sketch.error for sketch in sketches)
    merged, *others = sketches
    for other in others:
        merged.merge(send(other))
    n_joins = n_sketches.bit_length() - 1
    assert merged.error >= sealed + 1.5 * n_joins / POINTS
    assert merged.error <= sealed + 1.5 * (n_joins + 1) / POINTS + 1e-12
    assert rank_error(merged.points(), np.concatenate(parts)) <= merged.error


def test_single_precision_is_read_exactly() -> None:
    values = np.random.default_rng(4).normal(size=1000).astype(np.float32)
    sketch = sketch_of(values)
    assert equal(sketch.points(), (np.sort(values).astype(float), np.ones(1000)))
    assert (sketch.is_single, sketch.is_whole) == (True, False)
    assert not sketch_of(np.array([0.1])).is_single
    assert not sketch_of(np.array([1e300])).is_single


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 40)), min_size=1, max_size=80),
    st.integers(1, 30),
    st.integers(1, 30),
)
def test_thinned_points_represent_their_neighbours(pairs: list[tuple[float, int]], n_points: int, n_parts: int) -> None:
    points = count_values(*np.array(pairs).T)
    thin = apply(kernels.thin_points, points, n_points, n_parts)
    share = points[1].sum() / n_points
    assert thin[1].sum() == points[1].sum()
    assert set(thin[0]) <= set(points[0])
    assert (np.diff(thin[0]) > 0).all()
    assert thin[0][[0, -1]].tolist() == points[0][[0, -1]].tolist()
    heavy = points[1] > share
    assert set(zip(points[0][heavy], points[1][heavy], strict=True)) <= set(zip(*thin, strict=True))
    assert thin[1][~np.isin(thin[0], points[0][heavy])].max(initial=0) <= 3 * share
    python = getattr(kernels.thin_points, "py_func", kernels.thin_points)
    assert equal(apply(python, points, n_points, n_parts), thin)


def test_texts_are_counted_and_merged() -> None:
    one, other = LevelSketch(), LevelSketch()
    one.add(["b", "a"], np.array([2.0, 0.5]))
    other.add(["c", "a"], np.array([1.0, 1.0]))
    one.merge(send(other))
    texts, mass = one.weigh()
    assert (texts, mass.tolist()) == (("a", "b", "c"), [1.5, 2.0, 1.0])


def test_declared_texts_keep_their_order() -> None:
    one, other = LevelSketch(declared=True), LevelSketch(declared=True, ordered=True)
    one.add(["low", "high"], np.array([0.0, 1.0]))
    other.add(["high", "top"], np.array([1.0, 1.0]))
    one.merge(other)
    texts, mass = one.weigh()
    assert (texts, mass.tolist(), one.ordered) == (("low", "high", "top"), [0.0, 2.0, 1.0], True)


def test_above_the_limit_of_texts_the_heavy_ones_stay() -> None:
    rng = np.random.default_rng(5)
    names = np.array([f"t{i}" for i in range(5000)])
    weight = 1 / np.arange(1, 5001)
    sketch, counts = LevelSketch(max_levels=500), dict.fromkeys(names.tolist(), 0.0)
    for _ in range(40):
        texts, times = np.unique(rng.choice(names, 2000, p=weight / weight.sum()), return_counts=True)
        sketch.add(texts.tolist(), times.astype(float))
        for text, time in zip(texts.tolist(), times.tolist(), strict=True):
            counts[text] += time
    found = dict(zip(*sketch.weigh(), strict=True))
    assert len(found) <= 500
    assert sketch.lost > 0
    for text, count in counts.items():
        assert found.get(text, 0.0) <= count
        assert count - found.get(text, 0.0) <= sketch.lost


@pytest.mark.parametrize("n_rows", [300, 9000])
def test_a_sketch_of_texts_survives_bytes_and_merging(n_rows: int) -> None:
    parts = [TextSketch(), TextSketch()]
    for start, sketch in enumerate(parts):
        sketch.add([f"{i:,}" for i in range(start, n_rows, 2)] + ["low"], np.ones(n_rows // 2 + 1))
    whole = send(parts[0])
    whole.merge(send(parts[1]))
    assert (whole.facts.n_numbers, whole.facts.n_others) == (n_rows, 2.0)
    assert whole.levels.weigh()[0][-1] == "low"
    assert whole.numbers.points()[1].sum() == n_rows
