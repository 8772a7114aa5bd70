"""Record commands as an animated SVG, docs/terminal.svg: `python -m examples.terminal_cast`.

The commands run in an empty folder and print what the picture shows. Waits are shortened to `MAX_WAIT`, and the time to
read is shared out by lines such that one run takes `SECONDS`. The SVG needs no script, font or network: CSS moves and
shows the lines, follows light and dark, and shows the last screen if a reader prefers no motion.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "terminal.svg"
COMMANDS = (
    "neuralbasis demo",
    "cd neuralbasis_demo",
    "neuralbasis check patients.csv --target died",
    "neuralbasis fit patients.csv --target died --model risk.nbm",
    "neuralbasis show risk.nbm | head -19",
    "neuralbasis explain risk.nbm new_patients.csv",
    "neuralbasis report risk.nbm new_patients.csv",
)
SECONDS, MAX_WAIT, PER_LETTER = 60.0, 2.0, 0.035
COLUMNS, ROWS = 100, 26
LAST = 6  # lines that could be read while the last screen stays
WIDTH, HEIGHT, MARGIN, BAR = 8.4, 19.0, 14.0, 30.0  # of a letter and a line, around the text, and above it

STYLE = """\
.cast { --back: #ffffff; --text: #1f2328; --prompt: #1a7f37; --line: #d0d7de; --quiet: #59636e }
@media (prefers-color-scheme: dark) {
  .cast { --back: #0d1117; --text: #e6edf3; --prompt: #3fb950; --line: #3d444d; --quiet: #9198a1 }
}
.cast text { fill: var(--text); white-space: pre }
.cast text { font: 14px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace }
.cast .typed { font-weight: 600 }
.cast .prompt { fill: var(--prompt) }
.cast .title { fill: var(--quiet) }
.cast .back, .cast .cover { fill: var(--back) }
.cast .frame { fill: none; stroke: var(--line) }
.cast [class^=k] { animation: 60s step-end infinite }
@media (prefers-reduced-motion: reduce) { .cast [class^=k] { animation: none } .cast .cover { display: none } }
"""


@dataclass(frozen=True)
class Part:
    """Lines that appear together, `wait` seconds after the part before; a command is typed letter by letter."""

    wait: float
    lines: tuple[str, ...]
    is_command: bool = False


def record(commands: Sequence[str]) -> list[Part]:
    """Run commands one after the other in a new folder; every one must succeed."""
    parts = []
    with tempfile.TemporaryDirectory() as folder:
        for command in commands:
            parts.append(Part(0.0, (command,), is_command=True))
            if command.startswith("cd "):
                folder = os.path.join(folder, command.removeprefix("cd "))
            else:
                parts += run(command, folder)
    return parts


def run(command: str, folder: str) -> list[Part]:
    """The output of a command, divided where it waits."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    env = os.environ | {"PATH": path, "COLUMNS": str(COLUMNS), "PYTHONUNBUFFERED": "1", "OMP_WAIT_POLICY": "passive"}
    shell = ["bash", "-o", "pipefail", "-c", command]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
    start, parts = time.monotonic(), []
    with subprocess.Popen(shell, cwd=folder, env=env, text=True, encoding="utf-8", **streams) as process:
        for line in process.stdout:
            now = time.monotonic()
            lines = wrap(line.rstrip("\n").expandtabs())
            if parts and now - start < 0.3:
                parts[-1] = Part(parts[-1].wait, parts[-1].lines + lines)
            else:
                parts.append(Part(now - start, lines))
            start = now
    assert process.returncode == 0, (command, parts)
    return parts


def wrap(line: str) -> tuple[str, ...]:
    """A line as a terminal breaks it.

    >>> [len(part) for part in wrap("x" * 250)], wrap("")
    ([100, 100, 50], ('',))
    """
    return tuple(line[at : at + COLUMNS] for at in range(0, max(len(line), 1), COLUMNS))


def write_svg(parts: Sequence[Part], seconds: float = SECONDS) -> str:
    """One animation of all parts that repeats after `seconds`."""
    n_lines = LAST + sum(len(part.lines) + part.is_command for part in parts)
    busy = sum(min(part.wait, MAX_WAIT) + PER_LETTER * len(part.lines[0]) * part.is_command for part in parts)
    assert busy < seconds, f"{busy:.1f} seconds of typing and waiting do not fit into {seconds:g}"
    per_line = (seconds - busy) / n_lines
    frames, body, scrolls = [], [], []
    now, n_shown = 0.0, 0
    for at, part in enumerate(parts):
        now += min(part.wait, MAX_WAIT)
        frames.append(f"@keyframes k{at} {{ 0% {{ opacity: 0 }} {100 * now / seconds:.2f}% {{ opacity: 1 }} }}")
        body.append(f'<g class="k{at}" style="animation-name: k{at}">{write_lines(part, n_shown)}')
        scrolls.append(f"{100 * now / seconds:.2f}% {{ {move(n_shown + len(part.lines))} }}")
        if part.is_command:
            end = now + PER_LETTER * len(part.lines[0])
            frames.append(write_typing(at, len(part.lines[0]), now / seconds, end / seconds))
            body.append(write_cover(at, len(part.lines[0]), n_shown))
            now = end
        body.append("</g>")
        n_shown += len(part.lines)
        now += per_line * (len(part.lines) + part.is_command)
    frames.append(f"@keyframes scroll {{ 0% {{ {move(0)} }} {' '.join(scrolls)} }}")
    return assemble("\n".join(frames), "\n".join(body), n_shown, seconds)


def write_typing(at: int, letters: int, begin: float, end: float) -> str:
    """The cover of a command moves to the right by one letter after the other, between two shares of the time."""
    return (
        f"@keyframes c{at} {{ 0% {{ transform: none }}"
        f" {100 * begin:.2f}% {{ transform: none; animation-timing-function: steps({letters}) }}"
        f" {100 * end:.2f}%, 100% {{ transform: translateX({letters * WIDTH:.1f}px) }} }}"
    )


def write_cover(at: int, letters: int, row: int) -> str:
    """A rectangle over the letters of a command that are not yet typed; nothing is to the right of them."""
    return (
        f'<rect class="k{at}c cover" style="animation-name: c{at}; transform: translateX({letters * WIDTH:.1f}px)"'
        f' x="{MARGIN + 2 * WIDTH:.1f}" y="{row * HEIGHT:.1f}" width="{letters * WIDTH + 2:.1f}" height="{HEIGHT}"/>'
    )


def move(n_shown: int) -> str:
    """Scroll such that the last line is at the bottom."""
    return f"transform: translateY({-max(0, n_shown - ROWS) * HEIGHT:g}px)"


def write_lines(part: Part, first: int) -> str:
    """Lines of text from a row on; `textLength` keeps columns aligned in any font."""
    found = []
    for row, line in enumerate(part.lines, first):
        y = (row + 0.75) * HEIGHT
        if part.is_command:
            found.append(f'<text class="prompt" x="{MARGIN}" y="{y:.2f}">$</text>')
        left = MARGIN + 2 * WIDTH * part.is_command
        indent = len(line) - len(line.lstrip())
        text = line.strip()
        if text:
            typed = ' class="typed"' if part.is_command else ""
            found.append(
                f'<text{typed} x="{left + indent * WIDTH:.1f}" y="{y:.2f}" textLength="{len(text) * WIDTH:.1f}"'
                f' lengthAdjust="spacingAndGlyphs">{escape(text)}</text>'
            )
    return "".join(found)


def assemble(frames: str, body: str, last: int, seconds: float) -> str:
    width, height = COLUMNS * WIDTH + 2 * MARGIN, BAR + ROWS * HEIGHT + MARGIN
    size = f'width="{width:g}" height="{height:g}"'
    title = "recorded by examples/terminal_cast.py; waits are shortened"
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" class="cast" viewBox="0 0 {width:g} {height:g}" {size} role="img">
<title>neuralbasis in a terminal: demo, check, fit, show, explain, report</title>
<style>
{STYLE.replace("60s", f"{seconds:g}s")}{frames}
</style>
<rect class="back" {size} rx="8"/>
<text class="title" x="{width / 2:g}" y="20" text-anchor="middle">{title}</text>
<svg y="{BAR:g}" width="{width:g}" height="{ROWS * HEIGHT:g}">
<g class="kscroll" xml:space="preserve" style="animation-name: scroll; {move(last)}">
{body}
</g>
</svg>
<rect class="frame" x="0.5" y="0.5" width="{width - 1:g}" height="{height - 1:g}" rx="8"/>
</svg>
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=PICTURE)
    arguments = parser.parse_args()
    arguments.output.write_text(write_svg(record(COMMANDS)), encoding="utf-8")


if __name__ == "__main__":
    main()
