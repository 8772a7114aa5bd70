"""The HTML file: page.html with its style, scripts and the data of the model.

Text from the user's table never becomes markup. Names and labels are stored as JSON in a data block, with all
characters escaped that could end the block, and the script inserts them as text. A content security policy allows only
this script and this style, by their hashes, and no network access.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib.resources import files
from string import Template
from typing import Any

from .. import __version__
from .tables import Pack

SCRIPTS = (
    *("model.js", "draw.js", "chart.js", "curve.js", "totals.js", "stretch.js", "terms.js", "accuracy.js"),
    *("threshold.js", "whatif.js", "csv.js", "scoring.js", "drift.js", "files.js", "evidence.js", "page.js"),
)
ESCAPES = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}


def assemble(data: dict[str, Any], pack: Pack) -> bytes:
    """The complete file."""
    style, script = _read("page.css"), "\n".join(map(_read, SCRIPTS))
    page = Template(_read("page.html")).substitute(
        policy=f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        f"{'img-src data:; ' if data['evidence'] else ''}base-uri 'none'; form-action 'none'",
        version=__version__,
        title=html.escape(data["title"]),
        style=style,
        script=script,
        data=write_block(data),
        **{kind: base64.b64encode(pack.join(kind).tobytes()).decode() for kind in Pack.TYPES},
    )
    return page.encode("utf-8", "xmlcharrefreplace")  # UTF-8 cannot encode half a surrogate pair


def write_block(data: Any) -> str:
    """JSON that is safe in a script element: ASCII without the special characters of HTML.

    >>> write_block({"name": "</script>é"})
    '{"name":"\\\\u003c/script\\\\u003e\\\\u00e9"}'
    """
    return json.dumps(data, separators=(",", ":"), allow_nan=False).translate(ESCAPES)


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
