# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Insurance: how often, and how much?
#
# {nb-download}`Download this notebook <insurance.ipynb>`
#
# The premium of a car insurance follows from the chance of a claim and from its size. We fit both, find a pair of
# columns, bound the size of a claim, correct the model with a new year, and price policies in a database.
#
# ## The table
#
# The table is generated. The chance of a claim rises with the mileage, and young drivers of powerful cars have many
# more claims: an effect of two columns that neither shows alone. The size of a claim is skewed, and grows with the
# value of the car.

# %%
import numpy as np
import pandas as pd


def draw_policies(n, seed, young=1.8):
    rng = np.random.default_rng(seed)
    policies = pd.DataFrame(
        {
            "age": rng.uniform(18, 80, n).round(),
            "power": rng.gamma(5, 25, n).round(),
            "mileage": rng.exponential(12, n).round(1),
            "car_value": rng.lognormal(9.8, 0.5, n).round(-2),
            "town": rng.choice(["Bergen", "Oslo", "Tromsø"], n),
        }
    )
    fast_and_young = (policies["age"] < 27) & (policies["power"] > 120)
    odds = -1.8 + 0.05 * (policies["mileage"] - 12) + young * fast_and_young + 0.3 * (policies["town"] == "Oslo")
    claim = rng.random(n) < 1 / (1 + np.exp(-odds))
    size = np.exp(6 + 0.6 * (np.log(policies["car_value"]) - 9.8) + rng.normal(0, 0.7, n))
    return policies, claim, size


policies, claim, size = draw_policies(8000, seed=1)
print(f"{claim.mean():.1%} of the policies have a claim; a claim costs {size[claim].mean():.0f} on average")

# %% [markdown]
# ## How often
#
# Pairs of columns are searched by default. The strength of a pair is the share of the residual variance that it
# explains.

# %%
from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, plot

often = NeuralBasisClassifier(preset="fast").fit(policies, claim)
for pair in often.interaction_ranking_[:4]:
    print(f"{pair.name:<20}{pair.strength:8.5f}  {'in the model' if pair.chosen else ''}")
assert "age & power" in often.term_names_

# %% [markdown]
# The curve of age at several powers: only powerful cars make young drivers dangerous.

# %%
plot.slices(often, "age & power")

# %%
plot.shapes(often, terms=["mileage", "town"])

# %% [markdown]
# The chances are calibrated: among policies with a similar predicted chance, the share of claims is this chance.

# %%
new, new_claim, new_size = draw_policies(4000, seed=2)
chance = often.predict_proba(new)[:, 1]
groups = pd.DataFrame({"predicted": chance, "claims": new_claim}).groupby(pd.qcut(chance, 5), observed=True).mean()
groups.reset_index(drop=True).round(3)

# %%
assert abs(groups["predicted"] - groups["claims"]).max() < 0.06

# %% [markdown]
# ## How much
#
# Squared error suits a symmetric target, so we fit the logarithm. scikit-learn's `TransformedTargetRegressor` does both
# steps; here we keep them apart, since bounds of the logarithm are also bounds of the size.

# %%
much = NeuralBasisRegressor(preset="fast", interactions=0).fit(policies[claim], np.log(size[claim]))
plot.shapes(much, n=4)

# %% [markdown]
# The value of the car drives the size; other columns have no clear effect and are grey. A single claim varies much more
# than its expected size. The interval shows by how much, without assuming a distribution.

# %%
low, high = np.exp(much.predict_interval(new[new_claim], coverage=0.8)).T
inside = (low <= new_size[new_claim]) & (new_size[new_claim] <= high)
print(f"{inside.mean():.1%} of new claims lie in their 80 % interval; the first: {low[0]:.0f} to {high[0]:.0f}")
assert 0.73 < inside.mean() < 0.87

# %% [markdown]
# ## The premium
#
# The mean of a skewed size is larger than the exponential of the mean logarithm. The mean of the exponentials of the
# residuals corrects this (the smearing estimator).

# %%
smearing = np.exp(np.log(size[claim]) - much.predict(policies[claim])).mean()
premium = chance * np.exp(much.predict(new)) * smearing
print(f"premiums {premium.sum():,.0f}, claims {new_size[new_claim].sum():,.0f}")
assert abs(premium.sum() / new_size[new_claim].sum() - 1) < 0.15

# %% [markdown]
# ## A new year
#
# A safety course halves the effect of youth and power. `update` corrects the model with the rows of the new year and
# keeps its terms and knots; held-out new rows decide how much of each correction is accepted.

# %%
import neuralbasis

this_year, this_claim, _ = draw_policies(6000, seed=3, young=0.3)
later = neuralbasis.update(often, this_year, this_claim, preset="fast")
young = pd.DataFrame({"age": [20.0], "power": [200.0], "mileage": [12.0], "car_value": [18000.0], "town": ["Bergen"]})
before, after = often.predict_proba(young)[0, 1], later.predict_proba(young)[0, 1]
print(f"a young driver of a powerful car: {before:.2f} before, {after:.2f} after the update")
assert after < before - 0.1
plot.compare({"before": often, "after": later}, "age & power")

# %% [markdown]
# ## Price in the database

# %%
import sqlite3

from neuralbasis.export import to_sql

base = sqlite3.connect(":memory:")
this_year.to_sql("policies", base, index_label="id")
priced = pd.read_sql(to_sql(later, table="policies", keep=["id"]), base).set_index("id").sort_index()
assert abs(priced["probability"] - later.predict_proba(this_year)[:, 1]).max() < 1e-9
priced.head()

# %% [markdown]
# ## What we learned
#
# - The search found the pair that matters, and the slices show it.
# - A skewed target is fitted on the log scale; intervals transfer back, means need a correction.
# - An update follows a change without a new fit to all rows.
# - There is no Poisson or gamma loss yet: frequency is fitted as a class, size as a logarithm.
