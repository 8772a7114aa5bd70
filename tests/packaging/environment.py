"""Distributions built from source, and environments that link distributions of the running one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OWN = re.compile(r"neuralbasis|_?_?editable_*neuralbasis|.*\.pth$|__pycache__$", re.IGNORECASE)


def run(*command: object, cwd: Path | None = None, **variables: str) -> str:
    """The standard output of a command that must succeed; it does not see the source tree."""
    hidden = {"PYTHONPATH", "SOURCE_DATE_EPOCH", "VIRTUAL_ENV"}
    env = {name: value for name, value in os.environ.items() if name not in hidden} | variables
    found = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, f"{found.stdout}\n{found.stderr}"
    return found.stdout


def build(source: Path, target: Path, kind: str, **variables: str) -> Path:
    """Build one distribution of a source tree into a folder."""
    run(sys.executable, "-m", "hatchling", "build", "-d", target, "-t", kind, cwd=source, **variables)
    (found,) = target.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return found


class Environment:
    """A new environment with links to the named distributions and what they require, or to all but neuralbasis."""

    def __init__(self, folder: Path, names: set[str] | None = None) -> None:
        venv.create(folder, symlinks=True)
        self.folder, self.bin = folder, folder / "bin"
        (packages,) = (folder / "lib").glob("python*/site-packages")
        self.packages = packages
        self.link(names)

    def link(self, names: set[str] | None) -> None:
        for entry in find_entries(names):
            if not (self.packages / entry.name).exists():
                os.symlink(entry, self.packages / entry.name)

    def install(self, wheel: Path) -> None:
        options = ("--no-deps", "--no-index", "--no-compile", "--quiet", "--disable-pip-version-check")
        run(sys.executable, "-m", "pip", "--python", self.bin / "python", "install", *options, wheel)


def find_entries(names: set[str] | None) -> list[Path]:
    """The top-level files and folders of distributions; all but those of neuralbasis without names."""
    if names is None:
        return [entry for entry in Path(sysconfig.get_path("purelib")).iterdir() if not OWN.match(entry.name)]
    entries, waiting, known = set(), list(names), set()
    while waiting:
        name = waiting.pop()
        if name in known:
            continue
        known.add(name)
        found = distribution(name)
        tops = {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}
        entries |= {Path(str(found.locate_file(top))) for top in tops}
        waiting += [
            re.match(r"[\w.-]+", text)[0] for text in found.requires or () if "extra ==" not in text and ";" not in text
        ]
    return sorted(entries)


def copy_tree(target: Path) -> Path:
    """The files that decide a version, without their history."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target / name)
    (target / "src/neuralbasis").mkdir(parents=True)
    shutil.copy(ROOT / "src/neuralbasis/__init__.py", target / "src/neuralbasis")
    return target
