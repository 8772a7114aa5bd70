"""Column values for property tests of axes, and positions of values on an axis."""

from unittest.mock import patch

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from neuralbasis import AdditiveModel, kernels
from neuralbasis.encoding import Encoder, lay_out
from neuralbasis.model.shapes import Shape
from tests.models import name_columns

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
    if not axis.is_level or np.array_equal(axis.knots, np.arange(len(axis.knots))):  # not some of the levels
        np.testing.assert_allclose(positions, locate_numpy(axis, values), rtol=1e-6)
    return positions.tolist()


def locate_numpy(axis, values):
    """Positions by the NumPy path: predictions of a table that holds the numbers of its cells."""
    cells = np.arange(float(axis.n_cells))
    shape = Shape((0,), (axis,), cells[:, None], np.zeros((len(cells), 1)), np.ones(len(cells)))
    model = AdditiveModel(Encoder((axis,)), np.zeros(1), (shape,), "identity", n_jobs=1)
    with patch.object(kernels, "NUMBA", False):
        return model.predict(name_columns([axis], values[:, None]))
