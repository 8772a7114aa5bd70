"""The transcript in docs/first_use.md: its commands run in order, and their output matches what the document shows."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

from click.testing import CliRunner

from neuralbasis.cli import main
from tests.test_readme import python_blocks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "first_use.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def list_commands(text: str) -> list[tuple[str, str]]:
    """Each command of the document with the output that stands below it."""
    found = []
    for block in BLOCK.findall(text):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            found.append((command, expected))
    return found


def test_the_transcript_is_true(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    for _, code in python_blocks(text):
        exec(code, {})
    commands = list_commands(text)
    assert [shlex.split(command)[1] for command, _ in commands] == [
        "check", "fit", "report", "show", "predict", "explain", "predict",
    ]  # fmt: skip
    for command, expected in commands:
        program, *arguments = shlex.split(command)
        assert program == "neuralbasis"
        printed = CliRunner().invoke(main, arguments).output
        assert doctest.OutputChecker().check_output(expected, printed, FLAGS), f"$ {command}\n{printed}"
    assert (tmp_path / "loans.html").stat().st_size > 50_000
