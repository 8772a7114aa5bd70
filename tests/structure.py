"""Counts that keep the source simple: `python -m tests.structure` prints them, `test_structure` limits them.

`--json` prints them for a program.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "neuralbasis"
FIT_PATH = ("config.py", "settings.py", "data", "encoding", "terms", "losses", "networks", "training", "kernels")
# Modules that users import from; everything else is internal.
PUBLIC = {"", "plot", "report", "export", "explain", "vision", "vision.detection", "tuning", "distributed", "networks"}
MAX_FILE_LINES = 450


def count_all() -> dict[str, int]:
    """The counts by name."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}
    lines = [len(path.read_text(encoding="utf-8").splitlines()) for path in trees]
    classes = Counter(node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return {
        "lines of Python in src": sum(lines),
        f"files over {MAX_FILE_LINES} lines": sum(count > MAX_FILE_LINES for count in lines),
        "numeric constants on the fit path": sum(len(list_constants(trees[path])) for path in trees if is_fit(path)),
        "configuration typed Any": sum(count_loose(tree) for tree in trees.values()),
        "class names used twice": sum(count > 1 for count in classes.values()),
        "constructor parameters": count_parameters(),
        "internal names imported by tests": len(set(list_internal_names())),
    }


def is_fit(path: Path) -> bool:
    return path.relative_to(SOURCE).parts[0] in FIT_PATH


def list_constants(tree: ast.Module) -> list[str]:
    """Upper-case names of a module whose value has a number in it."""
    found = []
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        names = [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
        value = getattr(node, "value", None)
        numbers = [part.value for part in ast.walk(value) if isinstance(part, ast.Constant)] if value else []
        if any(isinstance(number, (int, float)) and not isinstance(number, bool) for number in numbers):
            found += [name for name in names if name.isupper()]
    return found


def count_loose(tree: ast.Module) -> int:
    """Arguments that hold configuration and are annotated Any."""
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    arguments = [argument for function in functions for argument in (*function.args.args, *function.args.kwonlyargs)]
    names = ("parameters", "estimator", "config", "group")
    return sum(a.arg in names and isinstance(a.annotation, ast.Name) and a.annotation.id == "Any" for a in arguments)


def count_parameters() -> int:
    from neuralbasis import NeuralBasisRegressor

    return len(inspect.signature(NeuralBasisRegressor).parameters)


def list_internal_names() -> Iterator[tuple[str, str]]:
    """(module, name) of what test files import from modules that users do not import from."""
    for path in [ROOT / "conftest.py", *(ROOT / "tests").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "neuralbasis":
                module = (node.module or "").partition(".")[2]
                yield from ((module, alias.name) for alias in node.names if module not in PUBLIC)


if __name__ == "__main__":
    counts = count_all()
    is_json = "--json" in sys.argv[1:]
    print(json.dumps(counts) if is_json else "\n".join(f"{name:<40}{count:>8,}" for name, count in counts.items()))
