"""The rules of the source tree: who may import whom, how fast the package imports, how long a function may be.

Modules are named relative to the package ("axis", "train.loop"); a subpackage counts as its folder. Imports inside
functions and for annotations only count like those at the top of a file; the root, which only lends names, is
judged by what importing it does. What does not exist is not checked.
"""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

PACKAGE = "neuralbasis"
SOURCE = Path(__file__).resolve().parents[1] / "src" / PACKAGE

NUMPY_SIDE = ["stored", "columns", "axis", "encoder", "terms", "screen", "select", "link", "layout", "model", "kernels"]
NUMPY_SIDE += ["lazy", "entries", "factors", "purify", "shape", "summary", "draft", "archive", "document", "scorecard"]
NUMPY_SIDE += ["bound", "merging", "nested", "predictions", "printable", "stream", "detection"]
TORCH_SIDE = ["bases", "net", "objective", "train", "compile"]
READERS = ["explain", "plot", "report", "edit", "export", "cli"]
BOTH_SIDES = {
    "beyond",
    "checkpoint",
    "compile",
    "estimators",
    "fitting",
    "start",
    "supply",
    "trainer",
    "updating",
    "wide",
}
# The training side calls the compiled loops (the backward pass of a look-up is a histogram) and is handed the records
# that describe their arrays. It sees no frames, no encoder, no fitted model.
SHARED = {"kernels", "layout", "axis", "terms", "stored", "entries", "printable"}

# Later may import earlier, never the other way round.
DATA_LINE = ["stored", "columns", "axis", "encoder", "model", "readers"]
TRAINING_LINE = ["bases", "net", "objective", "train", "compile"]

# Readers do not import one another, but for these.
READER_EXCEPTIONS = {("plot", "explain"), ("report", "explain")}
# `visualize` of the records draws them: plot stands behind explain and is imported when somebody wants a figure.
LATE_EXCEPTION = ("explain", "plot")

# package -> the one module that may import it, or the two
HOMES: dict[str, str | tuple[str, ...]] = {
    "narwhals": "columns",
    "pandas": "columns",
    "polars": "columns",
    "pyarrow": ("cli", "stream"),
    "click": "cli",
    "numba": "kernels",
    "onnx": "export",
    "openpyxl": "export",
    "PIL": "concepts",
    "transformers": "concepts",
    "safetensors": "concepts",
    "matplotlib": "plot",
    "pycocotools": "detection",
    "optuna": "search",
    "ray": "launch",
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


def foreign_reach(tree: Tree) -> list[str]:
    """Chains from a NumPy-side module to torch, scikit-learn, the training side, an estimator or a reader."""
    off_limits = {*TORCH_SIDE, *READERS, "estimators"}
    broken = []
    for module in tree.named(NUMPY_SIDE):
        for reached, chain in tree.chains(module.name).items():
            if top(reached) in off_limits:
                broken.append(" -> ".join(chain))
            packages = tree.external(tree.modules[reached]).keys() & {"torch", "sklearn"}
            broken += [" -> ".join([*chain, package]) for package in sorted(packages)]
    return broken


def backward_imports(tree: Tree, line: list[str]) -> list[str]:
    """Chains from an earlier station of a line to a later one."""
    rank = {name: i for i, name in enumerate(line)}
    if "readers" in rank:
        rank |= dict.fromkeys(READERS, rank["readers"])
    broken = []
    for module in tree.named(list(rank)):
        for reached, chain in tree.chains(module.name).items():
            if rank.get(top(reached), -1) > rank[module.top]:
                broken.append(" -> ".join(chain))
    return broken


def two_sided(tree: Tree) -> list[str]:
    """Modules that see both sides without being allowed to."""
    broken = []
    for module in tree.modules.values():
        if module.name == "" or module.top in BOTH_SIDES:
            continue
        targets = tree.internal(module)
        sees_numpy = [t for t in targets if top(t) in NUMPY_SIDE and top(t) not in SHARED]
        sees_torch = [t for t in targets if top(t) in TORCH_SIDE]
        is_torch = module.top in TORCH_SIDE or "torch" in tree.external(module)
        if sees_numpy and (is_torch or sees_torch):
            broken += [place(module, targets[t]) for t in sees_numpy]
    return broken


def reader_crossings(tree: Tree) -> list[str]:
    """Imports of a reader by another reader, or of the training side by a reader."""
    broken = []
    for module in tree.named(READERS):
        for target, item in tree.internal(module).items():
            is_other = top(target) in READERS and top(target) != module.top
            is_exception = (module.top, top(target)) in READER_EXCEPTIONS or is_late_exception(module, item, target)
            if (is_other and not is_exception) or top(target) in TORCH_SIDE:
                broken.append(place(module, item))
    return broken


def homeless_imports(tree: Tree) -> list[str]:
    """Imports of an optional package outside its home."""
    return [
        f"{place(module, item)}; its home is {HOMES[package]}"
        for module in tree.modules.values()
        for package, item in tree.external(module).items()
        if package in HOMES and module.top not in np.atleast_1d(HOMES[package])
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


def test_numpy_side_is_free_of_torch_and_sklearn(tree: Tree) -> None:
    assert_none(foreign_reach(tree), "a fitted model must load and predict without torch and scikit-learn")


@pytest.mark.parametrize("line", [DATA_LINE, TRAINING_LINE], ids=["data", "training"])
def test_imports_point_one_way(tree: Tree, line: list[str]) -> None:
    assert_none(backward_imports(tree, line), f"imports must point back along {' → '.join(line)}")


def test_only_fitting_and_compiling_see_both_sides(tree: Tree) -> None:
    assert_none(
        two_sided(tree), "only fitting and its stations, updating, checkpoint, compile and estimators import both sides"
    )


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
    "numpy-direct": (foreign_reach, {"axis.py": "import torch"}),
    "numpy-lazy": (foreign_reach, {"axis.py": "def f():\n    from sklearn.base import clone"}),
    "numpy-transitive": (foreign_reach, {"model.py": "from . import odd", "odd.py": "import torch.nn"}),
    "numpy-typing": (foreign_reach, {"model.py": "if TYPE_CHECKING:\n    from .net import BasisNet", "net.py": ""}),
    "numpy-importlib": (foreign_reach, {"link.py": "import importlib\nimportlib.import_module('torch')"}),
    "data-line": (lambda t: backward_imports(t, DATA_LINE), {"axis.py": "from .encoder import E", "encoder.py": ""}),
    "training-line": (
        lambda t: backward_imports(t, TRAINING_LINE),
        {"bases/__init__.py": "", "bases/mlp.py": "from ..net import BasisNet", "net.py": ""},
    ),
    "both-sides": (two_sided, {"train/loop.py": "from neuralbasis.model.additive_model import Shape", "model.py": ""}),
    "both-sides-typing": (two_sided, {"net.py": "if TYPE_CHECKING:\n    from .model import S", "model.py": ""}),
    "both-sides-reader": (two_sided, {"explain.py": "import torch\nfrom .model import Shape", "model.py": ""}),
    "readers": (reader_crossings, {"edit.py": "from .plot import shapes", "plot.py": ""}),
    "reader-late": (
        reader_crossings,
        {"explain.py": "from . import plot\n\ndef visualize():\n    from . import plot", "plot.py": ""},
    ),
    "reader-net": (reader_crossings, {"plot.py": "from .net import BasisNet", "net.py": ""}),
    "home": (homeless_imports, {"encoder.py": "import narwhals as nw"}),
    "home-of-two": (homeless_imports, {"columns.py": "import pyarrow"}),
    "home-tqdm": (homeless_imports, {"train/loop.py": "from tqdm import tqdm"}),
    "root": (root_imports, {"__init__.py": "", "model.py": "from neuralbasis import load"}),
    "cycle": (
        find_cycle,
        {"a.py": "from . import b", "b.py": "from .c import x", "c.py": "def f():\n    from . import a"},
    ),
    "cycle-records": (find_cycle, {"explain.py": "from . import plot", "plot.py": "from . import explain"}),
    "long": (long_functions, {"a.py": LONG}),
}
LAWFUL = {
    "__init__.py": "__version__ = '1'\nif TYPE_CHECKING:\n    from .estimators import R",
    "columns.py": "import narwhals",
    "kernels.py": "def load():\n    import numba",
    "encoder.py": "from .columns import read_columns",
    "model.py": "from . import kernels\nfrom .encoder import Encoder\nfrom neuralbasis import __version__",
    "net.py": "import torch\nfrom . import kernels",
    "progress.py": "from tqdm import tqdm",
    "train/loop.py": "from ..progress import tqdm\nfrom ..net import BasisNet",
    "compile.py": "from .net import BasisNet\nfrom .model import AdditiveModel",
    "estimators.py": "import sklearn\nfrom .compile import compile_model\nfrom .model import AdditiveModel",
    "explain.py": "from .model import AdditiveModel\n\ndef visualize():\n    from . import plot",
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
