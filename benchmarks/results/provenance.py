"""Where a figure comes from: date, machine, versions of packages, commit, and a hash of the source of neuralbasis."""

from __future__ import annotations

import datetime
import hashlib
import os
import platform
import subprocess
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..harness import ROOT

SOURCE = ("src", "benchmarks", ":!benchmarks/results", ":!benchmarks/*.md")
DISTRIBUTIONS = {
    "neuralbasis": "neuralbasis",
    "interpret": "interpret-core",
    "xgboost": "xgboost",
    "sklearn": "scikit-learn",
    "numpy": "numpy",
    "torch": "torch",
    "numba": "numba",
    "nodegam": "nodegam",
}


def describe_origin() -> dict[str, Any]:
    """Fields of a record. `changed` is True if the source differs from the commit."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M"),
        "machine": describe_machine(),
        "versions": read_versions(),
        "commit": run_git("rev-parse", "--short=12", "HEAD"),
        "changed": bool(run_git("status", "--porcelain", "--", *SOURCE)),
    }


@lru_cache(maxsize=1)
def read_versions() -> dict[str, str]:
    """Package -> version. That of neuralbasis ends with a hash of its source: changed source is another version."""
    found = {"python": platform.python_version()}
    for package, distribution in DISTRIBUTIONS.items():
        try:
            found[package] = version(distribution)
        except PackageNotFoundError:
            found[package] = "absent"
    found["neuralbasis"] += f"+{_hash_source()}"
    return found


def _hash_source() -> str:
    spec = find_spec("neuralbasis")
    if spec is None or spec.origin is None:
        return "unknown"
    digest = hashlib.sha256()
    for path in sorted(Path(spec.origin).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


@lru_cache(maxsize=1)
def describe_machine() -> str:
    """Number of cores and name of the processor."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    except OSError:  # not Linux
        pass
    return f"{os.cpu_count()} cores, {name}"


def run_git(*arguments: str) -> str:
    """Output of a git command; empty without git or outside a repository."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
