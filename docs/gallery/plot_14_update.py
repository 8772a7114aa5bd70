"""
Update a model
==============

``update`` corrects a fitted model with new rows. Terms and knots stay; a share of each correction is accepted, which
held-out new rows choose.
"""

import numpy as np
import pandas as pd

import neuralbasis
from neuralbasis import NeuralBasisRegressor, plot

rng = np.random.default_rng(0)


def draw(n, effect):
    X = pd.DataFrame({"hour": rng.uniform(0, 24, n), "heat": rng.normal(15, 6, n)})
    return X, effect * np.sin(X["hour"] / 4) + 0.1 * X["heat"] + 0.3 * rng.normal(size=n)


old = NeuralBasisRegressor(interactions=0, preset="fast").fit(*draw(2000, effect=1)).model_
new_rows = draw(800, effect=2)  # the effect of the hour has doubled, that of the heat has not changed
new = neuralbasis.update(old, *new_rows, preset="fast")
plot.compare({"before": old, "after": new}, "hour")

# %%
# The unchanged effect stays as it was.
plot.compare({"before": old, "after": new}, "heat")
