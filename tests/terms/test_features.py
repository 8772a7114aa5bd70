"""Selection of columns: strengths of columns, bins, choices of members, and models of wide tables."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import chdtri

import neuralbasis
from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, kernels
from neuralbasis.terms.features import bin_raw_columns, select_columns

N = 240
N_BINS = 16
QUICK = {"max_steps": 60, "outer_bags": 3, "n_jobs": 1}


def make_wide(n_columns=700, seed=0, n_rows=N, dtype=np.float32):
    """Three effects of different shapes, columns 5, 300 and 650."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns)).astype(dtype)
    y = X[:, 5] + 1.2 * np.abs(X[:, 300]) + np.sign(X[:, 650]) + 0.4 * rng.normal(size=n_rows)
    return X, y


def name(n_columns):
    return [f"c{i:04d}" for i in range(n_columns)]


def hold_out(n_rows, n_members=3):
    return np.arange(n_rows)[:, None] % 7 == np.arange(n_members)


def select(X, y, weights=None, names=None, held_out=None, **options):
    y = np.asarray(y, dtype=float).reshape(len(X), -1)
    held_out = hold_out(len(X)) if held_out is None else held_out
    weights = np.ones(len(X)) if weights is None else weights
    names = name(X.shape[1]) if names is None else names
    return select_columns(X, np.arange(len(X)), y - y.mean(axis=0), weights, held_out, names, **options)


def bin_alone(values, weights=None):
    weights = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=float)
    column = np.asarray(values, dtype=float)[:, None]
    return bin_raw_columns(column, np.arange(len(values)), weights, ["x"], np.array([0]), 1)[0]


def explained(parts, residuals, weights):
    """Weighted sum of squares that a regression on these parts and a constant explains beyond the constant."""
    root = np.sqrt(weights)[:, None]
    left = []
    for design in (np.ones((len(residuals), 1)), np.column_stack([np.ones(len(residuals)), *parts])):
        fit = np.linalg.lstsq(design * root, residuals * root, rcond=None)[0]
        left.append((weights[:, None] * (residuals - design @ fit) ** 2).sum())
    return left[0] - left[1]


# Strengths of columns


@pytest.mark.parametrize("has_missing", [False, True])
@pytest.mark.parametrize("view", [0, 1, 2, 3])
def test_a_view_explains_what_a_regression_on_it_explains(view, has_missing):
    rng = np.random.default_rng(view)
    codes = rng.integers(0, N_BINS, 300)
    if has_missing:
        codes[:40] = N_BINS
    residuals, weights = rng.normal(size=(300, 2)), rng.random(300)
    known = codes < N_BINS
    place = np.where(known, codes, 0.0)
    groups = [(codes // 2 == g) * 1.0 for g in range(1, N_BINS // 2)]
    missing = [~known * 1.0] if has_missing else []
    cuts = [[known * (codes > b) * 1.0] for b in range(N_BINS - 1)]
    ways = [[[place]], [[place, place**2]], [groups], cuts][view]
    amounts = [explained(way + missing, residuals, weights) for way in ways]
    sums = np.zeros((N_BINS + 1, 3))
    np.add.at(sums, codes, np.column_stack([weights, weights[:, None] * residuals]))
    limits = np.full((2, 4), 1e9)
    limits[:, view] = 0.0
    strength, found = kernels.find_view(sums, limits)
    assert found == view + int(np.argmax(amounts))
    assert strength == pytest.approx(max(amounts))


def test_noise_rarely_exceeds_its_limits():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, N_BINS, (2000, 300)).astype(np.uint8)
    noise = rng.normal(size=300)
    data = np.column_stack([np.ones(300), (noise - noise.mean()) / noise.std()])
    degrees, strengths = np.array([[1, 2, 7, 1], [2, 3, 8, 2]]), np.empty((2000, 1))
    kernels.weigh_columns(0, 2000, codes, data, chdtri(degrees, np.array([1, 1, 1, 1 / 15]) / 2000), strengths)
    assert (strengths > 0).sum() <= 8  # four views, each with at most one column above its limit on average
    kernels.weigh_columns(0, 2000, codes, data, chdtri(degrees, np.array([1, 1, 1, 1 / 15]) / 10), strengths)
    assert 200 < (strengths > 0).sum() < 700


def test_a_column_without_known_values_is_never_picked():
    sums = np.zeros((N_BINS + 1, 2))
    sums[N_BINS] = 5.0, 1.0
    assert kernels.find_view(sums, np.zeros((2, 4)))[0] == -np.inf


# Bins


def test_bins_hold_equal_numbers_of_rows():
    codes = bin_alone(np.random.default_rng(0).permutation(320.0 * np.arange(320)))
    assert np.bincount(codes).tolist() == [20] * N_BINS


def test_missing_values_have_their_own_bin():
    codes = bin_alone([np.nan, 1.0, 2.0, np.nan])
    assert codes[[0, 3]].tolist() == [N_BINS, N_BINS]
    assert codes[1] < codes[2] < N_BINS


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(1, 4)), min_size=1, max_size=30))
def test_weighted_bins_are_bins_of_repeated_rows(rows):
    values, times = np.array(rows).T
    assert np.repeat(bin_alone(values, times), times).tolist() == bin_alone(np.repeat(values, times)).tolist()


@pytest.mark.parametrize("n_low", [1, 10, 50, 99])
def test_two_values_have_different_bins(n_low):
    codes = bin_alone([0.0] * n_low + [1.0] * (100 - n_low))
    assert len(set(codes[:n_low])) == len(set(codes[n_low:])) == 1
    assert codes[0] < codes[-1]


# Choices of members


def test_planted_columns_are_found():
    X, y = make_wide()
    found = select(X, y)
    assert {5, 300, 650} <= set(found.features)
    assert len(found.features) <= 12
    assert found.member_mask[np.isin(found.features, [5, 300, 650])].all()
    assert (found.member_mask.sum(axis=1) >= 2).all()
    assert select(X, y, max_terms=3).features.tolist() == [5, 300, 650]


def test_single_and_double_precision_select_the_same():
    X, y = make_wide()
    assert select(X, y).features.tolist() == select(X.astype(float), y).features.tolist()


def test_the_order_of_columns_does_not_change_the_selection():
    X, y = make_wide()
    X[:, 20] = X[:, 5]  # equal columns: the first name wins
    moved = np.random.default_rng(1).permutation(X.shape[1])
    names = name(X.shape[1])
    there = select(X[:, moved], y, names=[names[i] for i in moved])
    assert sorted(moved[there.features]) == select(X, y).features.tolist()


def test_the_first_name_of_equal_columns_wins():
    X, y = make_wide()
    X[:, 20] = X[:, 5]
    assert select(X, y, max_terms=3).features.tolist() == [5, 300, 650]
    names = name(X.shape[1])
    names[5], names[20] = names[20], names[5]
    assert select(X, y, names=names, max_terms=3).features.tolist() == [20, 300, 650]


def test_a_member_does_not_use_the_rows_it_holds_out():
    X, y = make_wide()
    held_out = hold_out(N, 1)
    other = np.where(held_out[:, 0], 100 * X[:, 77], y)
    other += (y[~held_out[:, 0]].sum() - other[~held_out[:, 0]].sum()) / N
    for max_terms in (3, 9):
        chosen = select(X, y, held_out=held_out, max_terms=max_terms).features
        assert select(X, other, held_out=held_out, max_terms=max_terms).features.tolist() == chosen.tolist()
        assert 77 not in chosen


def test_only_candidates_are_selected():
    X, y = make_wide()
    chosen = select(X, y, candidates=[column for column in range(700) if column != 300], max_terms=4).features
    assert {5, 650} <= set(chosen)
    assert 300 not in chosen


def test_a_column_may_matter_by_its_missing_values():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 600))
    y = rng.normal(size=N)
    X[rng.random(X.shape) < 0.3] = np.nan
    y[np.isnan(X[:, 7])] += 2
    assert select(X, y, max_terms=1).features.tolist() == [7]


def test_all_classes_share_one_selection():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 600))
    kind = np.where(X[:, 3] > 0.5, 2, np.where(X[:, 9] > 0, 1, 0))
    assert select(X, np.eye(3)[kind], max_terms=2).features.tolist() == [3, 9]
    many = np.eye(30)[np.digitize(X[:, 3], np.linspace(-2, 2, 29))]
    assert select(X, many, max_terms=1).features.tolist() == [3]


def test_many_rows_are_sampled(monkeypatch):
    X, y = make_wide()
    monkeypatch.setattr("neuralbasis.terms.features.MAX_ROWS", 200)
    assert select(X, y, max_terms=3).features.tolist() == [5, 300, 650]


# Models of wide tables


@pytest.fixture(scope="module")
def wide():
    X, y = make_wide()
    return X, y, NeuralBasisRegressor(**QUICK).fit(X, y)


def test_a_wide_table_gets_few_terms(wide):
    *_, model = wide
    features = {feature for term in model.term_features_ for feature in term}
    assert {5, 300, 650} <= features
    assert len(features) < 15
    assert len(model.model_.encoder.axes) == model.n_features_in_ == len(model.bins_) == 700
    fresh, truth = make_wide(seed=1)
    assert 1 - ((model.predict(fresh) - truth) ** 2).mean() / truth.var() > 0.6


def test_contributions_sum_to_the_score(wide):
    X, _, model = wide
    scores = model.eval_terms(X).sum(axis=1) + model.intercept_
    np.testing.assert_allclose(scores, model.predict(X), atol=1e-9)


def test_precision_and_names_do_not_change_predictions(wide):
    X, _, model = wide
    expected = model.predict(X)
    np.testing.assert_array_equal(model.predict(X.astype(float)), expected)
    by_name = dict(zip(model.feature_names_in_, X.T, strict=True))
    np.testing.assert_array_equal(model.predict(by_name), expected)
    row = {name: float(value) for name, value in zip(model.feature_names_in_, X[3], strict=True)}
    np.testing.assert_array_equal(model.predict(row), expected[3:4])
    with pytest.raises(ValueError, match="700"):
        model.predict(X[:, :600])


def test_columns_without_a_term_are_not_read(wide):
    X, _, model = wide
    unused = next(f for f in range(700) if all(f not in term for term in model.term_features_))
    odd = X.copy()
    odd[:, unused] = np.inf
    np.testing.assert_array_equal(model.predict(odd), model.predict(X))
    odd[:, 300] = np.inf
    with pytest.raises(ValueError, match="column 'feature_0300' holds an infinite value"):
        model.predict(odd)


def test_a_saved_wide_model_predicts_the_same(wide, tmp_path):
    X, _, model = wide
    model.save(tmp_path / "wide.nbm")
    np.testing.assert_array_equal(neuralbasis.load(tmp_path / "wide.nbm").predict(X), model.predict(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


def test_members_have_no_effect_of_columns_they_did_not_select():
    X, y = make_wide()
    y = y + 3 * np.random.default_rng(5).normal(size=N)  # with this noise, members select different columns
    model = NeuralBasisRegressor(**QUICK, interactions=0, max_terms=8).fit(X, y).model_
    masked = [(shape.members == 0).all(axis=(0, 2)) for shape in model.shapes]
    assert len(model.shapes) == 8
    assert 0 < np.sum(masked) <= 8


@pytest.mark.parametrize(
    "options",
    [{"network__engine": "exact"}, {"network__tied_classes": True}, {"network__staged": False}, {"device": "cpu"}],
)
def test_every_engine_masks_members(options):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 40))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.where(X[:, 0] > 0, "a", np.where(X[:, 1] + rng.normal(size=120) > 0, "b", "c"))
    fitted = NeuralBasisClassifier(**QUICK, interactions=0, max_terms=6, **options).fit(X, y)
    masked = [(shape.members == 0).all(axis=(0, 2)) for shape in fitted.model_.shapes]
    assert len(masked) == 6
    assert 0 < np.sum(masked) <= 6


def test_pure_noise_gives_about_the_constant_model():
    X, _ = make_wide()
    y = np.random.default_rng(3).normal(size=N)
    model = NeuralBasisRegressor(n_jobs=1).fit(X, y)
    assert model.predict(make_wide(seed=1)[0]).std() < 0.3  # 0.25 on most processors; the target has 1
    assert min(model.history_.validation) > 0.9 * model.history_.constant


def test_max_terms_is_a_number_of_main_effects():
    X = np.random.default_rng(0).normal(size=(N, 60))
    for requested in (1, 2, 59):
        model = NeuralBasisRegressor(**QUICK, interactions=0, max_terms=requested).fit(X, X[:, 5] + X[:, 9])
        assert len(model.term_features_) <= requested
        assert (5,) in model.term_features_ or (9,) in model.term_features_
    assert len(NeuralBasisRegressor(**QUICK, interactions=0, max_terms=60).fit(X, X[:, 5]).term_features_) == 60


def test_max_terms_none_keeps_all_columns():
    X = np.random.default_rng(0).normal(size=(N, 510))
    one_step = {"max_steps": 1, "outer_bags": 1, "interactions": 0}
    assert len(NeuralBasisRegressor(**one_step, max_terms=None).fit(X, X[:, 5]).term_features_) == 510
    assert len(NeuralBasisRegressor(**one_step).fit(X[:, :100], X[:, 5]).term_features_) == 100
    assert len(NeuralBasisRegressor(**one_step).fit(X[:, :101], X[:, 5]).term_features_) < 50


def test_listed_interactions_are_kept():
    X, y = make_wide()
    model = NeuralBasisRegressor(**QUICK, interactions=[(1, 2), (5, 699)], max_terms=2).fit(X, y)
    mains = [term for term in model.term_features_ if len(term) == 1]
    assert model.term_features_[-2:] == [(1, 2), (5, 699)]
    assert model.term_names_[-2] == "feature_0001 & feature_0002"
    assert len(mains) - len({(1,), (2,), (5,), (699,)} & set(mains)) <= 2  # purified pairs leave main effects


def test_excluded_columns_are_not_selected():
    X, y = make_wide()
    model = NeuralBasisRegressor(**QUICK, interactions=0, exclude=[300, "feature_0005"], max_terms=5).fit(X, y)
    chosen = {term[0] for term in model.term_features_}
    assert 650 in chosen
    assert not chosen & {5, 300}


def test_found_interactions_are_numbered_as_in_the_table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 600))
    y = X[:, 100] + X[:, 500] + 2 * X[:, 100] * X[:, 500]
    model = NeuralBasisRegressor(**QUICK, max_terms=3, interactions=1).fit(X, y)
    best = model.interaction_ranking_[0]
    assert (best.features, best.name) == ((100, 500), "feature_0100 & feature_0500")


def test_weights_are_repeated_rows():
    X, y = make_wide(n_rows=120)
    times = np.random.default_rng(0).integers(0, 4, 120)
    weighted = NeuralBasisRegressor(**QUICK, interactions=0).fit(X, y, sample_weight=times)
    repeated = NeuralBasisRegressor(**QUICK, interactions=0).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert weighted.term_features_ == repeated.term_features_
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-6)


def test_the_order_of_columns_does_not_change_the_model():
    X, y = make_wide(n_rows=120)
    moved = np.random.default_rng(1).permutation(700)
    names = np.array(name(700))
    one = NeuralBasisRegressor(**QUICK, feature_names=names).fit(X, y)
    other = NeuralBasisRegressor(**QUICK, feature_names=names[moved]).fit(X[:, moved], y)
    assert sorted(one.term_names_) == sorted(other.term_names_)
    np.testing.assert_allclose(one.predict(X), other.predict(X[:, moved]), atol=1e-6)


def test_columns_of_init_score_are_not_selected_again():
    X, y = make_wide()
    model = NeuralBasisRegressor(**QUICK, interactions=0, max_terms=2).fit(X, y, init_score=X[:, 5])
    assert {term[0] for term in model.term_features_} == {300, 650}


def test_nominal_columns_are_selected():
    rng = np.random.default_rng(0)
    table = {f"n{i}": rng.normal(size=200) for i in range(30)}
    table |= {f"t{i}": rng.choice(["red", "green", "blue"], 200) for i in range(10)}
    y = 2.0 * (table["t3"] == "red") + table["n7"] + 0.1 * rng.normal(size=200)
    model = NeuralBasisRegressor(**QUICK, interactions=0, max_terms=2).fit(table, y)
    assert model.term_names_ == ["n7", "t3"]
    assert model.feature_types_in_[-1] == "nominal"


def test_without_held_out_rows_all_members_use_all_columns():
    X, y = make_wide()
    model = NeuralBasisRegressor(**QUICK, interactions=0, validation_size=0).fit(X, y).model_
    assert {5, 300, 650} <= {term[0] for term in model.terms}
    assert not any((shape.members == 0).all(axis=(0, 2)).any() for shape in model.shapes)


def test_errors_name_the_column():
    X, y = make_wide()
    X[3, 44] = np.inf
    with pytest.raises(ValueError, match="column 'feature_0044' holds infinite values"):
        NeuralBasisRegressor().fit(X, y)
    X[:, 44] = np.nan
    with pytest.raises(ValueError, match="column 'feature_0044' has only missing values"):
        NeuralBasisRegressor().fit(X, y)


def test_the_automatic_number_of_bases_follows_the_columns():
    X = np.random.default_rng(0).normal(size=(N, 20))
    bases = []

    def make_basis(n_inputs, n_bases, n_copies, generator):
        from neuralbasis.networks import SplineBasis

        bases.append(n_bases)
        return SplineBasis(n_inputs, n_bases, n_copies)

    NeuralBasisRegressor(**QUICK, interactions=0, network__n_bases=None, network__basis=make_basis).fit(X, X[:, 5])
    assert bases == [21]
