"""Fitted models that several tests of figures draw."""

import numpy as np
import pytest

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor
from tests.plot.figures import fit, table


@pytest.fixture(scope="module")
def regressor():
    return fit(NeuralBasisRegressor, table()[1], interactions=0)


@pytest.fixture(scope="module")
def classifier():
    return fit(NeuralBasisClassifier, np.where(table()[1] > 2.5, "yes", "no"), interactions=[("age", "income")])


@pytest.fixture(scope="module")
def multiclass():
    return fit(NeuralBasisClassifier, np.digitize(table()[1], [2, 3]), interactions=[("age", "city")])
