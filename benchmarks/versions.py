"""Which code was measured: versions of the packages, and a hash of this package's own source."""

from __future__ import annotations

import hashlib
import platform
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

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


@lru_cache(maxsize=1)
def read_versions() -> dict[str, str]:
    """Package -> version; neuralbasis with a hash of its source, so that changed code is another version."""
    found = {"python": platform.python_version()}
    for package, distribution in DISTRIBUTIONS.items():
        try:
            found[package] = version(distribution)
        except PackageNotFoundError:
            found[package] = "absent"
    found["neuralbasis"] += f"+{_source_hash()}"
    return found


def _source_hash() -> str:
    spec = find_spec("neuralbasis")
    if spec is None or spec.origin is None:
        return "unknown"
    digest = hashlib.sha256()
    for path in sorted(Path(spec.origin).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]
