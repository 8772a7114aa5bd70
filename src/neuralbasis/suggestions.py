"""Suggestions: the nearest known name, for errors about an unknown one.

In: an unknown name and the known ones. Out: the nearest known name, or a hint that names it.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def find_nearest(name: object, known: Iterable[str]) -> str | None:
    """The known name most similar to `name`, whatever the case of letters; None if none is similar.

    >>> find_nearest("age", ["Age", "sex"]), find_nearest("income", ["Age", "sex"])
    ('Age', None)
    """
    by_lower: dict[str, str] = {}
    for each in known:
        by_lower.setdefault(each.lower(), each)
    found = get_close_matches(str(name).lower(), by_lower, n=1)
    return by_lower[found[0]] if found else None


def suggest(name: object, known: Iterable[str], otherwise: str) -> str:
    """A hint for an error: the nearest known name, or `otherwise` if none is similar.

    >>> suggest("agee", ["age", "sex"], "name a column of the table")
    "did you mean 'age'?"
    """
    nearest = find_nearest(name, known)
    return otherwise if nearest is None else f"did you mean {nearest!r}?"
