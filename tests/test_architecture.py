"""The rules of the source tree hold, each rule finds its violation, and the package imports fast.

The source is parsed in a fresh process: while threads or finalizers of other tests run, `ast.parse` of CPython 3.11 may
fail with "AST constructor recursion depth mismatch".
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture import MAX_BODY_LINES, PACKAGE, RULES, SOURCE

ROOT = Path(__file__).resolve().parents[1]
MAX_IMPORT_SECONDS = 0.5


def list_violations(source: Path) -> dict[str, list[str]]:
    """The violations in a source folder by name of the rule."""
    command = [sys.executable, "-m", "tests.architecture", str(source)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.fixture(scope="module")
def violations() -> dict[str, list[str]]:
    return list_violations(SOURCE)


@pytest.mark.parametrize("name", RULES)
def test_the_source_follows_the_rule(name: str, violations: dict[str, list[str]]) -> None:
    assert not violations[name], RULES[name].text + ":\n  " + "\n  ".join(violations[name])


LONG = "def fit():\n" + "    x = 1\n" * (MAX_BODY_LINES + 1)

VIOLATIONS = {
    "model-direct": ("model side", {"encoding/axis.py": "import torch"}),
    "model-lazy": ("model side", {"encoding/axis.py": "def f():\n    from sklearn.base import clone"}),
    "model-transitive": ("model side", {"model/shapes.py": "from .. import odd", "odd.py": "import torch.nn"}),
    "model-typing": (
        "model side",
        {"model/m.py": "if TYPE_CHECKING:\n    from ..networks import N", "networks/__init__.py": ""},
    ),
    "model-importlib": ("model side", {"losses/links.py": "import importlib\nimportlib.import_module('torch')"}),
    "order": (
        "order",
        {"data/sparse.py": "from ..encoding.axis import A", "encoding/axis.py": ""},
    ),
    "training-order": (
        "training order",
        {"networks/mlp.py": "from ..training.loop import run", "training/loop.py": ""},
    ),
    "torch-knows-tables": (
        "torch",
        {"losses/loss.py": "from neuralbasis.model.shapes import Shape", "model/shapes.py": ""},
    ),
    "class-twice": ("classes", {"a.py": "class Plan: ...", "b.py": "class Plan: ..."}),
    "readers": ("readers", {"export.py": "from .plot import shapes", "plot.py": ""}),
    "reader-late": (
        "readers",
        {"explain.py": "from . import plot\n\ndef visualize():\n    from . import plot", "plot.py": ""},
    ),
    "reader-training": ("readers", {"plot.py": "from .networks import BasisNet", "networks.py": ""}),
    "optional": ("optional packages", {"encoding/encoder.py": "import narwhals as nw"}),
    "optional-in-two": ("optional packages", {"model/shapes.py": "import pyarrow"}),
    "optional-tqdm": ("optional packages", {"training/loop.py": "from tqdm import tqdm"}),
    "optional-module": ("optional packages", {"kernels/lookup.py": "from numba import njit"}),
    "root": ("root", {"__init__.py": "", "model/m.py": "from neuralbasis import load"}),
    "cycle": (
        "cycles",
        {"a.py": "from . import b", "b.py": "from .c import x", "c.py": "def f():\n    from . import a"},
    ),
    "cycle-records": ("cycles", {"explain.py": "from . import plot", "plot.py": "from . import explain"}),
    "vague": ("module names", {"model/utils.py": ""}),
    "long": ("length", {"a.py": LONG}),
}
VALID = {
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


def write_tree(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", VIOLATIONS)
def test_each_rule_finds_its_violation(name: str, tmp_path: Path) -> None:
    rule, files = VIOLATIONS[name]
    assert list_violations(write_tree(tmp_path, files))[rule]


def test_every_rule_has_a_violation() -> None:
    assert {rule for rule, _ in VIOLATIONS.values()} == RULES.keys()


def test_each_rule_accepts_a_valid_tree(tmp_path: Path) -> None:
    assert list_violations(write_tree(tmp_path, VALID)) == {name: [] for name in RULES}


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
