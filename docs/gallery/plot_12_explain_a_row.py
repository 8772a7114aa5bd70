"""
Explain a row
=============

Why a row has its prediction: exact contributions, from the intercept to the score.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer

from neuralbasis import NeuralBasisClassifier, plot

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
diagnosis = np.array(["malignant", "benign"])[y]
model = NeuralBasisClassifier(interactions=0, preset="fast").fit(X, diagnosis)

rows = model.explain_local(X.iloc[[0, 19, 40]], diagnosis[[0, 19, 40]])
plot.waterfall(rows, row=1, n=8)

# %%
row = rows.row(1)
for name, (value,), contribution in list(zip(row.names, row.values, row.contributions[:, 0]))[:4]:
    print(f"{name:<24}{value:>10.4g}{contribution:+8.2f}")

# %%
# All rows as a data frame, a line for each row and term:
rows.to_pandas().head()
