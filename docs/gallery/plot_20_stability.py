"""
Stability over seeds
====================

How much do the curves depend on the seed? The figure of the paper (§4.5): each model a faint line, their mean a thick
one.
"""

from sklearn.datasets import load_diabetes

from neuralbasis import NeuralBasisRegressor, explain, plot

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X = X[["bmi", "bp", "s5", "s3"]]
models = [NeuralBasisRegressor(interactions=0, preset="fast", random_state=seed).fit(X, y) for seed in range(5)]
found = explain.stability(models)
print(f"mean standard deviation of a shape: {found.overall:.2f}, of the target: {y.std():.1f}")
plot.shapes(found.model)

# %%
plot.stability(found)
