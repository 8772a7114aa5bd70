"""link: known values, probabilities that sum to one, and no overflow however large the scores."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import expit, softmax

from neuralbasis.losses import inverse_link

scores_of = st.floats(-1e4, 1e4)
score_tables = hnp.arrays(np.float64, st.tuples(st.integers(1, 20), st.integers(2, 5)), elements=scores_of)


def test_identity():
    assert inverse_link("identity", np.array([[1.5], [-2.0]])).tolist() == [1.5, -2.0]
    assert inverse_link("identity", np.array([[1.0, 2.0]])).tolist() == [[1.0, 2.0]]


def test_known_probabilities():
    log3 = np.log(3.0)
    np.testing.assert_allclose(inverse_link("logit", np.array([[0.0], [log3]])), [[0.5, 0.5], [0.25, 0.75]])
    np.testing.assert_allclose(inverse_link("mlogit", np.array([[0.0, log3, 0.0]])), [[0.2, 0.6, 0.2]])


@settings(deadline=None)
@given(hnp.arrays(np.float64, st.integers(1, 30), elements=scores_of))
def test_logit_is_the_logistic_function(scores):
    probabilities = inverse_link("logit", scores[:, None])
    assert probabilities.shape == (len(scores), 2)
    np.testing.assert_allclose(probabilities[:, 1], expit(scores), rtol=1e-14, atol=1e-300)
    np.testing.assert_allclose(probabilities[:, 0], expit(-scores), atol=1e-15)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-15)
    assert (probabilities >= 0).all()


@settings(deadline=None)
@given(score_tables, scores_of)
def test_mlogit_is_the_softmax(scores, shift):
    probabilities = inverse_link("mlogit", scores)
    np.testing.assert_allclose(probabilities, softmax(scores, axis=1), rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    # The shifted scores are themselves rounded, to about 2e-12.
    np.testing.assert_allclose(inverse_link("mlogit", scores + shift), probabilities, rtol=1e-10, atol=1e-300)


@settings(deadline=None)
@given(hnp.arrays(np.float64, st.integers(1, 30), elements=scores_of))
def test_two_classes_are_the_same_in_both_links(scores):
    pair = np.column_stack([np.zeros(len(scores)), scores])
    np.testing.assert_allclose(inverse_link("mlogit", pair), inverse_link("logit", scores[:, None]), atol=1e-15)


def test_huge_scores_do_not_overflow():
    assert inverse_link("logit", np.array([[1e308], [-1e308], [np.inf]])).tolist() == [[0, 1], [1, 0], [0, 1]]
    assert inverse_link("mlogit", np.array([[8e307, -8e307, 0.0]])).tolist() == [[1.0, 0.0, 0.0]]


def test_scores_are_left_alone():
    scores = np.array([[1.0, 2.0, 3.0]])
    for link in ("identity", "logit", "mlogit"):
        inverse_link(link, scores)
    assert scores.tolist() == [[1.0, 2.0, 3.0]]


def test_unknown_link():
    with pytest.raises(ValueError, match=r"link must be one of \('identity', 'logit', 'mlogit'\), not 'probit'"):
        inverse_link("probit", np.zeros((1, 1)))
