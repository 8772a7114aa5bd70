"""Terms: the features of a shape. A term is a tuple of increasing feature indices: (3,) or (0, 3).

Input: the parameters `interactions`, `triples` and `exclude`. Output: a `Plan` with the terms requested by name, and
the numbers of pairs and triples that screening (`interactions`) should find.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from numbers import Integral, Real
from typing import Any, NamedTuple

from ..data.columns import list_names
from ..suggestions import suggest

Term = tuple[int, ...]
_COUNTED = 'a share of the number of columns below 1, "3x", "all", "auto"'
EXPECTED = {
    "interactions": f"a number of pairs, {_COUNTED}, or a list of tuples",
    "triples": f"a number of triples, {_COUNTED}; a list of triples belongs to interactions",
}


def term_name(term: Term, names: Sequence[str]) -> str:
    """Name of a term, such as "age & income"."""
    return " & ".join(names[feature] for feature in term)


@dataclass(frozen=True)
class Plan:
    """The terms of a model, as requested."""

    features: tuple[int, ...]  # columns that are not excluded
    listed: tuple[Term, ...]  # interactions requested by name
    n_pairs: float  # further interactions to find; infinite for all
    n_triples: float
    excluded: frozenset[Term]  # terms that must be neither in the model nor part of a larger term
    is_automatic: bool = False  # whether only interactions stronger than noise are kept

    @property
    def must_search(self) -> bool:
        """Whether interactions must be selected by screening."""
        return any(0 < count < math.inf for count in (self.n_pairs, self.n_triples))

    @property
    def mains(self) -> list[Term]:
        return [(feature,) for feature in self.features]

    def allows(self, term: Term) -> bool:
        return not any(part in self.excluded for order in range(1, len(term) + 1) for part in combinations(term, order))

    def list_candidates(self, order: int, features: Sequence[int] | None = None) -> Iterator[Term]:
        """All allowed terms of this order among the features, by default all features of the plan."""
        chosen = self.features if features is None else sorted(features)
        return (term for term in combinations(chosen, order) if self.allows(term))

    def restrict(self, features: Sequence[int]) -> tuple[Plan, list[int]]:
        """Keep the main effects of these columns and all listed interactions.

        Returns the plan, with renumbered columns, and the columns that it uses; its column i is the i-th of them.
        """
        kept = sorted({*features, *(feature for term in self.listed for feature in term)})
        index_of = {feature: index for index, feature in enumerate(kept)}

        def renumber(term: Term) -> Term:
            return tuple(index_of[feature] for feature in term)

        plan = replace(
            self,
            features=renumber(tuple(sorted(features))),
            listed=tuple(map(renumber, self.listed)),
            excluded=frozenset(renumber(term) for term in self.excluded if index_of.keys() >= set(term)),
        )
        return plan, kept

    def has_order(self, order: int) -> bool:
        """Are there interactions of this order, requested by name or to be found?"""
        return bool(self.list_requested(order) or (self.n_pairs if order == 2 else self.n_triples))

    def list_requested(self, order: int) -> list[Term]:
        """Interactions of this order requested by name."""
        return [term for term in self.listed if len(term) == order]


class Ranked(NamedTuple):
    """A candidate interaction.

    name, features : for example "age & income", (0, 3)
    strength : share of the residuals' variance that it explains beyond its lower-order terms and beyond noise
    chosen : whether it was trained, including weak pairs that were added later
    """

    name: str
    features: Term
    strength: float
    chosen: bool


def describe_ranking(
    terms: Sequence[Term], strengths: Iterable[float], chosen: Container[Term], names: Sequence[str]
) -> list[Ranked]:
    """Ranking of terms with their names and strengths."""
    return [
        Ranked(term_name(term, names), term, float(strength), term in chosen)
        for term, strength in zip(terms, strengths, strict=True)
    ]


def plan_terms(interactions: Any, triples: Any, exclude: Any, names: Sequence[str], automatic: int = 0) -> Plan:
    """Parse the parameters that request terms.

    Parameters
    ----------
    interactions : number of pairs, share of the columns, "3x", "all", "auto", or a list of tuples of columns
    triples : number of triples, spelled like `interactions`, without a list
    exclude : columns and tuples of columns that must not be in the model, or None
    names : of all columns
    automatic : number of pairs that "auto" stands for
    """
    known = {name: index for index, name in enumerate(names)}
    excluded = frozenset(_parse_excluded(exclude, known))
    features = tuple(feature for feature in range(len(names)) if (feature,) not in excluded)
    if not features:
        raise ValueError("exclude leaves no column; a model needs at least one")
    listed: list[Term] = []
    if isinstance(interactions, (str, Real)):
        n_pairs = _count_terms("interactions", interactions, len(names), automatic)
    elif isinstance(interactions, Iterable) and getattr(interactions, "ndim", 1) != 0:
        n_pairs, listed = 0, [_parse_term(term, known) for term in interactions]
    else:
        raise ValueError(f"interactions must be {EXPECTED['interactions']}, not {interactions!r}")
    plan = Plan(
        features,
        tuple(sorted(set(listed), key=lambda term: (len(term), term))),
        n_pairs,
        _count_terms("triples", triples, len(names), 0),
        excluded,
        isinstance(interactions, str) and interactions == "auto",
    )
    for term in plan.listed:
        if not plan.allows(term):
            raise ValueError(
                f"interactions requests {term_name(term, names)!r}, but exclude removes it or a part of it from the "
                "model; change one of the two"
            )
    return plan


def _count_terms(parameter: str, requested: Any, n_features: int, automatic: int) -> float:
    """Number of terms from a number, a share of the columns, "3x", "all" or "auto"."""
    if isinstance(requested, str):
        times = re.fullmatch(r"(\d+(?:\.\d+)?)\s*x", requested.strip().lower())
        if times:
            return int(float(times[1]) * n_features)
        if requested in ("all", "auto"):
            return math.inf if requested == "all" else automatic
    elif isinstance(requested, Integral) and not isinstance(requested, bool) and int(requested) >= 0:
        return int(requested)
    elif isinstance(requested, Real) and not isinstance(requested, Integral) and 0 < float(requested) < 1:
        return math.ceil(float(requested) * n_features)
    raise ValueError(f"{parameter} must be {EXPECTED[parameter]}, not {requested!r}")


def _parse_excluded(exclude: Any, names: Mapping[str, int]) -> list[Term]:
    """Columns, pairs and triples that must not be in the model."""
    if exclude is None:
        return []
    if isinstance(exclude, str) or not isinstance(exclude, Iterable):
        raise ValueError(f"exclude must be a list of columns or tuples of columns, not {exclude!r}")
    columns = ((part,) if isinstance(part, (str, Integral)) else part for part in exclude)
    return [_parse_term(term, names, "exclude") for term in columns]


def _parse_term(term: Any, names: Mapping[str, int], parameter: str = "interactions") -> Term:
    """A tuple of two or three different column names or indices -> a Term; `names` maps all columns to indices.

    `exclude` may also name single columns.
    """
    if isinstance(term, str) or not isinstance(term, Iterable):
        raise ValueError(f"{parameter} must hold tuples of column names or indices, not {term!r}")
    requested = tuple(term)
    features = sorted(_feature_index(part, names, parameter) for part in requested)
    if len(features) not in (2, 3) and not (parameter == "exclude" and len(features) == 1):
        raise ValueError(f"{parameter}: an interaction joins two or three columns; {requested!r} has {len(features)}")
    if len(set(features)) < len(features):
        raise ValueError(f"{parameter}: an interaction joins different columns; {requested!r} names one twice")
    return tuple(features)


def _feature_index(part: Any, names: Mapping[str, int], parameter: str) -> int:
    if isinstance(part, str):
        if part not in names:
            hint = suggest(part, names, f"it has {list_names(names)}")
            raise ValueError(f"{parameter} names the column {part!r}, which is not in the table; {hint}")
        return names[part]
    if not isinstance(part, Integral) or isinstance(part, bool):
        raise ValueError(f"{parameter} must name columns by their name or index, not by {part!r}")
    index = int(part)
    if not 0 <= index < len(names):
        raise ValueError(f"{parameter} names column {index}, but the table has {len(names)} columns (0 is the first)")
    return index
