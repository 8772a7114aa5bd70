"""
Categories
==========

Texts become levels. Levels with few rows are drawn towards 0, and levels that training did not have contribute 0.
"""

import warnings

import numpy as np
import pandas as pd

from neuralbasis import NeuralBasisRegressor, plot

rng = np.random.default_rng(0)
towns = np.array(["Bergen", "Bodø", "Hamar", "Molde", "Narvik", "Oslo", "Tromsø"])
effects = np.array([0.5, -1.0, 0.2, -0.3, -1.5, 2.0, 0.1])
town = rng.choice(len(towns), 1500, p=[0.2, 0.05, 0.1, 0.1, 0.02, 0.5, 0.03])
grade = rng.choice(["low", "middle", "high"], 1500)
y = effects[town] + 0.5 * (grade == "high") - 0.5 * (grade == "low") + rng.normal(size=1500)
X = pd.DataFrame({"town": towns[town], "grade": grade})

model = NeuralBasisRegressor(feature_types={"grade": ["low", "middle", "high"]}, interactions=0, preset="fast")
model.fit(X, y)
plot.shapes(model)

# %%
# The contribution of an unseen level is 0, and a prediction with one warns.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    print(model.eval_terms(pd.DataFrame({"town": ["Oslo", "Paris"], "grade": ["high", "high"]})).round(2))
