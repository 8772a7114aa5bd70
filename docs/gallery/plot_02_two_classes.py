"""
Two classes
===========

The score of a classifier of two classes is in log odds. A curve above 0 raises the odds of the second class.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer

from neuralbasis import NeuralBasisClassifier, plot

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
diagnosis = np.array(["malignant", "benign"])[y]
model = NeuralBasisClassifier(interactions=0, preset="fast").fit(X, diagnosis)
plot.shapes(model, n=4)

# %%
# ``scale="probability"`` draws the probability that a row would have if all other contributions were 0.
plot.shapes(model, n=2, scale="probability")

# %%
# Contributions and intercept sum to the score; the inverse link turns it into a probability.
score = model.eval_terms(X.iloc[:1]).sum() + model.intercept_[0]
print(f"log odds {score:.3f}, probability {1 / (1 + np.exp(-score)):.5f}")
print(f"predict_proba {model.predict_proba(X.iloc[:1])[0, 1]:.5f}")
