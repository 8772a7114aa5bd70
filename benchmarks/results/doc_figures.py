"""Measured figures in README.md and docs: blocks that are written from the latest records.

    <!-- figures: no_effect; table 1; only all; family; independent, ours -->
    …
    <!-- end of figures -->

A block names its record: `readme_table`, or a benchmark of outputs.jsonl. Of a printed output it may name the number of
the table (1 by default), the row to show (`only`) and the columns; all by default. `python -m benchmarks report` writes
all blocks. If the source that decides a figure has changed since it was measured, its block says so and has no figures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..accuracy import readme_table
from ..accuracy.measure import Record, read_records
from ..harness import RESULTS, ROOT
from .jsonl import read_lines
from .markdown import format_table
from .outputs import find_latest, find_version, read_tables

BLOCK = re.compile(r"(<!-- figures: (.+?) -->\n)(.*?)(<!-- end of figures -->)", re.DOTALL)
CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
MEASURED = re.compile(r"\d ± ?\d|^\|.*\d\.\d{3}")  # a standard error, or a table with three decimals


@dataclass(frozen=True)
class Figures:
    """The records that documents may quote."""

    outputs: Sequence[Mapping[str, Any]] = ()
    readme: Sequence[Record] = ()

    @classmethod
    def read(cls) -> Figures:
        return cls(find_latest(read_lines(RESULTS / "outputs.jsonl")), read_records(readme_table.RECORDS))

    def write_block(self, source: str) -> str:
        """The text of a block."""
        name, *choices = [part.strip() for part in source.split(";")]
        if name == "readme_table":
            return readme_table.write_table(self.readme)
        record = next((record for record in self.outputs if record["name"] == name), None)
        if record is None or not find_version(record).is_present:
            return f"Not measured with this version: `python -m benchmarks run {name}`.\n"
        return select_cells(record["output"], choices)

    def write_blocks(self, text: str) -> str:
        """A document with all its blocks written from the records."""
        return BLOCK.sub(lambda found: f"{found[1]}{self.write_block(found[2])}{found[4]}", text)


def select_cells(output: str, choices: Sequence[str]) -> str:
    """A table of a printed output, with the chosen row and columns.

    >>> print(
    ...     select_cells("| a | b | c |\\n|---|--:|--:|\\n| x | 1 | 2 |\\n| all | 3 | 4 |\\n", ["only all", "a", "c"])
    ... )
    | a   |  c |
    | --- | -: |
    | all |  4 |
    <BLANKLINE>
    """
    number, only, columns = 1, None, []
    for choice in choices:
        if found := re.fullmatch(r"table (\d+)", choice):
            number = int(found[1])
        elif choice.startswith("only "):
            only = choice.removeprefix("only ")
        else:
            columns.append(choice)
    header, *rows = read_tables(output)[number - 1]
    kept = [header.index(column) for column in columns or header]
    rows = [row for row in rows if only in (None, row[0])]
    return format_table([header[at] for at in kept], [[row[at] for at in kept] for row in rows]) + "\n"


def list_documents() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def list_unrecorded(text: str) -> Iterator[str]:
    """Lines with measured figures outside blocks and code; they have no record.

    >>> list(list_unrecorded("| a | 0.123 |\\n\\nBands hold 0.9 ± 0.1.\\n\\nA share of 0.25."))
    ['| a | 0.123 |', 'Bands hold 0.9 ± 0.1.']
    """
    rest = CODE.sub("", BLOCK.sub("", text))
    yield from (line for line in rest.splitlines() if MEASURED.search(line))


def write_documents() -> None:
    """Write all blocks of README.md and docs."""
    figures = Figures.read()
    for path in list_documents():
        before = path.read_text(encoding="utf-8")
        after = figures.write_blocks(before)
        if after != before:
            path.write_text(after, encoding="utf-8")
