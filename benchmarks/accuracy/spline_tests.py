"""Tests of columns in two other additive models: unpenalised B-splines (statsmodels) and penalised ones (pyGAM).

In: a table, its target and its task. Out: p-values (D,) of "this column has no effect".

    splines    drop-one tests: the F-test of a linear regression, the likelihood-ratio test of a logistic regression. A
               column of numbers has 5 degrees of freedom, and one more if values are missing; a column of levels has
               one for each level but the first
    pyGAM      the p-values of a LinearGAM or LogisticGAM with terms s() and f() and default penalties, without a grid
               search. pyGAM takes no missing values: they are filled with the mean

Neither package is in the extra 'benchmarks': pyGAM 0.12 requires scipy below 1.17, which conflicts with the pinned
environment, and works with later versions if it is installed without dependencies.
"""

from __future__ import annotations

import io
import warnings
from contextlib import redirect_stdout
from functools import reduce
from importlib.util import find_spec
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np
from scipy.stats import chi2

from .shape_metrics import read_numbers

N_KNOTS, DEGREE = 4, 3  # 4 + 3 - 1 functions, without the first: 5 degrees of freedom
MIN_ROWS_PER_COEFFICIENT = 4  # of a logistic regression
# test -> package, how to install it
PACKAGES = {
    "splines": ("statsmodels", "pip install statsmodels"),
    "pyGAM": ("pygam", "pip install --no-deps pygam progressbar2 python-utils"),
}
MISSING = {
    test: f"the package {package} is not installed: {command}"
    for test, (package, command) in PACKAGES.items()
    if find_spec(package) is None
}


def test_columns(test: str, X: Any, y: np.ndarray, task: str) -> np.ndarray:
    """p-values (D,); NaN if the package is not installed or the model cannot be fitted."""
    if test in MISSING:
        return np.full(X.shape[1], np.nan)
    return (test_splines if test == "splines" else test_pygam)(X, y, task)


def test_pygam(X: Any, y: np.ndarray, task: str) -> np.ndarray:
    """p-values (D,); NaN if the fit fails or does not converge."""
    from pygam import LinearGAM, LogisticGAM, f, s
    from pygam.utils import OptimizationError

    columns, terms, printed = [], [], io.StringIO()
    for column, numbers in enumerate(read_numbers(X)):
        if numbers is None:
            columns.append(number_levels(X.iloc[:, column]))
        else:
            columns.append(np.where(np.isnan(numbers), np.nanmean(numbers), numbers))
        terms.append(f(column) if numbers is None else s(column))
    model = (LinearGAM if task == "regression" else LogisticGAM)(reduce(add, terms))
    with warnings.catch_warnings(), redirect_stdout(printed):
        warnings.simplefilter("ignore")  # separated classes
        try:
            model.fit(np.column_stack(columns), y)
        except (OptimizationError, np.linalg.LinAlgError, ValueError):
            return np.full(len(terms), np.nan)
    if "did not converge" in printed.getvalue():
        return np.full(len(terms), np.nan)
    return np.array(model.statistics_["p_values"][: len(terms)])  # without the intercept


def test_splines(X: Any, y: np.ndarray, task: str) -> np.ndarray:
    """p-values (D,); NaN if coefficients are not identified, or classes have too few rows for a finite fit."""
    parts = [
        write_levels(X.iloc[:, column]) if numbers is None else write_spline(numbers)
        for column, numbers in enumerate(read_numbers(X))
    ]
    ends = np.cumsum([1, *[part.shape[1] for part in parts]])
    design = np.column_stack([np.ones(len(y)), *parts])
    if task == "classification" and len(y) < MIN_ROWS_PER_COEFFICIENT * design.shape[1]:
        return np.full(len(parts), np.nan)
    if np.linalg.matrix_rank(design) < design.shape[1]:
        return np.full(len(parts), np.nan)
    slices = [np.arange(first, last) for first, last in pairwise(ends)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # separated classes
        try:
            return test_linear(design, slices, y) if task == "regression" else test_logistic(design, slices, y)
        except np.linalg.LinAlgError:
            return np.full(len(parts), np.nan)


def write_spline(values: np.ndarray) -> np.ndarray:
    """B-splines with knots at quantiles; missing values are at the median and have a column of their own."""
    from sklearn.preprocessing import SplineTransformer

    absent = np.isnan(values)
    filled = np.where(absent, np.nanmedian(values), values)[:, None]
    splines = SplineTransformer(N_KNOTS, DEGREE, knots="quantile", include_bias=False).fit_transform(filled)
    return np.column_stack([splines, absent]) if absent.any() else splines


def write_levels(column: Any) -> np.ndarray:
    """Indicators of the levels that occur, without the first."""
    places = number_levels(column)
    return np.eye(places.max() + 1)[places][:, 1:]


def number_levels(column: Any) -> np.ndarray:
    """Numbers 0, 1, … of the levels that occur; a missing value is a level."""
    return np.unique(column.cat.codes.to_numpy(), return_inverse=True)[1]


def test_linear(design: np.ndarray, slices: list[np.ndarray], y: np.ndarray) -> np.ndarray:
    import statsmodels.api as sm

    fit, names = sm.OLS(y, design).fit(), np.eye(design.shape[1])
    return np.array([float(fit.f_test(names[own]).pvalue) for own in slices])


def test_logistic(design: np.ndarray, slices: list[np.ndarray], y: np.ndarray) -> np.ndarray:
    import statsmodels.api as sm

    def find_likelihood(columns: np.ndarray) -> float:
        return float(sm.Logit(y, columns).fit(disp=0, maxiter=50).llf)

    whole = find_likelihood(design)
    gains = [2 * (whole - find_likelihood(np.delete(design, own, axis=1))) for own in slices]
    return np.array([chi2.sf(max(gain, 0.0), len(own)) for gain, own in zip(gains, slices, strict=True)])
