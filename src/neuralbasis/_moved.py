"""Old import paths: `neuralbasis.concepts` and others load the module that took their place, with a FutureWarning.

They work for one version. `MOVED` lists what users may have imported; other modules were internal.
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
    """The present name of a module that was moved.

    >>> find_moved("neuralbasis.concepts.formats"), find_moved("neuralbasis.plot")
    ('neuralbasis.vision.formats', None)
    """
    package, _, rest = name.partition(".")
    first, _, inner = rest.partition(".")
    if package != PACKAGE or first not in MOVED:
        return None
    return ".".join(filter(None, [PACKAGE, MOVED[first], inner]))


class MovedModules(MetaPathFinder, Loader):
    """Finds modules by their old names; the module is the present one, not a copy."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return None if find_moved(fullname) is None else ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        present = find_moved(spec.name)
        assert present is not None
        message = f"{spec.name} moved to {present}; the old name works until version 0.3"
        warnings.warn(message, FutureWarning, stacklevel=2)
        module = import_module(present)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """The module is loaded already; importlib has replaced its spec, which is given back."""
        module.__spec__ = self._spec


def install() -> None:
    """Let `import` find old names; called once by the package."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(MovedModules())
