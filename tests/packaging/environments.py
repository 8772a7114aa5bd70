"""Install the wheel in fresh environments and use it: `make test-packages`, `python -m tests.packaging.environments`.

Each Python is tried with the oldest wheels that pyproject.toml allows, and with the newest. uv finds
the Pythons on the path or downloads them. On Linux, `--torch cpu` installs the CPU build of PyTorch.
"""

from __future__ import annotations

import argparse
import email
import json
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

from .environment import ROOT, build, run

PYTHONS = ("3.10", "3.11", "3.12", "3.13")
CHECK = Path(__file__).with_name("check_installation.py")
UV = (sys.executable, "-m", "uv")


def check(wheel: Path, python: str, versions: str, torch: str | None, folder: Path) -> str:
    """Versions that worked, or the last line of what failed."""
    options = ["--no-build", "--resolution", versions, *(["--torch-backend", torch] if torch else [])]
    try:
        run(*UV, "venv", "--quiet", "--python", python, folder)
    except AssertionError as error:
        return f"not available: {last_line(error)}"
    try:
        # `lowest-direct` concerns what is named here: the dependencies, not what they need themselves.
        run(*UV, "pip", "install", "--quiet", "--python", folder, *options, wheel, *read_dependencies(wheel))
        found = json.loads(run(find_python(folder), CHECK, "--classes", cwd=folder))
    except AssertionError as error:
        return f"FAILED: {last_line(error)}"
    return "passed: " + ", ".join(
        f"{name} {number}" for name, number in found.items() if name not in ("place", "neuralbasis")
    )


def read_dependencies(wheel: Path) -> list[str]:
    """The requirements of a wheel, without those of extras."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = {name for name in archive.namelist() if name.endswith("dist-info/METADATA")}
        found = email.message_from_bytes(archive.read(metadata)).get_all("Requires-Dist")
    return [text for text in found if "extra ==" not in text]


def find_python(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def last_line(error: AssertionError) -> str:
    return str(error).strip().splitlines()[-1].strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", help="a version of Python; repeat it (default: all)")
    parser.add_argument("--versions", action="append", choices=["lowest-direct", "highest"])
    parser.add_argument("--torch", help="the build of PyTorch, such as cpu")
    arguments = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        wheel = build(ROOT, Path(folder), "wheel")
        for python in arguments.python or PYTHONS:
            for versions in arguments.versions or ("lowest-direct", "highest"):
                place = Path(folder, f"{python}-{versions}")
                results.append(check(wheel, python, versions, arguments.torch, place))
                print(f"Python {python}, {versions}: {results[-1]}", flush=True)
                shutil.rmtree(place, ignore_errors=True)
    sys.exit(any(result.startswith("FAILED") for result in results) or not any(r.startswith("passed") for r in results))


if __name__ == "__main__":
    main()
