"""The frame and the style of the cards of a notebook.

In: HTML or text. Out: HTML without scripts and without references to other files, in the colours of the notebook.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

STYLE = (
    ".nbm{font:13px/1.45 system-ui,sans-serif;max-width:640px;color:inherit;background:transparent}"
    ".nbm b{font-weight:600}.nbm .s{display:flex;flex-wrap:wrap;gap:10px 14px;margin:8px 0}"
    ".nbm figure{margin:0;width:190px}.nbm figcaption{overflow-wrap:anywhere;line-height:1.3}"
    ".nbm small{opacity:.75}.nbm svg{display:block;max-width:100%;font:10px system-ui,sans-serif;fill:currentColor}"
    ".nbm table{border-collapse:collapse;font:inherit;background:transparent;color:inherit;margin:4px 0}"
    ".nbm th,.nbm td{padding:1px 10px 1px 0;text-align:left;border:0;background:transparent;color:inherit}"
    ".nbm td.n,.nbm th.n{text-align:right;font-variant-numeric:tabular-nums}"
    ".nbm pre{white-space:pre;overflow-x:auto;color:inherit;background:transparent;margin:4px 0}"
    ".nbm summary{cursor:pointer}"
)


def wrap_card(content: str) -> str:
    return f'<div class="nbm"><style>{STYLE}</style>{content}</div>'


def write_text_card(heading: str, texts: Sequence[tuple[str, str]]) -> str:
    """Folded blocks of text, each with a title; a single one is open."""
    is_open = ' open=""' if len(texts) == 1 else ""
    blocks = "".join(
        f"<details{is_open}><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"
        for title, text in texts
    )
    return wrap_card((f"<pre>{escape(heading)}</pre>" if heading else "") + blocks)
