"""Terminal: the only way from a command to standard output and standard error.

Names and values come from strangers' files. Control characters in them are shown as escapes such as \\x1b and never
reach the terminal; the only escape sequences that do are our own colours.
"""

from __future__ import annotations

import sys

import click

from ..printable import escape


def echo(text: str, err: bool = False) -> None:
    """Print lines for people."""
    click.echo(escape(text, keep="\n"), err=err)


def echo_line(label: str, colour: str, text: str) -> None:
    """Print one line on standard error behind a coloured label."""
    click.echo(f"{click.style(f'{label}:', fg=colour)} {escape(text)}", err=True)


def echo_exact(text: str) -> None:
    """Write a text for programs: exact into a file or a pipe, with escapes on a terminal."""
    # Without `color`, click would drop escape sequences from a pipe, and with them parts of names.
    click.echo(escape(text, keep="\n\t") if sys.stdout.isatty() else text, nl=False, color=True)
