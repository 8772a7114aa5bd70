"""examples/terminal_cast.py: real output appears at its time, in both themes; the committed picture is one of it."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET

import pytest

from examples.terminal_cast import COMMANDS, PICTURE, record, write_svg
from tests.browser import find_browser

SHORT = ("mkdir cells", "cd cells", "echo 'a  < b'; sleep 0.6; echo later", "neuralbasis --version")
SHOWN = """(seconds) => {
  for (const animation of document.getAnimations()) { animation.pause(); animation.currentTime = 1000 * seconds; }
  const opaque = (node) => !node.closest('g[class]') || getComputedStyle(node.closest('g[class]')).opacity === '1';
  return [...document.querySelectorAll('text:not(.title, .prompt)')].filter(opaque).map((node) => node.textContent);
}"""


def list_texts(svg: str) -> list[str]:
    return [node.text for node in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_the_committed_picture_shows_the_commands_of_the_script() -> None:
    texts = list_texts(PICTURE.read_text(encoding="utf-8"))
    assert [after for before, after in itertools.pairwise(texts) if before == "$"] == list(COMMANDS)
    assert "risk.html: 0.3 MB" in texts


def test_a_command_that_fails_is_not_recorded() -> None:
    with pytest.raises(AssertionError, match="no_such_file"):
        record(["cat no_such_file"])


@pytest.mark.skipif(find_browser() is None, reason="no Chromium")
def test_lines_appear_at_their_time_in_both_themes(browser, tmp_path) -> None:
    parts = record(SHORT)
    assert [part.lines for part in parts if not part.is_command][:2] == [("a  < b",), ("later",)]
    (tmp_path / "cast.svg").write_text(write_svg(parts, seconds=12), encoding="utf-8")
    page = browser.open(tmp_path / "cast.svg")
    still = page.run(SHOWN, 0)
    assert still == [line for part in parts for line in part.lines]  # no motion: everything
    colours = []
    for theme in ("light", "dark"):
        features = {"prefers-color-scheme": theme, "prefers-reduced-motion": "no-preference"}
        page.send("Emulation.setEmulatedMedia", features=[{"name": k, "value": v} for k, v in features.items()])
        counts = [len(page.run(SHOWN, seconds)) for seconds in (0.1, 3, 6, 11.9)]
        assert counts[0] == 1 < counts[1] < counts[2] < counts[3] == len(still)
        style = "(one) => getComputedStyle(document.querySelector(one)).fill"
        colours.append([page.run(style, one) for one in (".back", ".typed")])
    assert colours == [["rgb(255, 255, 255)", "rgb(31, 35, 40)"], ["rgb(13, 17, 23)", "rgb(230, 237, 243)"]]
    assert not page.errors
    assert page.requests == [(tmp_path / "cast.svg").as_uri()]
