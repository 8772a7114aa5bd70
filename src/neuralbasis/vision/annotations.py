"""Annotations of pictures: parts, their locations, and the concepts that they show.

A concept is an attribute of a part, such as "striped wing". PAPER §A: left and right instances are one part. The
paper's 278 concepts are CUB's 312 attributes without the 34 that describe the whole bird (size, shape and primary
colour), which have no location. DIFF: the paper does not define the location of an attribute that covers several
parts; `ATTRIBUTE_PARTS` does.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

PRESENT, ABSENT, UNKNOWN = 1, 0, -1
ATTRIBUTE_PARTS = {  # regions in CUB's attribute names that are not parts -> parts where they are visible
    "upperparts": ("back", "wing"),
    "underparts": ("breast", "belly"),
    "head": ("crown", "forehead", "eye"),
    "upper tail": ("tail",),
    "under tail": ("tail",),
}
PART_SYNONYMS = {"bill": "beak"}  # word in CUB's attributes -> name of the part
_ATTRIBUTE = re.compile(r"has_(?P<where>.+)_(?P<kind>[a-z]+)::(?P<value>.+)")
_NOUN_VALUES = ("dagger", "needle", "cone")  # values that need "-shaped" before the name of the part


class Locations(NamedTuple):
    """L located parts, as arrays of shape (L,).

    Parameters
    ----------
    image, part : index of the picture and of the part
    x, y : position in pixels
    row : row of `Annotations.present` that describes the location

    Examples
    --------
    >>> one = np.zeros(1, int)
    >>> Locations(one, one, one + 31, one + 12, one).x.tolist()
    [31]
    """

    image: np.ndarray  # index of the picture
    part: np.ndarray  # index of the part
    x: np.ndarray  # pixels from the upper left corner of the upright picture
    y: np.ndarray
    row: np.ndarray  # row of `present` that describes the location


@dataclass(frozen=True, eq=False)
class Annotations:
    """Annotations of N pictures with P parts and K concepts.

    Parameters
    ----------
    images : N paths
    parts : P names, left and right merged
    concepts : K names
    shows : (K, P) bool, parts at which a concept is visible
    locations : visible parts and their positions
    present : (R, K) int8, 1 present, 0 absent, -1 unknown; a row describes a picture or a single location
    weight : (R, K) float32, certainty of `present`, 0 to 1
    row_images : (R,) index of the picture that a row describes
    labels : (N,) index of each picture's class, -1 if unknown
    classes : class names
    is_train : (N,) bool, pictures of the training split
    notes : problems found in the files, one line each

    Examples
    --------
    >>> import tempfile
    >>> from neuralbasis.vision import read_csv
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "birds.csv")
    ...     _ = path.write_text("image,part,x,y,attribute\\na.jpg,left wing,31,12,striped\\n")
    ...     found = read_csv(path)
    >>> found.parts, found.concepts, found.present.tolist()
    (('wing',), ('striped wing',), [[1]])
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
        """(N, K) int8: 1 if any row of a picture has the concept, 0 if its rows lack it, -1 if all are unknown."""
        found = np.full((len(self.images), len(self.concepts)), UNKNOWN, dtype=np.int8)
        np.maximum.at(found, self.row_images, np.where(self.weight > 0, self.present, UNKNOWN))
        return found

    def select(self, chosen: np.ndarray) -> Annotations:
        """Annotations of the pictures at these indices or where this mask is true; names are unchanged."""
        chosen = np.arange(len(self.images))[chosen]
        new_index = np.full(len(self.images), -1)
        new_index[chosen] = np.arange(len(chosen))
        rows = new_index[self.row_images] >= 0
        new_row = np.cumsum(rows) - 1
        kept = Locations(*(field[new_index[self.locations.image] >= 0] for field in self.locations))
        return replace(
            self,
            images=tuple(self.images[k] for k in chosen),
            locations=kept._replace(image=new_index[kept.image], row=new_row[kept.row]),
            present=self.present[rows],
            weight=self.weight[rows],
            row_images=new_index[self.row_images[rows]],
            labels=self.labels[chosen],
            is_train=self.is_train[chosen],
        )

    def __repr__(self) -> str:
        return (
            f"<Annotations: {len(self.images):,} pictures, {len(self.classes):,} classes, {len(self.parts)} parts, "
            f"{len(self.locations.x):,} locations, {len(self.concepts)} concepts>"
        )


def index_values(values: Iterable[Hashable]) -> dict[Any, int]:
    """Distinct values in their order, each with its index."""
    return {value: k for k, value in enumerate(dict.fromkeys(values))}


def group_rows(index: np.ndarray, count: int) -> list[np.ndarray]:
    """Rows with each index 0 … count - 1."""
    order = np.argsort(index, kind="stable")
    return np.split(order, np.searchsorted(index[order], np.arange(1, count)))


def merge_sides(part: str) -> str:
    """PAPER §A: left and right instances are the same part: "left wing" and "wing_right" are "wing"."""
    words = part.strip().lower().replace("_", " ").split()
    return " ".join([word for word in words if word not in ("left", "right")] or words)


def name_concept(attribute: str, parts: Sequence[str]) -> tuple[str, tuple[str, ...]] | None:
    """Name of a CUB attribute as in the paper, and the parts at which it is visible; None if it belongs to no part.

    >>> name_concept("has_bill_shape::needle", ["beak"]), name_concept("has_size::small_(5_-_9_in)", ["wing"])
    (('needle-shaped beak', ('beak',)), None)
    >>> name_concept("has_upperparts_color::olive", ["back", "wing", "tail"])
    ('olive upperparts', ('back', 'wing'))
    """
    found = _ATTRIBUTE.fullmatch(attribute)
    if found is None:
        return None
    where, value = found["where"].replace("_", " "), found["value"].replace("_", " ")
    where = PART_SYNONYMS.get(where, where)
    visible = tuple(part for part in ATTRIBUTE_PARTS.get(where, (where,)) if part in parts)
    if not visible:
        return None
    words = value.replace(f"-{where}", f" {where}").split()
    if found["kind"] == "length":
        name = f"{where} {value}"
    elif words[-1] in (where, f"{where}s"):
        name = " ".join(words)
    else:
        name = f"{value}-shaped {where}" if value in _NOUN_VALUES else f"{value} {where}"
    return name, visible
