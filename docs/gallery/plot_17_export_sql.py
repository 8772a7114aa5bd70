"""
Export to SQL
=============

A model as one SELECT: the database predicts as Python does.
"""

import sqlite3

import numpy as np
import pandas as pd

from neuralbasis import NeuralBasisRegressor, plot
from neuralbasis.export import to_sql

rng = np.random.default_rng(0)
houses = pd.DataFrame({"area": rng.gamma(6, 18, 1000), "town": rng.choice(["Bergen", "Oslo"], 1000)})
price = 2 * houses["area"] + 60 * (houses["town"] == "Oslo") + rng.normal(0, 20, 1000)
model = NeuralBasisRegressor(max_bins=9, boosted_steps=False, interactions=0, preset="fast").fit(houses, price)
plot.shapes(model)

# %%
base = sqlite3.connect(":memory:")
houses.to_sql("houses", base, index_label="id")
query = to_sql(model, table="houses", keep=["id"], coverage=0.9)
predicted = pd.read_sql(query, base).set_index("id").sort_index()
print(f"largest difference from predict: {abs(predicted['prediction'] - model.predict(houses)).max():.1e}")
predicted.head()

# %%
# The beginning of the query:
print("\n".join(line[:100] for line in query.splitlines()[:12]))
