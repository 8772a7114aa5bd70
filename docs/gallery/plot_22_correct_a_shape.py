"""
Correct a shape
===============

Some of the largest houses were sold to relatives, so the curve falls where a price must not fall. The closest rising
shape replaces it, in a new model.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
from sklearn.isotonic import isotonic_regression

from neuralbasis import NeuralBasisRegressor, plot

rng = np.random.default_rng(0)
houses = pd.DataFrame({"area": rng.gamma(6, 18, 400), "year": rng.integers(1900, 2020, 400)})
relatives = houses["area"] > 170
price = 60 * np.log(houses["area"]) + 0.005 * (houses["year"] - 1960) ** 2 - 70 * relatives + rng.normal(0, 25, 400)
model = NeuralBasisRegressor(interactions=0, preset="fast").fit(houses, price)

area = model.model_.shapes[0]
scores = area.scores.copy()  # missing, knots, unseen
scores[1:-1, 0] = isotonic_regression(scores[1:-1, 0], sample_weight=area.weights[1:-1] + 1e-9)
rising = replace(model.model_, shapes=(replace(area, scores=scores), *model.model_.shapes[1:]))
plot.compare({"fitted": model, "rising": rising}, "area")

# %%
for name, each in (("fitted", model.model_), ("rising", rising)):
    print(f"{name}: RMSE {np.mean((each.predict(houses) - price) ** 2) ** 0.5:.2f}")
