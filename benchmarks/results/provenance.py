"""Where a figure comes from: date, machine, versions of packages, commit, and a hash of the source of neuralbasis."""

from __future__ import annotations

import ast
import datetime
import hashlib
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..harness import ROOT

EQUAL_SOURCES = Path(__file__).with_name("equal_sources.txt")
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
    # The number of a development version counts commits; the hash says which source it is.
    found["neuralbasis"] = f"{re.sub(r'[.]dev.*', '.dev0', found['neuralbasis'])}+{_hash_source()}"
    return found


# What decides a model and its predictions; changes elsewhere leave records valid.
MEASURED = (
    "config.py",
    "estimators.py",
    "data",
    "encoding",
    "kernels",
    "losses",
    "model",
    "networks",
    "terms",
    "training",
)


def _hash_source() -> str:
    """A hash of the code on the way from a table to predictions."""
    spec = find_spec("neuralbasis")
    if spec is None or spec.origin is None:
        return "unknown"
    root = Path(spec.origin).parent
    found = sorted(path for name in MEASURED for path in [root / name, *(root / name).rglob("*.py")])
    return hash_files([path for path in found if path.suffix == ".py"])


def hash_files(paths: Sequence[Path]) -> str:
    """A hash of Python files without comments and docstrings."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(ast.dump(_strip_docstrings(ast.parse(path.read_text(encoding="utf-8")))).encode())
    return digest.hexdigest()[:8]


def is_same_source(version: str, present: str) -> bool:
    """Whether two versions of neuralbasis have the same source, whatever the number of the release, or the same models.

    A version that also has a hash of a learner's file is one of the paper's model: then these must be equal too, and
    all models, not only the default ones.

    >>> is_same_source("0.1.0+6ecb334f", "0.2.0+6ecb334f"), is_same_source("0.2.0", "0.2.0+6ecb334f")
    (True, False)
    >>> is_same_source("0.1.0+6ecb334f+11111111", "0.2.0+6ecb334f+22222222")
    False
    """
    (_, *old), (_, *new) = version.split("+"), present.split("+")
    if old == new or not (old and new):
        return old == new
    return old[1:] == new[1:] and old[0] in list_equal_sources(new[0], every_model=len(new) > 1)


def list_equal_sources(source: str, every_model: bool = False) -> set[str]:
    """Hashes of sources that give bit for bit the same default models, as `python -m tests.golden.record --check` found
    on one machine; with `every_model` also the same models of the paper's engine."""
    lines = [line.split() for line in EQUAL_SOURCES.read_text(encoding="utf-8").splitlines()]
    pairs = [(old, new) for old, new, n_equal, _, n_models, *_ in lines if n_equal == n_models or not every_model]
    found = {source}
    while more := {each for pair in pairs if found & set(pair) for each in pair} - found:
        found |= more
    return found


def _strip_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
        ):
            node.body = body[1:]  # type: ignore[attr-defined]
    return tree


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
