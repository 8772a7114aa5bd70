"""Terms: which features a shape speaks of. A term is a tuple of increasing feature indices: (3,) or (0, 3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

Term = tuple[int, ...]


def term_name(term: Term, names: Sequence[str]) -> str:
    """
    >>> term_name((0, 2), ["age", "sex", "income"])
    'age & income'
    """
    return " & ".join(names[feature] for feature in term)


def choose_terms(interactions: Any, names: Sequence[str]) -> list[Term]:
    """All main effects, then the wished interactions: 0 for none, or a list of tuples of names or indices.

    >>> choose_terms([("b", "a")], ["a", "b"])
    [(0,), (1,), (0, 1)]
    """
    mains: list[Term] = [(feature,) for feature in range(len(names))]
    if isinstance(interactions, Integral) and not isinstance(interactions, bool) and interactions == 0:
        return mains
    if isinstance(interactions, str) or not isinstance(interactions, Iterable):
        raise ValueError(f"interactions must be 0 or a list of tuples of column names or indices, not {interactions!r}")
    chosen = [parse_term(term, names) for term in interactions]
    return mains + sorted(set(chosen), key=lambda term: (len(term), term))


def parse_term(term: Any, names: Sequence[str]) -> Term:
    """A tuple of two or three different column names or indices -> a Term."""
    if isinstance(term, str) or not isinstance(term, Iterable):
        raise ValueError(f"an interaction must be a tuple of column names or indices, not {term!r}")
    wished = tuple(term)
    features = sorted(_feature_index(part, names) for part in wished)
    if len(features) not in (2, 3):
        raise ValueError(f"an interaction joins two or three columns; {wished!r} has {len(features)}")
    if len(set(features)) < len(features):
        raise ValueError(f"an interaction joins different columns; {wished!r} names one twice")
    return tuple(features)


def _feature_index(part: Any, names: Sequence[str]) -> int:
    if isinstance(part, str):
        if part not in names:
            raise ValueError(f"interactions names the column {part!r}, which is not in the table: {list(names)[:20]}")
        return list(names).index(part)
    if not isinstance(part, Integral) or isinstance(part, bool):
        raise ValueError(f"interactions must name columns by their name or index, not by {part!r}")
    index = int(part)
    if not 0 <= index < len(names):
        raise ValueError(f"interactions names column {index}, but the table has {len(names)} columns (0 is the first)")
    return index
