"""Records the predictions of small models: a change of structure must not change them.

    python -m tests.golden.record            write tests/golden/record.npz with the present code
    python -m tests.golden.record --check    fit again and compare bit for bit

One model for each task, kind of input and option that has a path of its own through a fit. The models are tiny, since
they only need to take every path. Bits may differ between processors: write and compare the record on one machine. If
all models but those of the paper's engine are the same, standard errors up to 0.1 %, a check notes that figures
measured with the recorded source stand.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from benchmarks.results.provenance import EQUAL_SOURCES, read_versions
from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, merge
from tests.laws.fit_together import draw_weak_pairs
from tests.stream_tables import small_memory

RECORD = Path(__file__).with_name("record.npz")
NOT_DEFAULT = ("paper", "exact")  # no figure of the defaults depends on them
QUICK = {"max_steps": 24, "outer_bags": 2, "random_state": 7, "n_jobs": 1}
TARGETS = {"regression": None, "binary": [0.0], "classes": [-0.8, 0.8]}


def make_table(n_rows: int = 260, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "size": rng.normal(size=n_rows),
            "income": rng.lognormal(size=n_rows),
            "rooms": rng.integers(0, 7, n_rows).astype(float),
            "city": rng.choice(["Oslo", "Rome", "Bern"], n_rows),
        }
    )
    table.loc[rng.random(n_rows) < 0.1, "size"] = np.nan
    table.loc[rng.random(n_rows) < 0.1, "city"] = None
    return table


def make_target(table: pd.DataFrame, task: str) -> np.ndarray:
    rng, size = np.random.default_rng(1), table["size"].fillna(0.0)
    score = np.sin(2 * size) + size * (table["rooms"] - 3) + (table["city"] == "Rome") + (table["income"] > 1.5)
    score = (score - 0.7 + 0.3 * rng.normal(size=len(table))).to_numpy()
    cuts = TARGETS[task]
    return score if cuts is None else np.array(["low", "mid", "high"])[np.digitize(score, cuts)]


def make_sparse(n_rows: int, n_columns: int, density: float) -> tuple[sp.csr_matrix, np.ndarray]:
    X = sp.random(n_rows, n_columns, density=density, random_state=3, format="csr")
    return X, np.asarray(X[:, : n_columns // 100].sum(axis=1)).ravel()


def make_estimator(task: str, **options: Any) -> Any:
    kind = NeuralBasisRegressor if task == "regression" else NeuralBasisClassifier
    return kind(**{**QUICK, **options})


def fit_table(task: str, n_rows: int = 260, n_numeric: int | None = None, **options: Any) -> tuple[Any, Any]:
    table = make_table(n_rows)
    y = make_target(table, task)
    columns = list(table.columns)[:n_numeric]
    return make_estimator(task, **options).fit(table[columns], y), table[columns].iloc[:30]


def fit_weights() -> tuple[Any, Any]:
    table = make_table()
    weights, init = np.arange(len(table)) % 3 + 0.5, np.linspace(-1, 1, len(table))
    return make_estimator("regression").fit(table, make_target(table, "regression"), weights, init), table[:30]


def fit_sparse(task: str, n_rows: int, n_columns: int, density: float, **options: Any) -> tuple[Any, Any]:
    X, y = make_sparse(n_rows, n_columns, density)
    y = y if task == "regression" else np.digitize(y, np.quantile(y, [0.4, 0.7]))
    return make_estimator(task, **options).fit(X, y), X[:30]


def fit_more_columns_than_rows() -> tuple[Any, Any]:
    X = np.random.default_rng(2).normal(size=(120, 300))
    return make_estimator("regression").fit(X, X[:, 0] - X[:, 1] ** 2), X[:30]


def fit_files() -> tuple[Any, Any]:
    """A table that is larger than memory, with a sample of 256 rows; the limit counts rows alone."""
    table = make_table(2000)
    with tempfile.TemporaryDirectory() as folder, small_memory():
        pq.write_table(pa.Table.from_pandas(table.assign(y=make_target(table, "binary"))), f"{folder}/rows.parquet")
        model = make_estimator("binary", storage__memory_limit=400_000).fit(f"{folder}/rows.parquet", "y")
    return model, table[:30]


def fit_weaker_pairs() -> tuple[Any, Any]:
    X, y = draw_weak_pairs()
    return make_estimator("regression").fit(X, y), X[:30]


def fit_update() -> tuple[Any, Any]:
    model, rows = fit_table("regression")
    table = make_table(200, seed=5)
    return model.update(table, make_target(table, "regression") + 1), rows


def fit_merge() -> tuple[Any, Any]:
    models = []
    for seed in (0, 5):
        table = make_table(200, seed=seed)
        models.append(make_estimator("classes").fit(table, make_target(table, "classes")))
    return merge(models), table[:30]


CASES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "regression": lambda: fit_table("regression"),
    "binary": lambda: fit_table("binary"),
    "classes": lambda: fit_table("classes"),
    "numbers": lambda: fit_table("regression", n_numeric=3),
    "automatic_steps": lambda: fit_table("binary", max_steps="auto", preset="fast"),
    "best": lambda: fit_table("regression", preset="best", outer_bags="auto"),
    "pairs_by_name": lambda: fit_table("regression", interactions=[("size", "rooms"), ("size", "city")]),
    "all_pairs": lambda: fit_table("classes", interactions="all"),
    "triples": lambda: fit_table("regression", interactions={2: "all", 3: 1}),
    "together": lambda: fit_table("regression", interactions=2, network__staged=False),
    "main_effects": lambda: fit_table("binary", interactions=0),
    "no_steps": lambda: fit_table("regression", boosted_steps=False),
    "weaker_pairs": fit_weaker_pairs,
    "tied": lambda: fit_table("classes", network__tied_classes=True),
    "exact": lambda: fit_table("regression", network__engine="exact", interactions=1),
    "paper": lambda: fit_table("classes", network="paper"),
    "spline": lambda: fit_table("regression", network__basis="spline"),
    "network": lambda: fit_table(
        "binary",
        network__n_subnets=2,
        network__batch_norm=True,
        network__dropout=0.1,
        network__basis_dropout=0.1,
        network__n_bases=9,
    ),
    "axes": lambda: fit_table("regression", network__scaling="minmax", feature_types={"size": [-1, 0, 1]}, max_bins=40),
    "ordinal": lambda: fit_table("regression", feature_types=["auto", "continuous", "ordinal", "nominal"]),
    "one_member": lambda: fit_table("regression", outer_bags=1, validation_size=0, smoothness=0),
    "many_rows": lambda: fit_table("binary", n_rows=12_000),
    "weights": fit_weights,
    "sparse": lambda: fit_sparse("regression", 300, 60, 0.1),
    "wide": lambda: fit_sparse("regression", 200, 21_000, 0.003, max_terms=None),
    "wide_classes": lambda: fit_sparse("classes", 200, 12_000, 0.003, max_terms=None),
    "more_columns_than_rows": fit_more_columns_than_rows,
    "files": fit_files,
    "update": fit_update,
    "merge": fit_merge,
}


def describe(name: str) -> dict[str, np.ndarray]:
    """Scores of some rows, names and importances of the terms of one case."""
    fitted, rows = CASES[name]()
    model = getattr(fitted, "model_", fitted)
    names = np.array(model.term_names)
    strongest = np.argsort(-model.importances(), kind="stable")[:50]
    found = {"scores": model.scores(rows), "terms": names[strongest], "importances": model.importances()[strongest]}
    spreads = [np.asarray(shape.spread).ravel() for shape in model.shapes[:50]]
    found |= {"errors": np.concatenate(spreads), "residuals": np.array([own.quantiles for own in model.residuals])}
    return {f"{name}/{key}": value for key, value in found.items()}


def read_record() -> dict[str, np.ndarray]:
    with np.load(RECORD, allow_pickle=False) as record:
        return dict(record)


def is_same(key: str, value: np.ndarray, known: np.ndarray) -> bool:
    """Whether an array equals the recorded one, standard errors up to 0.1 %: sums in another order change them."""
    if value.shape == known.shape and key.endswith("/errors"):
        return np.allclose(value, known, rtol=1e-3, atol=1e-3 * np.abs(known).max())
    return np.array_equal(value, known)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with the record instead of writing it")
    parser.add_argument("cases", nargs="*", help="some of the cases; all by default")
    options = parser.parse_args()
    known, found, differing = read_record() if RECORD.exists() else {}, {}, []
    source = read_versions()["neuralbasis"].partition("+")[2]
    for name in options.cases or CASES:
        case = describe(name)
        found |= case
        changed = [key for key, value in case.items() if key not in known or not is_same(key, value, known[key])]
        print(f"{name:<24}{'same' if not changed else 'differs: ' + ', '.join(changed)}", flush=True)
        differing += [name] if changed else []
    if not options.check:
        np.savez_compressed(RECORD, **known | found, source=np.array(source))
        return
    recorded = str(known.get("source", ""))
    if recorded not in ("", source) and not options.cases and set(differing) <= set(NOT_DEFAULT):
        with EQUAL_SOURCES.open("a", encoding="utf-8") as file:
            print(recorded, source, f"{len(CASES) - len(differing)} of {len(CASES)} models equal", file=file)
    if differing:
        raise SystemExit(f"{len(differing)} of {len(options.cases or CASES)} models differ from the record")


if __name__ == "__main__":
    main()
