"""Fits and predictions on a Ray cluster of two nodes on this machine, started once for the whole module."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, distributed

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'neuralbasis[ray]'")
pytest.importorskip("ray.train", reason="Ray Train is not installed: pip install 'neuralbasis[ray]'")
pytest.importorskip("ray.data", reason="Ray Data is not installed: pip install 'neuralbasis[ray]'")

pytestmark = [
    pytest.mark.filterwarnings("ignore::ray.util.annotations.RayDeprecationWarning"),  # raised inside Ray
    pytest.mark.filterwarnings(r"ignore::DeprecationWarning:ray\."),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # sockets and logs of Ray's processes
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # the same, reported late
]
NODE = {"num_cpus": 2, "object_store_memory": 80 << 20}
FEATURES = ["x", "z", "colour"]
N_ROWS = 24_000
MEMORY = 720_000_000  # little more than Python and torch use: rows go through the disk cache


@pytest.fixture(scope="module", autouse=True)
def cluster():
    from ray.cluster_utils import Cluster

    os.environ["RAY_TRAIN_HEALTH_CHECK_INTERVAL_S"] = "0.1"  # delay of Ray's reaction to a report or a failure
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import the tests
    head = {**NODE, "include_dashboard": False, "_system_config": {"worker_niceness": 0}}  # else starved
    nodes = Cluster(initialize_head=True, head_node_args=head)
    nodes.add_node(**NODE)
    ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield nodes
    ray.shutdown()
    nodes.shutdown()
    del os.environ["RAY_TRAIN_HEALTH_CHECK_INTERVAL_S"]


def make_table(n_rows: int = 6_000, seed: int = 0) -> pa.Table:
    """Values of few digits, whose sketches are exact."""
    rng = np.random.default_rng(seed)
    x, z = rng.random(n_rows).round(3), rng.normal(size=n_rows).round(2)
    colour = rng.choice(["red", "green", "blue"], n_rows)
    y = np.sin(5 * x) + 0.5 * np.abs(z) + 0.7 * (colour == "red") + 0.2 * rng.normal(size=n_rows)
    return pa.table({"id": np.arange(n_rows), "x": x, "z": z, "colour": colour, "y": y})


@pytest.fixture(scope="module")
def regressor() -> NeuralBasisRegressor:
    table = make_table()
    return NeuralBasisRegressor(preset="fast", interactions=[("x", "z")], max_steps=100).fit(
        table.select(["x", "z", "colour"]), table["y"].to_numpy()
    )


@pytest.fixture(scope="module")
def classifier() -> NeuralBasisClassifier:
    table = make_table()
    return NeuralBasisClassifier(preset="fast", interactions=0, max_steps=100).fit(
        table.select(["x", "z", "y"]), table["colour"].to_numpy()
    )


def read_back(dataset) -> pa.Table:
    return pa.concat_tables(ray.get(dataset.to_arrow_refs())).sort_by("id")


def test_predictions_over_a_dataset_are_those_of_the_model(regressor, tmp_path) -> None:
    table, path = make_table(2_000, 1), tmp_path / "model.nbm"
    regressor.save(path)
    dataset = ray.data.from_arrow([table.slice(0, 700), table.slice(700)])
    outputs = ["prediction", "contributions", "score"]
    found = read_back(distributed.predict(path, dataset, outputs, keep=["id"], batch_size=300))
    parts = [f"contribution_{name}" for name in ("x", "z", "colour", "x & z")]
    assert found.column_names == ["id", "prediction", *parts, "intercept", "score"]
    rows = table.select(["x", "z", "colour"])
    assert np.array_equal(found["prediction"].to_numpy(), regressor.predict(rows))
    assert np.array_equal(np.stack([found[name].to_numpy() for name in parts], 1), regressor.eval_terms(rows))
    assert np.array_equal(found["score"].to_numpy(), regressor.model_.scores(table)[:, 0])
    assert set(found["intercept"].to_pylist()) == {regressor.intercept_}


def test_probabilities_are_appended_to_all_columns_of_files(classifier, tmp_path) -> None:
    table = make_table(1_000, 2)
    pq.write_table(table, tmp_path / "rows.parquet")
    found = read_back(distributed.predict(classifier, tmp_path / "rows.parquet", ["prediction", "probability"]))
    classes = ["blue", "green", "red"]
    assert found.column_names == [*table.column_names, "prediction", *(f"probability_{label}" for label in classes)]
    rows = table.select(["x", "z", "y"])
    assert found["prediction"].to_pylist() == classifier.predict(rows).tolist()
    probabilities = np.stack([found[f"probability_{label}"].to_numpy() for label in classes], 1)
    assert np.array_equal(probabilities, classifier.predict_proba(rows))


def test_prediction_does_not_import_torch(regressor) -> None:
    def look(batch: pa.Table) -> pa.Table:
        return batch.append_column("torch", [["torch" in sys.modules] * len(batch)])

    dataset = distributed.predict(regressor, ray.data.from_arrow(make_table(500, 3)))
    found = dataset.map_batches(look, batch_format="pyarrow")  # in the process that predicted
    assert {row["torch"] for row in found.take_all()} == {False}


def test_wrong_arguments_raise_at_once(regressor, classifier) -> None:
    dataset = ray.data.from_arrow(make_table(50))
    with pytest.raises(ValueError, match=r"output must be one or several of 'prediction', .* not 'scores'"):
        distributed.predict(regressor, dataset, "scores")
    with pytest.raises(ValueError, match=r"probability.*needs a model of classes"):
        distributed.predict(regressor, dataset, "probability")
    with pytest.raises(ValueError, match="no column 'zz'; did you mean 'z'"):
        distributed.predict(regressor, dataset, keep=["zz"])
    with pytest.raises(ValueError, match="no column 'colour'"):
        distributed.predict(regressor, dataset.drop_columns(["colour"]))
    with pytest.raises(ValueError, match="the table has a column 'prediction', and so has the output"):
        distributed.predict(regressor, dataset.rename_columns({"y": "prediction"}))
    with pytest.raises(ValueError, match="no column 'yy'; did you mean 'y'"):
        distributed.ray(NeuralBasisRegressor(), dataset, "yy")
    with pytest.raises(TypeError, match="expected paths of Parquet or CSV files, or a Ray dataset, not dict"):
        distributed.ray(NeuralBasisRegressor(), {"x": [1.0]}, "y")
    with pytest.raises(ValueError, match="workers must be an integer of at least 1, not 0"):
        distributed.ray(NeuralBasisRegressor(), dataset, "y", workers=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Files of 24,000 rows: a third more than the smallest sample in memory, for training."""
    folder, table = tmp_path_factory.mktemp("files"), make_table(N_ROWS)
    for part in range(6):
        pq.write_table(table.slice(N_ROWS // 6 * part, N_ROWS // 6), folder / f"{part}.parquet")
    return folder


def make_estimator(**parameters) -> NeuralBasisRegressor:
    return NeuralBasisRegressor(
        preset="fast",
        interactions=0,
        boosted_steps=False,
        max_steps=120,
        feature_names=FEATURES,
        storage__memory_limit=MEMORY,
        **parameters,
    )


def fit_on_cluster(estimator: NeuralBasisRegressor, folder: Path, **options) -> NeuralBasisRegressor:
    blocks = ray.data.read_parquet(str(folder), override_num_blocks=6)  # so few rows would be one block
    return distributed.ray(estimator, blocks, "y", workers=2, **options)


@pytest.fixture(scope="module")
def fitted(folder, tmp_path_factory) -> NeuralBasisRegressor:
    return fit_on_cluster(make_estimator(), folder, storage_path=tmp_path_factory.mktemp("storage"))


def test_two_workers_fit_as_well_as_one_process(fitted, folder) -> None:
    """Workers read rows in another order and hold out other rows: axes are equal, shapes only similar."""
    alone = make_estimator().fit(str(folder), "y")
    assert fitted.term_names_ == alone.term_names_ == FEATURES
    for ours, theirs in zip(fitted.model_.encoder.axes, alone.model_.encoder.axes, strict=True):
        assert np.array_equal(ours.knots, theirs.knots)
        assert ours.levels == theirs.levels
    fresh = make_table(4_000, 9)
    rows, y = fresh.select(FEATURES), fresh["y"].to_numpy()
    loss, loss_alone = (np.mean((model.predict(rows) - y) ** 2) for model in (fitted, alone))
    assert loss < 0.043  # the noise has variance 0.04
    assert abs(loss - loss_alone) < 0.02 * loss_alone


def test_the_estimator_has_its_fitted_attributes(fitted) -> None:
    assert fitted.model_.summary.n_rows == N_ROWS  # no row was dropped
    assert fitted.model_.summary.parameters["callbacks"] is None
    assert fitted.model_.summary.target == "y"
    assert fitted.feature_names_in_.tolist() == FEATURES
    assert fitted.history_.steps[-1] >= 120
    assert fitted.history_.validation[fitted.history_.best] < 0.1 * fitted.history_.constant
    assert fitted.interaction_ranking_ == []


class KillOnce:
    """A callback: the first worker records its steps, the second kills itself once, at its tenth evaluation."""

    def __init__(self, folder: Path):
        self.killed, self.steps = folder / "killed", folder / "steps"

    def __call__(self, history) -> None:
        if ray.train.get_context().get_world_rank() == 0:
            with self.steps.open("a") as file:
                file.write(f"{history.steps[-1]}\n")
        elif len(history.steps) == 10 and not self.killed.exists():
            self.killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)


def test_a_fit_with_a_killed_worker_resumes_and_gives_the_same_model(fitted, folder, tmp_path) -> None:
    estimator = make_estimator(callbacks=[KillOnce(tmp_path)], storage__checkpoint_every=0.01)
    again = fit_on_cluster(estimator, folder, storage_path=tmp_path / "storage", max_failures=1)
    assert (tmp_path / "killed").exists()
    steps = [int(line) for line in (tmp_path / "steps").read_text().split()]
    resumed = next(i for i in range(1, len(steps)) if steps[i] <= steps[i - 1]) if steps != sorted(set(steps)) else 10
    assert steps[resumed] > steps[5]  # not from the beginning
    for one, other in zip(fitted.term_scores_, again.term_scores_, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


def test_the_error_of_a_worker_is_raised(folder, tmp_path) -> None:
    table = make_table(500)
    odd = table.set_column(2, "z", [np.where(np.arange(500) == 77, np.inf, table["z"].to_numpy())])
    pq.write_table(odd, tmp_path / "odd.parquet")
    with pytest.raises(ValueError, match=r"^column 'z' holds infinite values; neuralbasis expects") as caught:
        distributed.ray(
            make_estimator(), tmp_path / "odd.parquet", "y", workers=1, max_failures=0, storage_path=tmp_path
        )
    assert "Traceback" not in str(caught.value)


def test_workers_that_leave_no_cpu_for_reading_give_a_warning() -> None:
    dataset = ray.data.from_arrow(make_table(50))
    with pytest.raises(UserWarning, match="request 4 of the cluster's 4 CPUs, and reading needs 1 more"):
        distributed.ray(
            make_estimator(), dataset, "y", workers=4
        )  # the warning is an error here; two workers give none


def test_without_ray_the_error_names_the_extra() -> None:
    code = "import sys; sys.modules['ray'] = None; import neuralbasis; neuralbasis.distributed.predict"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "distributed.predict needs Ray, which is not installed; pip install 'neuralbasis[ray]'" in found.stderr
