"""Knots and places of every scaling: weights, frequent values, levels, and extremes of float64."""

import math
import re
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from neuralbasis.data import read_columns
from neuralbasis.encoding import Encoder, continuous_axis, level_axis
from tests.axis_values import column_values, finite, increases, knot_limits, locate, scalings

NAN = float("nan")
LARGEST = np.finfo(float).max
SUBNORMAL = 5e-324


def steps(axis, max_knots=193):
    """Places in steps of the shared axis."""
    return (axis.places * (max_knots - 1)).tolist()


def assert_same_axis(one, other):
    np.testing.assert_array_equal(one.knots, other.knots)
    np.testing.assert_array_equal(one.places, other.places)


# Places by hand


def test_minmax_places_are_linear_in_the_value():
    axis = continuous_axis("x", np.array([20.0, 30.0, 30.0, NAN, 60.0]), scaling="minmax")
    assert axis.knots.tolist() == [20.0, 30.0, 60.0]
    assert axis.places.tolist() == [0.0, 0.25, 1.0]
    assert (axis.name, axis.kind, axis.levels, axis.is_level, axis.n_cells) == ("x", "continuous", None, False, 5)


def test_minmax_of_many_values_is_an_even_grid():
    axis = continuous_axis(
        "x", np.random.default_rng(0).permutation(np.arange(-100.0, 1001.0)), scaling="minmax", max_knots=12
    )
    np.testing.assert_allclose(axis.knots, np.arange(-100, 1001, 100))
    np.testing.assert_allclose(axis.places, np.arange(12) / 11)
    assert axis.knots[[0, -1]].tolist() == [-100.0, 1000.0]


def test_quantile_places_blend_ranks_and_values():
    # Equal mass: mid-ranks 0, ½, 1 and values 0, 0.1, 1 -> 0.65 · ½ + 0.35 · 0.1 = 0.36, and 0.36 · 192 = 69.12.
    assert steps(continuous_axis("x", np.array([0.0, 10.0, 1.0]))) == [0.0, 69.0, 192.0]
    # Mid-ranks 0.3, 0.7, 0.9, stretched 0, ⅔, 1 -> 0.65 · ⅔ + 0.035, times 192 = 89.92.
    assert steps(continuous_axis("x", np.array([0.0, 0.0, 0.0, 10.0, 1.0]))) == [0.0, 90.0, 192.0]


def test_gaussian_places_are_normal_quantiles_of_the_ranks():
    axis = continuous_axis("x", np.array([5.0, 1.0, 3.0, 100.0, 2.0]), scaling="gaussian")
    normal = [NormalDist().inv_cdf(rank) for rank in (0.1, 0.3, 0.5, 0.7, 0.9)]
    expected = [round(192 * (z - normal[0]) / (normal[-1] - normal[0])) for z in normal]
    assert axis.knots.tolist() == [1.0, 2.0, 3.0, 5.0, 100.0]
    assert steps(axis) == pytest.approx(expected, abs=1e-9)


def test_quantile_knots_of_many_values_follow_the_quantiles():
    values = np.random.default_rng(0).exponential(size=20_000)
    axis = continuous_axis("x", values)
    ranks = np.searchsorted(np.sort(values), axis.knots) / len(values)
    spread = (axis.knots - values.min()) / np.ptp(values)
    assert 150 < len(axis.knots) <= 193
    np.testing.assert_allclose(axis.places, 0.65 * ranks + 0.35 * spread, atol=0.6 / 192)


@pytest.mark.parametrize("scaling", ["quantile", "minmax", "gaussian"])
def test_one_value(scaling):
    axis = continuous_axis("x", np.array([7.0, NAN, 7.0]), scaling=scaling)
    assert (axis.knots.tolist(), axis.places.tolist(), axis.n_cells) == ([7.0], [0.5], 3)
    assert locate(axis, [6.0, 7.0, 8.0, NAN]) == [1.0, 1.0, 1.0, 0.0]


@pytest.mark.parametrize("scaling", ["quantile", "minmax", "gaussian"])
def test_two_values(scaling):
    axis = continuous_axis("x", np.array([1.0, 0.0, 0.0, 0.0]), scaling=scaling)
    assert (axis.knots.tolist(), axis.places.tolist()) == ([0.0, 1.0], [0.0, 1.0])
    assert locate(axis, [-1.0, 0.0, 0.25, 1.0, 2.0]) == [1.0, 1.0, 1.25, 2.0, 2.0]


def test_negative_zero_is_zero():
    axis = continuous_axis("x", np.array([-0.0, 0.0, 1.0, -0.0]))
    assert axis.knots.tolist() == [0.0, 1.0]
    assert locate(axis, [-0.0, 0.0]) == [1.0, 1.0]


# Properties


@settings(deadline=None, max_examples=300)
@given(column_values, scalings, knot_limits)
def test_knots_and_places_increase(values, scaling, max_knots):
    axis = continuous_axis("x", values, scaling=scaling, max_knots=max_knots)
    assert len(axis.knots) == len(axis.places) <= max_knots
    assert increases(axis.knots)
    assert values.min() <= axis.knots[0] <= axis.knots[-1] <= values.max()
    assert (np.diff(axis.places) >= np.finfo(np.float32).eps).all()
    if len(np.unique(values)) > 1:
        assert axis.places[[0, -1]].tolist() == [0.0, 1.0]
    if scaling == "minmax":
        assert axis.knots[[0, -1]].tolist() == [values.min(), values.max()]
    else:
        assert np.isin(axis.knots, values).all()


@settings(deadline=None)
@given(column_values, knot_limits)
def test_minmax_places_are_shares_of_the_range(values, max_knots):
    axis = continuous_axis("x", values, scaling="minmax", max_knots=max_knots)
    assume(len(axis.knots) > 1)
    low, high = Fraction(values.min()), Fraction(values.max())
    shares = [float((Fraction(knot) - low) / (high - low)) for knot in axis.knots]
    # A knot of the even grid is rounded to the nearest doubles of the column, which may lie far apart.
    grain = float(Fraction(math.ulp(np.abs(values).max())) / (high - low))
    np.testing.assert_allclose(axis.places, shares, rtol=1e-12, atol=1e-15 + 2 * grain)


@settings(deadline=None)
@given(column_values, st.sampled_from(["quantile", "gaussian"]))
def test_each_of_few_values_is_a_knot(values, scaling):
    axis = continuous_axis("x", values, scaling=scaling)
    assert axis.knots.tolist() == np.unique(values).tolist()
    if len(axis.knots) > 1:  # places are steps of the shared axis
        np.testing.assert_allclose(steps(axis), np.rint(steps(axis)), atol=1e-9)


@pytest.mark.parametrize("scaling", ["quantile", "gaussian"])
@pytest.mark.parametrize("count", [192, 193])
def test_as_many_values_as_knots_fill_the_axis(count, scaling):
    crowd = np.concatenate([np.linspace(0, 1e-6, count - 1), [1.0]])
    axis = continuous_axis("x", np.repeat(crowd, np.r_[np.full(count - 1, 1), 5000]), scaling=scaling)
    assert axis.knots.tolist() == crowd.tolist()
    assert len(set(steps(axis))) == count


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([33, 193]), st.sampled_from(["normal", "exponential", "cauchy"]))
def test_a_frequent_value_is_a_knot(seed, max_knots, shape):
    rng = np.random.default_rng(seed)
    values = np.round(getattr(rng, f"standard_{shape}")(2000), 3)
    assume(len(np.unique(values)) > max_knots)
    frequent = rng.choice(values)
    # Half of its mass is more than one step of the axis, so it is alone at its place (ranks are 0.8 of the axis).
    share = 2.6 / 0.8 / (max_knots - 1)
    values[rng.permutation(2000)[: int(np.ceil(share * 2000))]] = frequent
    assert frequent in continuous_axis("x", values, max_knots=max_knots).knots


def draw_crowded(rng, n_rows, share, n_frequent=1, shape="normal"):
    """Mostly distinct values, and some that have this share of the rows each."""
    values = getattr(rng, f"standard_{shape}")(n_rows)
    frequent = rng.choice(np.unique(values)[5:-5], n_frequent, replace=False)
    count = math.ceil(share * n_rows)
    for k, value in enumerate(frequent):
        values[k * count : (k + 1) * count] = value
    return rng.permutation(values), frequent


shapes = st.sampled_from(["normal", "exponential", "cauchy"])


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32 - 1), st.sampled_from([33, 65, 193]), shapes)
def test_the_values_beside_a_frequent_one_are_knots(seed, max_knots, shape):
    values, (frequent,) = draw_crowded(np.random.default_rng(seed), 1000, 0.1, shape=shape)
    distinct = np.unique(values)
    assert len(distinct) > max_knots
    axis = continuous_axis("x", values, max_knots=max_knots)
    at = int(np.searchsorted(distinct, frequent))
    neighbours = distinct[max(at - 1, 0) : at + 2]
    where = np.searchsorted(axis.knots, neighbours)
    np.testing.assert_array_equal(axis.knots[where], neighbours)
    np.testing.assert_array_equal(np.diff(where), 1)  # nothing between them
    # A jump at the frequent value does not affect the positions of the next values.
    position = np.array(locate(axis, distinct))
    reached = np.abs(position - position[at]) < 1
    assert distinct[reached].tolist() == [frequent]


@settings(deadline=None, max_examples=150)
@given(
    st.integers(0, 2**32 - 1), st.sampled_from([2, 3, 8, 33, 193]), shapes, st.integers(0, 4), st.floats(0.005, 0.2),
    st.sampled_from(["quantile", "gaussian"]), st.booleans(),
)  # fmt: skip
def test_knots_stay_in_order_beside_frequent_values(seed, max_knots, shape, n_frequent, share, scaling, weighted):
    rng = np.random.default_rng(seed)
    values, _ = draw_crowded(rng, 400, share, n_frequent, shape)
    weights = rng.random(400) + 0.01 if weighted else None
    axis = continuous_axis("x", values, weights, scaling, max_knots)
    assert increases(axis.knots)
    assert 2 <= len(axis.knots) == len(axis.places) <= max_knots
    assert np.isin(axis.knots, values).all()
    assert axis.places[[0, -1]].tolist() == [0.0, 1.0]
    whole = steps(axis, max_knots)
    np.testing.assert_allclose(whole, np.rint(whole), atol=1e-9)
    assert (np.diff(np.rint(whole)) >= 1).all()
    assert values.min() <= axis.knots[0] < axis.knots[-1] <= values.max()
    if len(np.unique(values)) <= max_knots:
        assert axis.knots[[0, -1]].tolist() == [values.min(), values.max()]


def test_knots_beside_a_frequent_value_are_the_nearest_values():
    """Nine places: 50 is alone at its place, with more than twice the average weight."""
    values = np.r_[np.arange(100.0), np.full(80, 50.0)]
    share = 81 / 180
    assert share > 2 / 9
    axis = continuous_axis("x", values, max_knots=9)
    at = axis.knots.tolist().index(50.0)
    assert axis.knots[at - 1 : at + 2].tolist() == [49.0, 50.0, 51.0]
    # Elsewhere a knot is the median of the values at its place.
    rank = (np.cumsum(np.where(np.arange(100) == 50, 81, 1)) - np.where(np.arange(100) == 50, 81, 1) / 2) / 180
    stretched = (rank - rank[0]) / (rank[-1] - rank[0])
    place = np.rint(8 * (0.65 * stretched + 0.35 * np.arange(100) / 99))
    for knot, step in zip(axis.knots, np.rint(steps(axis, 9)), strict=True):
        group = np.flatnonzero(place == step)
        assert knot in group
        if knot not in (49.0, 50.0, 51.0):
            assert knot == group[(len(group) - 1) // 2]


@pytest.mark.parametrize(("max_knots", "between"), [(17, [41.0, 45.0]), (25, [45.0])])
def test_knots_between_two_frequent_values(max_knots, between):
    """Two places have the value nearest to each; a single place has the value nearest to the second."""
    values = np.r_[np.arange(100.0), np.full(100, 40.0), np.full(100, 46.0)]
    knots = continuous_axis("x", values, max_knots=max_knots).knots.tolist()
    assert knots[knots.index(39.0) : knots.index(47.0) + 1] == [39.0, 40.0, *between, 46.0, 47.0]


def test_knots_beside_a_rare_value_are_medians():
    """A distant value is alone at its place but has few rows, so its effect cannot leak."""
    values = np.r_[np.linspace(0, 1, 300), 1.5, np.linspace(2, 3, 300)]
    axis = continuous_axis("x", values, max_knots=33)
    at = axis.knots.tolist().index(1.5)
    assert axis.knots[at - 1] < 1.0
    assert axis.knots[at + 1] > 2.0


def test_values_that_share_a_place_have_their_weighted_median_as_knot():
    values = np.arange(6.0)
    assert continuous_axis("x", values, max_knots=2).knots.tolist() == [1.0, 4.0]
    assert continuous_axis("x", values, np.array([1.0, 1, 6, 6, 1, 1]), max_knots=2).knots.tolist() == [2.0, 3.0]


def test_a_spike_is_a_knot_of_the_gaussian_axis():
    rng = np.random.default_rng(1)
    values = np.where(rng.random(5000) < 0.05, 0.123, rng.normal(size=5000))
    assert 0.123 in continuous_axis("x", values, scaling="gaussian").knots


@settings(deadline=None, max_examples=200)
@given(st.data(), scalings, knot_limits)
def test_weights_are_repetitions(data, scaling, max_knots):
    values = data.draw(hnp.arrays(np.float64, st.integers(1, 60), elements=finite | st.just(NAN)))
    weights = data.draw(hnp.arrays(np.int64, len(values), elements=st.integers(0, 4)))
    repeated = np.repeat(values, weights)
    assume(not np.isnan(repeated).all())
    repeated = data.draw(st.permutations(repeated.tolist()).map(np.array))
    weighed = continuous_axis("x", values, weights.astype(float), scaling, max_knots)
    assert_same_axis(weighed, continuous_axis("x", repeated, None, scaling, max_knots))


@settings(deadline=None)
@given(st.data(), scalings, knot_limits)
def test_fractional_weights(data, scaling, max_knots):
    values = data.draw(column_values)
    weights = data.draw(hnp.arrays(np.float64, len(values), elements=st.floats(-40, 40).map(lambda e: 10.0**e)))
    axis = continuous_axis("x", values, weights, scaling, max_knots)
    assert increases(axis.knots)
    assert increases(axis.places)
    assert axis.places[0] >= 0
    assert axis.places[-1] <= 1
    # Only proportions matter; a power of two does not change the rounding.
    assert_same_axis(axis, continuous_axis("x", values, weights * 2.0**20, scaling, max_knots))


@pytest.mark.parametrize("scaling", ["quantile", "minmax", "gaussian"])
def test_values_of_weight_zero_are_absent(scaling):
    values = np.array([1.0, np.inf, 2.0, -9.0, NAN, 4.0])
    axis = continuous_axis("x", values, np.array([1.0, 0.0, 2.0, 0.0, 1.0, 1.0]), scaling)
    assert axis.knots.tolist() == [1.0, 2.0, 4.0]
    assert_same_axis(axis, continuous_axis("x", np.array([1.0, 2.0, 2.0, 4.0, NAN]), None, scaling))


# Extremes of float64


@pytest.mark.parametrize("scaling", ["quantile", "minmax", "gaussian"])
@pytest.mark.parametrize("size", [LARGEST, LARGEST / 3, 1.0, 1e-300, 4 * SUBNORMAL])
def test_range_of_any_size(scaling, size):
    axis = continuous_axis("x", np.array([-size, 0.0, size]), scaling=scaling)
    assert axis.knots.tolist() == [-size, 0.0, size]
    assert axis.places.tolist() == [0.0, 0.5, 1.0]
    assert locate(axis, [-LARGEST, -size, -size / 2, 0.0, size / 4, size, LARGEST]) == [1, 1, 1.5, 2, 2.25, 3, 3]


def test_interpolation_across_the_range_of_float64():
    axis = continuous_axis("x", np.array([-LARGEST, LARGEST]))
    assert locate(axis, [-LARGEST, -LARGEST / 2, 0.0, LARGEST / 2, LARGEST]) == [1.0, 1.25, 1.5, 1.75, 2.0]


@pytest.mark.parametrize("scaling", ["quantile", "minmax", "gaussian"])
def test_neighbouring_subnormals(scaling):
    axis = continuous_axis("x", np.array([0.0, SUBNORMAL, 2 * SUBNORMAL]), scaling=scaling)
    assert axis.knots.tolist() == [0.0, SUBNORMAL, 2 * SUBNORMAL]
    assert axis.places.tolist() == [0.0, 0.5, 1.0]
    assert locate(axis, [0.0, SUBNORMAL, 2 * SUBNORMAL, 1.0]) == [1.0, 2.0, 3.0, 3.0]


def test_subnormals_beside_the_largest_double():
    axis = continuous_axis("x", np.array([0.0, SUBNORMAL, LARGEST]))
    assert axis.knots.tolist() == [0.0, SUBNORMAL, LARGEST]
    assert locate(axis, [0.0, SUBNORMAL, LARGEST / 2, LARGEST]) == [1.0, 2.0, 2.5, 3.0]


@pytest.mark.parametrize("offset", [1e16, -28876650.599537753, 3e16, -LARGEST, SUBNORMAL, 1.0])
def test_minmax_grid_of_neighbouring_doubles_increases(offset):
    values = [offset]
    for _ in range(400):
        values.append(np.nextafter(values[-1], np.inf))
    axis = continuous_axis("x", np.array(values), scaling="minmax")
    assert increases(axis.knots)
    assert axis.knots[[0, -1]].tolist() == [values[0], values[-1]]
    assert increases(axis.places)
    assert len(axis.knots) > 100


def test_minmax_leaves_out_values_that_are_equal_in_single_precision():
    axis = continuous_axis("x", np.array([0.0, 1e-60, 0.5, 1.0 - 1e-12, 1.0]), scaling="minmax")
    assert axis.knots.tolist() == [0.0, 0.5, 1.0]
    assert axis.places.tolist() == [0.0, 0.5, 1.0]


def test_gaussian_places_beside_an_overwhelming_weight():
    axis = continuous_axis("x", np.array([1.0, 2.0, 3.0]), np.array([1.0, 1e-20, 1e-20]), "gaussian")
    assert axis.knots.tolist() == [1.0, 2.0, 3.0]
    assert axis.places[[0, -1]].tolist() == [0.0, 1.0]
    assert 0 < axis.places[1] < 1


# Errors


@pytest.mark.parametrize("scaling", ["quantile", "minmax", "gaussian"])
@pytest.mark.parametrize("values", [[1.0, np.inf], [-np.inf, NAN, 0.0], [np.inf], [-np.inf, np.inf]])
@pytest.mark.parametrize("weighted", [False, True])
def test_infinite_values_name_the_column(values, weighted, scaling):
    weights = np.ones(len(values)) if weighted else None
    with pytest.raises(ValueError, match=r"column 'age' holds infinite values; .* replace them"):
        continuous_axis("age", np.array(values), weights, scaling)


@pytest.mark.parametrize(
    ("values", "weights"), [([NAN, NAN], None), ([NAN], [1.0]), ([NAN, 5.0], [1.0, 0.0]), ([], None)]
)
def test_a_column_without_a_value_names_the_column(values, weights):
    weights = None if weights is None else np.array(weights)
    with pytest.raises(ValueError, match=r"column 'age' has only missing values; drop it or fill it"):
        continuous_axis("age", np.array(values, dtype=float), weights)


def test_no_levels_names_the_column():
    with pytest.raises(ValueError, match=re.escape("column 'city' has only missing values")):
        level_axis("city", "nominal", [])


# Levels


def test_levels_are_evenly_placed_knots():
    axis = level_axis("size", "ordinal", ["S", "M", "L"])
    assert (axis.name, axis.kind, axis.levels, axis.is_level) == ("size", "ordinal", ("S", "M", "L"), True)
    assert (axis.knots.tolist(), axis.places.tolist(), axis.n_cells) == ([0.0, 1.0, 2.0], [0.0, 0.5, 1.0], 5)
    assert locate(axis, [0.0, 2.0, NAN, -1.0, 3.0]) == [1.0, 3.0, 0.0, 4.0, 4.0]
    assert axis.mass is None


def test_encoders_weigh_the_levels():
    table = read_columns({"x": np.array(["b", "a", "b", None, "c"], dtype=object)})
    assert Encoder.fit(table).axes[0].mass.tolist() == [1.0, 2.0, 1.0]
    assert Encoder.fit(table, np.array([0.5, 3.0, 0.5, 9.0, 2.0])).axes[0].mass.tolist() == [3.0, 1.0, 2.0]
    assert Encoder.fit(read_columns({"x": [1.0, 2.0]})).axes[0].mass is None


def test_one_level():
    axis = level_axis("x", "nominal", ["only"])
    assert axis.coarsen(2) is axis
    assert (axis.knots.tolist(), axis.places.tolist()) == ([0.0], [0.5])
    assert locate(axis, [0.0, -1.0, NAN]) == [1.0, 2.0, 0.0]


def test_ten_thousand_levels():
    names = [f"user {k:05d}" for k in range(10_000)]
    rows = np.random.default_rng(0).permutation(np.repeat(np.array(names, dtype=object), 2))
    encoder = Encoder.fit(read_columns({"user": rows}))
    (axis,) = encoder.axes
    assert axis.levels == tuple(names)
    assert (len(axis.knots), axis.places[0], axis.places[-1]) == (10_000, 0.0, 1.0)
    assert increases(axis.places)
    numbers = encoder.numbers(read_columns({"user": np.array([*names, None, "user 10000"], dtype=object)}))
    assert locate(axis, numbers[:, 0]) == [*np.arange(1.0, 10_001.0).tolist(), 0.0, 10_001.0]


# Types of numbers


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "g", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">f4", ">i8"])
def test_every_dtype_gives_the_same_axis(dtype):
    values = np.array([[3], [0], [100], [7], [0]])
    (axis,) = Encoder.fit(read_columns(values.astype(dtype))).axes
    assert axis.knots.dtype == np.float64
    assert axis.knots.tolist() == [0.0, 3.0, 7.0, 100.0]
    assert_same_axis(axis, continuous_axis("x", values[:, 0].astype(float)))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_extremes_of_a_dtype(dtype):
    largest = np.finfo(dtype).max
    values = np.array([[-largest], [0.0], [np.nan], [largest]], dtype=dtype)
    (axis,) = Encoder.fit(read_columns(values)).axes
    assert axis.knots.tolist() == [-float(largest), 0.0, float(largest)]
    assert axis.places.tolist() == [0.0, 0.5, 1.0]


def test_booleans_are_numbers():
    (axis,) = Encoder.fit(read_columns({"flag": np.array([True, False, True])})).axes
    assert (axis.kind, axis.knots.tolist()) == ("continuous", [0.0, 1.0])
