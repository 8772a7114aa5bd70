"""What all benchmarks share: child processes, and readers of command-line values."""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"  # records and generated tables
SECONDS_PER_UNIT = {"s": 1, "m": 60, "h": 3600}


class ChildError(RuntimeError):
    """A child process failed; `reason` is its exit code and the last line of its error output."""

    def __init__(self, command: str, reason: str) -> None:
        super().__init__(f"{command} failed, {reason}")
        self.reason = reason


class ChildTimeoutError(ChildError):
    """A child process exceeded its time limit and was terminated."""


def run_child(module: str, argument: str, limit: float | None = None) -> str:
    """Run `python -m module --child argument` and return the last line it prints; `limit` is in seconds."""
    command = [sys.executable, "-m", module, "--child", argument]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        raise ChildTimeoutError(f"{module} {argument}", f"stopped after {limit:.0f} s") from None
    sys.stderr.write(done.stderr)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["no error output"]
        raise ChildError(f"{module} {argument}", f"exit code {done.returncode}: {last[0]}")
    return done.stdout.strip().splitlines()[-1]


def hide_folders(text: str) -> str:
    """Replace folders of this machine by placeholders."""
    folders = {os.environ.get("NEURALBASIS_DATA", ""): "$NEURALBASIS_DATA", str(ROOT): ".", sys.prefix: "…"}
    for folder, name in folders.items():
        text = text.replace(folder, name) if folder else text
    return text


def read_option(text: str) -> tuple[str, Any]:
    """Parse `name=value` from the command line; a value that is no Python literal is text.

    >>> read_option("outer_bags=2"), read_option("interactions=all"), read_option("hidden=(64, 32)")
    (('outer_bags', 2), ('interactions', 'all'), ('hidden', [64, 32]))
    """
    name, equals, value = text.partition("=")
    if not (name.isidentifier() and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form name=value")
    try:
        return name, json.loads(json.dumps(ast.literal_eval(value)))  # the same types as after reading a record
    except (ValueError, SyntaxError, TypeError):
        return name, value


def read_seconds(text: str) -> float:
    """Parse a duration such as 90s, 20m, 2h or 1.5h into seconds.

    >>> read_seconds("2h"), read_seconds("90")
    (7200.0, 90.0)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 90s, 20m or 2h")
    return float(found[1]) * SECONDS_PER_UNIT[found[2] or "s"]


def format_seconds(seconds: float) -> str:
    """
    >>> format_seconds(40), format_seconds(200), format_seconds(9000)
    ('40 s', '3 min', '2 h 30 min')
    """
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
