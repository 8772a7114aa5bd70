"""Losses: against scikit-learn, slopes against autograd, the best constant score, the unit of a regression."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from sklearn.metrics import log_loss, mean_squared_error

from neuralbasis.data import Sample
from neuralbasis.losses import CrossEntropy, LogLoss, Loss, SquaredError, bound_curvature, choose_loss, inverse_link

pytestmark = pytest.mark.usefixtures("one_torch_thread")
seeds = st.integers(0, 2**32 - 1)
TASKS = {"regression": SquaredError(), "binary": LogLoss(), "multiclass": CrossEntropy(4)}


def draw_target(rng, task, n_rows):
    if task == "regression":
        return rng.normal(50, 7, n_rows)
    n_classes = 2 if task == "binary" else 4
    return np.r_[np.arange(n_classes), rng.integers(0, n_classes, n_rows - n_classes)]


def draw_sample(seed, task, n_rows=30, with_init=False):
    rng = np.random.default_rng(seed)
    init = rng.normal(size=(n_rows, TASKS[task].n_outputs)) if with_init else None
    return Sample(draw_target(rng, task, n_rows), rng.random(n_rows) + 0.05, init)


def row_losses(loss, scores, y):
    """(N, K), (N,) -> (N,) in double precision."""
    target = loss.encode(y)
    target = target if target.dtype == torch.int64 else target.double()
    return loss.loss(torch.as_tensor(scores)[:, None, :], target)[:, 0].numpy()


# Losses


@settings(deadline=None)
@given(seeds, st.integers(5, 40))
def test_losses_are_scikit_learn_s(seed, n_rows):
    rng = np.random.default_rng(seed)
    weights = rng.random(n_rows) + 0.05
    y, scores = rng.normal(size=n_rows).astype(np.float32), rng.normal(size=(n_rows, 1))
    mine = np.average(row_losses(SquaredError(), scores, y), weights=weights)
    assert mine == pytest.approx(mean_squared_error(y, scores[:, 0], sample_weight=weights) / 2)
    for task in ("binary", "multiclass"):
        loss, y = TASKS[task], draw_target(rng, task, n_rows)
        scores = rng.normal(0, 3, (n_rows, loss.n_outputs))
        proba = inverse_link(loss.link, scores)
        mine = np.average(row_losses(loss, scores, y), weights=weights)
        assert mine == pytest.approx(log_loss(y, proba, sample_weight=weights), rel=1e-6)


@pytest.mark.parametrize("task", TASKS)
def test_members_are_scored_one_by_one(task):
    loss, rng = TASKS[task], np.random.default_rng(0)
    y, scores = draw_target(rng, task, 6), torch.from_numpy(rng.normal(size=(6, 3, loss.n_outputs)))
    together = loss.loss(scores, loss.encode(y))
    assert together.shape == (6, 3)
    for member in range(3):
        alone = loss.loss(scores[:, [member]], loss.encode(y))[:, 0]
        torch.testing.assert_close(together[:, member], alone, rtol=1e-12, atol=1e-12)


def test_losses_by_hand():
    assert row_losses(SquaredError(), np.array([[3.0]]), np.array([1.0])).tolist() == [2.0]
    zero = np.zeros((2, 1))
    np.testing.assert_allclose(row_losses(LogLoss(), zero, np.array([0, 1])), np.log(2))
    np.testing.assert_allclose(row_losses(CrossEntropy(4), np.zeros((1, 4)), np.array([2])), np.log(4))


@pytest.mark.parametrize("score", [-1e4, -50.0, 50.0, 1e4])
def test_losses_of_certain_scores_stay_finite(score):
    binary = row_losses(LogLoss(), np.full((2, 1), score), np.array([0, 1]))
    np.testing.assert_allclose(binary, [max(score, 0), max(-score, 0)], atol=1e-12)
    multi = row_losses(CrossEntropy(3), np.array([[score, 0.0, 0.0]]), np.array([0]))
    np.testing.assert_allclose(multi, max(-score, 0) + (np.log(2) if score < 0 else 0), atol=1e-12)


def test_two_classes_are_the_difference_of_two_scores():
    rng = np.random.default_rng(0)
    scores, y = rng.normal(size=(20, 2)), rng.integers(0, 2, 20)
    one = row_losses(LogLoss(), scores[:, [1]] - scores[:, [0]], y)
    np.testing.assert_allclose(one, row_losses(CrossEntropy(2), scores, y), rtol=1e-9)


# The best constant


@settings(deadline=None, max_examples=20)
@given(seeds)
def test_first_score_minimises_the_weighted_loss_of_two_classes(seed):
    sample = draw_sample(seed, "binary")
    loss = LogLoss()

    def mean_loss(score):
        return np.average(row_losses(loss, np.full((30, 1), score), sample.y), weights=sample.weights)

    best = minimize_scalar(mean_loss, (-1.0, 1.0)).x
    (first,) = loss.first_score(sample)
    assert first == pytest.approx(best, abs=1e-4)
    assert 1 / (1 + np.exp(-first)) == pytest.approx(np.average(sample.y, weights=sample.weights))


@settings(deadline=None, max_examples=10)
@given(seeds)
def test_first_scores_minimise_the_weighted_loss_of_many_classes(seed):
    sample = draw_sample(seed, "multiclass")
    loss = CrossEntropy(4)

    def mean_loss(scores):
        return np.average(row_losses(loss, np.tile(scores, (30, 1)), sample.y), weights=sample.weights)

    best = minimize(mean_loss, np.zeros(4), tol=1e-10).x
    first = loss.first_score(sample)
    assert first.sum() == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(first, best - best.mean(), atol=1e-3)


@settings(deadline=None, max_examples=20)
@given(seeds)
def test_zero_minimises_the_weighted_squared_error_in_its_unit(seed):
    sample = draw_sample(seed, "regression")
    loss = SquaredError.of(sample)
    target = loss.encode(sample.y).numpy()
    assert np.average(target, weights=sample.weights) == pytest.approx(0, abs=1e-6)
    assert np.average(target**2, weights=sample.weights) == pytest.approx(1, abs=1e-5)
    assert loss.first_score(sample).tolist() == [0.0]


def test_a_class_without_rows_gets_a_finite_score():
    first = CrossEntropy(3).first_score(Sample(np.array([0, 0, 1]), np.ones(3)))
    assert np.isfinite(first).all()
    assert first.argmin() == 2


@pytest.mark.parametrize("task", TASKS)
def test_the_first_score_is_zero_with_given_scores(task):
    sample = draw_sample(1, task, with_init=True)
    assert TASKS[task].first_score(sample).tolist() == [0.0] * TASKS[task].n_outputs


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_given_scores_of_classes_are_not_scaled(task):
    sample = draw_sample(1, task, with_init=True)
    encoded = TASKS[task].encode_init(sample.init)
    assert encoded.dtype == torch.float32
    np.testing.assert_allclose(encoded, sample.init, rtol=1e-6)


# The unit of a regression


@settings(deadline=None)
@given(seeds, st.floats(1e-6, 1e6), st.floats(-1e6, 1e6), st.booleans())
def test_unit_and_shift_are_undone(seed, scale, middle, with_init):
    sample = draw_sample(seed, "regression", with_init=with_init)
    y = middle + scale * (sample.y - 50)
    init = None if sample.init is None else scale * sample.init
    loss = SquaredError.of(Sample(y, sample.weights, init))
    rest = loss.encode(y).double().numpy()
    if init is not None:
        rest = rest - loss.encode_init(init).double().numpy()[:, 0]
    # score · unit + shift + given score is the target again
    back = rest * loss.unit + loss.shift + (0 if init is None else init[:, 0])
    np.testing.assert_allclose(back, y, rtol=1e-6, atol=1e-5 * loss.unit)
    remainder = y if init is None else y - init[:, 0]
    assert loss.shift == pytest.approx(np.average(remainder, weights=sample.weights))
    variance = np.average((remainder - loss.shift) ** 2, weights=sample.weights)
    assert loss.unit == pytest.approx(np.sqrt(variance))


@pytest.mark.parametrize("value", [0.0, 3.0, -1e9])
def test_a_constant_target_does_not_divide_by_zero(value):
    loss = SquaredError.of(Sample(np.full(8, value), np.ones(8)))
    assert (loss.shift, loss.unit) == (value, 1.0)
    assert loss.encode(np.full(8, value)).tolist() == [0.0] * 8


@settings(deadline=None)
@given(st.floats(-1e6, 1e6), seeds)
def test_a_constant_target_with_rounding_stays_finite(value, seed):
    weights = np.random.default_rng(seed).random(9) + 0.01
    loss = SquaredError.of(Sample(np.full(9, value), weights))
    encoded = loss.encode(np.full(9, value)).double().numpy()
    assert np.isfinite(encoded).all()
    np.testing.assert_allclose(encoded * loss.unit + loss.shift, value, rtol=1e-9, atol=1e-300)


# Choice


def test_classes_choose_the_loss():
    sample = Sample(np.array([1.0, 3.0]), np.ones(2))
    chosen = choose_loss(sample, None)
    assert isinstance(chosen, SquaredError)
    assert (chosen.shift, chosen.unit, chosen.n_outputs, chosen.link) == (2.0, 1.0, 1, "identity")
    labels = Sample(np.array([0, 1]), np.ones(2))
    two = choose_loss(labels, np.array(["a", "b"]))
    assert (type(two), two.n_outputs, two.link, two.unit, two.shift) == (LogLoss, 1, "logit", 1.0, 0.0)
    three = choose_loss(labels, np.array([3, 5, 9]))
    assert (type(three), three.n_outputs, three.link) == (CrossEntropy, 3, "mlogit")


def test_the_interface_is_abstract():
    loss = Loss()
    for call in (lambda: loss.encode(np.zeros(1)), lambda: loss.loss(None, None)):
        with pytest.raises(NotImplementedError):
            call()
    with pytest.raises(NotImplementedError):
        loss.first_score(Sample(np.zeros(1), np.ones(1)))


def test_information_is_the_variance_of_the_label_against_its_largest():
    y = np.array([1] + [0] * 9)
    assert LogLoss().information(Sample(y, np.ones(10))) == pytest.approx(4 * 0.1 * 0.9)
    assert LogLoss().information(Sample(y, np.r_[9.0, np.ones(9)])) == pytest.approx(1.0)
    assert SquaredError().information(Sample(y.astype(float), np.ones(10))) == 1.0


@pytest.mark.parametrize("loss", [SquaredError(), LogLoss(), CrossEntropy(4)], ids=lambda o: type(o).__name__)
def test_slope_is_the_derivative_of_the_loss(loss):
    rng = np.random.default_rng(0)
    scores = torch.from_numpy(rng.normal(size=(20, 3, loss.n_outputs)))
    y = rng.integers(0, max(2, loss.n_outputs), 20)
    target = torch.from_numpy(y if isinstance(loss, CrossEntropy) else y.astype(float))
    by_autograd = Loss.slope(loss, scores, target)
    torch.testing.assert_close(loss.slope(scores, target), by_autograd)


@given(st.floats(-20, 20), st.floats(-20, 20))
def test_the_bound_of_the_curvature_makes_a_parabola_above_the_log_loss(at, score):
    start = torch.tensor([at, -at], dtype=torch.float64)
    share = start.sigmoid()
    curvature = bound_curvature(share * (1 - share))
    assert (curvature >= share * (1 - share) - 1e-9).all()
    move = score - start
    parabola = torch.nn.functional.softplus(start) + share * move + curvature * move**2 / 2
    assert (parabola >= torch.nn.functional.softplus(torch.tensor(score, dtype=torch.float64)) - 1e-6).all()
