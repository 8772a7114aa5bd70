"""The Python blocks of README.md and docs/*.md run as printed: in order, one namespace a file, in an empty folder."""

from __future__ import annotations

import re
import textwrap
import traceback
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^(?P<indent>[ \t]*)```python[ \t]*\n(?P<code>.*?)^(?P=indent)```[ \t]*$", re.DOTALL | re.MULTILINE)


def python_blocks(text: str) -> list[tuple[int, str]]:
    """The line number of the first code line and the code of every Python block."""
    return [(text.count("\n", 0, m.start("code")) + 1, textwrap.dedent(m["code"])) for m in BLOCK.finditer(text)]


def run_blocks(path: Path) -> None:
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line, code in python_blocks(path.read_text(encoding="utf-8")):
        try:
            # Leading blank lines make the traceback count lines as the file does.
            exec(compile("\n" * (line - 1) + code, str(path), "exec"), namespace)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            at = next((f.lineno for f in reversed(frames) if f.filename == str(path)), None)
            at = at or getattr(error, "lineno", None) or line
            pytest.fail(f"{path.name}:{at} (block at line {line}): {type(error).__name__}: {error}")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_blocks_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    run_blocks(path)


def test_readme_has_blocks() -> None:
    assert python_blocks(FILES[0].read_text(encoding="utf-8"))


def test_a_broken_block_fails_with_its_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```python\nx = 1\n```\n\n- item\n\n  ```python\n  y = x\n  y / 0\n  ```\n", "utf-8")
    with pytest.raises(pytest.fail.Exception, match=r"page\.md:11 \(block at line 10\): ZeroDivisionError"):
        run_blocks(page)
    page.write_text("```python\nx = 1\nx = = 2\n```\n", encoding="utf-8")
    with pytest.raises(pytest.fail.Exception, match=r"page\.md:3 .*SyntaxError"):
        run_blocks(page)
