"""
Many classes
============

Every class has a score of its own. Panels show a term for each class, or the terms that raise each class most.
"""

import numpy as np
from sklearn.datasets import load_wine

from neuralbasis import NeuralBasisClassifier, plot

X, y = load_wine(return_X_y=True, as_frame=True)
wine = np.array(["Barolo", "Grignolino", "Barbera"])[y]
pair = ("flavanoids", "color_intensity")
model = NeuralBasisClassifier(interactions=[pair], preset="fast").fit(X, wine)
plot.by_class(model, "proline")

# %%
# The terms that raise the score of each class most:
plot.leanings(model, n=5)

# %%
# The class that each cell of a pair supports, with the main effects of both columns:
plot.push(model, pair)
