"""The table of the README is what the records of the present source give."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.accuracy.measure import Record, read_records
from benchmarks.accuracy.readme_table import (
    ORDER,
    RECORDS,
    ROOT,
    SETS,
    find_records,
    list_cells,
    read_table,
    write_table,
)
from benchmarks.results.provenance import read_versions


def make_record(name: str, loss: float, seconds: float) -> Record:
    cell = list_cells("diabetes")[name]
    return Record(cell, 353, 10, seconds, 0.0, 0.0, 0.0, {"rmse": loss}, read_versions(), 0.0)


def test_the_readme_quotes_records_of_the_present_source() -> None:
    """After a change of the code on the fit path: python -m benchmarks run readme_table."""
    assert read_table((ROOT / "README.md").read_text(encoding="utf-8")) == write_table(read_records(RECORDS))


def test_every_set_is_measured() -> None:
    assert [key for key in SETS if not find_records(read_records(RECORDS), key)] == []


def test_a_row_of_the_table() -> None:
    records = [make_record(name, 50 + n, 10.0 * (n + 1)) for n, name in enumerate(ORDER)]
    assert write_table(records).splitlines()[2] == "| Diabetes, RMSE | 50 | 51 | 52 | 53 | 20.0 s / 40 s |"


def test_records_of_another_source_are_not_quoted() -> None:
    records = [make_record(name, 50.0, 1.0) for name in ORDER]
    records[0] = replace(records[0], versions={**records[0].versions, "neuralbasis": "0.2.0+00000000"})
    assert find_records(records, "diabetes") == {}
    assert "not measured with this version" in write_table(records)
