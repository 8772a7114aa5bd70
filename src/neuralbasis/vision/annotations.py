"""Annotations: which pictures there are, which parts they show and where, and which attributes the parts have.

A concept is an attribute of a part: "striped wing". PAPER §A: left and right instances are one part. The paper's 278
concepts are CUB's 312 attributes without the 34 of the whole bird (its size, shape and primary colour), which no
location shows. It does not say where an attribute of several parts is seen: `PLACES` does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

PRESENT, ABSENT, UNKNOWN = 1, 0, -1
PLACES = {  # what CUB's attributes speak of and where it is seen, for those that are not a part
    "upperparts": ("back", "wing"),
    "underparts": ("breast", "belly"),
    "head": ("crown", "forehead", "eye"),
    "upper tail": ("tail",),
    "under tail": ("tail",),
}
OTHER_WORDS = {"bill": "beak"}  # CUB's attributes speak of a bill, its parts of a beak
_GROUP = re.compile(r"has_(?P<where>.+)_(?P<kind>[a-z]+)::(?P<value>.+)")
_THINGS = ("dagger", "needle", "cone")  # a beak is not a needle but shaped like one


class Locations(NamedTuple):
    """L places in pictures, as arrays of one entry a place.

    image : index of the picture        part : index of the part
    x, y : pixels of the picture as a person sees it, from its upper left corner
    row : row of `present` that says which concepts are there
    """

    image: np.ndarray
    part: np.ndarray
    x: np.ndarray
    y: np.ndarray
    row: np.ndarray


@dataclass(frozen=True, eq=False)
class Annotations:
    """What is known about N pictures, P parts and K concepts.

    Parameters
    ----------
    images : N paths
    parts : P names, left and right merged
    concepts : K names
    shows : (K, P) bool, at which parts a concept is seen
    locations : parts that can be seen, and where
    present : (R, K) int8, 1 present, 0 absent, -1 unknown; a row describes a picture or a single location
    weight : (R, K) float32, how far to trust that, 0 to 1
    row_images : (R,) the picture that a row is about
    labels : (N,) index of each picture's class, -1 if it is unknown
    classes : names of the classes
    is_train : (N,) bool, pictures to fit on
    notes : what was wrong with the files, a line each
    """

    images: tuple[Path, ...]
    parts: tuple[str, ...]
    concepts: tuple[str, ...]
    shows: np.ndarray
    locations: Locations
    present: np.ndarray
    weight: np.ndarray
    row_images: np.ndarray
    labels: np.ndarray
    classes: tuple[str, ...]
    is_train: np.ndarray
    notes: tuple[str, ...] = ()

    def truth(self) -> np.ndarray:
        """(N, K) int8: whether a picture has a concept: 1 if one of its rows says so, -1 if none says anything."""
        found = np.full((len(self.images), len(self.concepts)), UNKNOWN, dtype=np.int8)
        np.maximum.at(found, self.row_images, np.where(self.weight > 0, self.present, UNKNOWN))
        return found

    def select(self, chosen: np.ndarray) -> Annotations:
        """The annotations of some pictures, by indices or a mask; all parts, concepts and classes stay."""
        chosen = np.arange(len(self.images))[chosen]
        place = np.full(len(self.images), -1)
        place[chosen] = np.arange(len(chosen))
        rows = np.flatnonzero(place[self.row_images] >= 0)
        row_place = np.full(len(self.row_images), -1)
        row_place[rows] = np.arange(len(rows))
        kept = Locations(*(field[place[self.locations.image] >= 0] for field in self.locations))
        return replace(
            self,
            images=tuple(self.images[k] for k in chosen),
            locations=kept._replace(image=place[kept.image], row=row_place[kept.row]),
            present=self.present[rows],
            weight=self.weight[rows],
            row_images=place[self.row_images[rows]],
            labels=self.labels[chosen],
            is_train=self.is_train[chosen],
        )

    def __repr__(self) -> str:
        return (
            f"<Annotations: {len(self.images):,} pictures, {len(self.classes):,} classes, {len(self.parts)} parts, "
            f"{len(self.locations.x):,} locations, {len(self.concepts)} concepts>"
        )


class NamedConcept(NamedTuple):
    """A concept's name and the parts at which it is seen."""

    name: str
    parts: tuple[str, ...]


def merge_sides(part: str) -> str:
    """PAPER §A: left and right instances are the same part.

    >>> [merge_sides(part) for part in ("left wing", "Right Leg", "wing_left", "tail")]
    ['wing', 'leg', 'wing', 'tail']
    """
    words = part.strip().lower().replace("_", " ").split()
    return " ".join([word for word in words if word not in ("left", "right")] or words)


def name_concept(attribute: str, parts: Sequence[str]) -> NamedConcept | None:
    """The concept of one of CUB's attributes, named as the paper does; None if it is of no part.

    Examples
    --------
    >>> name_concept("has_wing_pattern::striped", ["wing", "tail"])
    NamedConcept(name='striped wing', parts=('wing',))
    >>> (
    ...     name_concept("has_bill_shape::needle", ["beak"]).name,
    ...     name_concept("has_tail_shape::forked_tail", ["tail"]).name,
    ... )
    ('needle-shaped beak', 'forked tail')
    >>> name_concept("has_bill_length::longer_than_head", ["beak"]).name
    'beak longer than head'
    >>> name_concept("has_upperparts_color::olive", ["back", "wing", "tail"])
    NamedConcept(name='olive upperparts', parts=('back', 'wing'))
    >>> name_concept("has_size::small_(5_-_9_in)", ["wing"]) is None
    True
    """
    found = _GROUP.fullmatch(attribute)
    if found is None:
        return None
    where, value = found["where"].replace("_", " "), found["value"].replace("_", " ")
    where = OTHER_WORDS.get(where, where)
    seen = tuple(part for part in PLACES.get(where, (where,)) if part in parts)
    if not seen:
        return None
    if found["kind"] == "length":
        return NamedConcept(f"{where} {value}", seen)
    words = value.replace(f"-{where}", f" {where}").split()
    if words[-1] in (where, f"{where}s"):
        return NamedConcept(" ".join(words), seen)
    return NamedConcept(f"{value}-shaped {where}" if value in _THINGS else f"{value} {where}", seen)
