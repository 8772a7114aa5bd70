"""Warnings of columns with mostly unseen levels count the rows and name the nearest known level."""

import warnings

import pandas as pd
import pytest

from neuralbasis import NeuralBasisRegressor

JOBS = ["Sales", "Craft-repair", "Tech support"]
TABLE = pd.DataFrame({"age": range(60), "job": JOBS * 20})


@pytest.fixture(scope="module")
def fitted():
    return NeuralBasisRegressor(max_steps=5, outer_bags=2, interactions=0).fit(TABLE, TABLE["age"])


def lower(table):
    return table.assign(job=table["job"].str.lower())


def test_a_column_in_lower_case_is_reported_with_counts(fitted):
    expected = (
        r"column 'job': 60 of 60 values are levels that the model does not know, such as "
        r"'craft-repair' \(20 rows; the nearest known level is 'Craft-repair'\), 'sales' \(20 rows; .* 'Sales'\), "
        r".* it knows 'Craft-repair', 'Sales', 'Tech support'\. Predictions ignore"
    )
    with pytest.warns(UserWarning, match=expected):
        fitted.predict(lower(TABLE))
    with pytest.warns(UserWarning, match="60 of 60 values"):
        fitted.model_.predict(lower(TABLE).to_dict("records"))


def test_few_rows_are_reported_if_only_case_or_spaces_differ(fitted):
    for table in (lower(TABLE[:1]), pd.DataFrame({"age": [1], "job": [" Sales  "]})):
        with pytest.warns(UserWarning, match="1 of 1 values are levels"):
            fitted.predict(table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.predict(pd.DataFrame({"age": [1], "job": ["Farming"]}))  # may be a new level


def test_half_unseen_levels_are_not_reported(fitted):
    mixed = pd.concat([TABLE[:30], lower(TABLE[30:])])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.predict(mixed)
