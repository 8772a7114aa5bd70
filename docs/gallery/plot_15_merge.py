"""
Merge models
============

Models that were fitted in separate places become one, without their rows. At each value, a model has the weight of its
training rows there.
"""

import numpy as np
import pandas as pd

import neuralbasis
from neuralbasis import NeuralBasisRegressor, plot

rng = np.random.default_rng(0)


def fit_hospital(low, high):
    """Patients of one age group."""
    X = pd.DataFrame({"age": rng.uniform(low, high, 1500), "dose": rng.uniform(0, 10, 1500)})
    y = (X["age"] - 50) ** 2 / 300 + np.log1p(X["dose"]) + 0.3 * rng.normal(size=1500)
    return NeuralBasisRegressor(interactions=0, preset="fast").fit(X, y)


young, old = fit_hospital(18, 55), fit_hospital(45, 90)
both = neuralbasis.merge([young, old])
plot.compare({"young": young, "old": old, "merged": both}, "age")

# %%
everyone = pd.DataFrame({"age": [25.0, 50.0, 80.0], "dose": [1.0, 1.0, 1.0]})
print(both.predict(everyone).round(2), ((everyone["age"] - 50) ** 2 / 300 + np.log1p(1)).round(2).tolist())
