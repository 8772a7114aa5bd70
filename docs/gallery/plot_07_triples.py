"""
Triples
=======

Terms of three columns, among columns whose pairs are in the model, or listed by name.
"""

import numpy as np

from neuralbasis import NeuralBasisRegressor, plot

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (3000, 4))
y = 4 * X[:, 0] * X[:, 1] * X[:, 2] + X[:, 3] + 0.2 * rng.normal(size=3000)
names = ["a", "b", "c", "d"]
pairs = [("a", "b"), ("a", "c"), ("b", "c")]
flat = NeuralBasisRegressor(feature_names=names, interactions=pairs, preset="fast").fit(X[:2000], y[:2000])
deep = NeuralBasisRegressor(feature_names=names, interactions=[*pairs, ("a", "b", "c")], preset="fast")
deep.fit(X[:2000], y[:2000])
print(f"R² with pairs {flat.score(X[2000:], y[2000:]):.2f}, with the triple {deep.score(X[2000:], y[2000:]):.2f}")

# %%
# A triple is drawn as heat maps at values of one of its columns. The sign of the pair changes with the third column.
plot.shape(deep, "a & b & c")
