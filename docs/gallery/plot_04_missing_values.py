"""
Missing values
==============

A missing value has a cell of its own in every shape, so it needs no imputation, and its effect can be read.
"""

import numpy as np
import pandas as pd

from neuralbasis import NeuralBasisRegressor, plot

rng = np.random.default_rng(0)
X = pd.DataFrame({"income": rng.lognormal(8, 0.4, 2000), "age": rng.uniform(18, 80, 2000)})
y = X["income"] / 2000 + np.sin(X["age"] / 12) + 0.3 * rng.normal(size=2000)
hidden = rng.random(2000) < 0.15  # people who do not state their income
y[hidden] -= 1.5
X.loc[hidden, "income"] = np.nan

model = NeuralBasisRegressor(interactions=0, preset="fast").fit(X, y)

# %%
# The diamond in the strip at the left is the missing value, with its 95 % interval.
plot.shapes(model)

# %%
# The first cell of a shape is the missing value. The true difference from the mean of the others is -1.5.
income = model.term_scores_[0]
known = np.average(income[1:-1], weights=model.bin_weights_[0][1:-1])
print(f"missing minus known: {income[0] - known:.2f}")
