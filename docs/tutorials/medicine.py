# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Medicine: the risk of pneumonia patients
#
# {nb-download}`Download this notebook <medicine.ipynb>`
#
# Models of patients learn what happened to patients, including their treatment. A model that can be read shows where
# this matters. We find such an effect, decide what to do about it, handle measurements that were not taken, and join
# the models of two hospitals.
#
# ## The table
#
# The table is generated. The risk of death rises with age, it is high for low and for high blood pressure, and it rises
# with urea. Two things are as in real records: urea is not measured in patients who seem well, and patients with asthma
# are sent to intensive care at once, and fewer of them die, although asthma is dangerous.

# %%
import numpy as np
import pandas as pd


def draw_patients(n, seed, ages):
    rng = np.random.default_rng(seed)
    age = rng.normal(*ages, n).clip(18, 100)
    pressure = rng.normal(130, 22, n)
    urea = rng.lognormal(2, 0.5, n)
    asthma = rng.random(n) < 0.15
    effects = {
        "age": 0.05 * (age - 65),
        "pressure": ((pressure - 130) / 30) ** 2,
        "urea": 0.9 * (np.log(urea) - 2),
        "asthma": np.where(asthma, -1.2, 0.0),  # after intensive care
    }
    odds = -2.2 + sum(effects.values())
    died = rng.random(n) < 1 / (1 + np.exp(-odds))
    seems_well = rng.random(n) < 1 / (1 + np.exp(2 * effects["urea"] + 1.2))
    table = pd.DataFrame(
        {
            "age": age.round(),
            "pressure": pressure.round(),
            "urea": np.where(seems_well, np.nan, urea.round(1)),
            "asthma": np.where(asthma, "yes", "no"),
        }
    )
    return table, died


patients, died = draw_patients(5000, seed=1, ages=(62, 15))
print(f"{died.mean():.1%} died, urea was measured in {patients['urea'].notna().mean():.0%}")
patients.head()

# %% [markdown]
# ## Fit and read

# %%
from neuralbasis import NeuralBasisClassifier, explain, plot

model = NeuralBasisClassifier(preset="fast", interactions=0).fit(patients, died)
plot.shapes(model)

# %% [markdown]
# Blood pressure has the U shape of the truth. The diamond beside urea is the risk of patients without a measurement: it
# is low, because they seemed well. An imputed mean would have hidden this.

# %%
names = model.term_names_
urea = model.term_scores_[names.index("urea")]
knots, pressure = model.bins_[1][0], model.term_scores_[names.index("pressure")][1:-1]
assert urea[0] < 0 < urea[-2]  # not measured; highest value
assert 110 < knots[pressure.argmin()] < 150  # the lowest risk
print(f"urea not measured {urea[0]:+.2f}, lowest risk at a pressure of {knots[pressure.argmin()]:.0f}")

# %% [markdown]
# ## An effect of treatment
#
# Asthma *lowers* the risk in this model. That is true of the records and wrong as advice: sending patients with asthma
# home would kill them. A model whose curves cannot be read would contain the same effect, unseen.

# %%
asthma = model.model_.scorecard("asthma")
print(asthma)
shape = model.model_.shapes[names.index("asthma")]
levels = shape.axes[0].levels
effect = shape.scores[1 + list(levels).index("yes"), 0] - shape.scores[1 + list(levels).index("no"), 0]
print(f"effect of asthma {effect:+.2f} log odds; the records were made with -1.2")
assert -1.8 < effect < -0.6

# %% [markdown]
# Leaving the column out is not enough if others express it. Here none does: the concurvity is low. For predictions that
# decide on treatment, we remove the term: the prediction then ignores asthma. We note in the model's description
# that asthma needs a rule of its own.

# %%
from dataclasses import replace

evidence = {line.term: line for line in explain.evidence(model).lines}
print(f"concurvity of asthma {evidence['asthma'].concurvity:.2f}")
kept = tuple(each for each, name in zip(model.model_.shapes, names) if name != "asthma")
advisory = replace(model.model_, shapes=kept)
one = patients.iloc[[0]]
risks = [float(advisory.predict_proba(one.assign(asthma=value))[0, 1]) for value in ("yes", "no")]
assert risks[0] == risks[1]
plot.waterfall(advisory.explain_local(one))

# %% [markdown]
# ## How sure is a risk?
#
# `predict_interval` bounds the share of deaths among patients with a similar predicted risk. `predict_with_uncertainty`
# returns how precisely the score of one patient is known; it is less precise at the edges of the table.

# %%
typical = pd.DataFrame({"age": [62.0, 97.0], "pressure": [130.0, 70.0], "urea": [7.0, 30.0], "asthma": ["no", "no"]})
bounds = model.predict_interval(typical, coverage=0.9)
errors = model.predict_with_uncertainty(typical)[:, 1]
for risk, (low, high), error in zip(model.predict_proba(typical)[:, 1], bounds, errors):
    print(f"risk {risk:.2f}, 90 % interval {low:.2f} to {high:.2f}, standard error of the log odds {error:.2f}")
assert errors[1] > errors[0]

# %% [markdown]
# ## Two hospitals
#
# Patients' records may not leave a hospital, but models may. Another hospital treats older patients. `merge` weights
# the models at each value by their training rows there: each one decides where it has seen patients.

# %%
import neuralbasis

others = NeuralBasisClassifier(preset="fast", interactions=0).fit(*draw_patients(3000, seed=2, ages=(80, 8)))
both = neuralbasis.merge([model, others])
plot.compare({"first": model, "second": others, "merged": both}, "age")

# %%
from sklearn.metrics import roc_auc_score

new, outcome = draw_patients(3000, seed=3, ages=(70, 15))
quality = {
    name: roc_auc_score(outcome, each.predict_proba(new)[:, 1])
    for name, each in (("first", model), ("second", others), ("merged", both))
}
print({name: round(value, 3) for name, value in quality.items()})
assert quality["merged"] > min(quality.values())

# %% [markdown]
# ## What we learned
#
# - A missing measurement carries information, and its effect can be read.
# - A curve can be right about the records and wrong for decisions. Reading the model finds such effects; experts
#   decide what to do.
# - Intervals and standard errors show where a risk is uncertain.
# - Models can be joined without their rows.
