"""Look-ups by the compiled loops and by the NumPy path, for the tests of the kernels."""

from unittest.mock import patch

import numpy as np

from neuralbasis import kernels
from tests.models import name_columns, slow_look_up


def terms_of(layout):
    """Arrays of the terms for the kernels."""
    return (*layout.term_arrays, *layout.skips)


def contribute(model, numbers, threads=1, per_term=True):
    """Contributions (N, T, K), or their sums (N, 1, K), by the compiled loop."""
    out = np.zeros((len(numbers), len(model.shapes) if per_term else 1, model.n_outputs))
    table = np.concatenate([shape.scores.reshape(-1, model.n_outputs) for shape in model.shapes])
    arrays = (*model.layout.axis_arrays, *terms_of(model.layout), table, per_term, out)
    result = kernels.share_rows(lambda _, a, b: kernels.score_rows(a, b, numbers, *arrays), len(numbers), threads)
    assert result == -1
    return out


def contribute_numpy(model, numbers):
    """Contributions (N, T, K) by the NumPy path."""
    with patch.object(kernels, "NUMBA", False):
        return model.contributions(name_columns(model.encoder.axes, numbers))


def take(positions, rows, threads=1):
    """Positions (A, b) of a batch."""
    taken = np.full((positions.shape[1], len(rows)), np.nan, dtype=np.float32)

    def work(_part, first, last):
        return kernels.take_rows(first, last, positions, rows, taken)

    assert kernels.share_rows(work, len(rows), threads, min_rows=16) == -1
    return taken


def gather(layout, taken, table, per_term=False, threads=1):
    """Look-ups (b, 1 or T, C); the threads share the rows."""
    out = np.zeros((taken.shape[1], len(layout.terms) if per_term else 1, table.shape[1]), dtype=table.dtype)

    def work(_part, first, last):
        return kernels.gather_rows(first, last, taken, *terms_of(layout), table, per_term, out)

    assert kernels.share_rows(work, len(out), threads, min_rows=16) == -1
    return out


def scatter(layout, taken, grad, threads=1):
    """Histograms (cells, C) of grad (b, 1 or T, C); the threads share the terms."""
    out = np.zeros((layout.n_cells, grad.shape[2]), dtype=grad.dtype)

    def work(_part, first, last):
        return kernels.scatter_rows(first, last, taken, *terms_of(layout), grad, grad.shape[1] > 1, out)

    edges = np.linspace(0, len(layout.terms), threads + 1).astype(int)
    assert kernels.share_work(work, edges) == -1
    return out


def slow_weights(layout, position):
    """(T, cells) weight of every cell in the look-ups of a row at this position (A,): look-ups of unit tables."""
    weights = np.zeros((len(layout.terms), layout.n_cells))
    for index in range(len(layout.terms)):
        axes = layout.term_axis[layout.term_start[index] : layout.term_start[index + 1]]
        shape = layout.table_shape(index)
        unit = np.eye(int(np.prod(shape))).reshape(*shape, -1)
        weights[index, layout.cells_of(index)] = slow_look_up(unit, position[axes])
    return weights
