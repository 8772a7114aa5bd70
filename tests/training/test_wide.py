"""Wide tables: low-rank models of sparse and dense tables are the same and find the planted effects."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csc_array, csr_array, random_array
from sklearn.metrics import log_loss

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, load, merge, update
from neuralbasis.config import FitConfig
from neuralbasis.data import Sample, read_columns
from neuralbasis.training import MemoryTable, make_plan

N_ROWS, N_COLUMNS = 400, 20_000


def draw(seed: int = 0, n_rows: int = N_ROWS) -> csr_array:
    table = random_array((n_rows, N_COLUMNS), density=0.002, format="csr", random_state=seed)
    table.data = np.ceil(table.data * 20) / 20
    extra = np.random.default_rng(seed).random((n_rows, 8)) < 0.3  # eight columns that many rows have
    rows, columns = np.nonzero(extra)
    more = csr_array((np.full(len(rows), 0.5), (rows, columns)), shape=table.shape)
    return csr_array(table + more)


def target(table: csr_array, seed: int = 0) -> np.ndarray:
    few = table[:, :8].toarray()
    score = 2.0 * few[:, 0] - 1.5 * (few[:, 1] > 0) + 2.0 * ((few[:, 2] > 0) & (few[:, 3] > 0))
    return score + 0.1 * np.random.default_rng(seed + 1).normal(size=table.shape[0])


def quick(kind=NeuralBasisRegressor, **options):
    return kind(**{"outer_bags": 2, "network__max_epochs": 2, **options})


@pytest.fixture(scope="module")
def fitted():
    X = draw()
    return X, quick().fit(X, target(X))


def as_classes(y: np.ndarray, count: int) -> np.ndarray:
    return np.searchsorted(np.quantile(y, np.arange(1, count) / count), y)


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_sparse_and_dense_are_one_model(task):
    X = draw(1)
    y = target(X) if task == "regression" else as_classes(target(X), 2 if task == "binary" else 3)
    kind = NeuralBasisRegressor if task == "regression" else NeuralBasisClassifier
    weights = np.random.default_rng(0).integers(0, 3, N_ROWS)
    sparse = quick(kind, network__max_epochs=1).fit(X, y, sample_weight=weights)
    dense = quick(kind, network__max_epochs=1).fit(X.toarray(), y, sample_weight=weights)
    assert sparse.model_.is_wide
    assert dense.model_.is_wide
    name = "predict" if task == "regression" else "predict_proba"
    found = [getattr(model, name)(rows) for model in (sparse, dense) for rows in (X, csc_array(X), X.toarray())]
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], atol=1e-6)


def test_weights_are_repetition():
    X, weights = draw(2), np.random.default_rng(3).integers(0, 3, N_ROWS)
    y, rows = target(X), np.repeat(np.arange(N_ROWS), weights)
    weighted = quick().fit(X, y, sample_weight=weights)
    repeated = quick().fit(csr_array(X[rows]), y[rows])
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-6)


def test_the_order_of_columns_does_not_matter():
    X, order = draw(3), np.random.default_rng(4).permutation(N_COLUMNS)
    names = [f"word {index}" for index in range(N_COLUMNS)]
    first = quick(feature_names=names).fit(X, target(X))
    second = quick(feature_names=[names[index] for index in order]).fit(csr_array(X[:, order]), target(X))
    np.testing.assert_allclose(
        first.predict(X), second.predict(csr_array(X[:, order])), rtol=1e-3
    )  # sums in another order


def test_planted_columns_are_the_most_important(fitted):
    _, model = fitted
    strongest = np.argsort(-model.term_importances())[:2]
    assert set(strongest.tolist()) == {0, 1}


def test_predictions_hold_on_new_rows(fitted):
    _X, model = fitted
    new = draw(9, 300)
    y = target(new, 9)
    error = ((model.predict(new) - y) ** 2).mean()
    assert error < 0.75 * y.var()  # the planted pair, a fifth of it, is not listed; noise columns are many


def test_the_score_of_an_empty_row_is_the_intercept(fitted):
    _, model = fitted
    empty = csr_array((2, N_COLUMNS))
    np.testing.assert_allclose(model.predict(empty), model.intercept_, rtol=1e-6)
    assert len(model.explain_local(empty).row(0).names) == 0


def test_contributions_of_a_row_are_those_of_its_stored_values_and_sum_to_its_score(fitted):
    X, model = fitted
    found = model.model_.list_contributions(X[:5])
    assert np.diff(found.starts).tolist() == np.diff(X[:5].indptr).tolist()
    total = np.add.reduceat(found.value[:, 0], found.starts[:-1]) + model.intercept_
    np.testing.assert_allclose(total, model.predict(X[:5]), atol=1e-5)
    np.testing.assert_allclose(model.eval_terms(X[:5]).sum(axis=1) + model.intercept_, model.predict(X[:5]), atol=1e-5)


def test_listed_pairs_are_trained_beside_the_main_effects():
    X = draw(5, 1500)
    pairs = [(2, 3), (5, 4), (6, 7)]
    model = quick(interactions=pairs, network__max_epochs=8).fit(X, target(X))
    assert model.term_features_[N_COLUMNS:] == [(2, 3), (4, 5), (6, 7)]
    importance = model.term_importances()[N_COLUMNS:]
    assert importance[0] > 3 * importance[1:].max()
    both = np.zeros((1, N_COLUMNS))
    both[0, [2, 3]] = 0.5
    alone = np.zeros((2, N_COLUMNS))
    alone[0, 2] = alone[1, 3] = 0.5
    effect = model.predict(both)[0] - model.predict(alone).sum() + model.intercept_
    assert 0.8 < effect < 2.4  # 2, shrunk


def test_only_the_requested_number_of_terms_contributes():
    X = draw(6)
    model = quick(max_terms=5).fit(X, target(X))
    assert len(model.term_features_) == 5
    assert {(0,), (1,)} <= set(model.term_features_)
    absent = X.toarray()
    absent[:, [feature for feature in range(N_COLUMNS) if (feature,) not in model.term_features_]] = 0
    np.testing.assert_allclose(model.predict(absent), model.predict(X), atol=1e-6)


def test_absent_values_may_be_missing_values():
    X = draw(7)
    dense = X.toarray()
    dense[dense == 0] = np.nan
    model = quick(storage__absent_value=np.nan).fit(X, target(X))
    np.testing.assert_allclose(model.predict(X), model.predict(dense), atol=1e-6)
    same = quick(storage__absent_value=np.nan).fit(dense, target(X))
    np.testing.assert_allclose(same.predict(X), model.predict(X), atol=1e-6)
    assert model.predict(np.full((1, N_COLUMNS), np.nan))[0] == pytest.approx(model.intercept_)


def test_a_saved_model_predicts_bit_for_bit_the_same(fitted, tmp_path):
    X, model = fitted
    model.save(tmp_path / "words.nbm")
    np.testing.assert_array_equal(load(tmp_path / "words.nbm").predict(X), model.predict(X))


def test_pairs_are_searched_among_the_columns_with_the_strongest_main_effects():
    X = draw(5, 1500)
    model = quick(interactions=2, network__max_epochs=8).fit(X, target(X))
    assert len(model.term_features_) == N_COLUMNS + 2
    assert (2, 3) in model.term_features_
    assert model.interaction_ranking_[0].features == (2, 3)
    new = draw(9, 1500)
    errors = [((each.predict(new) - target(new, 9)) ** 2).mean() for each in (model, quick().fit(X, target(X)))]
    assert errors[0] < 0.8 * errors[1]


def test_all_pairs_are_refused():
    X = draw(8)
    with pytest.raises(ValueError, match=r"199,990,000 pairs of 20,000 columns would take about .* list them by name"):
        quick(interactions="all").fit(X, target(X))


class TestUpdate:
    def test_more_rows_improve_the_model(self, fitted):
        _, model = fitted
        new, test = draw(11, 1200), draw(12, 1500)
        updated = update(model, new, target(new, 11))
        errors = [((each.predict(test) - target(test, 12)) ** 2).mean() for each in (model, updated)]
        assert errors[1] < 0.8 * errors[0]
        assert updated.summary.n_rows == N_ROWS + 1200
        assert updated.summary.parameters["updates"] == [1200]

    def test_bases_and_terms_stay_and_training_weights_add_up(self, fitted):
        X, model = fitted
        updated, (before,) = update(model, X, target(X)), model.model_.factors
        (after,) = updated.factors
        np.testing.assert_array_equal(after.bases, before.bases)
        np.testing.assert_array_equal(after.finder.features, before.finder.features)
        assert after.total == 2 * before.total
        np.testing.assert_allclose(updated.shapes[3].weights, 2 * model.model_.shapes[3].weights)

    def test_a_new_mean_is_learned(self, fitted):
        X, model = fitted
        updated = update(model, X, target(X) + 50)
        assert updated.predict(X).mean() == pytest.approx(target(X).mean() + 50, abs=0.5)

    def test_noise_changes_little(self, fitted):
        X, model = fitted
        few = draw(13, 40)
        updated = update(model, few, model.predict(few))
        assert np.abs(updated.predict(X) - model.predict(X)).max() < 0.1

    def test_classes_and_pairs(self):
        X, new, test = draw(14, 800), draw(15, 800), draw(16, 1500)
        options = {"network__max_epochs": 8, "interactions": [(2, 3)]}
        model = quick(NeuralBasisClassifier, **options).fit(X, as_classes(target(X), 3))
        updated = update(model, new, as_classes(target(new, 15), 3))
        losses = [log_loss(as_classes(target(test, 16), 3), each.predict_proba(test)) for each in (model, updated)]
        assert losses[1] < 0.95 * losses[0]

    def test_without_validation_the_share_of_the_new_rows_is_kept(self, fitted):
        X, model = fitted
        updated = update(model, X, target(X) + 50, validation_size=0)
        assert updated.predict(X).mean() == pytest.approx(target(X).mean() + 25, abs=0.5)


@pytest.fixture(scope="module")
def parts():
    tables = [draw(21, 1000), draw(22, 1000)]
    names = [f"word {index}" for index in range(N_COLUMNS)]
    models = [
        quick(feature_names=names, interactions=pairs).fit(X, target(X, 1))
        for X, pairs in zip(tables, ([(2, 3)], [(2, 3), (4, 5)]), strict=True)
    ]
    return tables, models


class TestMerge:
    def test_the_merged_model_is_more_accurate_than_its_parts(self, parts):
        _, models = parts
        test = draw(23, 1500)
        errors = [((each.predict(test) - target(test, 23)) ** 2).mean() for each in (*models, merge(models))]
        assert errors[2] < min(errors[:2])

    def test_shapes_are_means_by_the_rows_that_have_the_features(self, parts):
        _, models = parts
        merged = merge(models)
        for name in ("word 0", "word 7", "word 3 & word 2"):
            shapes = [each.model_.shapes[each.model_.term_index[name]] for each in models]
            merged_shape = merged.shapes[merged.term_index[name]]
            present = [shape.weights.sum() - shape.weights[absent(shape)] for shape in shapes]
            knot = tuple(np.flatnonzero(axis.knots == 0.5)[0] + 1 for axis in merged_shape.axes)
            values = [float(shape.scores[tuple(np.flatnonzero(a.knots == 0.5)[0] + 1 for a in shape.axes)][0])
                      for shape in shapes]  # fmt: skip
            assert merged_shape.scores[knot][0] == pytest.approx(np.average(values, weights=present), rel=1e-4)
            assert merged_shape.weights.sum() == 2000

    def test_a_model_merged_with_itself_stays(self, parts):
        (X, _), (model, _) = parts
        merged = merge([model, model], weights=[1, 3])
        np.testing.assert_allclose(merged.predict(X), model.predict(X), atol=1e-5)
        assert merged.summary.n_rows == 2000

    def test_a_term_that_one_model_lacks_counts_as_zero_there(self, parts):
        _, (first, second) = parts
        merged, name = merge([first, second]), "word 4 & word 5"
        own, joined = (each.shapes[each.term_index[name]] for each in (second.model_, merged))
        np.testing.assert_allclose(np.ptp(joined.scores), np.ptp(own.scores) / 2, rtol=1e-4)

    def test_columns_are_found_by_name(self, parts):
        (X, _), (first, _) = parts
        order = np.random.default_rng(0).permutation(N_COLUMNS)
        names = [f"word {index}" for index in order]
        turned = quick(feature_names=names, interactions=[("word 2", "word 3")])
        turned.fit(csr_array(draw(22, 1000)[:, order]), target(draw(22, 1000), 1))
        expected = quick(feature_names=[f"word {index}" for index in range(N_COLUMNS)], interactions=[(2, 3)])
        expected.fit(draw(22, 1000), target(draw(22, 1000), 1))
        np.testing.assert_allclose(
            merge([first, turned]).predict(X), merge([first, expected]).predict(X), rtol=1e-3, atol=1e-3
        )

    def test_a_merged_model_is_saved_and_updated(self, parts, tmp_path):
        (X, _), models = parts
        merged = merge(models)
        merged.save(tmp_path / "merged.nbm")
        np.testing.assert_array_equal(load(tmp_path / "merged.nbm").predict(X), merged.predict(X))
        assert update(merged, X, target(X, 1), network__max_epochs=1).summary.n_rows == 3000

    def test_other_models_are_refused(self, parts):
        _, (model, _) = parts
        X = draw(21, 60)
        names = list(model.feature_names_in_)
        tables = NeuralBasisRegressor(feature_names=names, max_terms=3, max_steps=5, network__scaling="quantile")
        with pytest.raises(ValueError, match="only be merged with each other; fit one model on all rows"):
            merge([model, tables.fit(X, target(X))])
        missing = quick(feature_names=names, network__max_epochs=1, storage__absent_value=np.nan).fit(X, target(X))
        with pytest.raises(ValueError, match="the same absent_value to be merged"):
            merge([model, missing])


def absent(shape) -> tuple[int, ...]:
    """The cell of absent values."""
    return tuple(int(np.flatnonzero(axis.knots == 0.0)[0]) + 1 for axis in shape.axes)


def test_a_matrix_of_another_width_is_refused(fitted):
    _, model = fitted
    with pytest.raises(ValueError, match="20000"):
        model.predict(csr_array((3, N_COLUMNS + 1)))


def test_a_table_is_wide_if_most_values_are_absent_and_terms_times_outputs_are_many():
    def is_wide(X, classes=None, **parameters):
        columns = read_columns(X)
        table = MemoryTable(columns, Sample(np.zeros(columns.n_rows), np.ones(columns.n_rows)), classes)
        config = FitConfig.read(NeuralBasisRegressor(**parameters))
        return "wide" in table.kinds(config, make_plan(config, columns.names, None, columns.n_rows))

    X = draw(0, 60)
    assert is_wide(X)
    assert is_wide(X.toarray())
    assert not is_wide(X, network__scaling="quantile")
    assert not is_wide(X, network__engine="exact")
    assert not is_wide(np.random.default_rng(0).random((60, N_COLUMNS)))
    narrow = csr_array(X[:, :5000])
    assert not is_wide(narrow)
    assert is_wide(narrow, np.arange(6))  # five scores per term
