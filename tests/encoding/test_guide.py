"""Guide tables bracket every value by few knots."""

import tracemalloc
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from neuralbasis.encoding import Axis, continuous_axis, lay_out
from tests.models import draw_numbers


def guide_of(knots):
    """The guide table of one axis and its line."""
    layout = lay_out([Axis("x", "continuous", knots, np.linspace(0, 1, len(knots)))], [(0,)], {})
    return layout.guide, layout.guide_line[0]


@given(
    st.lists(st.floats(-1e308, 1e308, allow_nan=False), min_size=2, max_size=60, unique=True),
    st.lists(st.floats(-1e308, 1e308, allow_nan=False), max_size=20),
)
def test_a_guide_table_brackets_every_value(knots, values):
    knots = np.sort(np.array(knots))
    guide, (low, scale, top) = guide_of(knots)
    inside = np.array([v for v in [*values, *knots[:-1]] if knots[0] <= v < knots[-1]])
    with np.errstate(over="ignore"):
        bucket = np.clip((inside - low) * scale, 0, top).astype(int)
    expected = np.searchsorted(knots, inside, side="right") - 1
    assert len(guide) == top + 2 == (2 if len(knots) == 2 else 16 * len(knots) + 1)
    assert (guide[bucket] <= expected).all()
    assert (expected <= guide[bucket + 1]).all()


def test_long_tails_do_not_crowd_the_bulk():
    knots = np.r_[np.linspace(0, 1, 150), np.geomspace(2, 1e6, 43)]
    guide, (low, scale, top) = guide_of(knots)
    bucket = np.clip((knots[:149] - low) * scale, 0, top).astype(int)
    assert (guide[bucket + 1] - guide[bucket]).mean() <= 1.5


def test_memory_is_proportional_to_the_number_of_knots():
    knots = np.sort(np.random.default_rng(0).standard_cauchy(200_000))
    tracemalloc.start()
    try:
        guide, (low, scale, top) = guide_of(knots)
        assert tracemalloc.get_traced_memory()[1] < 40 * len(knots) + 20_000_000
    finally:
        tracemalloc.stop()
    assert len(guide) == 2049
    inside = np.random.default_rng(1).choice(knots[:-1], 1000)
    bucket = np.clip((inside - low) * scale, 0, top).astype(int)
    expected = np.searchsorted(knots, inside)
    assert ((guide[bucket] <= expected) & (expected <= guide[bucket + 1])).all()
    assert np.median(guide[bucket + 1] - guide[bucket]) < 400  # of 200,000


def test_with_very_many_axes_those_with_few_knots_share_a_guide_table():
    rng = np.random.default_rng(0)
    axes = [continuous_axis(f"x{index}", rng.normal(size=size)) for index, size in enumerate([3, 20, 2, 3, 40, 1, 2])]
    terms = [(index,) for index in range(len(axes))]
    numbers = draw_numbers(rng, axes, 200)
    few = lay_out(axes, terms, {})
    many = lay_out([*axes, *[replace(axes[2], name=f"y{index}") for index in range(2048)]], terms, {})
    assert len(few.guide) == 2 * (16 * 3 + 1) + 16 * 20 + 1 + 16 * 40 + 1 + 2 * 2
    assert len(many.guide) == 16 * 40 + 1 + 4 * 2
    assert many.guide_start[0] == many.guide_start[3]
    wide = np.hstack([numbers, np.zeros((200, 2048))])
    np.testing.assert_array_equal(few.encode(numbers), many.encode(wide)[:, : len(axes)])
