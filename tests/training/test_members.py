"""crew: members trained in parts are as if they had been trained together, whatever the threads."""

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor
from neuralbasis.config import make_net
from neuralbasis.data.frames import read_columns
from neuralbasis.data.target import Sample
from neuralbasis.distributed.process_group import SINGLE_PROCESS
from neuralbasis.encoding.encoder import Encoder
from neuralbasis.encoding.layout import lay_out
from neuralbasis.losses.loss import choose_loss
from neuralbasis.networks import MLPBasis, SplineBasis
from neuralbasis.training import loop
from neuralbasis.training import members as module
from neuralbasis.training.batches import share_pool
from neuralbasis.training.engines import ExactEngine, GridEngine
from neuralbasis.training.history import History
from neuralbasis.training.loop import _Watch, train, training_threads
from neuralbasis.training.members import Members, Settings, count_parts
from neuralbasis.training.rows import place_rows, standard_error

QUICK = {"hidden": (16, 16), "n_bases": 8, "outer_bags": 5, "random_state": 0, "max_steps": 40}


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with training_threads():
        yield


def draw(n_rows=300, seed=0):
    X = np.random.default_rng(seed).random((n_rows, 3))
    return X, np.sin(6 * X[:, 0]) + X[:, 1] * (X[:, 2] > 0.5)


def make_problem(threads=1, **parameters):
    X, y = draw()
    estimator = NeuralBasisRegressor(**{**QUICK, **parameters})
    columns, rng = read_columns(X), np.random.default_rng(0)
    encoder, sample = Encoder.fit(columns), Sample(y, np.ones(len(y)))
    layout = lay_out(encoder.axes, [(0,), (1,), (2,), (1, 2)], {2: 9})
    grid = GridEngine(layout, layout.encode(encoder.numbers(columns)), sample.weights, threads)
    objective = choose_loss(sample, None)
    net = make_net(estimator, grid, objective, sample, len(sample.y), rng)
    rows = place_rows(sample, objective, estimator.outer_bags, 0.2, rng, grid.device)
    return SimpleNamespace(net=net, grid=grid, engine=grid, rows=rows, objective=objective, rng=rng)


def run(n_parts, monkeypatch, threads=1, **parameters):
    problem, history = make_problem(threads, **parameters), History()
    monkeypatch.setattr(module, "N_PARTS", n_parts)
    assert train(**vars(problem), settings=Settings(max_steps=60, batch_size=64), history=history)
    return problem.net.table(problem.grid.points).detach(), problem.net.intercept.detach(), history


def test_parts_train_as_the_whole(monkeypatch):
    table, intercept, history = run(1, monkeypatch)
    for n_parts in (2, 3, 5, 8):
        other, other_intercept, other_history = run(n_parts, monkeypatch)
        torch.testing.assert_close(other, table, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(other_intercept, intercept, rtol=1e-3, atol=1e-4)
        assert other_history.validation == pytest.approx(history.validation, rel=1e-4)
        assert other_history.steps == history.steps
    assert table.std() > 0.1


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing(threads, monkeypatch):
    alone, together = (run(2, monkeypatch, t) for t in (1, threads))
    assert torch.equal(alone[0], together[0])
    assert torch.equal(alone[1], together[1])
    assert alone[2].validation == together[2].validation


@pytest.mark.parametrize("kind", [NeuralBasisRegressor, NeuralBasisClassifier])
def test_a_seed_gives_one_model_on_any_number_of_threads(kind):
    X, y = draw()
    y = y if kind is NeuralBasisRegressor else (y > y.mean()).astype(int)
    models = [kind(**QUICK, n_jobs=n_jobs, interactions=[(1, 2)]).fit(X, y) for n_jobs in (1, 2, 4)]
    for model in models[1:]:
        for mine, other in zip(model.term_scores_, models[0].term_scores_, strict=True):
            np.testing.assert_array_equal(mine, other)


def test_members_that_cannot_be_separated_stay_together():
    def count(exact=False, **parameters):
        problem = make_problem(**parameters)
        return count_parts(problem.net, ExactEngine(problem.grid) if exact else problem.grid)

    class Shared(MLPBasis):
        """Says it is separable, and is not."""

        def __init__(self, *given, **options):
            super().__init__(*given, **options)
            self.gain = torch.nn.Parameter(torch.ones(3))

    assert count() == count(basis="spline") == 2
    assert count(outer_bags=1) == 1
    assert count(exact=True) == 1
    assert count(dropout=0.1) == count(basis_dropout=0.1) == 1  # one stream of random numbers
    assert count(basis=lambda order, n, copies, generator: Shared(order, n, copies, generator=generator)) == 1
    assert count(basis=lambda order, n, copies, generator: SplineBasis(order, n, copies)) == 2


def test_a_part_has_its_own_members_rows():
    rows = make_problem().rows
    part = rows.part(1, 3)
    assert torch.equal(part.held_out, rows.held_out[:, 1:3])
    torch.testing.assert_close(part.shares(), rows.shares()[:, 1:3])
    assert part.init is None


def make_crew(threads=1, **settings):
    problem = make_problem(threads)
    known = problem.net, problem.grid, problem.grid, problem.rows, problem.objective
    return Members(*known, Settings(**settings))


def make_pool():
    problem = make_problem()
    return share_pool(problem.grid, problem.rows, SINGLE_PROCESS)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_in_a_part_is_raised(threads, monkeypatch):
    def fail():
        raise RuntimeError("out of luck")

    with make_crew(threads) as crew:
        assert len(crew.parts) == 2
        monkeypatch.setattr(crew.parts[1], "validation_losses", fail)
        with pytest.raises(RuntimeError, match="out of luck"):
            crew.validation_losses()


def test_an_interrupted_crew_leaves_no_part_at_work(monkeypatch):
    def interrupt(*_given):
        raise KeyboardInterrupt

    def work():
        with crew:
            crew.advance(make_pool(), [np.arange(50)] * 5, 1.0)

    crew = make_crew(2, max_steps=50)
    monkeypatch.setattr(crew.parts[0], "move", interrupt)
    with pytest.raises(KeyboardInterrupt):
        work()
    steps = crew.parts[1].step
    time.sleep(0.05)
    assert crew.parts[1].step == steps
    assert not any(thread.is_alive() for thread in crew.threads._threads)


def test_parts_work_at_the_same_time(monkeypatch):
    """Each waits for the other: on one thread this would never end."""
    meeting, seen = threading.Barrier(2, timeout=20), set()

    def meet(*_given):
        meeting.wait()
        seen.add(threading.get_ident())

    with make_crew(2) as crew:
        for part in crew.parts:
            monkeypatch.setattr(part, "move", meet)
        crew.advance(make_pool(), [np.arange(50)], 1.0)
    assert len(seen) == 2
    with make_crew(1) as alone:
        assert alone.threads is None


def test_threads_are_shared_out():
    with make_crew(5) as crew:
        assert [part.grid.threads for part in crew.parts] == [2, 2]
        assert [part.grid.lookup.threads for part in crew.parts] == [2, 2]


def test_what_was_kept_comes_back():
    with make_crew(max_steps=20) as crew:
        for _ in range(2):
            crew.advance(make_pool(), [np.arange(50)] * 5, 1.0)
            assert {part.step for part in crew.parts} == {crew.steps}
            if crew.steps == 5:
                crew.keep()
                losses = crew.validation_losses()
        assert not torch.equal(crew.validation_losses(), losses)
        crew.restore()
    problem = make_problem()
    with Members(crew.net, problem.grid, problem.grid, problem.rows, problem.objective, Settings()) as again:
        torch.testing.assert_close(again.validation_losses(), losses, rtol=1e-5, atol=1e-7)


def test_a_time_limit_ends_all_members_at_one_step(monkeypatch):
    found = []

    class Seen(Members):
        def __init__(self, *given):
            super().__init__(*given)
            found.append(self)

    monkeypatch.setattr(loop, "Members", Seen)
    X, y = draw()
    model = NeuralBasisRegressor(**{**QUICK, "max_steps": 10**6}, interactions=0, n_jobs=1, time_limit=0.3).fit(X, y)
    assert model.history_.stopped_by == "time_limit"
    (crew,) = found
    assert {part.step for part in crew.parts} == {crew.steps} == {model.history_.steps[-1]}
    assert crew.steps > 10


@pytest.mark.parametrize(("gain", "kept"), [(0.4, False), (0.7, True), (1.5, True), (-1.0, False)])
def test_a_later_stage_must_gain_half_a_standard_error(gain, kept):
    rng = np.random.default_rng(0)
    noise = torch.from_numpy(rng.normal(size=100))
    noise = noise - noise.mean()
    fall = noise + gain * standard_error(noise) / 100
    watch = SimpleNamespace(
        crew=SimpleNamespace(validates=True), before=1, losses_before=fall, best_losses=torch.zeros(100)
    )
    assert _Watch.improved.fget(watch) is kept
