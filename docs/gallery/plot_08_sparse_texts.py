"""
Texts as a sparse table
=======================

A SciPy sparse matrix stays sparse: thousands of words, of which a text has a few.
"""

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from neuralbasis import NeuralBasisClassifier, plot

rng = np.random.default_rng(0)
topics = {
    "space": ["orbit", "moon", "launch", "rocket"],
    "cars": ["engine", "dealer", "tyre", "brake"],
    "crypt": ["key", "cipher", "escrow", "secret"],
}
labels = rng.choice(list(topics), 1200)
chatter = [" ".join(f"word{word}" for word in rng.integers(20_000, size=20)) for _ in labels]
texts = [f"{talk} {' '.join(rng.choice(topics[label], 2))}" for talk, label in zip(chatter, labels)]

vectorizer = TfidfVectorizer()
X = vectorizer.fit_transform(texts)
model = NeuralBasisClassifier(feature_names=vectorizer.get_feature_names_out(), preset="fast").fit(X, labels)
print(X.shape, f"{X.nnz / len(labels):.0f} words in a text")

# %%
# The words that raise the score of each class most:
plot.leanings(model, n=5)

# %%
# Words that a text does not have contribute exactly 0.
row = model.explain_local(X[:1]).row(0)
print(row.prediction, labels[0], len(row.names), "words")
for name, contribution in list(zip(row.names, row.contributions[:, row.output]))[:4]:
    print(f"{name:<10}{contribution:+.2f}")
