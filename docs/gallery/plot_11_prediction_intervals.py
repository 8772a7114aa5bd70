"""
Prediction intervals
====================

Bounds for the target of a new row, without a distribution and without a refit.
"""

import numpy as np
from matplotlib.figure import Figure

from neuralbasis import NeuralBasisRegressor

rng = np.random.default_rng(0)
x = rng.uniform(0, 1, 4000)
y = np.sin(6 * x) + x * rng.exponential(1, 4000)  # skewed noise that grows with x
X = x[:, None]
model = NeuralBasisRegressor(preset="fast").fit(X[:3000], y[:3000])
lower, upper = model.predict_interval(X[3000:], coverage=0.9).T
inside = (lower <= y[3000:]) & (y[3000:] <= upper)
print(f"{inside.mean():.1%} of the new rows lie inside")

# %%
grid = np.linspace(0, 1, 200)[:, None]
bounds = model.predict_interval(grid, coverage=0.9)
figure = Figure(figsize=(6, 3.6), layout="constrained")
axes = figure.add_subplot(xlabel="x", ylabel="target")
axes.plot(x[3000:], y[3000:], ".", markersize=3, color="0.6", label="new rows")
axes.plot(grid, model.predict(grid), color="#0072B2", label="prediction")
axes.fill_between(grid[:, 0], *bounds.T, alpha=0.25, color="#0072B2", label="90 % interval")
_ = axes.legend(frameon=False)
