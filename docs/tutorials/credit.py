# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Credit: who repays a loan?
#
# {nb-download}`Download this notebook <credit.ipynb>`
#
# A bank must decide on loans, and must be able to state its reasons. We fit a model, read it, correct it, explain a
# decision and choose a threshold.
#
# ## The table
#
# The table is generated. The log odds of a default rise with the debt ratio and fall with income, they are higher below
# an age of 25 and for travel loans, and the region has no effect. Employment is unknown for some applicants, whose risk
# is higher. Few applicants have a debt ratio above 0.9, so the curve is uncertain there.

# %%
import numpy as np
import pandas as pd

rng = np.random.default_rng(7)
n = 4000
loans = pd.DataFrame(
    {
        "income": rng.lognormal(8, 0.5, n).round(-1),
        "debt_ratio": rng.beta(2, 3, n).round(3),
        "age": rng.integers(18, 80, n),
        "months_employed": rng.gamma(2, 40, n).round(),
        "purpose": rng.choice(["car", "house", "travel"], n, p=[0.5, 0.3, 0.2]),
        "region": rng.choice(["north", "south", "west"], n),
    }
)
unknown = rng.random(n) < 0.1
log_odds = (
    -1.6
    - 0.9 * (np.log(loans["income"]) - 8)
    + 4.0 * (loans["debt_ratio"] - 0.4)
    + 1.0 * (loans["age"] < 25)
    + 0.7 * (loans["purpose"] == "travel")
    - 0.006 * (loans["months_employed"].clip(upper=120) - 80) * ~unknown
    + 0.8 * unknown
)
loans.loc[unknown, "months_employed"] = np.nan
default = np.where(rng.random(n) < 1 / (1 + np.exp(-log_odds)), "default", "paid")
loans.head()

# %% [markdown]
# ## Fit and measure
#
# We hold out a quarter of the rows. Text, missing values and scales need no preparation. `feature_names` and the target
# come from the data frame. The classes are sorted, so the score is the log odds of "paid"; we therefore code the target
# as a default that is true or false.

# %%
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

from neuralbasis import NeuralBasisClassifier, explain, plot

is_default = default == "default"
X_train, X_test, y_train, y_test, _, true_odds = train_test_split(
    loans, is_default, log_odds, random_state=0, stratify=is_default
)
model = NeuralBasisClassifier(preset="fast", interactions=0).fit(X_train, y_train)
risk = model.predict_proba(X_test)[:, 1]
best = 1 / (1 + np.exp(-true_odds))  # the true risks, which no model can beat
for name, found in (("model", risk), ("true risks", best)):
    print(f"{name:<11} log loss {log_loss(y_test, found):.4f}, AUROC {roc_auc_score(y_test, found):.3f}")
assert roc_auc_score(y_test, risk) > roc_auc_score(y_test, best) - 0.03

# %% [markdown]
# ## Read
#
# Every panel is one term. Above 0, the column raises the risk. The diamond beside `months_employed` is the unknown
# employment.

# %%
plot.shapes(model, n=6)

# %% [markdown]
# The region has no effect, and its p-value is large. It can be left out.

# %%
print(explain.evidence(model))
evidence = {line.term: line for line in explain.evidence(model).lines}
assert evidence["debt_ratio"].p_value < 0.001 < 0.05 < evidence["region"].p_value

# %% [markdown]
# ## Correct
#
# Young applicants have a higher risk, but a high age must never count against an applicant. The fitted curve of age
# rises a little in places where the truth is flat, by chance. The closest falling curve replaces it, in a new model;
# the fitted one does not change.

# %%
from dataclasses import replace

from sklearn.isotonic import isotonic_regression

fitted = NeuralBasisClassifier(preset="fast", interactions=0, exclude=["region"]).fit(X_train, y_train).model_
shapes = dict(zip(fitted.term_names, fitted.shapes))
shape = shapes["age"]
scores = shape.scores.copy()  # missing, knots, unseen
weights = shape.weights[1:-1] + 1e-9
scores[1:-1, 0] = isotonic_regression(scores[1:-1, 0], sample_weight=weights, increasing=False)
shapes["age"] = replace(shape, scores=scores)
final = replace(fitted, shapes=tuple(shapes.values()))

grid = pd.DataFrame([X_test.iloc[0]] * 62).assign(age=np.arange(18, 80))
assert (np.diff(final.predict_proba(grid)[:, 1]) <= 0).all()
print(f"log loss {log_loss(y_test, final.predict_proba(X_test)[:, 1]):.4f}")
plot.compare({"fitted": fitted, "falling": final}, "age")

# %% [markdown]
# ## Explain a decision
#
# The applicant with the highest risk, and the contributions that lead there. Positive contributions are the reasons for
# a rejection; their order is exact, because the score is their sum.

# %%
riskiest = X_test.iloc[[int(np.argmax(final.predict_proba(X_test)[:, 1]))]]
explained = final.explain_local(riskiest)
row = explained.row(0)
for name, (value,), contribution in zip(row.names, row.values, row.contributions[:, 0]):
    if contribution > 0:
        print(f"{name:<16}{value!s:>10}{contribution:+7.2f}")
plot.waterfall(explained)

# %% [markdown]
# ## Choose a threshold
#
# A default costs ten times what a good loan earns. The threshold with the lowest cost on the held-out rows is near the
# theoretical one, 1 / 11. With a calibrated model, the theory is enough.

# %%
risk = final.predict_proba(X_test)[:, 1]
thresholds = np.linspace(0.02, 0.5, 97)
costs = [10 * (y_test & (risk < t)).sum() + (~y_test & (risk >= t)).sum() for t in thresholds]
print(f"best threshold {thresholds[int(np.argmin(costs))]:.3f}, theory {1 / 11:.3f}")

# %% [markdown]
# ## Hand it over
#
# The model file has no pickle in it and predicts without torch. The page needs no server; `to_sql` scores a table in
# the bank's own database.

# %%
import neuralbasis
from neuralbasis.export import to_sql

final.save("credit.nbm")
assert (neuralbasis.load("credit.nbm").predict_proba(X_test) == final.predict_proba(X_test)).all()
print(len(to_sql(final, table="applications")), "characters of SQL")

# %% [markdown]
# ## What we learned
#
# - The curves show the effects that generated the data, with bands that are wide where rows are few.
# - The test found that the region has no effect.
# - A curve was made monotone without a new fit, and the loss hardly changed.
# - Contributions are exact reasons, and a calibrated risk makes the threshold a matter of costs.
