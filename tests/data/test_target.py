"""Weights equal repetition, the order of rows does not matter, and invalid weights and scores raise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, kernels
from neuralbasis.data import Sample, tidy_rows
from neuralbasis.data.target import digest_rows
from tests.sparse_tables import store

NAN = float("nan")
NAMES = ("size", "age", "dose")


def draw_rows(rng, n_rows, n_axes=3, with_init=True):
    """Rows with many ties in positions, targets and scores."""
    positions = rng.integers(0, 3, (n_rows, n_axes)).astype(np.float32)
    y = rng.integers(0, 2, n_rows).astype(float)
    init = rng.integers(0, 2, (n_rows, 2)).astype(float) if with_init else None
    return positions, y, init


def assert_same(one, other):
    np.testing.assert_array_equal(one[0], other[0])
    np.testing.assert_array_equal(one[1].y, other[1].y)
    np.testing.assert_array_equal(one[1].weights, other[1].weights)
    assert (one[1].init is None) == (other[1].init is None)
    if one[1].init is not None:
        np.testing.assert_array_equal(one[1].init, other[1].init)


def test_small_tables_by_hand():
    numbers = np.array([[2.0, 1.0], [1.0, 2.0], [0.0, 0.0], [1.0, 1.0]])
    sample = Sample(
        np.array([10.0, 20.0, 30.0, 40.0]), np.array([1.0, 2.0, 0.0, 1.0]), np.array([[5.0], [6], [7], [8]])
    )
    tidy, rows = tidy_rows(numbers, sample, ["age", "size"])
    order = np.argsort(digest_rows(numbers, ["age", "size"]))
    expected = [row for row in order for _ in range(int(sample.weights[row]))]
    assert sorted(expected) == [0, 1, 1, 3]
    assert tidy.tolist() == numbers[expected].tolist()
    assert rows.y.tolist() == sample.y[expected].tolist()
    assert rows.weights.tolist() == [1.0, 1.0, 1.0, 1.0]
    assert rows.init.tolist() == sample.init[expected].tolist()


def test_equal_rows_are_sorted_by_target_then_given_scores_then_weight():
    sample = Sample(
        np.array([2.0, 1.0, 1.0, 1.0]), np.array([0.5, 0.5, 0.25, 0.5]), np.array([[0.0], [9.0], [3.0], [3.0]])
    )
    _, rows = tidy_rows(np.ones((4, 2)), sample, ["a", "b"])
    assert rows.y.tolist() == [1.0, 1.0, 1.0, 2.0]
    assert rows.init[:, 0].tolist() == [3.0, 3.0, 9.0, 0.0]
    assert rows.weights.tolist() == [0.25, 0.5, 0.5, 0.5]


# Digests


@settings(deadline=None)
@given(
    arrays(float, st.tuples(st.integers(1, 8), st.integers(1, 5)), elements=st.sampled_from([0.0, 1.0, -2.5, NAN])),
    st.sampled_from([0.0, 1.0, NAN, 7.0]),
    st.randoms(use_true_random=False),
)
def test_digests_differ_between_rows_and_not_between_forms_or_orders_of_columns(table, absent, random):
    names = [f"column {index}" for index in range(table.shape[1])]
    digests = digest_rows(table, names)
    np.testing.assert_array_equal(digest_rows(store(table, absent), names), digests)
    moved = random.sample(range(len(names)), len(names))
    np.testing.assert_array_equal(digest_rows(table[:, moved], [names[i] for i in moved]), digests)
    written = [str(row) for row in table.tolist()]
    assert len(set(digests.tolist())) == len(set(written))


def test_digests_depend_on_the_column_of_a_value():
    assert len(set(digest_rows(np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 0.0], [0.0, 3.0]]), ["a", "b"]).tolist())) == 4
    same = np.array([[-0.0, np.nan], [0.0, -np.nan], [0.0, np.array(0x7FF0000000000001).view(float)]])
    assert len(set(digest_rows(same, ["a", "b"]).tolist())) == 1
    assert digest_rows(np.zeros((1, 3)), ["a", "b", "c"]).tolist() == [0]


def test_digests_without_numba_are_the_same():
    table = np.random.default_rng(0).choice([0.0, 1.0, -0.0, NAN, 4.5], (6, 4))
    plain = np.zeros(6, dtype=np.uint64)
    keys = np.arange(4, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15 >> 3)
    kernel = kernels.digest_rows.py_func if kernels.NUMBA else kernels.digest_rows
    with np.errstate(over="ignore"):
        kernel(0, 6, table.view(np.uint64), keys, plain)
        compiled = np.zeros(6, dtype=np.uint64)
        kernels.digest_rows(0, 6, table.view(np.uint64), keys, compiled)
    np.testing.assert_array_equal(plain, compiled)


@pytest.mark.parametrize("absent", [0.0, 3.0])
def test_sparse_rows_are_tidied_like_dense_ones(absent):
    rng = np.random.default_rng(2)
    numbers, y, init = draw_rows(rng, 50)
    numbers = numbers.astype(float)
    sample = Sample(y, rng.integers(0, 3, 50).astype(float), init)
    tidy, rows = tidy_rows(numbers, sample, NAMES)
    other, other_rows = tidy_rows(store(numbers, absent), sample, NAMES)
    dense = np.stack([other.read_column(column) for column in range(3)], axis=1)
    assert_same((tidy, rows), (dense, other_rows))


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.booleans())
def test_weights_are_repetitions(seed, n_rows, with_init):
    rng = np.random.default_rng(seed)
    positions, y, init = draw_rows(rng, n_rows, with_init=with_init)
    times = np.r_[rng.integers(0, 4, n_rows - 1), 1]
    weighed = tidy_rows(positions, Sample(y, times.astype(float), init), NAMES)
    copies = rng.permutation(np.repeat(np.arange(n_rows), times))
    repeated = Sample(y[copies], np.ones(len(copies)), None if init is None else init[copies])
    assert_same(weighed, tidy_rows(positions[copies], repeated, NAMES))
    assert len(weighed[0]) == times.sum()


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.sampled_from([1.0, 0.5, 1e6]))
def test_the_order_of_rows_does_not_matter(seed, n_rows, unit):
    rng = np.random.default_rng(seed)
    positions, y, init = draw_rows(rng, n_rows)
    weights = rng.integers(1, 4, n_rows) * unit
    order = rng.permutation(n_rows)
    shuffled = tidy_rows(positions[order], Sample(y[order], weights[order], init[order]), NAMES)
    assert_same(shuffled, tidy_rows(positions, Sample(y, weights, init), NAMES))


def test_the_order_of_columns_does_not_matter():
    rng = np.random.default_rng(0)
    positions, y, init = draw_rows(rng, 60)
    sample, moved = Sample(y, np.ones(60), init), [2, 0, 1]
    tidy, rows = tidy_rows(positions, sample, NAMES)
    other, other_rows = tidy_rows(positions[:, moved], sample, [NAMES[column] for column in moved])
    assert_same((tidy[:, moved], rows), (other, other_rows))


def test_fractional_weights_stay():
    positions = np.array([[2.0], [1.0], [3.0], [1.0]], dtype=np.float32)
    tidy, rows = tidy_rows(positions, Sample(np.arange(4.0), np.array([0.5, 2.0, 0.0, 1.0])), ["x"])
    assert sorted(zip(tidy[:, 0].tolist(), rows.y, rows.weights, strict=True)) == [(1, 1, 2), (1, 3, 1), (2, 0, 0.5)]
    assert rows.init is None


def test_rows_of_large_weights_are_not_repeated():
    positions = np.array([[2.0], [1.0]], dtype=np.float32)
    tidy, rows = tidy_rows(positions, Sample(np.array([5.0, 6.0]), np.array([1.0, 10_000.0])), ["x"])
    found = sorted(zip(tidy[:, 0].tolist(), rows.y, rows.weights, strict=True))
    assert found == [(1, 6, 10_000), (2, 5, 1)]


def test_large_tables_keep_their_order_but_lose_rows_of_weight_zero():
    n_rows = 10_000 + 2
    positions = np.arange(n_rows, 0, -1, dtype=np.float32)[:, None]
    weights = np.ones(n_rows)
    weights[3] = 0.0
    tidy, rows = tidy_rows(positions, Sample(np.arange(float(n_rows)), weights), ["x"])
    assert rows.y.tolist() == [float(i) for i in range(n_rows) if i != 3]
    np.testing.assert_array_equal(tidy[:, 0], np.delete(positions[:, 0], 3))


def test_rows_are_not_changed_in_place():
    positions, y, init = draw_rows(np.random.default_rng(1), 20)
    before = positions.copy(), y.copy(), init.copy()
    tidy_rows(positions, Sample(y, np.full(20, 2.0), init), NAMES)
    for kept, now in zip(before, (positions, y, init), strict=True):
        np.testing.assert_array_equal(kept, now)


def test_number_of_observations():
    assert Sample(np.zeros(3), np.array([2.0, 1.0, 4.0])).n_effective == 7.0
    assert Sample(np.zeros(3), np.array([0.5, 1.0, 4.0])).n_effective == 3.0


def test_take():
    sample = Sample(np.arange(3.0), np.array([1.0, 2.0, 3.0]), np.array([[4.0], [5.0], [6.0]]))
    part = sample.take(np.array([2, 0]))
    assert (part.y.tolist(), part.weights.tolist(), part.init.tolist()) == ([2.0, 0.0], [3.0, 1.0], [[6.0], [4.0]])
    assert Sample(np.arange(3.0), np.ones(3)).take(np.array([True, False, True])).y.tolist() == [0.0, 2.0]


TABLE = np.linspace(0, 1, 6)[:, None]


def fit(sample_weight=None, init_score=None, n_classes=0):
    """The model of a short fit to six rows."""
    kind = NeuralBasisClassifier if n_classes else NeuralBasisRegressor
    y = np.arange(6) % n_classes if n_classes else np.arange(6.0)
    return kind(max_steps=3, outer_bags=1).fit(TABLE, y, sample_weight=sample_weight, init_score=init_score).model_


@pytest.mark.parametrize(
    ("given_weights", "expected"),
    [(None, [1.0] * 6), (2, [2.0] * 6), (np.float32(3), [3.0] * 6), ([0, 1, 2.5, 1, 1, 1], [0.0, 1.0, 2.5, 1, 1, 1])],
)
def test_weights(given_weights, expected):
    found, same = fit(given_weights), fit(np.array(expected))
    assert found.shapes[0].weights.sum() == sum(expected)
    np.testing.assert_array_equal(found.scores(TABLE), same.scores(TABLE))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([[1.0]] * 6, "must be 1D array or scalar; sample_weight has 2 dimensions"),
        ([1.0], "sample_weight has 1 entries, but X has 6 rows"),
        ([1.0] * 5 + [NAN], "NaN or infinite values; weights must be finite"),
        ([1.0] * 5 + [np.inf], "NaN or infinite values; weights must be finite"),
        (NAN, "NaN or infinite values; weights must be finite"),
        ([1.0] * 5 + [-1e-9], "negative values; weights must be 0 or more"),
        ([0.0] * 6, "at least one non-zero number; all weights are 0"),
        (0, "at least one non-zero number; all weights are 0"),
    ],
)
def test_wrong_weights(wrong, message):
    with pytest.raises(ValueError, match=message):
        fit(wrong)


def test_init_scores():
    scores = np.linspace(1, 2, 6)
    found = fit(None, scores.tolist()).scores(TABLE)
    np.testing.assert_array_equal(found, fit(None, scores[:, None]).scores(TABLE))
    assert not np.array_equal(found, fit().scores(TABLE))
    same = fit(None, np.ones((6, 3)), n_classes=3).scores(TABLE)
    np.testing.assert_array_equal(same, fit(None, np.ones((6, 3)).tolist(), n_classes=3).scores(TABLE))


@pytest.mark.parametrize(
    ("wrong", "n_classes", "message"),
    [
        (np.ones(7), 0, r"init_score must have shape \(6, 1\), but has \(7,\)"),
        (np.ones((6, 2)), 0, r"init_score must have shape \(6, 1\), but has \(6, 2\)"),
        (np.ones(6), 3, r"init_score must have shape \(6, 3\), but has \(6,\)"),
        (1.0, 0, r"init_score must have shape \(6, 1\), but has \(\)"),
        ([1.0] * 5 + [NAN], 0, "NaN or infinite values; scores must be finite"),
        ([-np.inf] + [1.0] * 5, 0, "NaN or infinite values; scores must be finite"),
    ],
)
def test_wrong_init_scores(wrong, n_classes, message):
    with pytest.raises(ValueError, match=message):
        fit(None, wrong, n_classes)
