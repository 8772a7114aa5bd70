"""The built site in build/docs (`make docs-test`): links, notebooks, thumbnails, and pages in Chromium."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from tests.browser import find_browser

DOCS = Path(__file__).resolve().parents[1]
SITE = DOCS.parent / "build" / "docs"
EXAMPLES = sorted(path.stem for path in (DOCS / "gallery").glob("plot_*.py"))
TUTORIALS = ("credit", "insurance", "medicine")
LOOKED_AT = (
    "index", "first_use", "read", "inference", "benchmarks", "glossary", "api", "api/neuralbasis.NeuralBasisClassifier",
    "auto_examples/index", "auto_examples/plot_06_pairs", "tutorials/credit",
)  # fmt: skip


def read_pages() -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in SITE.rglob("*.html") if path.name != "cancer.html"}


@pytest.fixture(scope="module")
def pages() -> dict[Path, str]:
    found = read_pages()
    assert len(found) > 100, "build the site first: make docs"
    return found


def test_links_lead_to_pages_and_their_parts(pages: dict[Path, str]) -> None:
    anchors = {path: set(re.findall(r'\sid="([^"]+)"', text)) for path, text in pages.items()}
    broken = []
    for path, text in pages.items():
        for link in re.findall(r'<a [^>]*href="([^"]+)"', text):
            target, _, anchor = html.unescape(link).partition("#")
            if re.match(r"(https?|mailto):", target):
                continue
            found = (path.parent / unquote(target)).resolve() if target else path
            if not found.exists() or (anchor and found in anchors and unquote(anchor) not in anchors[found]):
                broken.append(f"{path.relative_to(SITE)}: {link}")
    assert broken == []


def test_pages_load_nothing_from_elsewhere(pages: dict[Path, str]) -> None:
    outside = re.compile(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(?:https?:)?//[^"]+"')
    assert [found for text in pages.values() for found in outside.findall(text)] == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_has_a_thumbnail_and_a_figure(name: str) -> None:
    images = SITE / "_images"
    assert (images / f"sphx_glr_{name}_thumb.png").stat().st_size > 2000
    assert list(images.glob(f"sphx_glr_{name}_0*.png"))


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_was_run(name: str) -> None:
    (path,) = SITE.glob(f"_downloads/*/{name}.ipynb")
    notebook = json.loads(path.read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in code)
    kinds = {kind for cell in code for output in cell["outputs"] for kind in output.get("data", {})}
    assert {"image/png", "text/html"} <= kinds
    assert not [output for cell in code for output in cell["outputs"] if output["output_type"] == "error"]
    assert str(DOCS.parent) not in path.read_text(encoding="utf-8")


@pytest.mark.skipif(find_browser() is None, reason="needs Chromium")
@pytest.mark.parametrize("name", LOOKED_AT)
def test_a_page_fits_phone_and_desktop(browser, name: str) -> None:
    for width in (400, 1280):
        for dark in (False, True):
            page = browser.open(SITE / f"{name}.html", width=width, dark=dark)
            page.settle()
            wide = page.run("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide == 0, f"{name} is wider than {width} pixels"
            assert page.run("document.documentElement.dataset.theme") == ("dark" if dark else "light")
            assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []
