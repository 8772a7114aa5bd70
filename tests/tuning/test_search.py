"""The search: draws from a space, stored trials, interruptions and failures."""

from __future__ import annotations

import logging
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis.tuning.search import best_trial, search

SPACE = {
    "rate": (1e-5, 1.0, "log"),
    "depth": (2, 9),
    "share": (0.0, 1.0),
    "units": [(8,), (16, 4)],
    "kind": ["a", None],
}


def measure(found):
    return found["depth"] + found["share"]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["random", "tpe"]))
def test_draws_are_in_the_space_and_reproducible(seed, sampler):
    first, second = (search(measure, SPACE, n_trials=4, random_state=seed, sampler=sampler) for _ in range(2))
    assert [(t.settings, t.loss) for t in first] == [(t.settings, t.loss) for t in second]
    for trial in first:
        found = trial.settings
        assert 1e-5 <= found["rate"] <= 1
        assert found["depth"] in range(2, 10)
        assert isinstance(found["depth"], int)
        assert 0 <= found["share"] <= 1
        assert found["units"] in SPACE["units"]
        assert found["kind"] in SPACE["kind"]
        assert trial.loss == measure(found)


def test_every_seed_and_trial_draws_different_values():
    rates = {t.settings["rate"] for seed in range(3) for t in search(measure, SPACE, n_trials=5, random_state=seed)}
    assert len(rates) == 15


def test_a_logarithmic_range_is_drawn_uniformly_over_its_decades():
    drawn = [t.settings["rate"] for t in search(lambda _: 0.0, {"rate": (1e-5, 1.0, "log")}, n_trials=300)]
    counts = [sum(10.0**k <= rate < 10.0 ** (k + 1) for rate in drawn) for k in range(-5, 0)]
    assert sum(counts) == 300
    assert all(35 <= count <= 85 for count in counts)  # 60 expected, five standard deviations either way


def test_tpe_is_better_than_random():
    def bowl(found):
        return (math.log10(found["rate"]) + 2.5) ** 2 + (found["share"] - 0.3) ** 2

    best = {kind: best_trial(search(bowl, SPACE, n_trials=60, sampler=kind)).loss for kind in ("random", "tpe")}
    assert best["tpe"] < best["random"]


def test_a_stored_search_continues(tmp_path):
    whole = search(measure, SPACE, n_trials=6)
    calls = []

    def count(found):
        calls.append(found)
        return measure(found)

    first = search(count, SPACE, n_trials=2, storage=tmp_path / "trials")
    second = search(count, SPACE, n_trials=6, storage=tmp_path / "trials")
    assert len(calls) == 6
    assert [t.settings for t in first] == [t.settings for t in whole[:2]]
    assert [(t.number, t.settings, t.loss) for t in second] == [(t.number, t.settings, t.loss) for t in whole]
    assert second[:2] == first  # seconds too
    assert search(count, SPACE, n_trials=3, storage=tmp_path / "trials") == second
    assert len(calls) == 6


KILLED = """
import sys, time
from neuralbasis.tuning.search import search
def measure(found):
    if found["x"] == third:
        print("busy", flush=True)
        time.sleep(60)
    return found["x"]
third = search(lambda f: f["x"], {"x": (0.0, 1.0)}, n_trials=3)[2].settings["x"]
search(measure, {"x": (0.0, 1.0)}, n_trials=5, storage=sys.argv[1])
"""


def test_a_killed_trial_is_repeated(tmp_path):
    path = tmp_path / "trials"
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "busy\n"
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    whole = search(lambda f: f["x"], {"x": (0.0, 1.0)}, n_trials=5)
    found = search(lambda f: f["x"], {"x": (0.0, 1.0)}, n_trials=5, storage=path)
    assert [(t.number, t.settings, t.loss) for t in found] == [(t.number, t.settings, t.loss) for t in whole]
    # Optuna can read the file: five complete trials, and the one that was killed.
    study = optuna.load_study(
        study_name="neuralbasis",
        storage=optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path))),
    )
    assert [t.state.name for t in study.trials] == ["COMPLETE"] * 2 + ["FAIL"] + ["COMPLETE"] * 3


@pytest.mark.parametrize("change", ["space", "random_state", "sampler", "identity"])
def test_a_file_of_another_search_is_refused(change, tmp_path):
    first = {"space": {"x": (0.0, 1.0)}, "random_state": 1, "sampler": "random", "identity": {"rows": "a"}}
    others = {"space": {"x": (0.0, 2.0)}, "random_state": 2, "sampler": "tpe", "identity": {"rows": "b"}}
    search(lambda f: f["x"], n_trials=2, storage=tmp_path / "trials", **first)
    name = "rows" if change == "identity" else change
    with pytest.raises(ValueError, match=f"another search: {name} differ"):
        search(lambda f: f["x"], n_trials=2, storage=tmp_path / "trials", **{**first, change: others[change]})


@pytest.mark.parametrize("text", ["a,b\n1,2\n", '{"a": 1}\n', "[1]\n"])
def test_another_kind_of_file_is_refused_and_unchanged(text, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"table\.csv' is not a file of trials; name a new file"):
        search(lambda f: f["x"], {"x": (0.0, 1.0)}, n_trials=2, storage=path)
    assert path.read_text() == text


def test_failures_are_reported_and_stored(tmp_path):
    def sometimes(found):
        if found["x"] < 0.5:
            raise RuntimeError("too\nsmall")
        return found["x"] if found["x"] < 0.8 else math.inf

    with pytest.warns(UserWarning, match="trial .* failed with (RuntimeError: too small|a loss of inf)"):
        trials = search(sometimes, {"x": (0.0, 1.0)}, n_trials=20, storage=tmp_path / "trials")
    for trial in trials:
        x = trial.settings["x"]
        error = "RuntimeError: too small" if x < 0.5 else None if x < 0.8 else "a loss of inf"
        assert trial.error == error
        assert math.isnan(trial.loss) == (error is not None)
        assert trial.seconds >= 0
    assert {t.error for t in trials} == {"RuntimeError: too small", "a loss of inf", None}
    assert best_trial(trials).loss == min(t.loss for t in trials if t.error is None)
    again = search(sometimes, {"x": (0.0, 1.0)}, n_trials=20, storage=tmp_path / "trials")
    assert [(t.settings, t.error) for t in again] == [(t.settings, t.error) for t in trials]


def test_all_failed():
    def fail(found):
        raise ValueError("no")

    with pytest.warns(UserWarning, match="trial . failed with ValueError: no"):
        trials = search(fail, {"x": [1]}, n_trials=2)
    with pytest.raises(ValueError, match="none of 2 trials succeeded; the last one failed with ValueError: no"):
        best_trial(trials)


def test_the_unchanged_trial_is_the_first_and_its_error_is_raised():
    seen = []
    trials = search(lambda found: seen.append(found) or 1.0, {"x": [1, 2]}, n_trials=3, unchanged=True)
    assert seen[0] == {} == trials[0].settings
    assert all(found["x"] in (1, 2) for found in seen[1:])

    def fail(found):
        raise KeyError("the data")

    with pytest.raises(KeyError, match="the data"):
        search(fail, {"x": [1]}, n_trials=3, unchanged=True)


def test_interrupts_stop_the_search():
    def stop(found):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(stop, {"x": [1]}, n_trials=3)


def test_no_trial_starts_after_the_time_limit():
    assert len(search(measure, SPACE, n_trials=10**6, time_limit=1e-9)) == 1
    assert 1 <= len(search(measure, SPACE, n_trials=10**6, time_limit=0.2)) < 10**6


WRONG = {
    "empty": ({"x": []}, "space of 'x'"),
    "order": ({"x": (2, 1)}, "low < high"),
    "log": ({"x": (0.0, 1.0, "log")}, "above 0"),
    "kind": ({"x": (1.0, 2.0, "square")}, "'square'"),
    "bare": ({"x": 3}, "a list of values"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_spaces(name):
    space, words = WRONG[name]
    with pytest.raises(ValueError, match=words):
        search(measure, space)


@pytest.mark.parametrize(
    ("option", "value"),
    [("n_trials", 0), ("n_trials", 1.5), ("time_limit", -1), ("sampler", "grid"), ("random_state", None)],
)
def test_wrong_limits(option, value):
    with pytest.raises(ValueError, match=f"{option} must be .* not {value!r}"):
        search(measure, SPACE, **{option: value})


def test_the_progress_bar_shows_the_best_loss_and_optuna_logs_nothing(capsys):
    before = optuna.logging.get_verbosity()
    trials = search(measure, SPACE, n_trials=3, verbose=True, time_limit=100)
    printed = capsys.readouterr()
    assert f"best {min(t.loss for t in trials):.5g}, " in printed.err
    assert "s left" in printed.err
    assert "3/3" in printed.err
    assert "Trial" not in printed.err
    assert optuna.logging.get_verbosity() == before == logging.INFO
    search(measure, SPACE, n_trials=2)
    assert capsys.readouterr() == ("", "")


def test_without_optuna(tmp_path: Path):
    (tmp_path / "optuna.py").write_text("raise ImportError('gone')")
    code = "from neuralbasis.tuning.search import search; search(lambda f: 0.0, {'x': [1]})"
    path = os.pathsep.join([str(tmp_path), *sys.path])
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert found.stderr.endswith('ImportError: a search needs optuna: pip install "neuralbasis[tune]"\n')
