"""The API reference: every public name is on a page, and its docstring has parameters, a result and an example."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "api.rst"
PACKAGES = (
    "neuralbasis", "neuralbasis.explain", "neuralbasis.export", "neuralbasis.plot", "neuralbasis.report",
    "neuralbasis.vision", "neuralbasis.vision.detection", "neuralbasis.distributed", "neuralbasis.tuning",
)  # fmt: skip
BASES = ["neuralbasis.networks." + name for name in ("Basis", "LinearStartBasis", "MLPBasis", "SplineBasis")]


def list_names(package: str) -> list[str]:
    """Public names of a package, without its modules."""
    module = importlib.import_module(package)
    names = getattr(module, "__all__", None) or [
        name
        for name, found in vars(module).items()
        if not name.startswith("_")
        and (name.isupper() or getattr(found, "__module__", "").startswith("neuralbasis.vision."))
    ]
    return [name for name in sorted(names) if not inspect.ismodule(getattr(module, name))]


NAMES = [f"{package}.{name}" for package in PACKAGES for name in list_names(package)] + BASES


def find(name: str) -> object:
    package, _, own = name.rpartition(".")
    return getattr(importlib.import_module(package), own)


def is_documented(found: object) -> bool:
    """Whether a name has a docstring of its own: a class, a function or a method."""
    return inspect.isclass(found) or inspect.isroutine(found)


DOCUMENTED = [name for name in NAMES if is_documented(find(name))]


def read_sections(text: str) -> set[str]:
    return set(re.findall(r"^(\w+)\n-{3,}$", text, re.MULTILINE))


def list_parameters(found: object) -> list[str]:
    if inspect.isclass(found) and issubclass(found, Exception):
        return []
    return [name for name in inspect.signature(found).parameters if name != "self"]


def returns_something(found: object) -> bool:
    if inspect.isclass(found):
        return False
    return inspect.signature(found).return_annotation not in (None, "None")


@pytest.mark.parametrize("name", DOCUMENTED)
def test_docstring_is_complete(name: str) -> None:
    found = find(name)
    text = inspect.getdoc(found) or ""
    sections = read_sections(text)
    if parameters := list_parameters(found):
        assert "Parameters" in sections
        described = text.partition("Parameters\n---")[2].partition("\nExamples\n---")[0]
        missing = [
            each for each in parameters if not re.search(rf"^[\w*, ]*\b{each}\b[\w*, ]* : ", described, re.MULTILINE)
        ]
        assert missing == []
    if returns_something(found):
        assert "Returns" in sections
    assert ">>>" in text.partition("Examples\n---")[2]


@pytest.mark.parametrize("name", [name for name in DOCUMENTED if inspect.isclass(find(name))])
def test_methods_have_docstrings(name: str) -> None:
    for own, method in inspect.getmembers(find(name)):
        method = getattr(method, "fget", None) or getattr(method, "func", None) or method
        if own.startswith("_") or not inspect.isroutine(method):
            continue
        if (getattr(method, "__module__", "") or "").startswith("neuralbasis"):
            assert inspect.getdoc(method), own


def test_the_reference_lists_every_name() -> None:
    listed = set(re.findall(r"[\w.]+", PAGE.read_text(encoding="utf-8")))
    entries = {name.removeprefix("neuralbasis.") for name in DOCUMENTED}
    constants = {name.rpartition(".")[2] for name in set(NAMES) - set(DOCUMENTED)}
    listed |= {name.rpartition(".")[2] for name in listed}
    assert sorted((entries | constants) - listed) == []
