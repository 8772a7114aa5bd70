"""terms: `interactions=` in names or indices gives one canonical list, and every refusal shows what came."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis.terms import choose_terms, parse_term, term_name

NAMES = ["age", "sex", "income", "city"]
MAINS = [(0,), (1,), (2,), (3,)]


def test_names_of_terms():
    assert term_name((1,), NAMES) == "sex"
    assert term_name((0, 2), NAMES) == "age & income"
    assert term_name((0, 1, 3), NAMES) == "age & sex & city"


@pytest.mark.parametrize("none", [0, [], (), np.int64(0), iter(())])
def test_no_interactions(none):
    assert choose_terms(none, NAMES) == MAINS


@pytest.mark.parametrize(
    "pair", [("age", "income"), ("income", "age"), (2, 0), ["age", 2], (np.int64(0), np.int32(2)), {"age", "income"}]
)
def test_a_pair_in_any_spelling(pair):
    assert choose_terms([pair], NAMES) == [*MAINS, (0, 2)]
    assert parse_term(pair, NAMES) == (0, 2)


def test_interactions_are_sorted_and_come_once():
    wished = [("city", "sex", "age"), (3, 2), ("sex", "age"), (0, 1), (2, 3)]
    assert choose_terms(wished, NAMES) == [*MAINS, (0, 1), (2, 3), (0, 1, 3)]
    assert choose_terms(iter(wished), NAMES) == choose_terms(wished, NAMES)
    assert choose_terms(np.array([[3, 2], [0, 1]]), NAMES) == [*MAINS, (0, 1), (2, 3)]


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=3, unique=True)), st.randoms())
def test_the_spelling_does_not_matter(wished, random):
    terms = choose_terms(wished, NAMES)
    assert terms[:4] == MAINS
    assert set(terms[4:]) == {tuple(sorted(term)) for term in wished}
    assert all(list(term) == sorted(set(term)) for term in terms)
    respelled = [[NAMES[f] if random.random() < 0.5 else f for f in random.sample(term, len(term))] for term in wished]
    assert choose_terms(random.sample(respelled, len(respelled)), NAMES) == terms


@pytest.mark.parametrize("wrong", ["auto", True, None, 1.5, 0.0, 3])
def test_interactions_of_a_wrong_kind(wrong):
    with pytest.raises(ValueError, match=f"interactions must be 0 or a list of tuples.*not {re.escape(repr(wrong))}"):
        choose_terms(wrong, NAMES)


@pytest.mark.parametrize("wrong", ["age", 2, None])
def test_an_interaction_of_a_wrong_kind(wrong):
    with pytest.raises(ValueError, match=f"an interaction must be a tuple.*not {wrong!r}"):
        choose_terms([wrong], NAMES)


@pytest.mark.parametrize("wrong", [(0,), (), (0, 1, 2, 3), ("age",)])
def test_an_interaction_of_a_wrong_order(wrong):
    with pytest.raises(ValueError, match=f"joins two or three columns; {re.escape(repr(wrong))} has {len(wrong)}"):
        choose_terms([wrong], NAMES)


@pytest.mark.parametrize("wrong", [(1, 1), ("age", 0), ("age", "sex", "age")])
def test_an_interaction_with_a_column_twice(wrong):
    with pytest.raises(ValueError, match=f"joins different columns; {re.escape(repr(wrong))} names one twice"):
        choose_terms([wrong], NAMES)


def test_unknown_columns():
    with pytest.raises(ValueError, match=r"names the column 'agee', which is not in the table: \['age', 'sex'"):
        choose_terms([("agee", "sex")], NAMES)
    for index in (4, -1):
        with pytest.raises(ValueError, match=f"names column {index}, but the table has 4 columns"):
            choose_terms([(0, index)], NAMES)
