"""
Compare models
==============

The same term of several models in one figure: here of two years, between which the effect of age has changed.
"""

import numpy as np
import pandas as pd

from neuralbasis import NeuralBasisClassifier, plot

rng = np.random.default_rng(0)


def draw_year(shift):
    X = pd.DataFrame({"age": rng.uniform(18, 80, 3000), "income": rng.lognormal(8, 0.5, 3000)})
    odds = np.sin((X["age"] - shift) / 12) + 1 - X["income"] / 3000
    return X, np.where(rng.random(3000) < 1 / (1 + np.exp(-odds)), "default", "paid")


models = {
    str(year): NeuralBasisClassifier(interactions=0, preset="fast").fit(*draw_year(shift))
    for year, shift in ((2024, 0), (2025, 10))
}
plot.compare(models, "age")

# %%
plot.compare(models, "income")
