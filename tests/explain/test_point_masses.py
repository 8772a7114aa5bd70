"""Point masses: special codes and frequent values are found, designs, tails and whole numbers are left alone."""

import numpy as np
import pytest

from neuralbasis.explain import explain_global
from neuralbasis.explain import point_masses as masses
from tests.plot.figures import additive, knots, shape

AGES = np.arange(20.0, 90.0)


def find(values, weights=10.0):
    values = np.asarray(values, dtype=float)
    found = masses.find_point_masses(values, np.broadcast_to(weights, values.shape).astype(float))
    return {mass.value: "apart" if mass.is_apart else "joined" if mass.is_joined else "alone" for mass in found}


def with_mass(values, value, weight):
    """The values, and weights of 10 except for one."""
    return values, np.where(values == value, weight, 10.0)


@pytest.mark.parametrize("codes", [[-9], [-9, -8], [-9, -8, -7], [-99, -9], [-999]])
def test_codes_below_the_range_are_apart(codes):
    assert find(np.r_[codes, AGES]) == dict.fromkeys(codes, "apart")


def test_a_rare_code_beside_a_frequent_one_is_apart():
    values = np.r_[-9.0, -8.0, np.arange(101.0)]
    weights = np.r_[600.0, 18.0, np.full(101, 100.0)]
    assert find(values, weights) == {-9: "apart", -8: "apart"}


@pytest.mark.parametrize("code", [999, 99999, 777])
def test_rare_codes_far_above_the_range_are_apart(code):
    assert find(np.r_[AGES, code], np.r_[np.full(70, 100.0), 3.0]) == {code: "apart"}


def test_zeros_and_a_capped_code_of_a_heavy_tailed_column():
    gains = np.round(np.exp(np.linspace(5, 10.5, 80)))
    weights = np.r_[11000.0, np.full(80, 11.0), 50.0]
    assert find(np.r_[0.0, gains, 99999.0], weights) == {0: "apart", 99999: "apart"}


def test_zeros_before_amounts_in_steps_of_similar_size_are_apart():
    amounts = np.cumsum(np.random.default_rng(0).uniform(300, 420, 50)).round()
    assert find(*with_mass(np.r_[0.0, amounts], 0, 9000.0)) == {0: "apart"}


def test_a_frequent_value_inside_a_grid_stays_joined():
    assert find(*with_mass(np.arange(1.0, 100.0), 40, 800.0)) == {40: "joined"}
    assert find(*with_mass(np.arange(0.0, 100.0), 0, 800.0)) == {0: "joined"}


def test_a_frequent_value_between_scattered_values_is_alone():
    values = np.sort(np.r_[np.random.default_rng(0).uniform(0, 100, 60), 50.0])
    assert find(values, np.where(values == 50.0, 400.0, 10.0)) == {50: "alone"}


def test_values_that_are_often_rounded_stay_joined():
    values = np.unique(np.r_[np.random.default_rng(0).uniform(2.05, 9, 60).round(2), 2.05, 2.0, 3.0, 4.0, 5.0])
    found = find(values, np.where(values == values.round(), 100.0, 5.0))
    assert found == dict.fromkeys([2.0, 3.0, 4.0, 5.0], "joined")


def test_values_beside_a_frequent_end_are_not_apart():
    values = np.r_[2.0, 2.15, 2.19, np.linspace(2.8, 9, 50).round(2)]
    assert find(values, np.where(values == 2.0, 10.0, 2.0)) == {2: "alone"}


def test_zeros_of_an_amount_that_few_rows_have_are_apart():
    assert find([0.0, 450, 500, 550, 560, 650, 700], [1400.0, 1, 1, 1, 1, 1, 2]) == {0: "apart"}
    assert find([0.0, 1, 2, 3, 4, 5], [1400.0, 1, 1, 1, 1, 2]) == {}


@pytest.mark.parametrize(
    ("values", "weights"),
    [
        (np.arange(2.0), 10.0),
        ([1e-320, 3e-320, 3.0], 1.0),
        ([0.0, 10.0, 20.0, 100.0], 10.0),  # doses of an experiment
        ([1.0, 10.0, 100.0, 1000.0], 10.0),
        (np.r_[0:9, 12], 10.0),
        (np.arange(-5.0, 31.0), 10.0),  # temperatures
        (np.exp(np.linspace(0, 10, 100)), 10.0),  # a long tail
        (np.r_[np.arange(100.0), 1e6], np.r_[np.full(100, 10.0), 1.0]),  # one row far away
        (np.arange(17.0, 91.0), np.linspace(30, 1, 74)),
        ([5.0], 1.0),
        (np.arange(40.0), 0.0),
        (1e308 * np.linspace(-1, 1, 50), 1.0),
    ],
)
def test_other_columns_have_none(values, weights):
    assert find(values, weights) == {}


def test_few_values_have_a_code_only_if_it_looks_like_one():
    assert find([-9.0, 2, 3, 4, 5, 6, 7, 8]) == {-9: "apart"}
    assert find([0.0, 1, 2, 9]) == {9: "apart"}
    assert find([0.0, 1, 2, 10]) == {}


def test_weights_and_shares_are_those_of_the_term():
    axis = knots("age", np.r_[-9.0, AGES])
    weights = np.r_[140.0, np.full(70, 8.0)]
    (term,) = explain_global(additive([axis], [shape((0,), [axis], np.zeros(71), weights=weights)])).terms
    (mass,) = masses.point_masses(term)
    assert (mass.cell, mass.value, mass.weight, mass.share) == (1, -9.0, 140.0, pytest.approx(0.2))


def test_a_pair_takes_the_codes_of_the_main_effects():
    axis, coarse, other = (
        knots("age", np.r_[-9.0, AGES]),
        knots("age", [-9.0, 20.0, 50.0, 89.0]),
        knots("dose", [0, 1.0]),
    )
    shapes = [shape((0,), [axis], np.zeros(71)), shape((0, 1), [coarse, other], np.zeros((4, 2)))]
    main, pair = explain_global(additive([axis, other], shapes)).terms
    assert masses.point_masses(pair, 0) == ()
    found = masses.carry_point_masses(masses.point_masses(main), pair, 0)
    assert [(mass.cell, mass.value) for mass in found] == [(1, -9.0)]
