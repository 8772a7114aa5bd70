"""Old import paths: `neuralbasis.concepts` and others load the module that replaced them, with a FutureWarning.

They work for one version. `MOVED` lists the modules that users may have imported; all others were internal.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

PACKAGE = __name__.rpartition(".")[0]
MOVED = {
    "bases": "networks",
    "bound": "explain.basis_bound",
    "columns": "data.columns",
    "concepts": "vision",
    "detection": "vision.detection",
    "document": "serialization.model_file",
    "launch": "distributed",
    "merging": "model.merge",
    "objective": "losses.loss",
    "recipe": "config",
    "scorecard": "model.scorecard",
    "search": "tuning.search",
    "shape": "model.shapes",
}


def find_moved(name: str) -> str | None:
    """Return the present name of a moved module, None for all other modules.

    >>> find_moved("neuralbasis.concepts.formats"), find_moved("neuralbasis.plot")
    ('neuralbasis.vision.formats', None)
    """
    package, _, rest = name.partition(".")
    first, _, inner = rest.partition(".")
    if package != PACKAGE or first not in MOVED:
        return None
    return ".".join(filter(None, [PACKAGE, MOVED[first], inner]))


class MovedModules(MetaPathFinder, Loader):
    """Finds modules by their old names and returns the present module object, not a copy."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return None if find_moved(fullname) is None else ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        present = find_moved(spec.name)
        assert present is not None
        module = import_module(present)
        _warn_caller(f"{spec.name} moved to {present}; the old name works until version 0.3")
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the spec of the loaded module, which importlib has overwritten."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def _warn_caller(message: str) -> None:
    """Warn at the line that imports the old name, outside importlib and this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _root_of(frame.f_globals) in (PACKAGE, "importlib"):
        frame = frame.f_back
    module, registry = frame.f_globals.get("__name__"), frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(
        message, FutureWarning, frame.f_code.co_filename, frame.f_lineno, module=module, registry=registry
    )


def _root_of(namespace: dict[str, object]) -> str:
    return str(namespace.get("__name__")).partition(".")[0]


def install() -> None:
    """Add the finder to `sys.meta_path`; the package calls this once.

    It comes first: the finder of files would load a second copy of a submodule from the folder of the new package.
    """
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, MovedModules())
