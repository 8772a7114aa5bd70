"""Progress: the bar that a long work shows on stderr. The home of tqdm."""

from __future__ import annotations

from tqdm.auto import tqdm as Bar

__all__ = ["Bar", "open_bar"]


def open_bar(total: int, title: str, unit: str, shown: bool, done: int = 0) -> Bar:
    """A bar of so many units, some of them done before; `set_postfix_str` says more at its end."""
    return Bar(total=total, initial=done, desc=title, unit=unit, disable=not shown, leave=True)
