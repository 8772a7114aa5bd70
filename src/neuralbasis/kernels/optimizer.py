"""Gradients of the roughness penalties on the table, and the AdamW step."""

from __future__ import annotations

import numpy as np

from .compiled import njit


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def measure_roughness(left, right, block, inverse, table, rough):
    """Add the squared difference over the width of every edge to the roughness (blocks, C) of its block."""
    for e in range(len(left)):
        for c in range(table.shape[1]):
            change = table[right[e], c] - table[left[e], c]
            rough[block[e], c] += change * change * inverse[e]
    return -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def pull_edges(left, right, block, inverse, strength, table, grad):
    """Add the gradient of Σ_edges ½ strength[block] (difference)² / width to grad (cells, C)."""
    for e in range(len(left)):
        for c in range(table.shape[1]):
            pull = strength[block[e], c] * inverse[e] * (table[right[e], c] - table[left[e], c])
            grad[right[e], c] += pull
            grad[left[e], c] -= pull
    return -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def pull_bends(middle, before, after, strength, table, grad):
    """Add the gradient of Σ ½ strength (after · next difference - before · previous difference)² to grad (cells, C).

    The sum is over the cells `middle`; before and after are scaled inverse widths, which makes it a penalty on f''.
    """
    for b in range(len(middle)):
        cell, down, up = middle[b], before[b], after[b]
        for c in range(table.shape[1]):
            bend = up * (table[cell + 1, c] - table[cell, c]) - down * (table[cell, c] - table[cell - 1, c])
            pull = strength[b, c] * bend
            grad[cell - 1, c] += down * pull
            grad[cell, c] -= (down + up) * pull
            grad[cell + 1, c] += up * pull
    return -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def step_adam(grad, mean, square, values, average, first, second, bias1, bias2, rate, decay, epsilon, share):
    """In one pass: an AdamW step, the exponential average of the values, and reset of the gradient to zero.

    first and second are the decay rates of the moments, bias1 and bias2 their bias corrections; decay is weight decay
    times learning rate, share the weight of the new values in their average.
    """
    one = values.dtype.type(1)
    keep1, keep2, move = values.dtype.type(first), values.dtype.type(second), values.dtype.type(rate / bias1)
    scale, tiny = values.dtype.type(1 / bias2), values.dtype.type(epsilon)
    shrink, part = values.dtype.type(1 - decay), values.dtype.type(share)
    for i in range(len(values)):
        g = grad[i]
        mean[i] = keep1 * mean[i] + (one - keep1) * g
        square[i] = keep2 * square[i] + (one - keep2) * g * g
        values[i] = shrink * values[i] - move * mean[i] / (np.sqrt(scale * square[i]) + tiny)
        average[i] += part * (values[i] - average[i])
        grad[i] = 0
    return -1
