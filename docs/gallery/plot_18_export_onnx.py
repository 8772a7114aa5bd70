"""
Export to ONNX
==============

One graph from raw columns, texts included, to predictions, for onnxruntime and other engines.
"""

import numpy as np
from onnxruntime import InferenceSession

from neuralbasis import NeuralBasisClassifier, plot
from neuralbasis.export import to_onnx

rng = np.random.default_rng(0)
table = {"age": rng.uniform(18, 80, 800), "job": rng.choice(np.array(["clerk", "cook", "driver"], dtype=object), 800)}
y = np.where(table["age"] / 40 + (table["job"] == "cook") + rng.normal(size=800) > 1.6, "yes", "no")
model = NeuralBasisClassifier(interactions=[("age", "job")], preset="fast").fit(table, y)

to_onnx(model, "model.onnx")
session = InferenceSession("model.onnx")
inputs = {name: values.reshape(-1, 1) for name, values in table.items()}
label, probabilities, scores = session.run(None, inputs)
print((label == model.predict(table)).all(), abs(probabilities - model.predict_proba(table)).max())

# %%
# The model that the graph computes:
plot.shapes(model, share_y=True)
