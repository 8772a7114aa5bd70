"""
Scorecards
==========

A term as a table to compute with. The knots that follow the shape best where the rows are can be chosen.
"""

import numpy as np
import pandas as pd

from neuralbasis import NeuralBasisClassifier, plot

rng = np.random.default_rng(0)
X = pd.DataFrame(
    {
        "income": rng.lognormal(8, 0.5, 3000).round(-1),
        "age": rng.integers(18, 80, 3000),
        "purpose": rng.choice(["car", "house", "travel"], 3000),
    }
)
odds = 1.5 - X["income"] / 2000 + 1.2 * (X["age"] < 25) + 0.8 * (X["purpose"] == "travel")
default = np.where(rng.random(3000) < 1 / (1 + np.exp(-odds)), "yes", "no")
model = NeuralBasisClassifier(interactions=0, preset="fast").fit(X, default)
plot.shapes(model)

# %%
# The formula of the model, then one table with eight rows. The note states what the shorter table costs.
print(model.model_)
print(model.scorecard("income", max_rows=8))

# %%
# All levels of a nominal column:
print(model.scorecard("purpose"))
