"""The generalization bound: its terms against the integral of the proof, and the growth of the best number of bases."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import gamma, gammaincc

from neuralbasis import plot
from neuralbasis.explain.basis_bound import Decay, best_n_bases, generalization_bound

DECAYS = st.builds(Decay, st.floats(0.01, 1), st.floats(0.05, 5), st.floats(1, 3))


@settings(max_examples=60, deadline=None)
@given(DECAYS, st.integers(1, 40))
def test_the_truncation_bounds_the_integral_and_the_sum(decay, n_bases):
    def eigenvalue(place):
        return decay.c1 * np.exp(-decay.c2 * place**decay.gamma)

    power = 1 / decay.gamma
    tail = gammaincc(power, decay.c2 * n_bases**decay.gamma) * gamma(power)
    integral = decay.c1 * power * decay.c2**-power * tail  # of the eigenvalue, from B on
    rest = eigenvalue(np.arange(n_bases + 1.0, n_bases + 3000)).sum()
    assert rest <= integral * (1 + 1e-9)
    assert integral <= decay.sum_beyond(n_bases) * (1 + 1e-9)


def test_the_truncation_is_the_integral_for_a_geometric_decay():
    decay = Decay(c1=0.7, c2=0.3)
    assert decay.sum_beyond(5) == pytest.approx(quad(lambda j: 0.7 * math.exp(-0.3 * j), 5, np.inf)[0])


def test_the_printed_forms_would_not_hold():
    """DIFF: without C2 in the exponent, or with C2 / C1 in front, the term can be less than the integral."""
    decay, n_bases = Decay(c1=0.9, c2=0.3), 5
    integral = quad(lambda j: decay.c1 * math.exp(-decay.c2 * j), n_bases, np.inf)[0]
    assert decay.c1 / decay.c2 * math.exp(-n_bases) < integral
    assert decay.c2 / decay.c1 * math.exp(-n_bases) < integral
    assert decay.c2 / decay.c1 * math.exp(-decay.c2 * n_bases) < integral


def test_the_three_terms():
    bound = generalization_bound(16, 10, 400, weight_norm=3.0, decay=Decay(0.5, 0.25), delta=0.04)
    assert bound.complexity == pytest.approx(2 * 3 * 0.2)
    assert bound.truncation == pytest.approx(10 * 2 * math.exp(-4))
    assert bound.chance == pytest.approx(5 * math.sqrt(math.log(100) / 400))
    assert bound.total == bound.complexity + bound.truncation + bound.chance


def test_arrays_are_combined():
    bound = generalization_bound(np.arange(1, 6), np.array([[10], [100]]), 1000)
    assert bound.total.shape == (2, 5)
    assert bound.total[1, 3] == generalization_bound(4, 100, 1000).total


@settings(max_examples=40, deadline=None)
@given(DECAYS, st.integers(1, 10**6), st.integers(10, 10**7), st.floats(0.1, 100))
def test_no_number_of_bases_has_a_lower_bound_than_the_best(decay, n_columns, n_rows, norm):
    best = best_n_bases(n_columns, n_rows, decay=decay, weight_norm=norm)
    counts = np.arange(1, 2000)
    total = generalization_bound(counts, n_columns, n_rows, decay=decay, weight_norm=norm).total
    assert counts[total.argmin()] == best


@pytest.mark.parametrize("c2", [0.2, 1 / 4.4, 1.0])
def test_the_best_number_grows_like_the_logarithm_of_the_columns(c2):
    columns = 10 ** np.arange(1, 9)
    best = np.array([best_n_bases(int(count), 10_000, decay=Decay(c2=c2)) for count in columns])
    slope, offset = np.polyfit(np.log(columns), best, 1)
    assert slope == pytest.approx(1 / c2, rel=0.06)
    assert np.abs(best - offset - slope * np.log(columns)).max() < 1


def test_the_second_power_needs_the_root_of_the_logarithm():
    best = [best_n_bases(10**k, 10_000, decay=Decay(gamma=2.0)) for k in range(2, 13, 2)]
    roots = [math.sqrt(math.log(10**k * math.sqrt(10_000))) for k in range(2, 13, 2)]
    assert best == pytest.approx(roots, abs=1)


@pytest.mark.parametrize("wrong", [{"c1": 0.0}, {"c1": 1.1}, {"c2": 0.0}, {"gamma": 0.5}])
def test_wrong_decays(wrong):
    with pytest.raises(ValueError, match="the bound needs"):
        Decay(**wrong)


@pytest.mark.parametrize("wrong", [{"n_bases": 0}, {"n_columns": 0}, {"n_rows": 0}, {"delta": 0}, {"weight_norm": 0}])
def test_wrong_arguments(wrong):
    with pytest.raises(ValueError, match="must be"):
        generalization_bound(**{"n_bases": 4, "n_columns": 3, "n_rows": 100, **wrong})


@pytest.mark.parametrize("wrong", [{"n_columns": 0}, {"n_rows": 0}, {"weight_norm": 0}, {"weight_norm": -1}])
def test_wrong_arguments_of_the_best_number(wrong):
    with pytest.raises(ValueError, match="must be"):
        best_n_bases(**{"n_columns": 3, "n_rows": 100, **wrong})


def test_the_figure_marks_the_best_numbers(tmp_path):
    figure = plot.bound([10, 1000], n_rows=1000, path=tmp_path / "bound.png")
    left, right = figure.axes
    marks = [line.get_xdata()[0] for line in left.lines if line.get_marker() == "o"]
    assert marks == [best_n_bases(10, 1000), best_n_bases(1000, 1000)]
    columns, best = right.lines[0].get_data()
    assert best[0] == best_n_bases(1, 1000)
    assert (columns[-1], best[-1]) == (10**5, best_n_bases(10**5, 1000))
    assert (tmp_path / "bound.png").read_bytes()[:4] == b"\x89PNG"
