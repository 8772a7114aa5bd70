"""Progress bars on stderr; the only module that imports tqdm."""

from __future__ import annotations

import os
import sys
import warnings

with warnings.catch_warnings():  # that a notebook without ipywidgets has bars of text
    warnings.simplefilter("ignore")
    from tqdm.auto import tqdm as Bar

__all__ = ["Bar", "open_bar"]

DELAY = 3.0  # seconds after which a bar appears that was not requested


class LateBar(Bar):
    """A bar whose texts wait for its delay, too; those of tqdm show the bar at once."""

    def set_postfix_str(self, s: str = "", refresh: bool = True) -> None:
        is_late = self.disable or self._time() >= self.start_t + self.delay
        super().set_postfix_str(s, refresh and is_late)


def open_bar(total: int, title: str, unit: str, shown: bool, done: int = 0) -> Bar:
    """A progress bar with `total` units, `done` of them already; `set_postfix_str` adds text at its end.

    If it is not `shown`, it appears in a terminal or a notebook after three seconds, and disappears at its end.
    """
    look = {"total": total, "initial": done, "desc": title, "unit": unit}
    if shown:
        return Bar(**look, leave=True)
    return LateBar(**look, leave=False, delay=DELAY, disable=not _has_reader())


def _has_reader() -> bool:
    """Whether someone watches: a terminal or a notebook, in the first of several processes."""
    if os.environ.get("RANK", "0") != "0":
        return False
    python = sys.modules.get("IPython")
    shell = None if python is None else python.get_ipython()
    return sys.stderr.isatty() or hasattr(shell, "kernel")
