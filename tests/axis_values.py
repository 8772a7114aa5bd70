"""Column values for property tests of axes, and positions of values on an axis."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from neuralbasis.encoding import lay_out
from neuralbasis.model.predictor import _positions

# Ordinary numbers, ties, neighbours in the last bit, subnormals, the largest doubles.
finite = st.floats(allow_nan=False, allow_infinity=False) | st.floats(-100, 100) | st.integers(-9, 9).map(float)
column_values = hnp.arrays(np.float64, st.integers(1, 80), elements=finite)
scalings = st.sampled_from(["quantile", "minmax", "gaussian"])
knot_limits = st.sampled_from([2, 3, 8, 33, 193])


def increases(values):
    """Whether values strictly increase."""
    return bool((values[1:] > values[:-1]).all())  # the difference of two doubles may overflow


def locate(axis, values):
    """Positions by the compiled path; checks that the NumPy path gives the same."""
    values = np.asarray(values, dtype=float)
    positions = lay_out([axis], [(0,)], {}).encode(values[:, None])[:, 0]
    np.testing.assert_array_equal(positions, _positions(values, axis).astype(np.float32))
    return positions.tolist()
