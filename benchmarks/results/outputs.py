"""Printed outputs of benchmarks: the latest of each name, and the figures in their tables that have a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..registry import BENCHMARKS
from .provenance import is_same_source, read_versions
from .source_versions import SourceVersion

VERDICTS = ("met", "missed")
FIGURES = (
    ("ratio", "times"),
    ("ours",),
    ("value",),
    ("mean",),
)  # columns with the judged figure; the first match counts


@dataclass(frozen=True)
class Judged:
    """A figure of a printed table with its target and verdict."""

    name: str
    figure: str
    target: str
    verdict: str


def find_latest(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The latest record of each benchmark, in the order of the registry."""
    latest = {record["name"]: record for record in records}
    return [latest[name] for name in dict.fromkeys([*BENCHMARKS, *latest]) if name in latest]


def find_version(record: Mapping[str, Any]) -> SourceVersion:
    version = record["versions"]["neuralbasis"]
    return SourceVersion(f"neuralbasis {version}", is_same_source(version, read_versions()["neuralbasis"]))


def read_tables(text: str) -> list[list[list[str]]]:
    """The Markdown tables of a text: rows of cells, the header first."""
    tables: list[list[list[str]]] = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            tables[-1].append([cell.strip() for cell in line.strip().strip("|").split("|")])
        elif tables[-1]:
            tables.append([])
    return [[table[0], *table[2:]] for table in tables if table]


def list_judged(text: str) -> list[Judged]:
    """All judged figures of an output; rows that differ by their seed only are joined.

    >>> list_judged("| a | value | target | verdict |\\n|---|--:|--:|--:|\\n| b | 3 | ≤ 5 | met |")
    [Judged(name='a: b', figure='3', target='≤ 5', verdict='met')]
    """
    found: dict[tuple[str, str], list[Judged]] = {}
    for header, *rows in read_tables(text):
        for row in rows:
            if any(cell in VERDICTS for cell in row):
                judged = judge_row(header, row)
                found.setdefault((judged.name, judged.target), []).append(judged)
    return [join_judged(group) for group in found.values()]


def judge_row(header: Sequence[str], row: Sequence[str]) -> Judged:
    at = next(column for column, cell in enumerate(row) if cell in VERDICTS)
    cells = dict(zip(header, row, strict=True))
    name = ": ".join(part for part in (header[0], row[0], cells.get("metric", "")) if part)
    figure = next((" ".join(cells[column] for column in own) for own in FIGURES if set(own) <= set(cells)), "")
    if not figure:
        others = [(title, cell) for title, cell in zip(header[1:at], row[1:at], strict=True) if cell not in ("", "–")]
        figure = others[0][1] if len(others) == 1 else ", ".join(f"{title} {cell}" for title, cell in others)
    return Judged(name, figure, cells.get("target", header[at]), row[at])


def join_judged(group: Sequence[Judged]) -> Judged:
    figures = dict.fromkeys(judged.figure for judged in group)
    verdict = "missed" if any(judged.verdict == "missed" for judged in group) else "met"
    return Judged(group[0].name, ", ".join(figures), group[0].target, verdict)


def list_all_judged(records: Iterable[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], Judged]]:
    return [(record, judged) for record in records for judged in list_judged(record["output"])]
