"""Errors of commands: every error becomes one line on standard error and an exit code.

    0   success
    1   the command failed; the message names the remedy
    2   wrong usage
    130 stopped by Ctrl-C

`--debug` shows the traceback.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
import warnings
from collections.abc import Collection, Iterable
from typing import Any

import click

from ..data.columns import list_names
from ..suggestions import find_nearest
from .terminal import echo, echo_line

STOPPED = 130
_EXPECTED = (ValueError, TypeError, OSError, ImportError, EOFError)  # raised for bad data by us and our libraries


class CommandError(click.ClickException):
    """A command failed for a reason that the user can change."""


class CommandGroup(click.Group):
    """A group of commands that prints errors in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order of use, not alphabetical

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and self.get_command(ctx, args[0]) is None and (near := find_nearest(args[0], self.commands)):
            raise click.UsageError(f"there is no command {args[0]!r}; did you mean {near!r}?", ctx)
        return super().resolve_command(ctx, args)

    def main(self, *given: Any, standalone_mode: bool = True, **options: Any) -> Any:
        try:
            code = super().main(*given, **options, standalone_mode=False)  # type: ignore[call-overload]
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            code = error.exit_code
        except click.ClickException as error:
            text = " ".join(error.format_message().split())
            if isinstance(error, click.UsageError) and error.ctx is not None:
                text = f"{text} (see '{error.ctx.command_path} --help')"
            echo_line("error", "red", text)
            code = error.exit_code
        except click.Abort:
            echo("error: stopped; nothing was written", err=True)
            code = STOPPED
        except Exception:  # with --debug only; otherwise `invoke` raised a CommandError
            if not standalone_mode:
                raise
            echo(traceback.format_exc(), err=True)
            code = 1
        return sys.exit(code) if standalone_mode else code

    def invoke(self, ctx: click.Context) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # for terminals that cannot print "█"
        with warnings.catch_warnings():
            warnings.showwarning = _WarningPrinter()  # type: ignore[assignment]
            try:
                return super().invoke(ctx)
            except (click.ClickException, click.exceptions.Exit, click.Abort):
                raise
            except Exception as error:
                is_closed_pipe = getattr(error, "errno", None) == errno.EPIPE  # click exits silently
                if ctx.params["debug"] or is_closed_pipe:
                    raise
                raise CommandError(describe(error)) from error


def describe(error: Exception) -> str:
    """Describe an error of the package, of Arrow or of the system in one line.

    >>> describe(ValueError("column 'age' holds an\\ninfinite value"))
    "column 'age' holds an infinite value"
    """
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError):
        return "out of memory: give fewer rows or columns, or use a larger machine"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "no space left on the disk; free some space, or choose another place for the output"
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, _EXPECTED) and text:
        return text
    return f"unexpected {type(error).__name__}: {text}; please report it with the traceback that --debug shows"


def require_names(
    names: Iterable[str], available: Collection[str], place: str, what: str = "column", hint: str = ""
) -> None:
    """Raise if a name is not available; the error lists the absent names, the closest available ones and the hint.

    >>> require_names(["age"], ["Age", "sex"], "data.csv")
    Traceback (most recent call last):
    neuralbasis.cli.errors.CommandError: data.csv has no column 'age'; did you mean 'Age'?
    """
    absent = [name for name in dict.fromkeys(names) if name not in available]
    if not absent:
        return
    near = [found for name in absent if (found := find_nearest(name, available)) is not None]
    closest = f"did you mean {list_names(near)}?" if near and not hint else f"it has {list_names(available)}"
    raise CommandError(f"{place} has no {what}{'s' * (len(absent) > 1)} {list_names(absent)}; {closest}{hint}")


def is_first_process() -> bool:
    """Whether this process prints and writes files; torchrun starts several and numbers them."""
    return "TORCHELASTIC_RUN_ID" not in os.environ or os.environ.get("RANK", "0") == "0"


def note(text: str) -> None:
    """Print a note on standard error."""
    if is_first_process():
        echo_line("note", "yellow", text)


class _WarningPrinter:
    """Prints warnings; those of later batches that differ in counts and examples only are left out."""

    def __init__(self) -> None:
        self.printed: set[str] = set()

    def __call__(self, message: Warning | str, *_where: Any) -> None:
        text = " ".join(str(message).split())
        text = text.replace("set its feature_types to 'nominal'", "pass --feature-types COLUMN=nominal")
        key = re.sub(r"[0-9,.]+", "", text.partition(", such as")[0])
        if is_first_process() and key not in self.printed:
            echo_line("warning", "yellow", text)
        self.printed.add(key)
