"""
The published model
===================

``network="paper"`` is the Neural Basis Model as published: one network of shared bases, one member, no steps.
"""

import numpy as np

from neuralbasis import NeuralBasisRegressor, plot

rng = np.random.default_rng(0)
X = rng.uniform(0, 1, (1500, 3))
truth = [np.sin(6 * X[:, 0]), (X[:, 1] - 0.5) ** 2 * 6, np.abs(X[:, 2] - 0.4) * 2]
y = sum(truth) + 0.2 * rng.normal(size=1500)

published = NeuralBasisRegressor(network="paper", interactions=0, max_steps=400).fit(X[:1000], y[:1000])
default = NeuralBasisRegressor(interactions=0, preset="fast").fit(X[:1000], y[:1000])
for name, model in (("published", published), ("default", default)):
    print(f"{name:<10} R² on new rows {model.score(X[1000:], y[1000:]):.3f}")

# %%
plot.compare({"published": published, "default": default}, 0)

# %%
# How many bases are needed? The bound of the paper's appendix, for 10 to 10,000 columns:
plot.bound()
