"""Positions and bins of columns for the tests of screening."""

import numpy as np

from neuralbasis.encoding import continuous_axis, lay_out
from neuralbasis.terms.binning import bin_columns


def place(X, axes=None):
    """Positions of the rows and the axes of the columns, continuous unless given."""
    axes = axes or [continuous_axis(f"x{index:02d}", column) for index, column in enumerate(X.T)]
    layout = lay_out(axes, [(index,) for index in range(len(axes))], {})
    return layout.encode(np.asarray(X, dtype=float)), axes


def make_bins(X, weights=None, axes=None, max_bins=16):
    return bin_columns(*place(X, axes), weights, max_bins)
