"""Use an installed neuralbasis without test packages: `python check_installation.py`; it prints versions as JSON.

It fits a regression and, with `--classes`, two classifications; each is saved, loaded, explained and exported.
With `--model FILE --expected FILE` it fits nothing: it loads a model and compares its predictions with a JSON file.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

import neuralbasis
from neuralbasis import export, report

PACKAGES = ("numpy", "scipy", "scikit-learn", "threadpoolctl", "torch", "numba", "narwhals", "tqdm", "click", "pyarrow")
READERS = {"json": export.to_json, "sql": export.to_sql, "python": export.to_python, "c": export.to_c}


def make_table(n_rows: int = 400) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    size = rng.random(n_rows).round(3)
    size[::17] = np.nan
    return {"size": size, "age": rng.integers(18, 80, n_rows), "town": rng.choice(["Bergen", "Oslo"], n_rows)}


def make_target(table: dict[str, np.ndarray]) -> np.ndarray:
    return np.nan_to_num(table["size"]) * (table["age"] > 40) + (table["town"] == "Oslo")


def read(model: neuralbasis.AdditiveModel, table: dict[str, np.ndarray], folder: Path) -> None:
    """Explain a model and write it in every form that needs no further package."""
    contributions = model.contributions(table)
    assert np.allclose(contributions.sum(axis=1) + model.intercept, model.scores(table), atol=1e-9)
    assert len(model.explain_local({name: column[:1] for name, column in table.items()}).row(0).names) >= 3
    for name, write in READERS.items():
        assert len(write(model, **({"table": "rows"} if name == "sql" else {}))) > 100, name
    report.write(folder / "page.html", model, table, None)
    assert "</html>" in (folder / "page.html").read_text(encoding="utf-8")


def fit_and_read(folder: Path, is_all: bool) -> None:
    table = make_table()
    target = make_target(table)
    high, band = np.where(target > 1, "high", "low"), np.array(["a", "b", "c"])[np.digitize(target, [0.6, 1.1])]
    for labels in (target, high, band) if is_all else (target,):
        kind = neuralbasis.NeuralBasisRegressor if labels is target else neuralbasis.NeuralBasisClassifier
        fitted = kind(max_steps=60, outer_bags=2, interactions=[("size", "age")]).fit(table, labels)
        assert fitted.score(table, labels) > 0.8, fitted.score(table, labels)
        fitted.model_.save(folder / "model.nbm")
        loaded = neuralbasis.load(folder / "model.nbm")
        assert np.array_equal(loaded.scores(table), fitted.model_.scores(table))
        read(loaded, table, folder)


def load_and_read(model: Path, expected: Path, folder: Path) -> None:
    table = make_table()
    loaded = neuralbasis.load(model)
    # Compiled loops and NumPy add in another order.
    assert np.allclose(loaded.scores(table).ravel(), json.loads(expected.read_text(encoding="utf-8")), rtol=1e-12)
    read(loaded, table, folder)
    assert not {"torch", "sklearn"} & set(sys.modules)


def find_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path)
    parser.add_argument("--expected", type=Path)
    parser.add_argument("--classes", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("error")
    with tempfile.TemporaryDirectory() as folder:
        if arguments.model:
            load_and_read(arguments.model, arguments.expected, Path(folder))
        else:
            fit_and_read(Path(folder), arguments.classes)
    found = {name: find_version(name) for name in ("neuralbasis", *PACKAGES)}
    print(json.dumps({"python": sys.version.split()[0], "place": neuralbasis.__file__, **found}))


if __name__ == "__main__":
    main()
