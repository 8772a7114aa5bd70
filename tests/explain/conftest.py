"""A table and fitted models that several tests explain."""

import numpy as np
import pandas as pd
import pytest

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor


@pytest.fixture(scope="module")
def houses():
    """A frame of whole numbers and levels with missing values, and a target."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"rooms": rng.integers(1, 9, 200).astype(float), "city": rng.choice(["Bern", "Oslo"], 200)})
    y = frame["rooms"] + 2.0 * (frame["city"] == "Oslo") + 0.1 * rng.normal(size=200)
    frame.loc[::11, "city"] = None
    return frame, y.to_numpy()


@pytest.fixture(scope="module")
def regressor(houses):
    return NeuralBasisRegressor(max_steps=30, outer_bags=3, interactions=[("rooms", "city")]).fit(*houses)


@pytest.fixture(scope="module")
def classifier(houses):
    labels = np.where(houses[1] > 5, "dear", "cheap")
    return NeuralBasisClassifier(max_steps=30, outer_bags=2, interactions=0).fit(houses[0], labels)
