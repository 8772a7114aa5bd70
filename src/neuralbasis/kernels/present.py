"""Present values of a sparse table: contributions, and the step of the coefficients of the terms that a batch has.

Values are sorted by term. Dimensions: E values, J distinct terms among them, T terms, P points, B bases, K outputs.
    terms (J,), begin (J + 1,)   the terms, and where the values of each begin
    point (E,), absent (J,)      rows of `bases` (P, B): those of the values, and of the absent value of each term
"""

from __future__ import annotations

import numpy as np

from .compiled import njit


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def contribute_present(first, last, terms, begin, point, absent, coefficients, bases, out):
    """Write a_t · (h(value) - h(absent)) of the values of terms first … last - 1 to out (E,); coefficients (T, B)."""
    n_bases = coefficients.shape[1]
    for j in range(first, last):
        own, base = coefficients[terms[j]], bases[absent[j]]
        at_absent = own[0] * 0
        for b in range(n_bases):
            at_absent += own[b] * base[b]
        for e in range(begin[j], begin[j + 1]):
            here, total = bases[point[e]], own[0] * 0
            for b in range(n_bases):
                total += own[b] * here[b]
            out[e] = total - at_absent
    return -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def mix_present(terms, begin, row, values, mix, out):
    """Add the contributions (E,), times the weights (T, K) of their terms, to the scores out (b, K) of their rows."""
    for j in range(len(terms)):
        weight = mix[terms[j]]
        for e in range(begin[j], begin[j + 1]):
            line, value = out[row[e]], values[e]
            for k in range(len(weight)):
                line[k] += value * weight[k]
    return -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def shrink_rows(first, last, terms, factor, values):
    """Multiply the rows terms[first … last - 1] of values (T, C) by their factors (J,)."""
    for j in range(first, last):
        values[terms[j]] *= factor[j]
    return -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def step_present(
    first, last, terms, begin, point, absent, row, values, slope, penalty, bases, count, rates,
    coefficients, mean, square, mix, mix_mean, mix_square, back,
):  # fmt: skip
    """AdamW step of the coefficients (T, B) and the weights in the outputs (T, K) of terms first … last - 1.

    values (E,) are the contributions, slope (b, K) the gradients of the scores of the rows, penalty the slope of the
    output penalty per contribution, count (T,) the steps of each term including this one. rates: learning rate, share
    of the values that weight decay leaves, decay rates of the two moments, epsilon, and 1 if the weights are trained.
    Adds the gradient of the bases, taken before the step, to back (P, B).
    """
    n_bases, n_outputs = coefficients.shape[1], mix.shape[1]
    grad, of_mix = np.empty(n_bases, coefficients.dtype), np.empty(n_outputs, mix.dtype)
    for j in range(first, last):
        term = terms[j]
        own, weight, base, pulled = coefficients[term], mix[term], bases[absent[j]], back[absent[j]]
        grad[:] = 0
        of_mix[:] = 0
        total = own[0] * 0
        for e in range(begin[j], begin[j + 1]):
            line, here, there, value = slope[row[e]], bases[point[e]], back[point[e]], values[e]
            pull = penalty * value
            for k in range(n_outputs):
                pull += weight[k] * line[k]
            for k in range(n_outputs):
                of_mix[k] += value * line[k]
            for b in range(n_bases):
                grad[b] += pull * here[b]
            for b in range(n_bases):
                there[b] += pull * own[b]
            total += pull
        for b in range(n_bases):
            grad[b] -= total * base[b]
            pulled[b] -= total * own[b]
        _move(own, mean[term], square[term], grad, count[term], rates)
        if rates[5] > 0:
            _move(weight, mix_mean[term], mix_square[term], of_mix, count[term], rates)
    return -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _move(values, mean, square, grad, count, rates):
    """AdamW step number `count` of one row."""
    one = values.dtype.type(1)
    shrink, keep1, keep2, tiny = rates[1], rates[2], rates[3], rates[4]
    scale, move = values.dtype.type(1 / (1 - keep2**count)), values.dtype.type(rates[0] / (1 - keep1**count))
    for i in range(len(values)):
        mean[i] = keep1 * mean[i] + (one - keep1) * grad[i]
        square[i] = keep2 * square[i] + (one - keep2) * grad[i] * grad[i]
        values[i] = shrink * values[i] - move * mean[i] / (np.sqrt(scale * square[i]) + tiny)
