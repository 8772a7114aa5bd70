"""Plans of terms: all spellings of `interactions`, `triples` and `exclude`; error messages show the wrong value."""

import math
import re
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis.terms.term import plan_terms
from tests.models import build_model

NAMES = ["age", "sex", "income", "city"]
MAINS = [(0,), (1,), (2,), (3,)]
INF = math.inf


def plan(interactions=0, triples=0, exclude=None, names=NAMES, automatic=7):
    return plan_terms(interactions, triples, exclude, names, automatic)


def test_names_of_terms():
    model = build_model(np.random.default_rng(0), ("continuous",) * 3, (1, 2, 3))
    assert list(model.term_names) == ["x0", "x1", "x2", "x0 & x1", "x0 & x2", "x1 & x2", "x0 & x1 & x2"]


# Numbers of pairs and triples

COUNTS = [
    (0, 0), (1, 1), (5, 5), (10**6, 10**6), (np.int64(3), 3), (np.uint8(2), 2),
    (0.5, 2), (0.25, 1), (0.1, 1), (0.26, 2), (0.99, 4), (np.float32(0.5), 2),
    ("3x", 12), ("2.5x", 10), ("0.5x", 2), ("1x", 4), ("0x", 0), ("3X", 12), (" 3 x ", 12), ("0.3x", 1), ("10x", 40),
    ("all", INF),
]  # fmt: skip


@pytest.mark.parametrize(("requested", "count"), COUNTS)
def test_a_number_a_share_a_multiple_or_all(requested, count):
    pairs, triples = plan(interactions=requested), plan(triples=requested)
    assert (pairs.n_pairs, pairs.n_triples, pairs.listed) == (count, 0, ())
    assert (triples.n_pairs, triples.n_triples, triples.listed) == (0, count, ())
    assert pairs.mains == triples.mains == MAINS
    assert pairs.must_search == triples.must_search == (0 < count < INF)


def test_automatic_numbers():
    assert plan(interactions="auto", automatic=7).n_pairs == 7
    assert plan(interactions="auto", automatic=0).n_pairs == 0
    assert plan(triples="auto", automatic=7).n_triples == 0
    assert plan(interactions="auto").is_automatic  # only pairs stronger than noise
    assert not any(plan(requested).is_automatic for requested in (0, 3, 0.5, "3x", "all", [(0, 1)]))


def test_shares_and_multiples_count_excluded_columns_too():
    assert plan(interactions="3x", exclude=["city"]).n_pairs == 12
    assert plan(interactions=0.5, exclude=["city", "age"]).n_pairs == 2


def test_pairs_and_triples_together():
    both = plan(interactions=[("age", "sex")], triples=2)
    assert (both.listed, both.n_pairs, both.n_triples, both.must_search) == (((0, 1),), 0, 2, True)
    assert not plan(interactions="all", triples="all").must_search
    assert plan(interactions="all", triples=1).must_search


# Lists of terms


@pytest.mark.parametrize("none", [0, [], (), np.int64(0), iter(())])
def test_no_interactions(none):
    found = plan(none)
    assert (found.features, found.listed, found.n_pairs, found.n_triples) == ((0, 1, 2, 3), (), 0, 0)
    assert found.excluded == frozenset()
    assert not found.must_search


@pytest.mark.parametrize(
    "pair", [("age", "income"), ("income", "age"), (2, 0), ["age", 2], (np.int64(0), np.int32(2)), {"age", "income"}]
)
def test_a_pair_in_any_spelling(pair):
    found = plan([pair])
    assert (found.mains, found.listed, found.n_pairs) == (MAINS, ((0, 2),), 0)


def test_interactions_are_sorted_and_unique():
    requested = [("city", "sex", "age"), (3, 2), ("sex", "age"), (0, 1), (2, 3)]
    found = plan(requested)
    assert found.listed == ((0, 1), (2, 3), (0, 1, 3))
    assert found.list_requested(2) == [(0, 1), (2, 3)]
    assert found.list_requested(3) == [(0, 1, 3)]
    assert plan(iter(requested)) == found
    assert plan(tuple(requested)) == found
    assert plan(np.array([[3, 2], [0, 1]])).listed == ((0, 1), (2, 3))


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=3, unique=True)), st.randoms())
def test_the_spelling_does_not_matter(requested, random):
    found = plan(requested)
    assert found.mains == MAINS
    assert set(found.listed) == {tuple(sorted(term)) for term in requested}
    assert all(list(term) == sorted(set(term)) for term in found.listed)
    assert len(found.listed) == len(set(found.listed))
    respelled = [
        [NAMES[f] if random.random() < 0.5 else f for f in random.sample(term, len(term))] for term in requested
    ]
    assert plan(random.sample(respelled, len(respelled))) == found


def test_names_that_look_like_indices_are_names():
    assert plan([("1", "0")], names=["2", "1", "0"]).listed == ((1, 2),)


# Exclude


@pytest.mark.parametrize("none", [None, [], (), iter(()), set()])
def test_nothing_excluded(none):
    assert plan("all", "all", none) == plan("all", "all")


@pytest.mark.parametrize("column", ["sex", 1, np.int64(1), ("sex",), (1,), ["sex"], {"sex"}])
def test_a_column_in_any_spelling_is_in_no_term(column):
    found = plan("all", "all", [column])
    assert (found.features, found.excluded) == ((0, 2, 3), {(1,)})
    assert found.mains == [(0,), (2,), (3,)]
    assert list(found.list_candidates(2)) == [(0, 2), (0, 3), (2, 3)]
    assert list(found.list_candidates(3)) == [(0, 2, 3)]


@pytest.mark.parametrize("pair", [("age", "city"), (3, 0), ["city", 0], {"age", "city"}])
def test_a_pair_in_any_spelling_is_in_no_larger_term(pair):
    found = plan("all", "all", [pair])
    assert (found.mains, found.excluded) == (MAINS, {(0, 3)})
    assert list(found.list_candidates(2)) == [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)]
    assert list(found.list_candidates(3)) == [(0, 1, 2), (1, 2, 3)]


def test_a_triple_is_excluded_alone():
    found = plan("all", "all", [("age", "sex", "income")])
    assert list(found.list_candidates(2)) == list(combinations(range(4), 2))
    assert list(found.list_candidates(3)) == [(0, 1, 3), (0, 2, 3), (1, 2, 3)]


def test_columns_pairs_and_triples_together():
    found = plan("all", "all", ["income", ("age", "sex"), (0, 3, 1)])
    assert found.excluded == {(2,), (0, 1), (0, 1, 3)}
    assert list(found.list_candidates(2)) == [(0, 3), (1, 3)]
    assert list(found.list_candidates(3)) == []


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True), max_size=5), st.integers(2, 3))
def test_candidates_hold_no_excluded_part(excluded, order):
    names = [f"x{index}" for index in range(6)]
    if len({index for index, *rest in excluded if not rest}) == 6:
        return
    found = plan("all", 0, excluded, names)
    expected = [term for term in combinations(range(6), order) if not any(set(part) <= set(term) for part in excluded)]
    assert list(found.list_candidates(order)) == expected
    assert [term for term in combinations(range(6), order) if found.allows(term)] == expected


def test_candidates_of_some_features():
    found = plan("all", 0, [("age", "city")])
    assert list(found.list_candidates(2, [3, 0, 1])) == [(0, 1), (1, 3)]
    assert list(found.list_candidates(3, [0, 1])) == []


def test_requested_interactions_must_not_be_excluded():
    message = r"interactions requests 'age & sex( & income)?', but exclude removes it or a part of it from the model"
    for requested, excluded in [
        ((0, 1), ("sex", "age")),
        ((0, 1), "sex"),
        ((0, 1, 2), "income"),
        ((0, 1, 2), ("age", "income")),
        ((0, 1, 2), ("age", "sex", "income")),
    ]:
        with pytest.raises(ValueError, match=message):
            plan([requested], 0, [excluded])
    assert plan([(0, 1)], 0, [("age", "sex", "income"), "city"]).listed == ((0, 1),)


@pytest.mark.parametrize("everything", [NAMES, range(4), [(name,) for name in NAMES]])
def test_a_model_needs_a_column(everything):
    with pytest.raises(ValueError, match="exclude leaves no column; a model needs at least one"):
        plan(0, 0, everything)


# Error messages

WRONG_COUNTS = [True, False, None, -1, -0.5, 0.0, 1.0, 1.5, 2.0, math.nan, INF, np.bool_(True), 1j]
WRONG_WORDS = ["many", "", "x", "3", "-1x", "3xx", "x3", "1e3x", "ALL", "none", "age"]


@pytest.mark.parametrize("wrong", [*WRONG_COUNTS, *WRONG_WORDS])
def test_interactions_of_a_wrong_kind(wrong):
    expected = (
        'interactions must be a number of pairs, a share of the number of columns below 1, "3x", "all", "auto", or a '
        f"list of tuples, not {wrong!r}"
    )
    with pytest.raises(ValueError, match=re.escape(expected) + "$"):
        plan(wrong)


@pytest.mark.parametrize("wrong", [*WRONG_COUNTS, *WRONG_WORDS, [(0, 1, 2)], [], ("age", "sex", "city")])
def test_triples_of_a_wrong_kind(wrong):
    with pytest.raises(ValueError, match=r"^triples must be a number .*" + re.escape(f", not {wrong!r}") + "$"):
        plan(0, wrong)


def test_a_list_of_triples_belongs_to_interactions():
    """The message for triples must not offer a list, which triples does not accept."""
    with pytest.raises(ValueError) as error:
        plan(0, [("age", "sex", "city")])
    offered, _, _ = str(error.value).rpartition(", not ")
    assert "a number of triples" in offered
    assert "list of tuples" not in offered or "interactions" in offered


@pytest.mark.parametrize("wrong", ["age", 2, None, 1.5])
def test_an_interaction_of_a_wrong_kind(wrong):
    message = f"^interactions must hold tuples of column names or indices, not {re.escape(repr(wrong))}$"
    with pytest.raises(ValueError, match=message):
        plan([wrong])


@pytest.mark.parametrize("wrong", [(0,), (), (0, 1, 2, 3), ("age",)])
def test_an_interaction_of_a_wrong_order(wrong):
    message = f"^interactions: an interaction joins two or three columns; {re.escape(repr(wrong))} has {len(wrong)}$"
    with pytest.raises(ValueError, match=message):
        plan([wrong])


@pytest.mark.parametrize("wrong", [(1, 1), ("age", 0), ("age", "sex", "age"), ("sex", "sex")])
def test_an_interaction_with_a_column_twice(wrong):
    message = f"an interaction joins different columns; {re.escape(repr(wrong))} names one twice$"
    with pytest.raises(ValueError, match="^interactions: " + message):
        plan([wrong])
    with pytest.raises(ValueError, match="^exclude: " + message):
        plan(0, 0, [wrong])


@pytest.mark.parametrize("wrong", ["age", 3, True, 1.5])
def test_exclude_of_a_wrong_kind(wrong):
    message = f"^exclude must be a list of columns or tuples of columns, not {re.escape(repr(wrong))}$"
    with pytest.raises(ValueError, match=message):
        plan(0, 0, wrong)


@pytest.mark.parametrize("wrong", [None, 1.5])
def test_an_exclusion_of_a_wrong_kind(wrong):
    message = f"^exclude must hold tuples of column names or indices, not {re.escape(repr(wrong))}$"
    with pytest.raises(ValueError, match=message):
        plan(0, 0, [wrong])


@pytest.mark.parametrize("wrong", [(), (0, 1, 2, 3)])
def test_an_exclusion_of_a_wrong_order(wrong):
    message = f"^exclude: an interaction joins two or three columns; {re.escape(repr(wrong))} has {len(wrong)}$"
    with pytest.raises(ValueError, match=message):
        plan(0, 0, [wrong])


@pytest.mark.parametrize("wrong", [1.0, None, True, (1,), np.float64(1)])
def test_columns_are_named_by_name_or_index(wrong):
    message = f" must name columns by their name or index, not by {re.escape(repr(wrong))}$"
    with pytest.raises(ValueError, match="^interactions" + message):
        plan([(0, wrong)])
    with pytest.raises(ValueError, match="^exclude" + message):
        plan(0, 0, [(0, wrong)])
    with pytest.raises(ValueError, match="^exclude" + message):
        plan(0, 0, [(wrong,)])


def test_unknown_columns():
    for parameter, options in [
        ("interactions", {"interactions": [("agee", "sex")]}),
        ("exclude", {"exclude": ["agee"]}),
        ("exclude", {"exclude": [("agee",)]}),
        ("exclude", {"exclude": [("sex", "agee")]}),
    ]:
        message = f"^{parameter} names the column 'agee', which is not in the table; did you mean 'age'\\?$"
        with pytest.raises(ValueError, match=message):
            plan(**options)
    with pytest.raises(ValueError, match=r"'dose', which is not in the table; it has 'age', 'sex', 'income', 'city'$"):
        plan(exclude=["dose"])
    for index in (4, -1):
        message = f" names column {index}, but the table has 4 columns \\(0 is the first\\)$"
        with pytest.raises(ValueError, match="^interactions" + message):
            plan([(0, index)])
        for part in (index, (index,), (0, index)):
            with pytest.raises(ValueError, match="^exclude" + message):
                plan(0, 0, [part])


def test_an_error_message_lists_few_of_many_columns():
    with pytest.raises(ValueError) as error:
        plan([("y", "x1")], names=[f"x{index}" for index in range(1000)])
    assert len(str(error.value)) < 300


def test_an_array_of_one_number_is_not_a_list():
    with pytest.raises(ValueError, match="interactions must be a number of pairs"):
        plan_terms(np.array(3), 0, None, NAMES)


def test_a_part_of_exclude_may_be_an_iterator():
    assert plan_terms("all", 0, [iter(["age", "sex"])], NAMES).excluded == {(0, 1)}
