"""Screening: noise has strength 0, planted interactions come first; invariances of weights, order and threads."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis import kernels
from neuralbasis.encoding import continuous_axis, level_axis
from neuralbasis.terms.binning import bin_columns
from neuralbasis.terms.interactions import list_triples, noise_threshold, pick_terms, rank_terms
from neuralbasis.terms.margins import fit_margins
from tests.binned_columns import make_bins, place

seeds = st.integers(0, 2**32 - 1)


def draw_columns(rng, n_rows, n_columns, correlation=0.0):
    common = np.sqrt(correlation) * rng.normal(size=(n_rows, 1))
    return common + np.sqrt(1 - correlation) * rng.normal(size=(n_rows, n_columns))


def draw_codes(rng, n_rows, n_columns, n_bins=16):
    """Bins of columns of whole numbers: one a value."""
    return make_bins(rng.integers(0, n_bins, (n_rows, n_columns)).astype(float), max_bins=n_bins)


def order_of(strengths):
    return np.argsort(-strengths, kind="stable")


# Histograms and their margins


@pytest.mark.parametrize("n_outputs", [1, 3, 9])
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("n_rows", [1, kernels.BLOCK, 2 * kernels.BLOCK + 7])
def test_histograms_are_those_of_bincount(n_rows, order, n_outputs):
    rng = np.random.default_rng(n_rows)
    codes = rng.integers(0, 6, (5, n_rows)).astype(np.uint8)
    data = rng.normal(size=(n_rows, 1 + n_outputs)).astype(np.float32)
    terms = np.array(list(combinations(range(5), order)))
    histogram = np.zeros((len(terms), 6**order, 1 + n_outputs))
    assert kernels.count_cells(1, len(terms), terms, codes, 6, data, histogram) == -1
    assert (histogram[0] == 0).all()
    for term, table in zip(terms[1:], histogram[1:], strict=True):
        cells = sum(codes[column].astype(int) * 6 ** (order - 1 - d) for d, column in enumerate(term))
        for channel in range(1 + n_outputs):
            expected = np.bincount(cells, data[:, channel], minlength=6**order)
            np.testing.assert_allclose(table[:, channel], expected, rtol=1e-12, atol=1e-12)


@settings(deadline=None, max_examples=25)
@given(seeds, st.sampled_from([2, 3]), st.integers(2, 4), st.floats(0.2, 1))
def test_margins_are_removed_by_least_squares(seed, order, n_bins, density):
    rng = np.random.default_rng(seed)
    shape = (4, n_bins ** (order - 1), n_bins)
    weight = rng.integers(1, 9, shape) * (rng.random(shape) < density).astype(float)
    weight[:, 0, 0] += 1
    sums = rng.normal(size=(4, 2, *shape[1:])) * (weight > 0)[:, None]
    margins = fit_margins(weight, sums, order)
    rest, freedom, explained = margins.remove_from(sums), margins.freedom, margins.explained_products([0])
    places = np.array(list(product(range(n_bins), repeat=order)))
    groups = [np.unique(places[:, axes], axis=0, return_inverse=True)[1].ravel() for axes in _margins(order)]
    design = np.concatenate([np.eye(n_bins ** (order - 1))[group] for group in groups], axis=1)
    for term in range(4):
        w, s, left = weight[term].ravel(), sums[term].reshape(2, -1), rest[term].reshape(2, -1)
        root = np.sqrt(w)[:, None]
        means = np.divide(s, w, out=np.zeros_like(s), where=w > 0)
        fit = (design @ np.linalg.lstsq(root * design, root * means.T, rcond=None)[0]).T
        np.testing.assert_allclose(left, w * (means - fit), atol=1e-8)
        np.testing.assert_allclose(explained[term, 0], (w * fit) @ means[0], atol=1e-8)
        assert freedom[term] == (w > 0).sum() - np.linalg.matrix_rank(root * design)


def _margins(order):
    return [list(axes) for axes in combinations(range(order), order - 1)]


# Noise


@pytest.mark.parametrize("n_outputs", [1, 4])
@pytest.mark.parametrize("n_bins", [2, 3, 5, 16])
@pytest.mark.parametrize("tails", ["normal", "heavy"])
def test_noise_has_strength_about_zero_whatever_the_bins(n_bins, n_outputs, tails):
    rng = np.random.default_rng(n_bins)
    bins = draw_codes(rng, 3000, 24, n_bins)
    noise = rng.normal(size=(3000, n_outputs)) if tails == "normal" else rng.standard_t(3, (3000, n_outputs))
    found = rank_terms(bins, noise) * 3000  # in units of one row's variance
    assert abs(found.mean()) < 0.8
    assert found.std() < 2.5
    assert found.max() < 22  # χ² of one degree of freedom has 13 as the largest of 276


def test_noise_of_unequal_variance_is_noise_given_its_variances():
    rng = np.random.default_rng(0)
    X = draw_columns(rng, 4000, 2)
    X[:, 1] -= X[:, 0]
    deviations = np.where(X.min(axis=1, keepdims=True) > 0.5, 5.0, 1.0)  # in a corner that few rows reach
    bins, plain, fair = make_bins(X), [], []
    for _ in range(30):
        noise = deviations * rng.normal(size=(4000, 1))
        plain.append(4000 * rank_terms(bins, noise)[0])
        fair.append(4000 * rank_terms(bins, noise, variances=deviations**2)[0])
    assert np.mean(plain) > 5
    assert abs(np.mean(fair)) < 1.5


def test_candidates_that_cannot_interact_have_strength_zero():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 8, (1000, 4)).astype(float)
    X[:, 1], X[:, 3] = 1.0, X[:, 2] // 3  # constant; a function of another column
    strengths = rank_terms(make_bins(X), rng.normal(size=(1000, 1)), candidates=[(0, 1), (1, 2), (2, 3), (0, 2)])
    assert strengths[:3].tolist() == [0.0, 0.0, 0.0]
    assert strengths[3] != 0


def test_residuals_of_zero_have_strength_zero():
    bins = draw_codes(np.random.default_rng(0), 100, 4)
    assert rank_terms(bins, np.zeros((100, 2))).tolist() == [0.0] * 6
    assert pick_terms(bins, np.zeros((100, 2)), 3)[0] == []


# Additive structure


@pytest.mark.parametrize("order", [2, 3])
def test_margins_left_in_the_residuals_have_no_strength(order):
    rng = np.random.default_rng(0)
    bins = draw_codes(rng, 4000, order, 6)
    tables = [rng.normal(size=(6,) * (order - 1)) for _ in range(order)]
    parts = [tables[d][tuple(bins.codes[list(axes)])] for d, axes in enumerate(_margins(order))]
    assert rank_terms(bins, np.sum(parts, axis=0)[:, None], candidates=[tuple(range(order))])[0] <= 0


def test_main_effects_of_correlated_columns_are_not_an_interaction():
    rng = np.random.default_rng(0)
    X = draw_columns(rng, 8000, 2, correlation=0.8)
    left = np.sin(3 * X[:, 0]) + X[:, 1] ** 2
    residuals = (left - left.mean() + 0.5 * rng.normal(size=8000))[:, None]
    assert rank_terms(make_bins(X), residuals)[0] < 0.005  # within bins, the columns are still correlated


# Planted interactions

SHAPES = {
    "product": lambda a, b: a * b,
    "signs": lambda a, b: np.sign(a) * np.sign(b),
    "sine": lambda a, b: np.sin(2 * a * b),
    "maximum": lambda a, b: 2 * np.maximum(a, b),
    "corner": lambda a, b: 4.0 * ((a > 1) & (b > 1)),
    "waves": lambda a, b: 1.5 * np.sin(5 * a) * np.sin(5 * b),
}


def draw_residuals(rng, scores, task):
    """Residuals (N, K) of the constant model, and their variances."""
    if task == "regression":
        return (scores - scores.mean() + rng.normal(size=len(scores)))[:, None], None
    if task == "binary":
        y = (rng.random(len(scores)) < 1 / (1 + np.exp(-2 * scores))).astype(float)[:, None]
    else:
        every = scores[:, None] * np.array([1.0, -1.0, 2.0, 0.0])
        y = np.eye(4)[(every + rng.gumbel(size=every.shape)).argmax(axis=1)]
    share = y.mean(axis=0)
    return y - share, np.broadcast_to(share * (1 - share), y.shape)


@pytest.mark.parametrize("task", ["regression", "binary", "classes"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_planted_pair_comes_first(shape, task):
    rng = np.random.default_rng(1)
    X = draw_columns(rng, 6000, 10, correlation=0.5)
    residuals, variances = draw_residuals(rng, SHAPES[shape](X[:, 2], X[:, 7]), task)
    strengths = rank_terms(make_bins(X), residuals, variances=variances)
    pairs = list(combinations(range(10), 2))
    assert pairs[order_of(strengths)[0]] == (2, 7)
    assert 0 < strengths.max() < 1


@pytest.mark.parametrize("task", ["regression", "binary", "classes"])
def test_a_planted_triple_comes_first(task):
    rng = np.random.default_rng(1)
    X = draw_columns(rng, 6000, 7, correlation=0.3)
    scores = np.sign(X[:, 0] * X[:, 3] * X[:, 5]) + 0.5 * X[:, 0] * X[:, 1]  # the pair is not part of the triple
    residuals, variances = draw_residuals(rng, scores, task)
    triples = list(combinations(range(7), 3))
    strengths = rank_terms(make_bins(X), residuals, candidates=triples, variances=variances)
    first, second = order_of(strengths)[:2]
    assert triples[first] == (0, 3, 5)
    assert strengths[second] < 0.1 * strengths[first]


def test_strength_is_the_share_of_the_variance():
    rng = np.random.default_rng(0)
    bins = draw_codes(rng, 20_000, 3, 4)
    table = rng.normal(size=(4, 4))
    table -= table.mean(axis=0)
    table -= table.mean(axis=1, keepdims=True)
    signal = table[bins.codes[0], bins.codes[1]]
    for share in (0.05, 0.3, 0.8):
        noise = rng.normal(size=20_000) * signal.std() * np.sqrt(1 / share - 1)
        assert rank_terms(bins, (signal + noise)[:, None])[0] == pytest.approx(share, abs=0.02)


def test_missing_values_interact():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 6))
    missing = rng.random(4000) < 0.2
    X[missing, 1] = np.nan
    residuals = np.where(missing, X[:, 4], -0.25 * X[:, 4]) + rng.normal(size=4000)
    strengths = rank_terms(make_bins(X), residuals[:, None])
    assert list(combinations(range(6), 2))[order_of(strengths)[0]] == (1, 4)
    assert strengths.max() > 0.05


def test_levels_interact():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 60, 5000) ** 2 // 60, rng.normal(size=(5000, 3))]).astype(float)
    axes = [level_axis("a", "nominal", [str(index) for index in range(60)])]
    axes += [continuous_axis(name, column) for name, column in zip("bcd", X[:, 1:].T, strict=True)]
    slope = rng.normal(size=60)[X[:, 0].astype(int)]
    residuals = (slope - slope.mean()) * X[:, 2] + rng.normal(size=5000)
    assert order_of(rank_terms(make_bins(X, axes=axes), residuals[:, None]))[0] == 1  # (0, 2)


# Invariances


@pytest.fixture(scope="module")
def sample():
    """Bins of six correlated columns with missing values, residuals of three outputs, variances."""
    rng = np.random.default_rng(0)
    X = draw_columns(rng, 2500, 6, correlation=0.4)
    X[rng.random(X.shape) < 0.05] = np.nan
    residuals = rng.normal(size=(2500, 3)) + 0.5 * np.nan_to_num(X[:, :1] * X[:, 3:4])
    return X, residuals, rng.uniform(0.5, 2, (2500, 3))


@pytest.mark.parametrize("order", [2, 3])
def test_integer_weights_are_repeated_rows(sample, order):
    X, residuals, variances = sample
    weights = np.random.default_rng(1).integers(0, 4, len(X)).astype(float)
    copies = np.repeat(np.arange(len(X)), weights.astype(int))
    candidates, axes = list(combinations(range(6), order)), place(X)[1]
    weighted = rank_terms(make_bins(X, weights, axes), residuals, weights, candidates, variances)
    plain = rank_terms(make_bins(X[copies], None, axes), residuals[copies], None, candidates, variances[copies])
    np.testing.assert_allclose(weighted, plain, rtol=1e-5, atol=1e-8)


def test_fractional_weights_are_relative(sample):
    X, residuals, _ = sample
    weights = np.random.default_rng(1).uniform(0.2, 1, len(X))
    bins = make_bins(X, weights)
    once, again = (rank_terms(bins, residuals, factor * weights) for factor in (1, 777.7))
    np.testing.assert_allclose(once, again, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("order", [2, 3])
def test_order_of_columns_and_rows_and_unit_do_not_matter(sample, order):
    X, residuals, variances = sample
    columns, rows = [4, 2, 0, 5, 1, 3], np.random.default_rng(1).permutation(len(X))
    terms = list(combinations(range(6), order))
    moved = [[columns.index(column) for column in term] for term in terms]
    here = rank_terms(make_bins(X), residuals, None, terms, variances)
    there = rank_terms(make_bins(X[rows][:, columns]), 1e4 * residuals[rows], None, moved, 1e3 * variances[rows])
    np.testing.assert_allclose(here, there, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("order", [2, 3])
def test_threads_and_the_choice_of_candidates_do_not_matter(sample, order):
    X, residuals, variances = sample
    X = np.concatenate([X, X[::-1], X[::-1, ::-1]], axis=1)  # more terms than are measured at a time
    terms, bins = list(combinations(range(18), order)), make_bins(X)
    alone = rank_terms(bins, residuals, None, terms, variances)
    shared = rank_terms(bins, residuals, None, terms, variances, threads=3)
    some = rank_terms(bins, residuals, None, terms[1::3], variances)
    assert alone.tolist() == shared.tolist()
    np.testing.assert_allclose(alone[1::3], some, rtol=1e-12)
    assert place(X)[0].shape == X.shape
    threaded = bin_columns(*place(X), threads=3)
    assert threaded.codes.tolist() == bins.codes.tolist()


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_the_numpy_path_gives_the_same_numbers(sample, order, n_outputs, monkeypatch):
    X, residuals, _ = sample
    terms, bins = list(combinations(range(6), order)), make_bins(X)
    compiled = rank_terms(bins, residuals[:, :n_outputs], candidates=terms)
    monkeypatch.setattr(kernels, "NUMBA", False)
    np.testing.assert_allclose(rank_terms(bins, residuals[:, :n_outputs], candidates=terms), compiled, rtol=1e-9)


def test_all_pairs_are_the_default_candidates(sample):
    X, residuals, _ = sample
    bins = make_bins(X)
    every = rank_terms(bins, residuals, candidates=list(combinations(range(6), 2)))
    assert rank_terms(bins, residuals).tolist() == every.tolist()
    assert rank_terms(bins, residuals, candidates=[]).shape == (0,)


@pytest.mark.parametrize("candidates", [[(0, 6)], [(-1, 0)], [(0,)], [(0, 1, 2, 3)]])
def test_candidates_must_be_pairs_or_triples_of_columns(sample, candidates):
    X, residuals, _ = sample
    with pytest.raises(ValueError, match="all pairs or all triples of columns 0 … 5"):
        rank_terms(make_bins(X), residuals, candidates=candidates)


# Limited work


def test_limited_work_uses_a_sample_of_the_rows():
    rng = np.random.default_rng(0)
    X = draw_columns(rng, 30_000, 5)
    X = X[np.argsort(X[:, 1])]  # sorted rows: a leading part is not representative
    residuals = (X[:, 1] * X[:, 3] + rng.normal(size=30_000))[:, None]
    bins = make_bins(X)
    whole, part = rank_terms(bins, residuals), rank_terms(bins, residuals, max_work=10 * 3000)
    assert part.tolist() == rank_terms(bins, residuals, max_work=10 * 3000).tolist()
    assert part.tolist() != rank_terms(bins, residuals, max_work=3e4, rng=np.random.default_rng(5)).tolist()
    assert order_of(part)[0] == order_of(whole)[0] == list(combinations(range(5), 2)).index((1, 3))
    assert part.max() == pytest.approx(whole.max(), abs=0.08)


def test_limited_work_projects_many_outputs():
    rng = np.random.default_rng(0)
    X = draw_columns(rng, 4000, 6)
    y = (X[:, 2:3] * X[:, 5:] * rng.normal(size=40) + rng.gumbel(size=(4000, 40))).argmax(axis=1)
    residuals = np.eye(40)[y] - np.bincount(y, minlength=40) / 4000
    bins, truth = make_bins(X), list(combinations(range(6), 2)).index((2, 5))
    whole, projected = (rank_terms(bins, residuals, max_work=work) for work in (1e9, 15 * 4000 * 16))
    sampled = rank_terms(make_bins(X[:1600]), residuals[:1600])  # the same work with 40 outputs
    assert order_of(whole)[0] == order_of(projected)[0] == truth
    assert projected.tolist() != whole.tolist()

    def compare_to_noise(strengths):
        return strengths[truth] / np.delete(strengths, truth).std()

    assert compare_to_noise(projected) > 2 * compare_to_noise(sampled)


# Picking


def fit_main_effects(bins, y):
    """Residuals of the least squares fit of one value a bin."""
    design = np.concatenate([np.eye(16)[codes] for codes in bins.codes], axis=1)
    return y - design @ np.linalg.solve(design.T @ design + np.eye(design.shape[1]), design.T @ y)


@pytest.mark.parametrize("task", ["regression", "binary"])
def test_a_strong_pair_does_not_displace_a_weak_one(task):
    rng = np.random.default_rng(0)
    X = draw_columns(rng, 8000, 12, correlation=0.7)
    scores = np.sign(X[:, 0]) * np.sign(X[:, 1]) + 0.3 * np.abs(X[:, 2] - X[:, 3])
    residuals, variances = draw_residuals(rng, scores - scores.mean(), task)
    bins, pairs = make_bins(X), list(combinations(range(12), 2))
    residuals = fit_main_effects(bins, residuals)
    ranked = [pairs[index] for index in order_of(rank_terms(bins, residuals, variances=variances))]
    picked, strengths = pick_terms(bins, residuals, 5, variances=variances)
    assert ranked.index((2, 3)) > 5
    assert picked[:2] == [(0, 1), (2, 3)]
    assert len(picked) == len(strengths) <= 5
    assert strengths[0] > 5 * strengths[1] > 0


def test_picking_ends_at_noise_or_at_the_requested_number():
    rng = np.random.default_rng(0)
    X = draw_columns(rng, 5000, 12)
    noise = rng.normal(size=(5000, 1))
    bins = make_bins(X)
    assert pick_terms(bins, noise, 10)[0] == []
    assert len(pick_terms(bins, noise, 10, min_strength=0.0)[0]) == 10
    residuals = noise + X[:, :1] * X[:, 1:2] + X[:, 2:3] * X[:, 3:4]
    assert pick_terms(bins, residuals, 10)[0] in ([(0, 1), (2, 3)], [(2, 3), (0, 1)])
    assert len(pick_terms(bins, residuals, 1)[0]) == 1


def test_triples_are_picked_too():
    rng = np.random.default_rng(0)
    X = draw_columns(rng, 5000, 6)
    residuals = (np.sign(X[:, 1] * X[:, 2] * X[:, 4]) + rng.normal(size=5000))[:, None]
    candidates = [(4, 2, 1), (0, 1, 2), (3, 4, 5)]
    picked, strengths = pick_terms(make_bins(X), residuals, 3, candidates=candidates)
    assert picked == [(1, 2, 4)]
    assert strengths[0] == pytest.approx(0.5, abs=0.15)


# Triples


@given(st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(lambda pair: pair[0] != pair[1])))
def test_triples_inherit_from_pairs(pairs):
    known = {tuple(sorted(pair)) for pair in pairs}
    assert list_triples(pairs) == [t for t in combinations(range(7), 3) if known.issuperset(combinations(t, 2))]


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_noise_rarely_exceeds_its_threshold(n_outputs):
    """About the requested share of pure-noise tables has a candidate above the threshold."""
    n_above, n_tables = 0, 60
    for seed in range(n_tables):
        rng = np.random.default_rng(seed)
        residuals = rng.normal(size=(600, n_outputs))
        X = rng.random((600, 8))
        bins = make_bins(X)
        n_above += rank_terms(bins, residuals).max() > noise_threshold(bins, residuals, 0.3)
    assert n_above / n_tables < 0.45


def test_the_threshold_falls_with_rows_and_rate_and_grows_with_candidates():
    rng = np.random.default_rng(0)
    X, noise = rng.random((1000, 12)), rng.normal(size=(1000, 1))
    bins = make_bins(X)
    threshold = noise_threshold(bins, noise, 0.3)
    # Limited work uses a sample of the rows for strengths and threshold alike.
    assert noise_threshold(bins, noise, 0.3, max_work=66 * 500) == pytest.approx(2 * threshold, rel=1e-6)
    assert threshold > noise_threshold(bins, noise, 0.3, candidates=[(0, 1), (1, 2)]) > 0
    assert threshold > noise_threshold(bins, noise, 1.0) > 0
    assert noise_threshold(bins, noise, 0.3, candidates=[]) == noise_threshold(bins, 0 * noise, 0.3) == 0.0
