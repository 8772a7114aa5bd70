"""Fixtures: a random model with a table, and a table to fit, as CSV and as Parquet files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.cli.running import KINDS, write_csv
from tests.models import build_model, draw_numbers, name_columns


@pytest.fixture(params=KINDS)
def case(request, tmp_path):
    """A random model in memory, a table that uses every kind of cell, and the files of both."""
    rng = np.random.default_rng(5)
    model = build_model(rng, orders=(1, 2), **KINDS[request.param])
    columns = name_columns(model.encoder.axes, draw_numbers(rng, model.encoder.axes, 300))
    model.save(tmp_path / "model.nbm")
    table = {"id": [f"{i:05d}" for i in range(300)], **columns}
    return model, columns, tmp_path / "model.nbm", write_csv(tmp_path / "data.csv", table)


@pytest.fixture
def houses(tmp_path) -> Path:
    """A table with missing numbers, texts with a comma, booleans, zero-padded codes, two targets and weights."""
    rng, n = np.random.default_rng(1), 400
    age, size = rng.integers(18, 90, n), rng.normal(size=n).round(3)
    city, member = rng.choice(["Oslo", "Rome", "Paris, FR"], n), rng.choice(["true", "false"], n)
    price = (age / 20 + size + (city == "Oslo") + (member == "true") + rng.normal(0, 0.2, n)).round(4)
    size = [None if i % 50 == 3 else v for i, v in enumerate(size)]
    return write_csv(
        tmp_path / "houses.csv",
        {
            "id": [f"{i:04d}" for i in range(n)],
            "age": age,
            "size": size,
            "city": city,
            "member": member,
            "zip": rng.choice(["007", "010", "7"], n),
            "weight": rng.integers(1, 4, n),
            "price": price,
            "good": np.where(price > np.median(price), "yes", "no"),
        },
    )


@pytest.fixture
def parts(houses) -> Path:
    """The same table as three Parquet files of two row groups each, in a folder."""
    table, folder = pa.csv.read_csv(houses), houses.parent / "parts"
    folder.mkdir()
    for number in range(3):
        pq.write_table(table.slice(134 * number, 134), folder / f"part-{number}.parquet", row_group_size=67)
    return folder
