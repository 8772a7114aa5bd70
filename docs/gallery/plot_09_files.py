"""
Files larger than memory
========================

``fit`` takes paths instead of arrays. A table that exceeds the memory limit is trained from disk.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from neuralbasis import NeuralBasisClassifier, plot

Path("clicks").mkdir(exist_ok=True)
for day in range(4):
    rng = np.random.default_rng(day)
    age, price = rng.integers(18, 80, 5_000), rng.lognormal(3, 1, 5_000).round(2)
    bought = rng.random(5_000) < 1 / (1 + np.exp(0.03 * price - np.sin(age / 8)))
    pq.write_table(pa.table({"age": age, "price": price, "bought": bought}), f"clicks/{day}.parquet")

# %%
# The target is the name of a column; all other columns are features. These files are small, so they are read into
# memory; the call stays the same when they are not.
model = NeuralBasisClassifier(storage={"memory_limit": "2GB"}, preset="fast", interactions=0)
model.fit("clicks/*.parquet", "bought")
plot.shapes(model)
