"""Old import paths return the present modules, with a FutureWarning at the line of the caller."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
import warnings
from importlib.util import find_spec

import pytest

import neuralbasis
from neuralbasis._moved import MOVED


@pytest.fixture(autouse=True)
def unload_old_names():
    """Every test imports old names for the first time; the present modules stay loaded."""
    _unload()
    yield
    _unload()


def _unload() -> None:
    for name in MOVED:
        vars(neuralbasis).pop(name, None)
        for loaded in [other for other in sys.modules if f"{other}.".startswith(f"neuralbasis.{name}.")]:
            del sys.modules[loaded]


def line_of(function, text: str) -> int:
    """Number of the line of a function that contains a text."""
    lines, first = inspect.getsourcelines(function)
    return first + next(index for index, line in enumerate(lines) if text in line)


def assert_one_warning(caught, old: str, new: str, line: int) -> None:
    moved = [found for found in caught if "moved to" in str(found.message)]
    assert len(moved) == 1
    assert moved[0].category is FutureWarning
    assert (
        str(moved[0].message) == f"neuralbasis.{old} moved to neuralbasis.{new}; the old name works until version 0.3"
    )
    assert (moved[0].filename, moved[0].lineno) == (__file__, line)


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_an_old_path_is_the_present_module(old: str, new: str) -> None:
    with pytest.warns(FutureWarning) as caught:
        module = importlib.import_module(f"neuralbasis.{old}")
    line = line_of(test_an_old_path_is_the_present_module, "importlib.import_module(f")
    assert_one_warning(caught, old, new, line)
    assert module is importlib.import_module(f"neuralbasis.{new}")
    assert module.__name__ == module.__spec__.name == f"neuralbasis.{new}"


def test_import_statements() -> None:
    from neuralbasis import config, distributed, vision

    with pytest.warns(FutureWarning) as caught:
        import neuralbasis.concepts as concepts
    assert_one_warning(caught, "concepts", "vision", line_of(test_import_statements, "as concepts"))
    with pytest.warns(FutureWarning) as caught:
        import neuralbasis.recipe as recipe
    assert_one_warning(caught, "recipe", "config", line_of(test_import_statements, "as recipe"))
    with pytest.warns(FutureWarning) as caught:
        import neuralbasis.launch as launch
    assert_one_warning(caught, "launch", "distributed", line_of(test_import_statements, "as launch"))
    assert (concepts, recipe, launch) == (vision, config, distributed)


def test_a_name_from_an_old_path() -> None:
    from neuralbasis.networks import MLPBasis as Present

    with pytest.warns(FutureWarning) as caught:
        from neuralbasis.bases import MLPBasis
    assert_one_warning(caught, "bases", "networks", line_of(test_a_name_from_an_old_path, "neuralbasis.bases import"))
    assert MLPBasis is Present


def test_a_submodule_of_an_old_path_is_no_copy() -> None:
    with pytest.warns(FutureWarning, match="concepts moved"):
        import neuralbasis.concepts  # noqa: F401
    with pytest.warns(FutureWarning) as caught:
        formats = importlib.import_module("neuralbasis.concepts.formats")
    line = line_of(test_a_submodule_of_an_old_path_is_no_copy, "formats = ")
    assert_one_warning(caught, "concepts.formats", "vision.formats", line)
    assert formats is importlib.import_module("neuralbasis.vision.formats")
    assert formats.__spec__.name == "neuralbasis.vision.formats"


def test_an_old_attribute_of_the_package() -> None:
    from neuralbasis import distributed

    with pytest.warns(FutureWarning) as caught:
        found = neuralbasis.launch
    line = line_of(test_an_old_attribute_of_the_package, "neuralbasis.launch")
    assert_one_warning(caught, "launch", "distributed", line)
    assert found is distributed


def test_present_paths_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        from neuralbasis import config, distributed, vision  # noqa: F401


def test_unknown_names_still_raise() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"neuralbasis\.nothing"):
        importlib.import_module("neuralbasis.nothing")
    with pytest.warns(FutureWarning, match="concepts moved"), pytest.raises(ModuleNotFoundError, match="nothing"):
        importlib.import_module("neuralbasis.concepts.nothing")
    with pytest.raises(AttributeError, match="module 'neuralbasis' has no attribute 'nothing'"):
        _ = neuralbasis.nothing
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from neuralbasis import nothing  # noqa: F401


@pytest.mark.parametrize("old", MOVED)
def test_an_old_name_hides_no_present_module(old: str) -> None:
    """The finder of old names comes first and would hide a new module of the same name."""
    finders = [finder for finder in sys.meta_path if type(finder).__name__ != "MovedModules"]
    path = neuralbasis.__path__
    assert all(finder.find_spec(f"neuralbasis.{old}", path) is None for finder in finders)
    assert find_spec(f"neuralbasis.{MOVED[old]}") is not None


def test_importing_the_package_stays_light() -> None:
    code = (
        "import sys, warnings; warnings.simplefilter('error'); import neuralbasis;"
        "print(*sorted({'torch', 'sklearn'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []
