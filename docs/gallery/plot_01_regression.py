"""
Regression
==========

A model of diabetes: curves of the strongest columns, with 95 % bands.
"""

from sklearn.datasets import load_diabetes

from neuralbasis import NeuralBasisRegressor, plot

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
model = NeuralBasisRegressor(preset="fast").fit(X, y)
model

# %%
# The thick line is the model. The dark band contains each value of the curve with 95 % confidence, the light band the
# whole curve. Terms without a clear effect are grey.
plot.shapes(model, n=6)

# %%
# The importance of a term is the mean of its absolute contribution over the training rows.
plot.importances(model)
