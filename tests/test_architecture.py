"""The rules of the source tree: who may import whom, how fast the package imports, how long a function may be.

Modules are named relative to the package ("encoding.axis", "training.loop"). A rule names a folder or a single module.
Imports inside functions and for annotations count like those at the top of a file. The root only lends names lazily
and is judged by what importing it does.
"""

from __future__ import annotations

import ast
import collections
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

PACKAGE = "neuralbasis"
SOURCE = Path(__file__).resolve().parents[1] / "src" / PACKAGE

# A fitted model loads, predicts, explains and exports without torch and without scikit-learn.
LINKS = "losses.links"  # on the model side, unlike the rest of its folder
MODEL_SIDE = ["kernels", "data", "encoding", "terms", LINKS, "model", "serialization"]
MODEL_SIDE += ["lazy", "readonly", "printable", "vision.detection"]
TRAINING_SIDE = ["losses", "networks", "training", "config"]
READERS = ["explain", "plot", "report", "export", "cli"]

# Imports point one way: a later folder may import an earlier one, never the other way round.
ORDER = ["kernels", "data", "encoding", "model", "readers"]
TRAINING_ORDER = ["networks", "losses", "training", "estimators"]

# Networks and losses are torch code that knows arrays, not tables or fitted models.
PURE_TORCH = ["networks", "losses"]
NOT_FOR_TORCH = ["data.columns", "data.frames", "encoding.encoder", "model", "serialization"]

# Readers do not import one another, except for these.
READER_EXCEPTIONS = {("plot", "explain"), ("report", "explain")}
# `visualize` of an explanation draws it: `plot` builds on `explain` and is imported when a figure is requested.
LATE_EXCEPTION = ("explain", "plot")

# package -> the folder or module that may import it
HOMES: dict[str, str | tuple[str, ...]] = {
    "narwhals": "data",
    "pandas": "data",
    "polars": "data",
    "pyarrow": ("cli", "data", "encoding"),
    "click": "cli",
    "numba": "kernels.compiled",
    "onnx": "export",
    "openpyxl": "export",
    "PIL": "vision",
    "transformers": "vision",
    "safetensors": "vision",
    "matplotlib": "plot",
    "pycocotools": "vision.detection",
    "optuna": "tuning",
    "ray": "distributed",
    "tqdm": "progress",
}
MAX_BODY_LINES = 60
MAX_IMPORT_SECONDS = 0.5


@dataclass(frozen=True)
class Import:
    """One imported name: the absolute dotted target, its line, and whether it waits for the call of a function."""

    target: str
    line: int
    is_late: bool


@dataclass(frozen=True)
class Module:
    """One source file: its name below the package ("" for the root), its path, its imports."""

    name: str
    path: Path
    imports: tuple[Import, ...]

    @property
    def top(self) -> str:
        return self.name.split(".")[0]


def read_module(path: Path, source: Path) -> Module:
    parts = list(path.relative_to(source).with_suffix("").parts)
    is_package = parts[-1] == "__init__"
    if is_package:
        parts.pop()
    package = [PACKAGE, *(parts if is_package else parts[:-1])]
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    late = {inner for function in functions for inner in ast.walk(function)}
    imports = [
        Import(target, node.lineno, node in late) for node in ast.walk(tree) for target in import_targets(node, package)
    ]
    return Module(".".join(parts), path, tuple(imports))


def import_targets(node: ast.AST, package: list[str]) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        origin = package[: len(package) - node.level + 1] if node.level else []
        stem = ".".join([*origin, *([node.module] if node.module else [])])
        return [f"{stem}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
        first = node.args[0] if node.args else None
        return [first.value] if isinstance(first, ast.Constant) and isinstance(first.value, str) else []
    return []


class Tree:
    """All modules of a source folder and the graph of imports between them."""

    def __init__(self, source: Path):
        self.modules = {m.name: m for m in (read_module(p, source) for p in sorted(source.rglob("*.py")))}

    def resolve(self, target: str) -> str | None:
        """The module a dotted target lives in: `neuralbasis.encoding.axis.Axis` -> `axis`; None if it is not ours."""
        first, *rest = target.split(".")
        if first != PACKAGE:
            return None
        while rest and ".".join(rest) not in self.modules:
            rest.pop()
        return ".".join(rest)

    def internal(self, module: Module) -> dict[str, Import]:
        """Modules of the package that a module imports, each with the first import of it."""
        found: dict[str, Import] = {}
        for item in module.imports:
            target = self.resolve(item.target)
            if target is not None and target != module.name:
                found.setdefault(target, item)
        return found

    def chained(self, module: Module) -> list[str]:
        """The internal imports without the one that may run in a circle."""
        return [target for target, item in self.internal(module).items() if not is_late_exception(module, item, target)]

    def external(self, module: Module) -> dict[str, Import]:
        """Top-level packages outside ours that a module imports, each with the first import of it."""
        found: dict[str, Import] = {}
        for item in module.imports:
            if self.resolve(item.target) is None:
                found.setdefault(item.target.split(".")[0], item)
        return found

    def chains(self, start: str) -> dict[str, list[str]]:
        """Every module reachable from `start`, with the shortest chain of imports that leads there."""
        found, queue = {start: [start]}, [start]
        while queue:
            name = queue.pop(0)
            for target in self.chained(self.modules[name]):
                # The root only lends names lazily, and modules inside do not borrow them (root_imports).
                if target and target not in found:
                    found[target] = [*found[name], target]
                    queue.append(target)
        return found

    def named(self, tops: list[str]) -> list[Module]:
        return [m for m in self.modules.values() if m.top in tops]


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree(SOURCE)


def top(name: str) -> str:
    return name.split(".")[0]


def is_late_exception(module: Module, item: Import, target: str) -> bool:
    return item.is_late and (module.top, top(target)) == LATE_EXCEPTION


def place(module: Module, item: Import) -> str:
    return f"{module.path.name}:{item.line} imports {item.target}"


def assert_none(broken: list[str], rule: str) -> None:
    assert not broken, rule + ":\n  " + "\n  ".join(broken)


def belongs(name: str, places: list[str] | set[str]) -> str | None:
    """The place (a folder or a module) that a module belongs to."""
    if name == LINKS:
        places = [place for place in places if place == LINKS]
    return next((place for place in places if name == place or name.startswith(f"{place}.")), None)


def foreign_reach(tree: Tree) -> list[str]:
    """Chains from the model side to torch, scikit-learn, the training side, an estimator or a reader."""
    off_limits = [*TRAINING_SIDE, *READERS, "estimators"]
    broken = []
    for module in tree.modules.values():
        if belongs(module.name, MODEL_SIDE) is None:
            continue
        for reached, chain in tree.chains(module.name).items():
            if belongs(reached, off_limits):
                broken.append(" -> ".join(chain))
            packages = tree.external(tree.modules[reached]).keys() & {"torch", "sklearn"}
            broken += [" -> ".join([*chain, package]) for package in sorted(packages)]
    return broken


def backward_imports(tree: Tree, order: list[str]) -> list[str]:
    """Imports of a later folder by an earlier one."""
    rank = {name: i for i, name in enumerate(order)}
    if "readers" in rank:
        rank |= dict.fromkeys(READERS, rank["readers"])
    broken = []
    for module in tree.modules.values():
        own = belongs(module.name, list(rank))
        if own is None:
            continue
        for target, item in tree.internal(module).items():
            other = belongs(target, list(rank))
            if other is not None and rank[other] > rank[own]:
                broken.append(place(module, item))
    return broken


def mixed_torch(tree: Tree) -> list[str]:
    """Networks and losses that know tables or fitted models."""
    return [
        place(module, item)
        for module in tree.modules.values()
        if belongs(module.name, PURE_TORCH)
        for target, item in tree.internal(module).items()
        if belongs(target, NOT_FOR_TORCH)
    ]


def repeated_classes(tree: Tree) -> list[str]:
    """Class names with two meanings."""
    found = collections.defaultdict(list)
    for module in tree.modules.values():
        for node in ast.walk(ast.parse(module.path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(module.name)
    return [f"{name}: {', '.join(homes)}" for name, homes in found.items() if len(homes) > 1]


def reader_crossings(tree: Tree) -> list[str]:
    """Imports of a reader by another reader, or of the training side by a reader."""
    broken = []
    for module in tree.named(READERS):
        for target, item in tree.internal(module).items():
            is_other = top(target) in READERS and top(target) != module.top
            is_exception = (module.top, top(target)) in READER_EXCEPTIONS or is_late_exception(module, item, target)
            if (is_other and not is_exception) or belongs(target, TRAINING_SIDE):
                broken.append(place(module, item))
    return broken


def homeless_imports(tree: Tree) -> list[str]:
    """Imports of an optional package outside its home."""
    return [
        f"{place(module, item)}; its home is {HOMES[package]}"
        for module in tree.modules.values()
        for package, item in tree.external(module).items()
        if package in HOMES and belongs(module.name, list(np.atleast_1d(HOMES[package]))) is None
    ]


def root_imports(tree: Tree) -> list[str]:
    """Imports of the lazy root, which would hide where a name lives; the command line is a user like any other."""
    allowed = (PACKAGE, "__version__")
    broken = []
    for module in tree.modules.values():
        for item in module.imports:
            parts = tuple(item.target.split("."))
            is_root = tree.resolve(item.target) == "" and len(parts) <= 2 and parts != allowed
            if is_root and module.top not in ("", "cli"):
                broken.append(place(module, item))
    return broken


def find_cycle(tree: Tree) -> list[str]:
    """One cycle of imports as a chain that ends where it began; empty if there is none."""
    for module in tree.modules.values():
        for target in tree.chained(module):
            if target and module.name and module.name in (back := tree.chains(target)):
                return [module.name, *back[module.name]]
    return []


def long_functions(tree: Tree) -> list[str]:
    """Functions whose body, docstring aside, is longer than the limit."""
    broken = []
    for module in tree.modules.values():
        for node in ast.walk(ast.parse(module.path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            length = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
            if length > MAX_BODY_LINES:
                broken.append(f"{module.path.name}:{node.lineno} {node.name}: {length} lines")
    return broken


def test_model_side_is_free_of_torch_and_sklearn(tree: Tree) -> None:
    assert_none(foreign_reach(tree), "a fitted model must load and predict without torch and scikit-learn")


@pytest.mark.parametrize("order", [ORDER, TRAINING_ORDER], ids=["data", "training"])
def test_imports_point_one_way(tree: Tree, order: list[str]) -> None:
    assert_none(backward_imports(tree, order), f"imports must point back along {' → '.join(order)}")


def test_networks_and_losses_know_arrays_only(tree: Tree) -> None:
    assert_none(mixed_torch(tree), "networks and losses import no tables, encoders, models or files")


def test_a_class_name_has_one_meaning(tree: Tree) -> None:
    assert_none(repeated_classes(tree), "one name for one class in the whole package")


def test_readers_stand_apart(tree: Tree) -> None:
    rule = "readers start from the model (plot and report may import explain, whose `visualize` calls plot)"
    assert_none(reader_crossings(tree), rule)


def test_optional_packages_have_one_home(tree: Tree) -> None:
    assert_none(homeless_imports(tree), "an optional package is imported by one file only")


def test_no_cycles(tree: Tree) -> None:
    cycle = find_cycle(tree)
    assert not cycle, "imports run in a circle: " + " -> ".join(cycle)


def test_modules_name_what_they_import(tree: Tree) -> None:
    assert_none(root_imports(tree), "inside the package, import from the module that holds the name")


def test_no_drawer_for_odds_and_ends() -> None:
    assert_none([str(p.name) for p in SOURCE.rglob("*.py") if p.stem in ("utils", "base")], "give the module a noun")


def test_functions_are_short(tree: Tree) -> None:
    assert_none(long_functions(tree), f"at most {MAX_BODY_LINES} lines a function, docstring aside")


LONG = "def fit():\n" + "    x = 1\n" * (MAX_BODY_LINES + 1)

VIOLATIONS = {
    "model-direct": (foreign_reach, {"encoding/axis.py": "import torch"}),
    "model-lazy": (foreign_reach, {"encoding/axis.py": "def f():\n    from sklearn.base import clone"}),
    "model-transitive": (foreign_reach, {"model/shapes.py": "from .. import odd", "odd.py": "import torch.nn"}),
    "model-typing": (
        foreign_reach,
        {"model/m.py": "if TYPE_CHECKING:\n    from ..networks import N", "networks/__init__.py": ""},
    ),
    "model-importlib": (foreign_reach, {"losses/links.py": "import importlib\nimportlib.import_module('torch')"}),
    "order": (
        lambda t: backward_imports(t, ORDER),
        {"data/sparse.py": "from ..encoding.axis import A", "encoding/axis.py": ""},
    ),
    "training-order": (
        lambda t: backward_imports(t, TRAINING_ORDER),
        {"networks/mlp.py": "from ..training.loop import run", "training/loop.py": ""},
    ),
    "torch-knows-tables": (
        mixed_torch,
        {"losses/loss.py": "from neuralbasis.model.shapes import Shape", "model/shapes.py": ""},
    ),
    "class-twice": (repeated_classes, {"a.py": "class Plan: ...", "b.py": "class Plan: ..."}),
    "readers": (reader_crossings, {"export.py": "from .plot import shapes", "plot.py": ""}),
    "reader-late": (
        reader_crossings,
        {"explain.py": "from . import plot\n\ndef visualize():\n    from . import plot", "plot.py": ""},
    ),
    "reader-training": (reader_crossings, {"plot.py": "from .networks import BasisNet", "networks.py": ""}),
    "home": (homeless_imports, {"encoding/encoder.py": "import narwhals as nw"}),
    "home-of-two": (homeless_imports, {"model/shapes.py": "import pyarrow"}),
    "home-tqdm": (homeless_imports, {"training/loop.py": "from tqdm import tqdm"}),
    "home-module": (homeless_imports, {"kernels/lookup.py": "from numba import njit"}),
    "root": (root_imports, {"__init__.py": "", "model/m.py": "from neuralbasis import load"}),
    "cycle": (
        find_cycle,
        {"a.py": "from . import b", "b.py": "from .c import x", "c.py": "def f():\n    from . import a"},
    ),
    "cycle-records": (find_cycle, {"explain.py": "from . import plot", "plot.py": "from . import explain"}),
    "long": (long_functions, {"a.py": LONG}),
}
LAWFUL = {
    "__init__.py": "__version__ = '1'\nif TYPE_CHECKING:\n    from .estimators import R",
    "data/columns.py": "import narwhals",
    "kernels/compiled.py": "def load():\n    import numba",
    "encoding/encoder.py": "from ..data.columns import read_columns",
    "model/shapes.py": "from ..encoding.encoder import Encoder\nfrom neuralbasis import __version__",
    "networks/basis_net.py": "import torch\nfrom ..kernels import compiled",
    "progress.py": "from tqdm import tqdm",
    "training/loop.py": "from ..progress import tqdm\nfrom ..networks.basis_net import BasisNet\nclass Loop: ...",
    "estimators.py": "import sklearn\nfrom .training.loop import Loop\nfrom .model.shapes import Shape",
    "explain.py": "from .model.shapes import Shape\n\ndef visualize():\n    from . import plot",
    "plot.py": "import matplotlib\nfrom . import explain",
    "a.py": LONG.replace("():\n", "():\n    '''Two\n    lines.'''\n", 1).removesuffix("    x = 1\n"),
}


def write_tree(folder: Path, files: dict[str, str]) -> Tree:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return Tree(folder)


@pytest.mark.parametrize("name", VIOLATIONS)
def test_each_rule_finds_its_violation(name: str, tmp_path: Path) -> None:
    check, files = VIOLATIONS[name]
    assert check(write_tree(tmp_path, files))


@pytest.mark.parametrize("name", VIOLATIONS)
def test_each_rule_accepts_a_lawful_tree(name: str, tmp_path: Path) -> None:
    check, _ = VIOLATIONS[name]
    assert check(write_tree(tmp_path, LAWFUL)) == []


IMPORT_PROBE = f"""
import sys, time
begin = time.perf_counter()
import {PACKAGE}
seconds = time.perf_counter() - begin
print(seconds, *sorted({{"torch", "sklearn", "numba", "pandas"}} & set(sys.modules)))
"""


def test_importing_the_package_is_light() -> None:
    seconds = []
    for _ in range(5):
        run = subprocess.run([sys.executable, "-c", IMPORT_PROBE], capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        elapsed, *heavy = run.stdout.split()
        assert not heavy, f"import {PACKAGE} also imports {', '.join(heavy)}"
        seconds.append(float(elapsed))
    assert statistics.median(seconds) <= MAX_IMPORT_SECONDS, f"import {PACKAGE} took {seconds} seconds"


def test_a_fit_does_not_import_torch_s_symbolic_shapes() -> None:
    """They bring sympy, a second of a first fit in a fresh process."""
    code = (
        "import sys, numpy as np; from neuralbasis import NeuralBasisRegressor;"
        "X = np.random.default_rng(0).random((60, 2));"
        "NeuralBasisRegressor(max_steps=3, outer_bags=2, interactions=[(0, 1)]).fit(X, X[:, 0] * X[:, 1]);"
        "print('torch' in sys.modules, 'sympy' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["True", "False"]
