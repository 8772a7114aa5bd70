"""Progress bars on stderr; the only module that imports tqdm."""

from __future__ import annotations

from tqdm.auto import tqdm as Bar

__all__ = ["Bar", "open_bar"]


def open_bar(total: int, title: str, unit: str, shown: bool, done: int = 0) -> Bar:
    """A progress bar with `total` units, `done` of them already; `set_postfix_str` adds text at its end."""
    return Bar(total=total, initial=done, desc=title, unit=unit, disable=not shown, leave=True)
