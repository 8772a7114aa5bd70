"""The sources of the documentation site: links, words, spelling, and what the gallery and the tutorials must have.

`make docs-test` builds the site and tests the result.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
EXAMPLES = sorted((DOCS / "gallery").glob("plot_*.py"))
TUTORIALS = sorted((DOCS / "tutorials").glob("*.py"))
FILES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *PAGES,
    *DOCS.glob("tutorials/*.md"),
]
CODE = re.compile(r"^(?P<fence>```+|:::+).*?^(?P=fence)[ \t]*$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\[\]]*\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
# Words that this project replaces by words of the field.
WORDS = re.compile(
    r"\b(wish(ed|es)?|voices?|speaks?|says?|tells?|hears?|listens?|crew|keeper|lanes?|tally|shelf|survey|knowledge"
    r"|surely|so that|at home|a hair)\b",
    re.IGNORECASE,
)


def find_anchors(path: Path) -> set[str]:
    """Anchors of the headings of a page, as GitHub and the site make them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = (unicodedata.normalize("NFKC", re.sub(r"[`*]", "", heading)).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}


def list_broken_links(path: Path) -> list[str]:
    broken = []
    for target, anchor in LINK.findall(CODE.sub("", path.read_text(encoding="utf-8"))):
        found = (path.parent / target).resolve() if target else path
        if not found.exists() or (anchor and anchor not in find_anchors(found)):
            broken.append(f"{target}#{anchor}")
    return broken


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_links_lead_somewhere(path: Path) -> None:
    assert list_broken_links(path) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# The paper's network\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text("[a](other.md#the-papers-network) [b](other.md#none) [c](gone.md)\n", encoding="utf-8")
    assert list_broken_links(page) == ["other.md#none", "gone.md#"]


def test_every_page_is_in_a_table_of_contents() -> None:
    listed = set()
    for path in (DOCS / "index.md", DOCS / "guide.md"):
        for block in re.findall(r"```\{toctree\}\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
            listed |= set(re.findall(r"^(?:.*<)?([\w/]+)>?$", block, re.MULTILINE))
    assert {path.stem for path in PAGES} - {"index"} <= listed


@pytest.mark.parametrize("path", [*PAGES, *EXAMPLES, *TUTORIALS, ROOT / "README.md"], ids=lambda p: p.name)
def test_words(path: Path) -> None:
    text = CODE.sub("", path.read_text(encoding="utf-8"))
    assert [found.group() for found in WORDS.finditer(text)] == []


def test_spelling() -> None:
    if importlib.util.find_spec("codespell_lib") is None:
        pytest.skip("codespell is not installed; make docs-test installs it")
    paths = [*FILES, *EXAMPLES, *TUTORIALS, DOCS / "api.rst", DOCS / "gallery/GALLERY_HEADER.rst"]
    command = [sys.executable, "-m", "codespell_lib", "--ignore-words-list=te,coo,nam", *map(str, paths)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout


def test_the_gallery_has_an_example_of_every_feature() -> None:
    features = {
        "regression", "two_classes", "many_classes", "missing_values", "categories", "pairs", "triples", "sparse_texts",
        "files", "bands_and_evidence", "prediction_intervals", "explain_a_row", "compare_models", "update", "merge",
        "scorecard", "export_sql", "export_onnx", "report", "stability", "paper",
    }  # fmt: skip
    assert features <= {re.sub(r"^plot_\d+_", "", path.stem) for path in EXAMPLES}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_an_example_has_a_title_and_draws_without_a_network(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    title, line, *_ = (ast.get_docstring(ast.parse(text)) or "").split("\n")
    assert len(line) == len(title) > 0
    assert set(line) == {"="}
    assert re.search(r"^(plot\.\w+|figure = )", text, re.MULTILINE)
    assert not re.search(r"fetch_|urlopen|requests|https?://", text)


def test_there_are_three_tutorials() -> None:
    assert [path.stem for path in TUTORIALS] == ["credit", "insurance", "medicine"]


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda p: p.stem)
def test_a_tutorial_is_a_notebook_that_checks_its_results(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.match(r"# ---\n# jupyter:\n", text)
    assert re.search(r"^# %% \[markdown\]\n# # \w+", text, re.MULTILINE)
    assert f"<{path.stem}.ipynb>" in text
    assert len(re.findall(r"^assert ", text, re.MULTILINE)) >= 4
    assert not re.search(r"fetch_|urlopen|requests|https?://", text)
