"""
Bands and evidence
==================

The uncertainty of each term: a band for each value, a band for the whole curve, and a test of "no effect".
"""

import numpy as np
import pandas as pd

from neuralbasis import NeuralBasisRegressor, explain, plot

rng = np.random.default_rng(0)
X = pd.DataFrame({name: rng.uniform(size=400) for name in ("wave", "line", "noise")})
X["copy of line"] = X["line"] + 0.05 * rng.normal(size=400)
y = np.sin(6 * X["wave"]) + X["line"] + 0.5 * rng.normal(size=400)
model = NeuralBasisRegressor(interactions=0, preset="fast").fit(X, y)
plot.shapes(model)

# %%
# The p-value of a column without effect is large. So are those of two columns that express the same effect, since each
# is tested beside the other. The concurvity of a term and its partner show this: read both columns together, or leave
# one out.
print(explain.evidence(model))

# %%
# The first curve beside the truth. `How the coverage of bands was measured <../inference.html#how-it-was-verified>`__.
knots, curve = model.bins_[0][0], model.term_scores_[0][1:-1]
truth = np.sin(6 * knots) - np.sin(6 * X["wave"]).mean()
print(
    f"mean standard error {model.standard_deviations_[0][1:-1].mean():.2f}, mean error {abs(curve - truth).mean():.2f}"
)
