"""Splits and preprocessing of the paper's data sets."""

from __future__ import annotations

import doctest
import sys
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.datasets import paper
from benchmarks.datasets.paper import SETS, Part, Sizes, Splits, prepare
from benchmarks.datasets.paper import splits as splits_module
from benchmarks.datasets.paper.splits import check_sizes, draw_queries, split_shares

pd = pytest.importorskip("pandas")


@pytest.mark.parametrize(
    ("n_rows", "sizes"),
    [
        (20_640, (14_447, 2_065, 4_128)),
        (10_459, (7_321, 1_046, 2_092)),
        (24_508, (17_155, 2_451, 4_902)),
        (284_807, (199_364, 28_481, 56_962)),
        (581_012, (406_707, 58_102, 116_203)),
    ],
)
def test_shares_are_rounded_as_in_the_paper(n_rows: int, sizes: tuple[int, int, int]) -> None:
    X, y = np.arange(n_rows)[:, None], np.arange(n_rows) % 2
    parts = split_shares(X, y, "classification")
    assert tuple(len(part.y) for part in parts) == sizes
    assert len(np.unique(np.concatenate([part.X for part in parts]))) == n_rows
    assert [part.y.mean() for part in parts] == pytest.approx([0.5] * 3, abs=0.001)


@given(st.lists(st.integers(1, 30), min_size=3, max_size=60), st.integers(0, 200))
def test_queries_stay_whole(counts: list[int], n_valid: int) -> None:
    queries = np.repeat(np.arange(len(counts)), counts)
    train, valid = draw_queries(queries, n_valid)
    assert sorted([*train, *valid]) == list(range(len(queries)))
    assert not set(queries[train]) & set(queries[valid])
    assert len(valid) <= n_valid
    if len(train):  # no query to train on would have fitted
        assert min(counts[query] for query in set(queries[train])) > n_valid - len(valid)


def make_splits(recipe: str, rest: float) -> Splits:
    """Fixed training rows; the other rows have the deviation `rest`."""
    rng = np.random.default_rng(0)

    def make(n_rows: int, spread: float) -> Part:
        X = np.column_stack([spread * rng.normal(size=n_rows), np.arange(n_rows) % 2, np.full(n_rows, 5.0)])
        return Part(X, np.arange(n_rows) % 2)

    return Splits("Made", "classification", make(3_000, 1), make(50, rest), make(50, rest), recipe)


@pytest.mark.parametrize("recipe", ["minmax", "gaussian"])
def test_scalers_are_fitted_on_training_rows(recipe: str) -> None:
    near, far = prepare(make_splits(recipe, 0.1)), prepare(make_splits(recipe, 1_000))
    assert (near.train.X == far.train.X).all()
    assert far.train.X.dtype == np.float32
    low, high = (0, 1) if recipe == "minmax" else (-5.2, 5.2)
    assert far.test.X.min() >= low
    assert far.test.X.max() <= high
    assert np.unique(far.test.X[:, 0].round(1)).size < 6  # nearly all are beyond the rows to train
    assert (near.train.X[:, 2] == 0).all()


def test_numbers_become_normal() -> None:
    splits = make_splits("gaussian", 1)
    before = splits.train.X.copy()
    X = prepare(splits).train.X
    ranks = before[:, 0].argsort().argsort()
    assert np.quantile(X[:, 0], [0.1, 0.5, 0.9]) == pytest.approx([-1.2816, 0, 1.2816], abs=0.03)
    assert np.corrcoef(ranks, X[:, 0].argsort().argsort())[0, 1] > 0.9999
    assert np.unique(X[:, 1]) == pytest.approx([-0.6745, 0.6745], abs=0.05)  # the middles of the two halves
    assert (before == splits.train.X).all()


def test_levels_become_means_of_rows_to_train() -> None:
    def make(levels: list[str | None], y: list[int]) -> Part:
        column = pd.Series(pd.Categorical(levels, categories=["a", "b", "c", "d"]))
        return Part(pd.DataFrame({"kind": column}), np.array(y))

    train = make(["a"] * 4 + ["b"] * 4 + ["c"], [0, 0, 0, 1, 1, 1, 1, 0, 0])
    others = make(["a", "b", "c", "d", None], [1, 1, 1, 1, 1])
    prepared = prepare(Splits("Made", "classification", train, others, others, "gaussian"))
    a, b, c, d, missing = prepared.test.X[:, 0]
    assert a < c < b  # 1/4, 4/9 and 3/4: one row says nothing of others
    assert c == d == missing
    assert prepared.train.X[0, 0] == a


def test_missing_numbers_name_their_column() -> None:
    part = Part(pd.DataFrame({"age": [1.0, np.nan]}), np.zeros(2))
    with pytest.raises(ValueError, match="Made: column age has missing"):
        prepare(Splits("Made", "regression", part, part, part, "gaussian"))


@pytest.mark.parametrize("key", SETS)
def test_stand_ins_have_the_columns_of_the_set(key: str) -> None:
    splits = paper.load(key, quick=True)
    source = SETS[key]
    assert (splits.task, splits.recipe) == (source.task, source.recipe)
    assert splits.name.endswith("(generated)")
    if key not in ("newsgroups", "common_objects"):
        assert splits.train.X.shape[1] == (source.n_columns or source.sizes.n_features)
    if key != "epsilon":  # slow: 2,000 columns
        prepared = prepare(splits)
        expected = {"newsgroups": splits.train.X.shape[1], "common_objects": 300}.get(key, source.sizes.n_features)
        assert [part.X.shape for part in prepared.parts] == [(len(part.y), expected) for part in splits.parts]
        assert prepared.train.X.dtype == np.float32


def test_wrong_sizes_are_reported() -> None:
    part = Part(np.zeros((4, 3)), np.array([0, 1, 0, 1]))
    splits = Splits("Four", "classification", part, part, part, "minmax")
    check_sizes(splits, Sizes(4, 4, 4, 3, 2))
    check_sizes(splits, Sizes(5, 3, 4, 3, 2), slack=1)
    with pytest.raises(ValueError, match=r"Four: expected 5 / 4 / 4 rows .* got 4 / 4 / 4"):
        check_sizes(splits, Sizes(5, 4, 4, 3, 2), slack=1)
    with pytest.raises(ValueError, match="Four: expected 7 features, got 3"):
        check_sizes(splits, Sizes(4, 4, 4, 7, 2))
    with pytest.raises(ValueError, match="Four: expected 3 classes in the training rows, got 2"):
        check_sizes(splits, Sizes(4, 4, 4, 3, 3))


@pytest.mark.parametrize(
    "module", [paper, splits_module, sys.modules[prepare.__module__]], ids=lambda module: module.__name__
)
def test_examples(module: ModuleType) -> None:
    found = doctest.testmod(module)
    assert (found.failed, found.attempted > 0) == (0, True)


def test_an_unknown_set_raises() -> None:
    with pytest.raises(ValueError, match=r"one of ca_housing, fico, .* got 'iris'"):
        paper.load("iris")


@pytest.mark.parametrize("key", ["ca_housing", "fico", "newsgroups", "credit", "cub", "covertype"])
def test_real_sets_have_the_paper_s_sizes(key: str) -> None:
    problem = paper.find_missing(key)
    if problem:
        pytest.skip(problem)
    splits = paper.load(key)
    sizes = SETS[key].sizes
    assert tuple(len(part.y) for part in splits.parts) == sizes.count_rows()
    if splits.recipe != "gaussian":  # slow
        prepared = prepare(splits)
        assert [part.X.shape[1] for part in prepared.parts] == [sizes.n_features] * 3
        assert (prepared.train.X.min(), prepared.train.X.max()) == (0, pytest.approx(1, abs=0.01))
    if splits.task == "classification":
        assert np.unique(splits.train.y).tolist() == list(range(sizes.n_classes))
