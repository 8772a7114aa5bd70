"""Checks of the installation for `neuralbasis doctor`: versions, threads, compiled kernels, packages and a self-test.

The self-test fits a small model, saves it, loads it and compares the predictions.
"""

from __future__ import annotations

import os
import platform
import tempfile
from typing import Any

import numpy as np

import neuralbasis

from .. import kernels
from ..model.summary import find_version

REQUIRED = ("numpy", "scipy", "scikit-learn", "threadpoolctl", "torch", "numba", "narwhals", "tqdm", "click", "pyarrow")
OPTIONAL = {
    "matplotlib": "plot", "onnx": "export --to onnx", "openpyxl": "export --to excel", "optuna": "tune",
    "pandas": "data frames", "transformers": "concepts", "pillow": "concepts",
}  # fmt: skip


def examine() -> dict[str, Any]:
    """Facts about the installation; `ok` is False if the self-test failed."""
    found = {name: find_version(name) for name in REQUIRED}
    test = run_self_test() if found["torch"] else "skipped: torch is not installed; this machine can predict, not fit"
    return {
        "ok": test is None or test.startswith("skipped"),
        "neuralbasis": neuralbasis.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "threads": kernels.count_threads(None),
        "kernels": describe_kernels(),
        "packages": found,
        "optional": {name: find_version(name) for name in OPTIONAL},
        "self_test": test or "passed",
    }


def run_self_test() -> str | None:
    """Fit, save, load and predict; None on success, otherwise a description of the failure."""
    try:
        X = {"size": np.linspace(0, 1, 120), "colour": np.array(["red", "blue", "green"] * 40)}
        y = X["size"] + (X["colour"] == "red")
        estimator = neuralbasis.NeuralBasisRegressor(max_steps=30, outer_bags=2, interactions=[("size", "colour")])
        fitted = estimator.fit(X, y).model_
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.nbm")
            fitted.save(path)
            loaded = neuralbasis.load(path)
        if not np.array_equal(loaded.predict(X), fitted.predict(X)):
            return "failed: a saved and loaded model predicts different values"
        sums = loaded.contributions(X).sum(axis=1) + loaded.intercept
        return None if np.allclose(sums, loaded.scores(X)) else "failed: contributions do not sum to the score"
    except Exception as error:  # report any error as the result of the test
        return f"failed: {type(error).__name__}: {' '.join(str(error).split())}"


def describe_kernels() -> str:
    """Whether kernels are compiled, and where compiled kernels are cached."""
    if not kernels.NUMBA:
        return "not compiled: numba is absent or disabled by NEURALBASIS_NUMBA=0; predictions use NumPy"
    stats = getattr(kernels.score_rows, "stats", None)
    folder = getattr(stats, "cache_path", None)
    if folder is None:
        return "compiled"
    cached = [name for name in os.listdir(folder) if name.endswith(".nbc")] if os.path.isdir(folder) else []
    return f"compiled; {len(cached)} cached in {folder}" if cached else f"compiled; none cached yet in {folder}"


def format_report(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Pairs of a name and the text of its finding."""
    lines = [(name, str(found[name])) for name in ("neuralbasis", "python", "platform", "threads", "kernels")]
    lines += [(name, number or "absent") for name, number in found["packages"].items()]
    lines += [(name, number or f"absent (for {OPTIONAL[name]})") for name, number in found["optional"].items()]
    return [*lines, ("self-test", found["self_test"])]
