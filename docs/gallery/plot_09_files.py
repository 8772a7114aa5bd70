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
    age, price = rng.integers(18, 80, 50_000), rng.lognormal(3, 1, 50_000).round(2)
    bought = rng.random(50_000) < 1 / (1 + np.exp(0.03 * price - np.sin(age / 8)))
    pq.write_table(pa.table({"age": age, "price": price, "bought": bought}), f"clicks/{day}.parquet")

# %%
# The target is the name of a column; all other columns are features. The limit includes Python and torch, about 0.7 GB,
# and leaves too little for a fit of 200,000 rows in memory. The rows are therefore written to disk as numbers.
storage = {"memory_limit": "0.72GB", "cache_dir": "cache", "keep_cache": True}
model = NeuralBasisClassifier(storage=storage, preset="fast", interactions=0)
model.fit("clicks/*.parquet", "bought")
for path in sorted(Path("cache").glob("bucket*")):
    print(f"{path.name} {path.stat().st_size / 1e3:.0f} kB")

# %%
# Tables on disk are fitted without boosted steps and without evidence: faint lines, the members, replace the bands.
plot.shapes(model)
