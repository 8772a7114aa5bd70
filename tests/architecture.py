"""The rules of the source tree: who may import whom, how long a function may be.

`python -m tests.architecture [FOLDER]` prints the violations of every rule as JSON; `test_architecture` limits them.
Modules are named relative to the package ("encoding.axis", "training.loop"). A rule names a folder or a single module.
Imports inside functions and for annotations count like those at the top of a file. The root package loads names on
first use; `test_architecture` measures its import.
"""

from __future__ import annotations

import ast
import collections
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "neuralbasis"
SOURCE = Path(__file__).resolve().parents[1] / "src" / PACKAGE

# A fitted model loads, predicts, explains and exports without torch and without scikit-learn.
LINKS = "losses.links"  # on the model side, unlike the rest of its folder
MODEL_SIDE = ["kernels", "data", "encoding", "terms", LINKS, "model", "serialization"]
MODEL_SIDE += ["lazy", "readonly", "printable", "suggestions", "vision.detection"]
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
# `visualize` of an explanation draws it: `plot` builds on `explain` and is imported when a figure is requested. The
# `explain_…` methods of a loaded model are those of an estimator.
LATE_EXCEPTIONS = {("explain", "plot"), ("model.explained", "explain")}

# package -> the folder or module that may import it
ALLOWED_IN: dict[str, list[str]] = {
    "narwhals": ["data"],
    "pandas": ["data"],
    "polars": ["data"],
    "pyarrow": ["cli", "data", "encoding"],
    "click": ["cli"],
    "numba": ["kernels.compiled"],
    "onnx": ["export"],
    "openpyxl": ["export"],
    "PIL": ["vision"],
    "transformers": ["vision"],
    "safetensors": ["vision"],
    "matplotlib": ["plot"],
    "plotly": ["plot"],
    "pycocotools": ["vision.detection"],
    "optuna": ["tuning"],
    "ray": ["distributed"],
    "tqdm": ["progress"],
}
MAX_BODY_LINES = 60


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
    late = {inner for node in ast.walk(tree) if runs_late(node) for inner in ast.walk(node)}
    imports = [
        Import(target, node.lineno, node in late) for node in ast.walk(tree) for target in import_targets(node, package)
    ]
    return Module(".".join(parts), path, tuple(imports))


def runs_late(node: ast.AST) -> bool:
    """Whether imports inside do not run when the module is loaded: a function, or a block for annotations."""
    is_annotation = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    return is_annotation or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


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
                # The root loads names on first use, and modules inside do not import them from it (root_imports).
                if target and target not in found:
                    found[target] = [*found[name], target]
                    queue.append(target)
        return found

    def named(self, tops: list[str]) -> list[Module]:
        return [m for m in self.modules.values() if m.top in tops]


def top(name: str) -> str:
    return name.split(".")[0]


def is_late_exception(module: Module, item: Import, target: str) -> bool:
    return item.is_late and not LATE_EXCEPTIONS.isdisjoint({(module.top, top(target)), (module.name, top(target))})


def place(module: Module, item: Import) -> str:
    return f"{module.path.name}:{item.line} imports {item.target}"


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
            if other is not None and rank[other] > rank[own] and not is_late_exception(module, item, target):
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


def misplaced_imports(tree: Tree) -> list[str]:
    """Imports of an optional package outside its folders."""
    return [
        f"{place(module, item)}; it belongs in {' or '.join(ALLOWED_IN[package])}"
        for module in tree.modules.values()
        for package, item in tree.external(module).items()
        if package in ALLOWED_IN and belongs(module.name, ALLOWED_IN[package]) is None
    ]


def root_imports(tree: Tree) -> list[str]:
    """Imports from the root package, which would hide where a name lives; the command line may use them."""
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
                return [" -> ".join([module.name, *back[module.name]])]
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


def vague_modules(tree: Tree) -> list[str]:
    """Modules named after nothing in particular."""
    return [module.path.name for module in tree.modules.values() if module.path.stem in ("utils", "base")]


@dataclass(frozen=True)
class Rule:
    """What must hold, and the function that lists its violations."""

    text: str
    check: Callable[[Tree], list[str]]


RULES = {
    "model side": Rule("a fitted model must load and predict without torch and scikit-learn", foreign_reach),
    "order": Rule(
        f"imports must point back along {' → '.join(ORDER)}",
        lambda tree: backward_imports(tree, ORDER),
    ),
    "training order": Rule(
        f"imports must point back along {' → '.join(TRAINING_ORDER)}",
        lambda tree: backward_imports(tree, TRAINING_ORDER),
    ),
    "torch": Rule("networks and losses import no tables, encoders, models or files", mixed_torch),
    "classes": Rule("one name for one class in the whole package", repeated_classes),
    "readers": Rule(
        "readers import the model (plot and report may import explain, whose `visualize` calls plot)",
        reader_crossings,
    ),
    "optional packages": Rule("an optional package is imported in one place only", misplaced_imports),
    "cycles": Rule("imports have no cycles", find_cycle),
    "root": Rule("inside the package, import from the module that holds the name", root_imports),
    "module names": Rule("modules are named by a noun, not `utils` or `base`", vague_modules),
    "length": Rule(f"at most {MAX_BODY_LINES} lines a function, docstring aside", long_functions),
}


def list_violations(source: Path) -> dict[str, list[str]]:
    """The violations in a source folder by name of the rule."""
    tree = Tree(source)
    return {name: rule.check(tree) for name, rule in RULES.items()}


if __name__ == "__main__":
    print(json.dumps(list_violations(Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE), indent=2))
