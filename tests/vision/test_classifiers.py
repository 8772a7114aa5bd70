"""Training patches, and the classifiers of all concepts compared with scikit-learn, one at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

pytest.importorskip("PIL")

from neuralbasis.vision import Annotations, Locations
from neuralbasis.vision.classifiers import calibrate, fit_classifiers
from neuralbasis.vision.learning import balance_weights, hold_out, sample_patches

POSITIVE, IGNORED, NEGATIVE, ELSEWHERE = 1, 0, -1, -2  # labels of patches


def annotate(located: list[tuple[int, int, float, float]], present: list[list[int]], weight=None) -> Annotations:
    """Annotations with the parts wing and tail and the concepts striped wing, black wing and long tail."""
    image, part, x, y = np.array(located, dtype=float).T
    n_images = len(present)
    labels = np.array(present, dtype=np.int8)
    return Annotations(
        images=tuple(Path(str(k)) for k in range(n_images)),
        parts=("wing", "tail"),
        concepts=("striped wing", "black wing", "long tail"),
        shows=np.array([[True, False], [True, False], [False, True]]),
        locations=Locations(image.astype(int), part.astype(int), x, y, image.astype(int)),
        present=labels,
        weight=np.where(labels >= 0, 1, 0).astype(np.float32) if weight is None else np.array(weight, dtype=np.float32),
        row_images=np.arange(n_images),
        labels=np.zeros(n_images, dtype=int),
        classes=("bird",),
        is_train=np.ones(n_images, dtype=bool),
    )


def test_labels_of_patches() -> None:
    # A picture of 80 × 80 pixels on 8 × 8 patches: wings at patches (1, 1) and (6, 6), tails at (1, 3) and (2, 2).
    located = [(0, 0, 15, 15), (0, 0, 65, 65), (0, 1, 35, 15), (0, 1, 25, 25)]
    annotations = annotate(located, [[1, -1, 0]])
    patches = sample_patches(annotations, np.array([[80, 80]]), (8, 8), 0, np.random.default_rng(0))
    labels = dict(zip(patches.position.tolist(), patches.labels.tolist(), strict=True))
    assert labels == {
        9: [POSITIVE, IGNORED, IGNORED],  # the wing touches the tail at (2, 2)
        54: [POSITIVE, IGNORED, ELSEWHERE],
        11: [ELSEWHERE, ELSEWHERE, NEGATIVE],  # (1, 3) is two columns from the wing at (1, 1)
        18: [IGNORED, IGNORED, NEGATIVE],  # (2, 2) touches the wing
    }


def test_two_pictures_two_sizes_and_background() -> None:
    annotations = annotate([(0, 0, 50, 50), (1, 0, 50, 50)], [[1, 0, -1], [0, 1, -1]])
    sizes = np.array([[100, 100], [400, 200]])
    patches = sample_patches(annotations, sizes, (8, 8), 3, np.random.default_rng(0))
    parts, background = (patches._make(field[rows] for field in patches) for rows in (slice(2), slice(2, 8)))
    assert parts.position.tolist() == [4 * 8 + 4, 2 * 8 + 1]
    assert parts.labels.tolist() == [[POSITIVE, NEGATIVE, ELSEWHERE], [NEGATIVE, POSITIVE, ELSEWHERE]]
    assert background.image.tolist() == [0, 0, 0, 1, 1, 1]
    assert (background.labels == ELSEWHERE).all()
    row, column = background.position // 8, background.position % 8
    centre = np.array([[4, 4], [2, 1]])[background.image]
    assert (np.maximum(abs(row - centre[:, 0]), abs(column - centre[:, 1])) >= 2).all()


def test_positions_on_the_grid_follow_the_resize() -> None:
    """A point of a wide picture falls into the patch of the resized picture that shows it; points outside are moved."""
    located = [(0, 0, 0, 0), (0, 0, 250, 150), (0, 0, 499, 299), (0, 0, 600, -5)]
    annotations = annotate(located, [[1, 0, -1]])
    patches = sample_patches(annotations, np.array([[500, 300]]), (14, 14), 0, np.random.default_rng(0))
    assert patches.position.tolist() == [0, 13, 7 * 14 + 7, 195]


def test_unreadable_pictures_have_no_patches() -> None:
    annotations = annotate([(0, 0, 5, 5), (1, 0, 5, 5)], [[1, 0, -1], [1, 0, -1]])
    patches = sample_patches(annotations, np.array([[0, 0], [10, 10]]), (4, 4), 2, np.random.default_rng(0))
    assert set(patches.image.tolist()) == {1}


def test_weights_are_balanced_and_follow_certainty() -> None:
    labels = np.array([[POSITIVE], [POSITIVE], [NEGATIVE], [NEGATIVE], [ELSEWHERE], [IGNORED]])
    certainty = np.array([[1.0], [0.5], [0.75], [0.25], [1.0], [1.0]])
    found = balance_weights(labels, certainty)[:, 0]
    assert found.tolist() == pytest.approx([1 / 3, 1 / 6, -0.75 / 4, -0.25 / 4, -0.25, 0])
    assert balance_weights(np.array([[POSITIVE], [NEGATIVE]]), np.ones((2, 1)))[:, 0].tolist() == [0.5, -0.5]
    assert not balance_weights(np.array([[NEGATIVE], [ELSEWHERE]]), np.ones((2, 1))).any()


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(900, 40)) @ rng.normal(size=(40, 40)) + 3).astype(np.float32)
    is_present = rng.random((900, 5)) < expit((X - 3) @ rng.normal(size=(40, 5)) / 6 - [0, 0, 1, 2, 3])
    weights = np.where(is_present, 0.5 / is_present.sum(axis=0), -0.5 / (~is_present).sum(axis=0)).astype(np.float32)
    return X, is_present, weights


@pytest.mark.parametrize("ridge", [1.0, 0.01, 0.0001])
def test_classifiers_equal_scikit_learn(problem, ridge: float) -> None:
    X, is_present, weights = problem
    found = fit_classifiers(X, weights, X, weights, (1.0, 0.01, 0.0001)[: (1.0, 0.01, 0.0001).index(ridge) + 1])
    only = fit_classifiers(X, weights, X, weights, (ridge,))
    scale = np.sqrt(X.var(axis=0).mean())
    for k in range(5):
        reference = LogisticRegression(C=1 / ridge, tol=1e-8, max_iter=5000)
        reference.fit((X - X.mean(axis=0)) / scale, is_present[:, k], sample_weight=np.abs(weights[:, k]))
        expected = reference.decision_function((X - X.mean(axis=0)) / scale)
        score = X @ only.coefficients[k] + only.intercepts[k]
        assert np.abs(score - expected).max() < 0.05 * expected.std() + 0.01
    assert (found.ridges == ridge).all()  # selected on the training rows: the weakest ridge


def test_each_concept_selects_its_ridge() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 60)).astype(np.float32)
    separable = X[:, 0] > 0
    random = rng.random(400) < 0.5
    is_present = np.stack([separable, random], axis=1)
    weights = (np.where(is_present, 1, -1) / 400).astype(np.float32)
    found = fit_classifiers(X[:200], weights[:200], X[200:], weights[200:])
    assert found.ridges[0] < found.ridges[1]
    assert np.mean((X[200:] @ found.coefficients[0] + found.intercepts[0] > 0) == separable[200:]) > 0.88


def test_classifiers_use_the_principal_axes_that_vary() -> None:
    rng = np.random.default_rng(2)
    X = np.zeros((500, 6), dtype=np.float16)
    X[:, 1], X[:, 4] = 5 * rng.normal(size=500), rng.normal(size=500) + 7
    weights = (np.sign(X[:, [4]] - 7) / 500).astype(np.float32)
    found = fit_classifiers(X, weights, X, weights)
    assert np.flatnonzero(found.coefficients[0]).tolist() == [1, 4]
    assert found.coefficients[0, 4] > 10 * np.abs(found.coefficients[0, 1])
    (first,) = fit_classifiers(X, weights, X, weights, max_axes=1).coefficients
    assert np.abs(first[1]) > 10 * np.abs(first[4])  # the axis of the largest variance


def test_calibration_is_a_logistic_regression() -> None:
    rng = np.random.default_rng(3)
    scores = rng.normal(3, 2, size=(20_000, 3))
    truth = (rng.random(scores.shape) < expit(scores * [0.5, 2, -1] - 1)).astype(np.int8)
    truth[:50] = -1
    shares = np.full(3, 0.25)
    found = calibrate(scores, truth, shares)
    reference = LogisticRegression(C=1e6).fit(scores[50:, :1], truth[50:, 0])
    assert found[0] == pytest.approx([reference.coef_[0, 0], reference.intercept_[0]], abs=0.02)
    assert found[1] == pytest.approx([2, -1], abs=0.15)
    assert 0 < found[2, 0] < 0.01  # worse than chance: the slope stays positive
    split = calibrate(np.array([[-1.0], [1.0]]), np.array([[0], [1]]), shares)
    assert np.isfinite(split).all()


@pytest.mark.parametrize("label", [0, 1, -1])
def test_without_both_labels_the_mean_is_the_given_share(label: int) -> None:
    """The maximum of many balanced logits is far above 0 in every picture and needs the shift."""
    scores = np.random.default_rng(4).normal(4, 1, size=(300, 1))
    ((slope, shift),) = calibrate(scores, np.full((300, 1), label), np.array([0.03]))
    assert slope == 1
    assert expit(scores + shift).mean() == pytest.approx(0.03, abs=1e-9)
    assert expit(calibrate(scores[:0], np.zeros((0, 1)), np.array([0.03]))[0, 1]) == pytest.approx(0.03)
    same = calibrate(np.full((5, 1), 2.0), np.zeros((5, 1)), np.array([0.5]))
    assert same.tolist() == [[1.0, pytest.approx(-2.0)]]


def test_the_last_picture_of_a_concept_is_never_held_out() -> None:
    is_positive = np.zeros((100, 3), dtype=bool)
    is_positive[:, 0] = True
    is_positive[7, 1] = is_positive[[7, 8], 2] = True
    for seed in range(50):
        is_held = hold_out(is_positive, 0.2, np.random.default_rng(seed))
        assert is_held.sum() == 20
        assert is_positive[~is_held].any(axis=0).all()
    rng = np.random.default_rng(0)
    common = hold_out(np.ones((100, 3), dtype=bool), 0.2, rng)
    assert np.flatnonzero(common).tolist() == sorted(np.random.default_rng(0).permutation(100)[:20].tolist())


def test_an_unmeasured_concept_gets_the_median_ridge() -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 8)).astype(np.float32)
    weights = (np.sign(X[:, :3]) / 300).astype(np.float32)
    held = weights[200:].copy()
    held[:, 2] = -1 / 100  # no positives
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
