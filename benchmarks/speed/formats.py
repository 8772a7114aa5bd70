"""Exports: size of a model in each format, and rows per second of its engine.

    python -m benchmarks run speed.formats
    python -m benchmarks run speed.formats --pairs 0

The model is fitted briefly on California Housing; its tables are as large as after a full fit. Rows are the same set
resampled with noise; slower engines get fewer rows. The time of a query includes its planning, that of C is a loop
around `model_predict`. JSON and Excel have no engine.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import numpy as np

from .. import datasets
from ..results.markdown import format_number, print_table
from .predict import load_data, make_rows
from .resources import median_seconds

LOOP = """
#include "model.c"
void model_predict_many(const double *x, long n_rows, double *out)
{
    long row;
    for (row = 0; row < n_rows; row++)
        out[row] = model_predict(x + row * MODEL_COLUMNS);
}
"""


@dataclass(frozen=True)
class Sizes:
    """Rows for compiled engines, for SQLite and for plain Python, and repetitions."""

    n_rows: int = 500_000
    n_sqlite_rows: int = 20_000
    n_python_rows: int = 5_000
    n_repeats: int = 3


QUICK = Sizes(500, 200, 100, 1)


@dataclass(frozen=True)
class Engine:
    """Predicts with a file: rows -> predictions; and the number of rows it gets."""

    predict: Callable[[np.ndarray], Any]
    n_rows: int


@dataclass(frozen=True)
class FormatCost:
    """Bytes of the file, rows per second, and largest difference from `predict`; None without an engine."""

    name: str
    n_bytes: int | None
    speed: float | None
    difference: float | None


def fit_model(quick: bool, n_pairs: int) -> tuple[Any, datasets.Dataset]:
    """A fitted model and the table it was fitted on."""
    from neuralbasis import NeuralBasisRegressor

    data = load_data(quick)
    names = [f"column {index}" for index in range(data.X.shape[1])]
    pairs = list(islice(combinations(range(len(names)), 2), n_pairs)) or 0
    fitted = NeuralBasisRegressor(
        feature_names=names, interactions=pairs, network__staged=False, max_steps=50, outer_bags=2
    )
    return fitted.fit(data.X, data.y).model_, data


def measure(
    name: str, path: Path | None, engine: Engine | None, model: Any, rows: np.ndarray, sizes: Sizes
) -> FormatCost:
    n_bytes = None if path is None else path.stat().st_size
    if engine is None:
        return FormatCost(name, n_bytes, None, None)
    given = rows[: engine.n_rows]
    seconds = median_seconds(lambda: engine.predict(given), sizes.n_repeats)
    difference = np.abs(np.ravel(engine.predict(given)) - model.predict(given)).max()
    return FormatCost(name, n_bytes, len(given) / seconds, float(difference))


def save_file(model: Any, folder: Path, sizes: Sizes) -> tuple[Path, Engine]:
    import neuralbasis

    path = folder / "model.nbm"
    model.save(path)
    return path, Engine(neuralbasis.load(path).predict, sizes.n_rows)


def save_onnx(model: Any, folder: Path, sizes: Sizes) -> tuple[Path, Engine]:
    from onnxruntime import InferenceSession

    from neuralbasis.export import to_onnx

    path = folder / "model.onnx"
    to_onnx(model, path)
    session = InferenceSession(str(path))
    names = [value.name for value in session.get_inputs()]

    def predict(rows: np.ndarray) -> np.ndarray:
        return session.run(["prediction"], {name: rows[:, [index]] for index, name in enumerate(names)})[0]

    return path, Engine(predict, sizes.n_rows)


def save_sqlite(model: Any, folder: Path, sizes: Sizes) -> tuple[Path, Engine]:
    from neuralbasis.export import to_sql

    base = sqlite3.connect(":memory:")
    query = to_sql(model, folder / "model.sqlite.sql").read_text(encoding="utf-8")

    def predict(rows: np.ndarray) -> np.ndarray:
        if not base.execute("SELECT 1 FROM sqlite_master").fetchall():  # at the first call, which is not timed
            base.execute(f"CREATE TABLE data ({', '.join(_quote(name) + ' REAL' for name in model.encoder.names)})")
            marks = ", ".join("?" * rows.shape[1])
            base.executemany(f"INSERT INTO data VALUES ({marks})", rows.tolist())
        return np.array(base.execute(query).fetchall())

    return folder / "model.sqlite.sql", Engine(predict, sizes.n_sqlite_rows)


def save_duckdb(model: Any, folder: Path, sizes: Sizes) -> tuple[Path, Engine]:
    import duckdb
    import pyarrow

    from neuralbasis.export import to_sql

    base = duckdb.connect()
    query = to_sql(model, folder / "model.duckdb.sql", dialect="duckdb").read_text(encoding="utf-8")

    def predict(rows: np.ndarray) -> np.ndarray:
        columns = {name: rows[:, index] for index, name in enumerate(model.encoder.names)}
        base.register("data", pyarrow.table(columns))
        return base.execute(query).fetchnumpy()["prediction"]

    return folder / "model.duckdb.sql", Engine(predict, sizes.n_rows)


def save_python(model: Any, folder: Path, sizes: Sizes) -> tuple[Path, Engine]:
    from neuralbasis.export import to_python

    path = folder / "model.py"
    to_python(model, path)
    spec = importlib.util.spec_from_file_location("exported", path)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)

    def predict(rows: np.ndarray) -> list[float]:
        names = model.encoder.names
        return program.predict_many([dict(zip(names, row, strict=True)) for row in rows.tolist()])

    return path, Engine(predict, sizes.n_python_rows)


def save_c(model: Any, folder: Path, sizes: Sizes) -> tuple[Path, Engine | None]:
    from neuralbasis.export import to_c

    path = folder / "model.c"
    to_c(model, path)
    compiler = shutil.which("cc")
    if compiler is None:
        return path, None
    (folder / "loop.c").write_text(LOOP, encoding="utf-8")
    command = [compiler, "-std=c99", "-O2", "-shared", "-fPIC", "loop.c", "-o", "model.so", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    code = ctypes.CDLL(str(folder / "model.so"))
    n_columns = ctypes.c_int.in_dll(code, "model_n_columns").value
    read = [name.decode() for name in (ctypes.c_char_p * n_columns).in_dll(code, "model_columns")]
    order = [model.encoder.names.index(name) for name in read]
    number = ctypes.POINTER(ctypes.c_double)

    def predict(rows: np.ndarray) -> np.ndarray:
        x, out = np.ascontiguousarray(rows[:, order]), np.empty(len(rows))
        code.model_predict_many(x.ctypes.data_as(number), ctypes.c_long(len(x)), out.ctypes.data_as(number))
        return out

    return path, Engine(predict, sizes.n_rows)


def save_json(model: Any, folder: Path, _sizes: Sizes) -> tuple[Path, None]:
    from neuralbasis.export import to_json

    to_json(model, folder / "model.json")
    return folder / "model.json", None


def save_excel(model: Any, folder: Path, _sizes: Sizes) -> tuple[Path, None]:
    from neuralbasis.export import to_excel

    to_excel(model, folder / "model.xlsx")
    return folder / "model.xlsx", None


FORMATS: dict[str, Callable[[Any, Path, Sizes], tuple[Path, Engine | None]]] = {
    "file (.nbm), loaded": save_file,
    "C99": save_c,
    "ONNX, onnxruntime": save_onnx,
    "SQL, DuckDB": save_duckdb,
    "SQL, SQLite": save_sqlite,
    "Python file": save_python,
    "JSON": save_json,
    "Excel": save_excel,
}


def measure_formats(model: Any, rows: np.ndarray, sizes: Sizes) -> list[FormatCost]:
    """Measure all formats whose packages are installed."""
    lines = [measure("predict", None, Engine(model.predict, sizes.n_rows), model, rows, sizes)]
    with tempfile.TemporaryDirectory() as folder:
        for name, save in FORMATS.items():
            try:
                path, engine = save(model, Path(folder), sizes)
            except ImportError as error:
                print(f"{name}: not run, {error}\n")
                continue
            lines.append(measure(name, path, engine, model, rows, sizes))
    return lines


def print_lines(lines: list[FormatCost]) -> None:
    cells = [
        [
            line.name,
            "–" if line.n_bytes is None else f"{line.n_bytes:,}",
            format_number(line.speed),
            "–" if line.difference is None else f"{line.difference:.0e}",
        ]
        for line in lines
    ]
    print_table(["format", "bytes", "rows a second", "largest difference"], cells)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10, choices=range(29), metavar="N", help="pairs, 28 at most")
    parser.add_argument("--quick", action="store_true", help="a tiny generated table, few rows")
    given = parser.parse_args()
    sizes = QUICK if given.quick else Sizes()
    model, data = fit_model(given.quick, given.pairs)
    rows = make_rows(data, sizes.n_rows)
    print(f"{data.name}: {len(model.terms)} terms, {given.pairs} of them pairs; up to {len(rows):,} rows\n")
    print_lines(measure_formats(model, rows, sizes))


if __name__ == "__main__":
    main()
