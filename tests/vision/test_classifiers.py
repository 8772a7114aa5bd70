"""Which cells teach what, and the classifiers of all concepts against scikit-learn's, one at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

pytest.importorskip("PIL")

from neuralbasis.vision import Annotations
from neuralbasis.vision.annotations import Locations
from neuralbasis.vision.classifiers import calibrate, find_axes, fit_classifiers
from neuralbasis.vision.learning import hold_out
from neuralbasis.vision.patches import ELSEWHERE, NO, NOTHING, YES, Cells, choose_cells, weigh


def annotate(located: list[tuple[int, int, float, float]], present: list[list[int]], weight=None) -> Annotations:
    """Pictures with the parts wing and tail, the concepts striped wing, black wing and long tail."""
    image, part, x, y = np.array(located, dtype=float).T
    n_images = len(present)
    told = np.array(present, dtype=np.int8)
    return Annotations(
        images=tuple(Path(str(k)) for k in range(n_images)),
        parts=("wing", "tail"),
        concepts=("striped wing", "black wing", "long tail"),
        shows=np.array([[True, False], [True, False], [False, True]]),
        locations=Locations(image.astype(int), part.astype(int), x, y, image.astype(int)),
        present=told,
        weight=np.where(told >= 0, 1, 0).astype(np.float32) if weight is None else np.array(weight, dtype=np.float32),
        row_images=np.arange(n_images),
        labels=np.zeros(n_images, dtype=int),
        classes=("bird",),
        is_train=np.ones(n_images, dtype=bool),
    )


def test_what_cells_say() -> None:
    # One picture of 80 × 80 pixels on 8 × 8 cells: wings at cells (1, 1) and (6, 6), a tail at (1, 3), one at (2, 2).
    located = [(0, 0, 15, 15), (0, 0, 65, 65), (0, 1, 35, 15), (0, 1, 25, 25)]
    told = annotate(located, [[1, -1, 0]])
    cells = choose_cells(told, np.array([[80, 80]]), (8, 8), 0, np.random.default_rng(0))
    says = dict(zip(cells.cell.tolist(), cells.says.tolist(), strict=True))
    assert says == {
        9: [YES, NOTHING, NOTHING],  # the wing touches the tail at (2, 2)
        54: [YES, NOTHING, ELSEWHERE],
        11: [ELSEWHERE, ELSEWHERE, NO],  # (1, 3) is two columns from the wing at (1, 1)
        18: [NOTHING, NOTHING, NO],  # (2, 2) touches it
    }


def test_two_pictures_two_sizes_and_background() -> None:
    told = annotate([(0, 0, 50, 50), (1, 0, 50, 50)], [[1, 0, -1], [0, 1, -1]])
    sizes = np.array([[100, 100], [400, 200]])
    cells = choose_cells(told, sizes, (8, 8), 3, np.random.default_rng(0))
    parts, beside = (Cells(*(field[rows] for field in cells)) for rows in (slice(2), slice(2, 8)))
    assert parts.cell.tolist() == [4 * 8 + 4, 2 * 8 + 1]
    assert parts.says.tolist() == [[YES, NO, ELSEWHERE], [NO, YES, ELSEWHERE]]
    assert beside.image.tolist() == [0, 0, 0, 1, 1, 1]
    assert (beside.says == ELSEWHERE).all()
    row, column = beside.cell // 8, beside.cell % 8
    centre = np.array([[4, 4], [2, 1]])[beside.image]
    assert (np.maximum(abs(row - centre[:, 0]), abs(column - centre[:, 1])) >= 2).all()


def test_broken_pictures_have_no_cells() -> None:
    told = annotate([(0, 0, 5, 5), (1, 0, 5, 5)], [[1, 0, -1], [1, 0, -1]])
    cells = choose_cells(told, np.array([[0, 0], [10, 10]]), (4, 4), 2, np.random.default_rng(0))
    assert set(cells.image.tolist()) == {1}


def test_weights_are_balanced_and_know_certainty() -> None:
    says = np.array([[YES], [YES], [NO], [NO], [ELSEWHERE], [NOTHING]])
    trust = np.array([[1.0], [0.5], [0.75], [0.25], [1.0], [1.0]])
    found = weigh(says, trust)[:, 0]
    assert found.tolist() == pytest.approx([1 / 3, 1 / 6, -0.75 / 4, -0.25 / 4, -0.25, 0])
    assert weigh(np.array([[YES], [NO]]), np.ones((2, 1)))[:, 0].tolist() == [0.5, -0.5]
    assert not weigh(np.array([[NO], [ELSEWHERE]]), np.ones((2, 1))).any()


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(900, 40)) @ rng.normal(size=(40, 40)) + 3).astype(np.float32)
    yes = rng.random((900, 5)) < expit((X - 3) @ rng.normal(size=(40, 5)) / 6 - [0, 0, 1, 2, 3])
    weights = np.where(yes, 0.5 / yes.sum(axis=0), -0.5 / (~yes).sum(axis=0)).astype(np.float32)
    return X, yes, weights


@pytest.mark.parametrize("ridge", [1.0, 0.01, 0.0001])
def test_classifiers_are_scikit_learns(problem, ridge: float) -> None:
    X, yes, weights = problem
    found = fit_classifiers(X, weights, X, weights, (1.0, 0.01, 0.0001)[: (1.0, 0.01, 0.0001).index(ridge) + 1])
    only = fit_classifiers(X, weights, X, weights, (ridge,))
    scale = np.sqrt(X.var(axis=0).mean())
    for k in range(5):
        reference = LogisticRegression(C=1 / ridge, tol=1e-8, max_iter=5000)
        reference.fit((X - X.mean(axis=0)) / scale, yes[:, k], sample_weight=np.abs(weights[:, k]))
        expected = reference.decision_function((X - X.mean(axis=0)) / scale)
        score = X @ only.coefficients[k] + only.intercepts[k]
        assert np.abs(score - expected).max() < 0.05 * expected.std() + 0.01
    assert (found.ridges == ridge).all()  # the same rows judge: they like the weakest ridge


def test_each_concept_chooses_its_ridge() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 60)).astype(np.float32)
    clear = X[:, 0] > 0
    chance = rng.random(400) < 0.5
    yes = np.stack([clear, chance], axis=1)
    weights = (np.where(yes, 1, -1) / 400).astype(np.float32)
    found = fit_classifiers(X[:200], weights[:200], X[200:], weights[200:])
    assert found.ridges[0] < found.ridges[1]
    assert np.mean((X[200:] @ found.coefficients[0] + found.intercepts[0] > 0) == clear[200:]) > 0.88


def test_principal_axes() -> None:
    rng = np.random.default_rng(2)
    X = np.zeros((500, 6), dtype=np.float16)
    X[:, 1], X[:, 4] = 5 * rng.normal(size=500), rng.normal(size=500) + 7
    pool = ThreadPoolExecutor(1)
    axes = find_axes(X, 512, pool)
    assert axes.turn.shape == (6, 2)
    assert np.abs(axes.turn[1, 0]) > 10 * np.abs(axes.turn[4, 0])
    turned = (X.astype(float) - axes.centre) @ axes.turn
    assert turned.var(axis=0) == pytest.approx(axes.variances, rel=1e-3)
    assert axes.variances.sum() == pytest.approx(6, rel=1e-3)
    assert find_axes(X, 1, pool).turn.shape == (6, 1)


def test_calibration_is_a_logistic_regression() -> None:
    rng = np.random.default_rng(3)
    scores = rng.normal(3, 2, size=(20_000, 3))
    yes = (rng.random(scores.shape) < expit(scores * [0.5, 2, -1] - 1)).astype(np.int8)
    yes[:50] = -1
    shares = np.full(3, 0.25)
    found = calibrate(scores, yes, shares)
    reference = LogisticRegression(C=1e6).fit(scores[50:, :1], yes[50:, 0])
    assert found[0] == pytest.approx([reference.coef_[0, 0], reference.intercept_[0]], abs=0.02)
    assert found[1] == pytest.approx([2, -1], abs=0.15)
    assert 0 < found[2, 0] < 0.01  # worse than chance: never turned round
    split = calibrate(np.array([[-1.0], [1.0]]), np.array([[0], [1]]), shares)
    assert np.isfinite(split).all()


@pytest.mark.parametrize("answer", [0, 1, -1])
def test_where_nobody_can_judge_the_mean_is_the_known_share(answer: int) -> None:
    """The largest of many balanced logits is far above 0 in every picture: nothing like a probability."""
    scores = np.random.default_rng(4).normal(4, 1, size=(300, 1))
    ((slope, shift),) = calibrate(scores, np.full((300, 1), answer), np.array([0.03]))
    assert slope == 1
    assert expit(scores + shift).mean() == pytest.approx(0.03, abs=1e-9)
    assert expit(calibrate(scores[:0], np.zeros((0, 1)), np.array([0.03]))[0, 1]) == pytest.approx(0.03)
    same = calibrate(np.full((5, 1), 2.0), np.zeros((5, 1)), np.array([0.5]))
    assert same.tolist() == [[1.0, pytest.approx(-2.0)]]


def test_the_last_picture_of_a_concept_is_never_held_out() -> None:
    shown = np.zeros((100, 3), dtype=bool)
    shown[:, 0] = True
    shown[7, 1] = shown[[7, 8], 2] = True
    for seed in range(50):
        is_held = hold_out(shown, 0.2, np.random.default_rng(seed))
        assert is_held.sum() == 20
        assert shown[~is_held].any(axis=0).all()
    rng = np.random.default_rng(0)
    common = hold_out(np.ones((100, 3), dtype=bool), 0.2, rng)
    assert np.flatnonzero(common).tolist() == sorted(np.random.default_rng(0).permutation(100)[:20].tolist())


def test_a_concept_that_nobody_can_judge_takes_the_usual_ridge() -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 8)).astype(np.float32)
    weights = (np.sign(X[:, :3]) / 300).astype(np.float32)
    held = weights[200:].copy()
    held[:, 2] = -1 / 100  # no yes
    found = fit_classifiers(X[:200], weights[:200], X[200:], held)
    assert found.ridges[2] == np.median(found.ridges[:2])
    assert np.argmax(found.coefficients[2]) == 2


def test_threads_do_not_change_the_classifiers(problem, monkeypatch) -> None:
    X, _, weights = problem
    found = []
    for n_threads in (1, 3):
        monkeypatch.setattr("neuralbasis.vision.classifiers.count_threads", lambda _, n=n_threads: n)
        monkeypatch.setattr("neuralbasis.vision.classifiers.CHUNK", 100)
        found.append(fit_classifiers(X, weights, X, weights))
    assert np.array_equal(found[0].coefficients, found[1].coefficients)
