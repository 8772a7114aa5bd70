"""Measured figures in README.md and docs are those of records of the present source."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.accuracy.measure import Record, read_records
from benchmarks.accuracy.readme_table import ORDER, RECORDS, SETS, find_records, list_cells, write_table
from benchmarks.results.doc_figures import Figures, list_documents, list_unrecorded
from benchmarks.results.provenance import read_versions

TEXT = "Before.\n\n<!-- figures: speed.wide; table 2; b -->\nold\n<!-- end of figures -->\n\nAfter.\n"
OUTPUT = "| x |\n|---|\n| 0 |\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n"


def make_record(name: str, loss: float, seconds: float) -> Record:
    cell = list_cells("diabetes")[name]
    return Record(cell, 353, 10, seconds, 0.0, 0.0, 0.0, {"rmse": loss}, read_versions(), 0.0)


def make_output(**versions: str) -> dict[str, Any]:
    return {"name": "speed.wide", "output": OUTPUT, "versions": {**read_versions(), **versions}}


@pytest.mark.parametrize("path", list_documents(), ids=lambda path: path.name)
def test_documents_quote_records_of_the_present_source(path: Path) -> None:
    """After a change of the fit path: run the benchmarks that the blocks name, then `python -m benchmarks report`."""
    text = path.read_text(encoding="utf-8")
    assert text == Figures.read().write_blocks(text)
    assert list(list_unrecorded(text)) == []


def test_every_set_is_measured() -> None:
    assert [key for key in SETS if not find_records(read_records(RECORDS), key)] == []


def test_a_block_has_the_figures_of_its_record() -> None:
    written = Figures([make_output()]).write_blocks(TEXT)
    assert written == TEXT.replace("old\n", "| b  |\n| -- |\n| 2  |\n")
    assert Figures([make_output()]).write_blocks(written) == written


@pytest.mark.parametrize("outputs", [[], [make_output(neuralbasis="0.2.0+00000000")]], ids=["none", "older"])
def test_a_block_has_no_figures_of_another_source(outputs: list[dict[str, Any]]) -> None:
    note = "Not measured with this version: `python -m benchmarks run speed.wide`.\n"
    assert Figures(outputs).write_blocks(TEXT) == TEXT.replace("old\n", note)


def test_a_release_with_the_same_source_is_quoted() -> None:
    source = read_versions()["neuralbasis"].partition("+")[2]
    assert "| 2  |" in Figures([make_output(neuralbasis=f"9.9+{source}")]).write_blocks(TEXT)


def test_a_row_of_the_table() -> None:
    records = [make_record(name, 50 + n, 10.0 * (n + 1)) for n, name in enumerate(ORDER)]
    assert write_table(records).splitlines()[2] == "| Diabetes, RMSE | 50 | 51 | 52 | 53 | 20.0 s / 40 s |"


def test_records_of_another_source_are_not_quoted() -> None:
    records = [make_record(name, 50.0, 1.0) for name in ORDER]
    records[0] = replace(records[0], versions={**records[0].versions, "neuralbasis": "0.2.0+00000000"})
    assert find_records(records, "diabetes") == {}
    assert "not measured with this version" in write_table(records)
