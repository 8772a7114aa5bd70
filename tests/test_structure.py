"""Limits on counts that keep the source simple; lower them when the source shrinks."""

from __future__ import annotations

import ast

import pytest

from tests.structure import count_all, count_loose, list_constants

LIMITS = {
    "lines of Python in src": 30_600,
    "files over 450 lines": 0,
    "numeric constants on the fit path": 60,
    "configuration typed Any": 0,
    "class names used twice": 0,
    "constructor parameters": 24,
    "internal names imported by tests": 200,
}


@pytest.fixture(scope="module")
def counts() -> dict[str, int]:
    return count_all()


@pytest.mark.parametrize("name", LIMITS)
def test_counts_stay_below_their_limits(name, counts):
    assert counts[name] <= LIMITS[name], "python -m tests.structure prints all counts"


def test_every_count_has_a_limit(counts):
    assert counts.keys() == LIMITS.keys()


def test_constants_and_loose_configuration_are_counted():
    tree = ast.parse("MAX, MIN = 3, 1\nNAMES = ('a', 'b')\nlow = 2\n\ndef fit(config: Any, rows: Any) -> None: ...")
    assert list_constants(tree) == ["MAX", "MIN"]
    assert count_loose(tree) == 1
