"""Fits and predictions on a real cluster of Ray: two nodes on this machine, one for the whole module."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import neuralbasis
from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, launch

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'neuralbasis[ray]'")
pytest.importorskip("ray.train", reason="Ray Train is not installed: pip install 'neuralbasis[ray]'")
pytest.importorskip("ray.data", reason="Ray Data is not installed: pip install 'neuralbasis[ray]'")

pytestmark = [
    pytest.mark.filterwarnings("ignore::ray.util.annotations.RayDeprecationWarning"),  # of Ray's calls to itself
    pytest.mark.filterwarnings(r"ignore::DeprecationWarning:ray\."),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # sockets and logs of Ray's processes
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # the same, found late
]
NODE = {"num_cpus": 2, "object_store_memory": 80 << 20}


@pytest.fixture(scope="module", autouse=True)
def cluster():
    from ray.cluster_utils import Cluster

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import the tests
    nodes = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    nodes.add_node(**NODE)
    ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield nodes
    ray.shutdown()
    nodes.shutdown()


def make_table(n_rows: int = 6_000, seed: int = 0) -> pa.Table:
    """Values of few digits, so that the survey's sketches are exact."""
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
    found = read_back(launch.predict(path, dataset, outputs, keep=["id"], batch_size=300))
    parts = [f"contribution_{name}" for name in ("x", "z", "colour", "x & z")]
    assert found.column_names == ["id", "prediction", *parts, "intercept", "score"]
    rows = table.select(["x", "z", "colour"])
    assert np.array_equal(found["prediction"].to_numpy(), regressor.predict(rows))
    assert np.array_equal(np.stack([found[name].to_numpy() for name in parts], 1), regressor.eval_terms(rows))
    assert np.array_equal(found["score"].to_numpy(), regressor.model_.scores(table)[:, 0])
    assert set(found["intercept"].to_pylist()) == {regressor.intercept_[0]}


def test_probabilities_stand_behind_all_columns_of_files(classifier, tmp_path) -> None:
    table = make_table(1_000, 2)
    pq.write_table(table, tmp_path / "rows.parquet")
    found = read_back(launch.predict(classifier, tmp_path / "rows.parquet", ["prediction", "probability"]))
    classes = ["blue", "green", "red"]
    assert found.column_names == [*table.column_names, "prediction", *(f"probability_{label}" for label in classes)]
    rows = table.select(["x", "z", "y"])
    assert found["prediction"].to_pylist() == classifier.predict(rows).tolist()
    probabilities = np.stack([found[f"probability_{label}"].to_numpy() for label in classes], 1)
    assert np.array_equal(probabilities, classifier.predict_proba(rows))


def test_predicting_brings_no_torch(regressor) -> None:
    def look(batch: pa.Table) -> pa.Table:
        return batch.append_column("torch", [["torch" in sys.modules] * len(batch)])

    dataset = launch.predict(regressor, ray.data.from_arrow(make_table(500, 3)))
    found = dataset.map_batches(look, batch_format="pyarrow")  # in the process that predicted
    assert {row["torch"] for row in found.take_all()} == {False}


def test_wrong_wishes_are_said_at_once(regressor, classifier) -> None:
    dataset = ray.data.from_arrow(make_table(50))
    with pytest.raises(ValueError, match=r"output must be one or several of 'prediction', .* not 'scores'"):
        launch.predict(regressor, dataset, "scores")
    with pytest.raises(ValueError, match=r"probability.*needs a model of classes"):
        launch.predict(regressor, dataset, "probability")
    with pytest.raises(ValueError, match="no column 'zz'; did you mean 'z'"):
        launch.predict(regressor, dataset, keep=["zz"])
    with pytest.raises(ValueError, match="no column 'colour'"):
        launch.predict(regressor, dataset.drop_columns(["colour"]))
    with pytest.raises(ValueError, match="the table has a column 'prediction', as the output has"):
        launch.predict(regressor, dataset.rename_columns({"y": "prediction"}))
    with pytest.raises(ValueError, match="no column 'yy'; did you mean 'y'"):
        launch.ray(NeuralBasisRegressor(), dataset, "yy")
    with pytest.raises(TypeError, match="expected paths of Parquet or CSV files, or a Ray dataset, not dict"):
        launch.ray(NeuralBasisRegressor(), {"x": [1.0]}, "y")
    with pytest.raises(ValueError, match="workers must be an integer of at least 1, not 0"):
        launch.ray(NeuralBasisRegressor(), dataset, "y", workers=0)
