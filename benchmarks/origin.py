"""Where and when a figure was measured: date, machine, versions, and the commit of the source."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any

from .versions import read_versions

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ("src", "benchmarks", ":!benchmarks/*.jsonl", ":!benchmarks/*.md", ":!benchmarks/figures")


def describe_origin() -> dict[str, Any]:
    """Fields of a JSON line. `changed` tells that the source was not what the commit has."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M"),
        "machine": describe_machine(),
        "versions": read_versions(),
        "commit": ask_git("rev-parse", "--short=12", "HEAD"),
        "changed": bool(ask_git("status", "--porcelain", "--", *SOURCE)),
    }


@lru_cache(maxsize=1)
def describe_machine() -> str:
    """Number of cores and the processor's name."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    except OSError:  # not Linux
        pass
    return f"{os.cpu_count()} cores, {name}"


def ask_git(*words: str) -> str:
    """What git answers; nothing where there is no git, or no repository."""
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
