"""Failure: whatever goes wrong in a command becomes one line on stderr and an exit code.

    0   fine
    1   the work failed: the message says what to do
    2   the command was written wrongly
    130 stopped by Ctrl-C

A traceback is shown only if the user asks for it (`--debug`).
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
import warnings
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Any

import click

from ..data.columns import list_names
from .terminal import echo, echo_line

STOPPED = 130
_EXPECTED = (ValueError, TypeError, OSError, ImportError, EOFError)  # what the package and its libraries raise of data


class Failure(click.ClickException):
    """The work cannot be done, for a reason that the user can change."""


class CommandGroup(click.Group):
    """A group of commands whose failures are one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order of a model's life, not of the alphabet

    def main(self, *given: Any, standalone_mode: bool = True, **options: Any) -> Any:
        try:
            code = super().main(*given, **options, standalone_mode=False)  # type: ignore[call-overload]
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            code = error.exit_code
        except click.ClickException as error:
            echo_line("error", "red", _write_message(error))
            code = error.exit_code
        except click.Abort:
            echo("error: stopped; nothing was written", err=True)
            code = STOPPED
        except Exception:  # --debug: otherwise it is a Failure
            if not standalone_mode:
                raise
            echo(traceback.format_exc(), err=True)
            code = 1
        return sys.exit(code) if standalone_mode else code

    def invoke(self, ctx: click.Context) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # a terminal without "█" still gets its page
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            try:
                return super().invoke(ctx)
            except (click.ClickException, click.exceptions.Exit, click.Abort):
                raise
            except Exception as error:
                if ctx.params["debug"] or _is_closed_pipe(error):  # click leaves quietly where nobody reads on
                    raise
                raise Failure(describe(error)) from error


def describe(error: Exception) -> str:
    """One line about an error of the package, of Arrow or of the system.

    >>> describe(ValueError("column 'age' holds an\\ninfinite value"))
    "column 'age' holds an infinite value"
    """
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError):
        return "out of memory: give fewer rows or columns, or use a larger machine"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "no space left on the disk; free some, or choose another place for the output"
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, _EXPECTED) and text:
        return text
    return f"unexpected {type(error).__name__}: {text}; NEURALBASIS_DEBUG=1 shows where: please report it"


def require_names(names: Iterable[str], came: Collection[str], place: str, what: str = "column") -> None:
    """Every name must be among those that came; the error names what is absent and the nearest that came.

    >>> require_names(["age"], ["Age", "sex"], "data.csv")
    Traceback (most recent call last):
    neuralbasis.cli.failure.Failure: data.csv has no column 'age'; did you mean 'Age'?
    """
    absent = [name for name in dict.fromkeys(names) if name not in came]
    if not absent:
        return
    lower = {name.lower(): name for name in came}
    close = [lower[found] for name in absent for found in get_close_matches(name.lower(), lower, n=1)]
    hint = f"did you mean {list_names(close)}?" if close else f"it has {list_names(came)}"
    raise Failure(f"{place} has no {what}{'s' * (len(absent) > 1)} {list_names(absent)}; {hint}")


def is_first() -> bool:
    """Is this the process that speaks and writes? torchrun starts several, which know their number."""
    return "TORCHELASTIC_RUN_ID" not in os.environ or os.environ.get("RANK", "0") == "0"


def note(text: str) -> None:
    """A line beside the work, on stderr."""
    if is_first():
        echo_line("note", "yellow", text)


def _write_message(error: click.ClickException) -> str:
    text = " ".join(error.format_message().split())
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{text} (see '{error.ctx.command_path} --help')"
    return text


def _show_warning(message: Warning | str, *_where: Any) -> None:
    if is_first():
        echo_line("warning", "yellow", " ".join(str(message).split()))


def _is_closed_pipe(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno == errno.EPIPE
