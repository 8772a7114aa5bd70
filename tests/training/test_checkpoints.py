"""Checkpoints: a resumed fit gives the model of an uninterrupted one; damaged and forged files are refused."""

from __future__ import annotations

import resource
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from benchmarks.robustness.checkpoints import run as fuzz
from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor
from neuralbasis.serialization import DocumentError, read_nested, write_archive, write_nested
from neuralbasis.training import CheckpointError
from tests.checkpoints import list_checkpoints

SMALL = {"n_jobs": 1, "outer_bags": 2, "max_steps": 60}
NETWORK = {
    "network__hidden": (16, 16),
    "network__n_bases": 8,
    "network__n_interaction_bases": 4,
}  # a wide table has a network of its own


class Interrupted(Exception):
    """The process was killed."""


class InterruptAt:
    """A callback that interrupts a fit at the n-th checkpoint of the history."""

    def __init__(self, count: int):
        self.count = count

    def __call__(self, history) -> bool:
        if len(history.steps) >= self.count:
            raise Interrupted
        return False


def draw(kind: str) -> tuple:
    rng = np.random.default_rng(7)
    X = rng.random((700, 3))
    score = np.sin(5 * X[:, 0]) + 3 * X[:, 1] * X[:, 2] + rng.normal(0, 0.3, 700)
    if kind == "present":
        table = scipy.sparse.random(300, 1500, 0.01, "csr", random_state=0, data_rvs=lambda n: rng.integers(1, 4, n))
        return table, np.asarray(table[:, :40].sum(axis=1)).ravel().astype(int) % 3
    if kind == "wide":
        table = scipy.sparse.random(300, 21_000, 0.001, "csr", random_state=0, data_rvs=lambda n: rng.integers(1, 4, n))
        return table, np.asarray(table[:, :40].sum(axis=1)).ravel() + rng.normal(0, 0.1, 300)
    return X, score if kind == "regression" else np.digitize(score, [0.5, 1.5] if kind == "classes" else [1.0])


FITS = {
    "regression": (NeuralBasisRegressor, {"interactions": [(1, 2)]}),
    "binary": (NeuralBasisClassifier, {"interactions": 1, "network__dropout": 0.1}),
    "classes": (
        NeuralBasisClassifier,
        {"interactions": 1, "network__staged": False, "smoothness": 0, "network__engine": "exact"},
    ),
    "present": (
        NeuralBasisClassifier,
        {"network": "paper", "network__dropout": 0.1, "network__basis_dropout": 0.1, "network__weight_decay": 0.1},
    ),
    "wide": (NeuralBasisRegressor, {"preset": "fast", "max_steps": "auto"}),
}


def make(kind: str, folder: Path | None = None, **others):
    estimator, parameters = FITS[kind]
    network = {} if kind == "wide" else NETWORK
    return estimator(
        **SMALL | network | parameters | {"storage__checkpoint_dir": folder, "storage__checkpoint_every": 0.0} | others
    )


def interrupt(kind: str, folder: Path, count: int, **others) -> None:
    with pytest.raises(Interrupted):
        make(kind, folder, callbacks=[InterruptAt(count)], **others).fit(*draw(kind))


def assert_same(one, other, X) -> None:
    np.testing.assert_array_equal(one.model_.scores(X), other.model_.scores(X))
    assert one.history_.validation == other.history_.validation
    for shape, same in zip(one.model_.shapes[:20], other.model_.shapes[:20], strict=True):
        np.testing.assert_array_equal(shape.scores, same.scores)
        np.testing.assert_array_equal(shape.spread, same.spread)


@pytest.mark.parametrize("kind", FITS)
def test_a_fit_that_is_interrupted_twice_gives_the_same_model(kind, tmp_path):
    X, y = draw(kind)
    whole = make(kind).fit(X, y)
    n_checkpoints = len([stage for stage in whole.history_.stage if stage != "shares"])
    for count in (max(2, n_checkpoints // 4), n_checkpoints - 1):  # in the first run, and in the last
        with pytest.raises(Interrupted):
            make(kind, tmp_path, callbacks=[InterruptAt(count)]).fit(X, y, resume=len(list_checkpoints(tmp_path)) > 0)
        assert 1 <= len(list_checkpoints(tmp_path)) <= 2
    assert_same(make(kind, tmp_path).fit(X, y, resume=True), whole, X)


def test_a_drawn_seed_is_kept(tmp_path):
    X, y = draw("regression")
    random = np.random.RandomState(5)
    with pytest.raises(Interrupted):
        make("regression", tmp_path, random_state=random, callbacks=[InterruptAt(9)]).fit(X, y)
    resumed = make("regression", tmp_path, random_state=random).fit(X, y, resume=True)
    whole = make("regression", random_state=np.random.RandomState(5)).fit(X, y)
    np.testing.assert_array_equal(resumed.predict(X), whole.predict(X))


def test_time_before_an_interruption_counts(tmp_path):
    interrupt("regression", tmp_path, 9)
    content = read_nested(list_checkpoints(tmp_path)[-1])
    content["under_way"]["stopping"]["history"]["passed"] = 1000.0
    write_nested(tmp_path / "fit-000999.checkpoint", content)
    stopped = make("regression", tmp_path, time_limit=900.0).fit(*draw("regression"), resume=True)
    assert stopped.history_.stopped_by == "time_limit"


def test_a_finished_fit_is_read_again_and_replaced_by_another(tmp_path):
    X, y = draw("regression")
    whole = make("regression", tmp_path).fit(X, y)
    assert len(list_checkpoints(tmp_path)) == 2
    before = [path.name for path in list_checkpoints(tmp_path)]
    again = make("regression", tmp_path, callbacks=[InterruptAt(0)]).fit(X, y, resume=True)  # nothing is trained
    assert_same(again, whole, X)
    other = make("regression", tmp_path).fit(X, y + 1, resume=True)
    np.testing.assert_allclose(other.predict(X), whole.predict(X) + 1, atol=0.05)
    assert set(before).isdisjoint(path.name for path in list_checkpoints(tmp_path))


def test_a_fit_after_a_finished_one_has_its_own_seed(tmp_path):
    X, y = draw("regression")
    make("regression", tmp_path, random_state=1).fit(X, y)
    other = make("regression", tmp_path, random_state=2).fit(X, y, resume=True)
    assert_same(other, make("regression", random_state=2).fit(X, y), X)


@pytest.mark.parametrize(
    ("others", "change", "words"),
    [
        ({"learning_rate": 0.01}, lambda X, y: (X, y), "learning_rate=0.02 instead of 0.01"),
        ({}, lambda X, y: (X[:-1], y[:-1]), "rows 700 instead of 699"),
        ({}, lambda X, y: (X, y + 1), "other values"),
        ({"feature_names": ["a", "b", "c"]}, lambda X, y: (X, y), "of other columns: a, b, c"),
    ],
)
def test_the_checkpoint_of_another_fit_is_refused(tmp_path, others, change, words):
    interrupt("regression", tmp_path, 3)
    X, y = change(*draw("regression"))
    with pytest.raises(ValueError, match=words):
        make("regression", tmp_path, **others).fit(X, y, resume=True)
    make("regression", tmp_path, max_steps=2, **others).fit(X, y)  # but it may be replaced


def test_resuming_without_a_checkpoint_starts_from_the_beginning(tmp_path):
    X, y = draw("regression")
    with pytest.warns(UserWarning, match="no checkpoint in .* starts from the beginning"):
        found = make("regression", tmp_path).fit(X, y, resume=True)
    np.testing.assert_array_equal(found.predict(X), make("regression").fit(X, y).predict(X))
    with pytest.raises(ValueError, match="give checkpoint_dir"):
        make("regression").fit(X, y, resume=True)


@pytest.mark.parametrize("size", [0, 100, -1])
def test_a_damaged_file_is_skipped_for_the_one_before(tmp_path, size):
    X, y = draw("regression")
    interrupt("regression", tmp_path, 6)
    newest = list_checkpoints(tmp_path)[-1]
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 255
    newest.write_bytes(data[:size] if size >= 0 else data)
    with pytest.raises(DocumentError):
        read_nested(newest)
    with pytest.warns(UserWarning, match=newest.name):
        resumed = make("regression", tmp_path).fit(X, y, resume=True)
    np.testing.assert_array_equal(resumed.predict(X), make("regression").fit(X, y).predict(X))
    assert newest.name not in [path.name for path in list_checkpoints(tmp_path)]


def test_a_full_disk_does_not_stop_training(tmp_path):
    """Files of more than a kilobyte are refused, as by a full disk."""
    X, y = draw("regression")
    interrupt("regression", tmp_path, 3)
    good = [path.read_bytes() for path in list_checkpoints(tmp_path)]
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, usual[1]))
    try:
        with pytest.warns(UserWarning, match="training goes on"):
            full = make("regression", tmp_path).fit(X, y)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == good
    assert_same(make("regression", tmp_path).fit(X, y, resume=True), full, X)


def test_partial_files_of_a_killed_process_are_removed(tmp_path):
    (tmp_path / ".fit-000001.checkpoint.0badcafe.part").write_bytes(b"half")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make("regression", tmp_path, max_steps=2, interactions=0).fit(*draw("regression"))
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".checkpoint"] * 2


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"checkpoint_dir=.*file"):
        make("regression", tmp_path / "file" / "folder").fit(*draw("regression"))


@pytest.fixture(scope="module")
def interrupted_fit(tmp_path_factory) -> Path:
    """The last checkpoint of an interrupted fit."""
    folder = tmp_path_factory.mktemp("interrupted")
    interrupt("regression", folder, 6)
    return list_checkpoints(folder)[-1]


def alter(source: Path, folder: Path, change) -> None:
    """A changed copy of a checkpoint in a folder, with right checksums."""
    content = read_nested(source)
    change(content)
    write_nested(folder / source.name, content)


def set_in(content, *keys_and_value) -> None:
    *keys, last, value = keys_and_value
    for key in keys:
        content = content[key]
    content[... if last == "all" else last] = value


def twist(left: int, following: int) -> np.ndarray:
    """A state of torch's generator that it would accept."""
    state = torch.get_rng_state().numpy().copy()
    state[8:12], state[16:24] = np.int32([left]).view(np.uint8), np.uint64([following]).view(np.uint8)
    return state


RUN, BATCHES, GROUP = ("under_way",), ("under_way", "batches"), ("under_way", "learners", "groups", 0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ((*BATCHES, "left", np.array([10**9])), "a row number is out of range: the pool has 700 rows"),
        ((*BATCHES, "left", np.array([-1])), "a row number is out of range"),
        ((*BATCHES, "left", np.zeros(300, np.int64)), "a row number occurs too often"),
        ((*BATCHES, "left", np.zeros(3)), r"\['left'\] is float64 \(3,\), but int64 of one dimension was expected"),
        ((*BATCHES, "n_drawn", 10**6), "number of batches is out of range"),
        ((*BATCHES, "n_pools", 0), "number of batches or pools is out of range"),
        ((*BATCHES, "steps_left", -1), "number of steps is out of range"),
        ((*RUN, "rng", "state", {"state": -1, "inc": 1}), "a random generator is wrong"),
        ((*RUN, "dropout", twist(624, 624)), "torch's generator is wrong"),
        ((*RUN, "dropout", twist(0, 0)), "torch's generator is wrong"),
        ((*GROUP, "kept", np.zeros(3, np.float32)), r"\['kept'\] is float32 \(3,\), but float32 \(\d+,\) was expected"),
        ((*GROUP, "penalty", {}), r"\['penalty'\] is a dict of \[\], but a dict of \['bend', 'ridge', 'smooth'\]"),
        ((*GROUP, "optimizer", "steps", -1), "groups differ in steps"),
        ((*GROUP, "kept", "all", np.inf), "the best values are not finite"),
        (("under_way", "learners", "groups", []), "is a list of 0, but a list of 2 was expected"),
        (("under_way", "stopping", "history", "best", 10**6), "the history is not one of a fit"),
        (("under_way", "stopping", "noise", float("nan")), "a loss is out of range"),
        (("under_way", "stopping", {}), r"\['stopping'\] is a dict of \[\]"),
        (("choices", "seed", -1), "its seed is -1"),
        (("choices", "seed", "1"), "its seed is '1'"),
    ],
)  # fmt: skip
def test_an_altered_state_is_refused(interrupted_fit, tmp_path, change, words):
    alter(interrupted_fit, tmp_path, lambda content: set_in(content, *change))
    with pytest.raises(
        CheckpointError, match=rf"fit-\d+\.checkpoint is damaged.*{words}.*remove the file.*resume=False"
    ):
        make("regression", tmp_path).fit(*draw("regression"), resume=True)
    assert [path.name for path in tmp_path.iterdir()] == [
        interrupted_fit.name
    ]  # it stays, and the folder is free again


@pytest.mark.parametrize("part", ["fit", "over", "under_way", "is_done", "choices"])
def test_a_file_without_a_part_is_skipped(interrupted_fit, tmp_path, part):
    alter(interrupted_fit, tmp_path, lambda content: content.pop(part))
    X, y = draw("regression")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="cannot be read"):
            make("regression", tmp_path).fit(X, y, resume=True)  # the folder is free again after it
    with (
        pytest.warns(UserWarning, match=rf"cannot be read.*{part}"),
        pytest.warns(UserWarning, match="starts from the beginning"),
    ):
        make("regression", tmp_path, max_steps=2).fit(X, y, resume=True)


def test_a_parameter_missing_in_the_checkpoint_is_named(interrupted_fit, tmp_path):
    alter(interrupted_fit, tmp_path, lambda content: content["fit"]["parameters"].pop("max_bins"))
    with pytest.raises(CheckpointError, match=r"checkpoint of another fit \(with max_bins="):
        make("regression", tmp_path).fit(*draw("regression"), resume=True)


def test_a_checkpoint_of_another_format_is_named(tmp_path):
    write_archive(tmp_path / "fit-000001.checkpoint", {"state.json": b'{"format": 1}', "arrays.npz": b""})
    with (
        pytest.warns(UserWarning, match="cannot be read.*written by another version"),
        pytest.warns(UserWarning, match="starts from the beginning"),
    ):
        make("regression", tmp_path, max_steps=2).fit(*draw("regression"), resume=True)


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (b'{"format": 2, "a": {"array": ["<f8", [1000000000000]]}}', bytes(8)),
        (b'{"format": 2, "a": {"array": ["<f8", [-1]]}}', b""),
        (b'{"format": 2, "a": {"array": ["|O", [1]]}}', bytes(8)),
        (b'{"format": 2, "a": {"array": 0}}', bytes(8)),
        (b'{"format": 2}', bytes(8)),
        (b'{"format": 2, "a": ' + b"[" * 100_000, b""),
        (b'{"format": 2, "a": [' + b"[]," * 5_000_000 + b"[]]}", b""),
        (b"[]", b""),
        (b'"format"', b""),
    ],
    ids=["too large", "negative", "objects", "number", "too many bytes", "deep", "many", "list", "text"],
)
def test_a_file_that_declares_more_than_it_holds_is_refused(tmp_path, text, data):
    write_archive(tmp_path / "fit-000001.checkpoint", {"state.json": text, "arrays.bin": data})
    with pytest.raises(DocumentError):
        read_nested(tmp_path / "fit-000001.checkpoint")


def test_a_folder_that_another_fit_writes_to_is_refused(tmp_path):
    X, y = draw("regression")
    seen = []

    def intrude(_history) -> bool:
        if not seen:
            with pytest.raises(CheckpointError, match=r"another fit is writing to checkpoint_dir=.* give another"):
                make("regression", tmp_path, max_steps=2).fit(X, y)
            seen.append(True)
        return False

    found = make("regression", tmp_path, callbacks=[intrude]).fit(X, y)
    assert seen
    assert_same(found, make("regression").fit(X, y), X)
    make("regression", tmp_path, max_steps=2).fit(X, y)


def test_a_fit_interrupted_after_early_stopping_does_not_train_on(tmp_path):
    """Early stopping was recorded, and the process died before the run was closed."""
    X, y = draw("regression")
    given = {"early_stopping_rounds": 1, "interactions": 0, "max_steps": 200}
    whole = make("regression", **given).fit(X, y)
    assert "early_stopping" in whole.history_.stopped_by
    make("regression", tmp_path, **given).fit(X, y)
    path = list_checkpoints(tmp_path)[-1]
    content = read_nested(path)
    content |= {"over": [], "under_way": content["over"][0], "is_done": False}
    write_nested(path, content)
    assert_same(make("regression", tmp_path, **given).fit(X, y, resume=True), whole, X)


def test_altered_checkpoints_are_refused_or_resumed_but_never_crash():
    found = fuzz(["pairs", "wide", "files"], 15)
    failed = {case: outcome for cases in found.values() for case, outcome in cases.items() if outcome[0] == "FAILED"}
    assert failed == {}
    outcomes = [outcome for cases in found.values() for outcome, _, _ in cases.values()]
    assert len(outcomes) == 15
    assert outcomes.count("error") >= 3


PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
NUMBERS = arrays.arrays(st.sampled_from([np.float32, np.float64, np.int64, np.uint8]), arrays.array_shapes(min_side=0))


@settings(deadline=None, max_examples=40)
@given(st.dictionaries(st.text("abc", min_size=1), st.recursive(PLAIN | NUMBERS, st.lists, max_leaves=8)))
def test_files_hold_plain_values_and_arrays(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("files") / "fit-000001.checkpoint"
    write_nested(path, content)
    np.testing.assert_equal(read_nested(path), content)
