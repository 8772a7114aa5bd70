"""Printable: text from models and tables with escaped control characters, safe to print on a terminal.

In: any text, perhaps from an untrusted file. Out: the same text, with control characters written as escapes.
"""

from __future__ import annotations

import re

# C0, DEL and C1; marks and overrides of the writing direction; separators of lines and paragraphs; lone surrogates,
# which no stream can encode. Joiners (U+200C, U+200D) stay: Persian and many emoji need them.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escape(text: str, keep: str = "") -> str:
    """Write control characters as Python escapes, except those in `keep`.

    >>> print(escape("age\\x1b[2J"), escape("first\\nsecond"), escape("a\\tb", keep="\\t") == "a\\tb")
    age\\x1b[2J first\\nsecond True
    """
    return _CONTROLS.sub(lambda found: found[0] if found[0] in keep else _escape_character(found[0]), text)


def escape_json(text: str) -> str:
    """Write control characters in a JSON text as JSON escapes; it parses to the same values.

    >>> print(escape_json('{"name": "\\x9b2J"}'))
    {"name": "\\u009b2J"}
    """
    return _CONTROLS.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


def _escape_character(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
