"""Printing to standard output and standard error.

Names and values come from untrusted files. Their control characters are printed as escapes such as \\x1b, so the only
escape sequences that reach a terminal are the colours of this package.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from ..printable import escape


def echo(text: str, err: bool = False) -> None:
    """Print text, escaped except for line breaks."""
    click.echo(escape(text, keep="\n"), err=err)


def echo_line(label: str, colour: str, text: str) -> None:
    """Print one line with a coloured label on standard error."""
    click.echo(f"{click.style(f'{label}:', fg=colour)} {escape(text)}", err=True)


def echo_exact(text: str) -> None:
    """Write a text for programs: unchanged to a file or a pipe, escaped on a terminal."""
    # Without `color`, click would strip escape sequences from names when writing to a pipe.
    click.echo(escape(text, keep="\n\t") if sys.stdout.isatty() else text, nl=False, color=True)


def open_page(path: Path) -> None:
    """Show a page in the browser if a person at a screen runs the command."""
    has_screen = sys.platform in ("darwin", "win32") or {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()
    if has_screen and sys.stdout.isatty():
        click.launch(str(path))
