"""
Pairs
=====

Pairs are searched in the residuals of the main effects. Here, young drivers with powerful cars have more claims.
"""

import numpy as np
import pandas as pd

from neuralbasis import NeuralBasisRegressor, plot

rng = np.random.default_rng(0)
cars = pd.DataFrame(
    {
        "age": rng.uniform(18, 80, 3000),
        "power": rng.gamma(4, 30, 3000),
        "mileage": rng.exponential(12, 3000),
    }
)
claims = cars["mileage"] / 6 + 3 * ((cars["age"] < 27) & (cars["power"] > 120)) + rng.normal(size=3000)
model = NeuralBasisRegressor(preset="fast").fit(cars, claims)
for pair in model.interaction_ranking_:
    print(f"{pair.name:<18}{pair.strength:7.4f}  {'in the model' if pair.chosen else ''}")

# %%
# A pair as curves of one column at values of the other, with both main effects:
plot.slices(model, "age & power")

# %%
# The pair alone, as a map. Hatched cells have no training rows nearby.
plot.shape(model, "age & power", pairs="map")
