"""
One-file report
===============

The whole model as one interactive page that needs no server and no network: every curve with a sentence, single rows,
what-if questions, calibration, thresholds with costs.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer

from neuralbasis import NeuralBasisClassifier, plot, report

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
diagnosis = np.array(["malignant", "benign"])[y]
model = NeuralBasisClassifier(interactions=0, preset="fast").fit(X, diagnosis)
path = report.write("cancer.html", model, X, diagnosis, title="What drives the diagnosis")
# sphinx_gallery_start_ignore
import os
import shutil

if folder := os.environ.get("NEURALBASIS_DOCS_PAGES"):
    shutil.copy(path, folder)
# sphinx_gallery_end_ignore
print(f"{path.stat().st_size / 1e6:.1f} MB")

# %%
# `The page of this example <../cancer.html>`__. It begins with the overview of the terms:
#
# .. image:: ../page.png
#    :alt: The first screen of the page of a model of breast cancer
#    :target: ../cancer.html
#
# The same shapes as a figure:
plot.grid(model, n=8)
