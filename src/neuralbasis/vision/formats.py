"""Formats: the files in which annotations come -> `Annotations`.

CUB-200-2011's folder, the JSON of iNaturalist 2021, a CSV of (image, part, x, y, attribute), a folder of pictures.
Lines that cannot be read are left out and counted in `notes`; only a file that is not there, or has another form
altogether, is an error. No picture is opened.
"""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..data.columns import list_names
from .annotations import ABSENT, PRESENT, UNKNOWN, Annotations, Locations, merge_sides, name_concept
from .pictures import list_pictures

# Of "not visible", "guessing", "probably" and "definitely". The paper does not say what it does with them.
CERTAINTY_WEIGHTS = {1: 0.0, 2: 0.5, 3: 0.75, 4: 1.0}
CSV_COLUMNS = ("image", "part", "x", "y", "attribute")


def read_annotations(
    path: str | os.PathLike[str],
    supercategory: str | None = None,
    with_parts: bool = True,
    folder: str | os.PathLike[str] | None = None,
) -> Annotations:
    """Annotations by the form in which they come: CUB's folder, a folder of pictures, a .json or a .csv file.

    `supercategory` chooses from a file of iNaturalist; `with_parts=False` leaves CUB's parts and attributes unread;
    `folder` is where the pictures of a .json or .csv file are, by default beside it.
    """
    path = Path(path)
    if path.suffix.lower() == ".json" and not path.is_dir():
        return read_inaturalist(path, folder, supercategory)
    if supercategory is not None:
        raise ValueError(f"a supercategory chooses from a JSON file of iNaturalist; leave it out for {os.fspath(path)}")
    if path.is_dir():
        return read_cub(path, with_parts) if (path / "images.txt").exists() else read_folder(path)
    if path.suffix.lower() == ".csv":
        return read_csv(path, folder)
    raise ValueError(f"expected CUB's folder, a folder of pictures, a .json or a .csv file, got {os.fspath(path)!r}")


def read_cub(folder: str | os.PathLike[str], with_parts: bool = True) -> Annotations:
    """The folder CUB_200_2011: pictures, classes, split, parts, and attributes with their certainties.

    Attributes that are "not visible" are unknown; the other certainties are weights (`CERTAINTY_WEIGHTS`). Without
    parts, only the pictures, their classes and the split are read.
    """
    folder = Path(folder)
    notes: list[str] = []
    ids, names = _read_list(folder / "images.txt", notes)
    place = {number: k for k, number in enumerate(ids)}
    labels, classes, is_train = _read_labels(folder, place, notes)
    images = _find_pictures(folder / "images", names, folder / "images.txt")
    pictures = _without_parts(images, labels, classes, is_train)
    if not with_parts:
        return replace(pictures, notes=tuple(notes))
    parts, located = _read_parts(folder, place, notes)
    concepts, shows, columns = _read_attributes(folder, parts, notes)
    present, weight = _read_presence(folder, place, columns, len(concepts), notes)
    return replace(
        pictures,
        parts=parts,
        concepts=concepts,
        shows=shows,
        locations=_list_locations(located),
        present=present,
        weight=weight,
        notes=tuple(notes),
    )


def _read_labels(
    folder: Path, place: dict[int, int], notes: list[str]
) -> tuple[np.ndarray, tuple[str, ...], np.ndarray]:
    """The class of each picture, the names of the classes, and which pictures are to fit on."""
    class_ids, classes = _read_list(folder / "classes.txt", notes)
    class_place = {number: k for k, number in enumerate(class_ids)}
    labels, is_train = np.full(len(place), -1), np.ones(len(place), dtype=bool)
    for number, label in _read_numbers(folder / "image_class_labels.txt", 2, notes):
        if number in place:
            labels[place[number]] = class_place.get(label, -1)
    for number, flag in _read_numbers(folder / "train_test_split.txt", 2, notes):
        if number in place:
            is_train[place[number]] = flag == 1
    return labels, tuple(classes), is_train


def _read_parts(
    folder: Path, place: dict[int, int], notes: list[str]
) -> tuple[tuple[str, ...], list[tuple[int, int, float, float]]]:
    """The parts, left and right merged, and where they are seen: picture, part, x, y."""
    part_ids, part_names = _read_list(folder / "parts" / "parts.txt", notes)
    parts = tuple(dict.fromkeys(map(merge_sides, part_names)))
    part_place = {number: parts.index(merge_sides(name)) for number, name in zip(part_ids, part_names, strict=True)}
    located = [
        (place[image], part_place[part], x, y)
        for image, part, x, y, seen in _read_numbers(folder / "parts" / "part_locs.txt", 5, notes, _finite)
        if seen == 1 and image in place and part in part_place
    ]
    return parts, located


def read_inaturalist(
    path: str | os.PathLike[str],
    folder: str | os.PathLike[str] | None = None,
    supercategory: str | None = None,
    is_train: bool = True,
) -> Annotations:
    """A JSON file of iNaturalist 2021: pictures and classes, without parts.

    Parameters
    ----------
    path : train.json, train_mini.json, val.json or public_test.json, which has no labels
    folder : where the pictures are, by default beside the file; all must be in it or below it
    supercategory : only the pictures of one, such as "Birds" (the paper's 1,486 classes)
    is_train : whether to fit on these pictures
    """
    path = Path(path)
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a file of iNaturalist: it is not JSON ({error})") from None
    if not isinstance(found, dict) or not isinstance(found.get("images"), list):
        raise ValueError(f"{path} is not a file of iNaturalist: expected an object with a list 'images'")
    try:
        if supercategory is not None:
            _check_supercategory(found, supercategory, path)
        images, labels, classes = _read_inaturalist(found, supercategory)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a file of iNaturalist: an entry of it has another form ({error})") from None
    pictures = _find_pictures(Path(folder or path.parent), images, path)
    return _without_parts(pictures, labels, classes, np.full(len(images), is_train))


def _check_supercategory(found: dict, supercategory: str, path: Path) -> None:
    known = sorted({str(category.get("supercategory")) for category in found.get("categories", [])})
    if supercategory not in known:
        raise ValueError(f"{path} has no supercategory {supercategory!r}; it has {list_names(known) or 'none'}")


def _read_inaturalist(found: dict, supercategory: str | None) -> tuple[list[str], np.ndarray, tuple[str, ...]]:
    """Names of the pictures, the class of each, and the names of the classes."""
    categories = [c for c in found.get("categories", []) if supercategory in (None, c.get("supercategory"))]
    class_place = {category["id"]: k for k, category in enumerate(categories)}
    label_of = {a["image_id"]: class_place.get(a["category_id"], -1) for a in found.get("annotations", [])}
    images = [i for i in found["images"] if supercategory is None or label_of.get(i["id"], -1) >= 0]
    labels = np.array([label_of.get(image["id"], -1) for image in images], dtype=int)
    return [_read_text(image["file_name"]) for image in images], labels, tuple(str(c["name"]) for c in categories)


def _read_text(found: Any) -> str:
    if not isinstance(found, str):
        raise TypeError(f"expected a text, got {found!r:.80}")
    return found


def _find_pictures(folder: Path, names: Sequence[str], source: Path) -> list[Path]:
    """Paths of the pictures that a file names; a name that leads out of their folder is refused."""
    top = os.path.abspath(folder)
    for name in names:
        # Few names need the slow comparison: iNaturalist has millions.
        is_odd = os.path.isabs(name) or ".." in name
        if is_odd and os.path.commonpath([top, os.path.abspath(folder / name)]) != top:
            raise ValueError(
                f"{source} names the picture {name!r}, which is not below {os.fspath(folder)!r}; to allow it, "
                "give a folder above all pictures (folder=, --folder)"
            )
    return [folder / name for name in names]


def read_csv(path: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> Annotations:
    """One's own annotations: a CSV with the columns image, part, x, y, attribute, and perhaps class.

    A line says that the part at (x, y) pixels has an attribute; a part with several attributes has several lines with
    the same place, and one without any has a line with an empty attribute. Attributes of that part which are not listed
    are absent there. A picture whose lines have no places is a picture all the same. Pictures are sought in `folder`,
    by default beside the file; all must be in it or below it.
    """
    path = Path(path)
    notes: list[str] = []
    try:
        lines = list(_read_csv_lines(path, notes))
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read as CSV in UTF-8: {error}") from None
    names, placed = list(dict.fromkeys(line.image for line in lines)), [line for line in lines if line.is_placed]
    parts = tuple(dict.fromkeys(line.part for line in placed))
    concepts = _name_pairs(dict.fromkeys((line.attribute, line.part) for line in placed if line.attribute), path)
    columns = {pair: k for k, pair in enumerate(concepts)}
    shows = np.array([part == other for _, part in concepts for other in parts], dtype=bool)
    shows = shows.reshape(len(concepts), len(parts))
    image_place, part_place = _number(names), _number(parts)
    located: dict[tuple[int, int, float, float], int] = {}
    there = []
    for line in placed:
        key = (image_place[line.image], part_place[line.part], line.x, line.y)
        row = located.setdefault(key, len(located))
        if line.attribute:
            there.append((row, columns[line.attribute, line.part]))
    locations = _list_locations(list(located))._replace(row=np.arange(len(located)))
    present = np.where(shows.T[locations.part], ABSENT, UNKNOWN).astype(np.int8)
    if there:
        present[tuple(np.array(there).T)] = PRESENT
    class_of = {line.image: line.label for line in lines if line.label}
    class_place = _number(sorted(set(class_of.values())))
    return Annotations(
        images=tuple(_find_pictures(Path(folder or path.parent), names, path)),
        parts=parts,
        concepts=tuple(concepts.values()),
        shows=shows,
        locations=locations,
        present=present,
        weight=(present != UNKNOWN).astype(np.float32),
        row_images=locations.image,
        labels=np.array([class_place.get(class_of.get(name, ""), -1) for name in names], dtype=int),
        classes=tuple(class_place),
        is_train=np.ones(len(names), dtype=bool),
        notes=tuple(notes),
    )


def _name_pairs(pairs: Iterable[tuple[str, str]], path: Path) -> dict[tuple[str, str], str]:
    """The concept of each attribute and part, in words that no two of them share."""
    found: dict[str, tuple[str, str]] = {}
    for attribute, part in pairs:
        name = f"{attribute} {part}"
        if name in found:
            both = f"{found[name]} and {(attribute, part)}"
            raise ValueError(f"{path}: {both} have the same concept {name!r}; rename one of them")
        found[name] = (attribute, part)
    return {pair: name for name, pair in found.items()}


def _number(texts: Sequence[str]) -> dict[str, int]:
    """The place of each text."""
    return {text: k for k, text in enumerate(texts)}


def read_folder(folder: str | os.PathLike[str]) -> Annotations:
    """A folder of pictures; those in subfolders have the subfolder's name as their class."""
    images = list_pictures(folder)
    names = [image.relative_to(folder).parts[0] if image.parent != Path(folder) else "" for image in images]
    class_place = _number(sorted(set(names) - {""}))
    labels = np.array([class_place.get(name, -1) for name in names], dtype=int)
    return _without_parts(images, labels, tuple(class_place), np.ones(len(images), dtype=bool))


def _without_parts(
    images: Sequence[Path], labels: np.ndarray, classes: tuple[str, ...], is_train: np.ndarray
) -> Annotations:
    none = np.zeros((len(images), 0))
    return Annotations(
        images=tuple(images),
        parts=(),
        concepts=(),
        shows=np.zeros((0, 0), dtype=bool),
        locations=_list_locations([]),
        present=none.astype(np.int8),
        weight=none.astype(np.float32),
        row_images=np.arange(len(images)),
        labels=labels,
        classes=classes,
        is_train=is_train,
    )


def _list_locations(located: Sequence[tuple[int, int, float, float]]) -> Locations:
    """Each is described by the row of its picture."""
    image, part, x, y = np.array(located, dtype=float).reshape(-1, 4).T
    return Locations(image.astype(int), part.astype(int), x, y, image.astype(int))


def _read_attributes(
    folder: Path, parts: tuple[str, ...], notes: list[str]
) -> tuple[tuple[str, ...], np.ndarray, dict[int, int]]:
    """Names of the concepts, the parts at which each is seen, and the concept of each attribute's number."""
    places = (folder / "attributes" / "attributes.txt", folder / "attributes.txt", folder.parent / "attributes.txt")
    ids, attributes = _read_list(next((place for place in places if place.exists()), places[0]), notes)
    found = {number: name_concept(name, parts) for number, name in zip(ids, attributes, strict=True)}
    kept = {number: concept for number, concept in found.items() if concept is not None}
    homeless = [name.partition("::")[0] for number, name in zip(ids, attributes, strict=True) if number not in kept]
    if homeless:
        groups = ", ".join(dict.fromkeys(homeless))
        notes.append(f"attributes.txt: left out, since no part shows them: {groups} ({len(homeless)} of {len(ids)})")
    if len({concept.name for concept in kept.values()}) < len(kept):
        raise ValueError(f"{folder}: two attributes have the same concept; rename one of them in attributes.txt")
    shows = np.array([[part in concept.parts for part in parts] for concept in kept.values()], dtype=bool)
    columns = {number: k for k, number in enumerate(kept)}
    return tuple(concept.name for concept in kept.values()), shows.reshape(len(kept), len(parts)), columns


def _read_presence(
    folder: Path, place: dict[int, int], columns: dict[int, int], n_concepts: int, notes: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """(N, K) what workers said, and how far to trust it; where several spoke, the surest, and of those the last."""
    path = folder / "attributes" / "image_attribute_labels.txt"
    told = (
        (place[image], columns[attribute], flag == 1, CERTAINTY_WEIGHTS.get(certainty, 0.0))
        for image, attribute, flag, certainty in _read_numbers(path, 4, notes)
        if attribute in columns and image in place
    )
    kinds = [("image", "i4"), ("concept", "i4"), ("flag", "i1"), ("weight", "f4")]
    said = np.sort(np.fromiter(told, dtype=kinds), order="weight", kind="stable")  # CUB has 3.7 million
    image, concept = said["image"], said["concept"]
    present = np.full((len(place), n_concepts), UNKNOWN, dtype=np.int8)
    weight = np.zeros((len(place), n_concepts), dtype=np.float32)
    weight[image, concept] = said["weight"]
    present[image, concept] = np.where(said["weight"] > 0, said["flag"], UNKNOWN)
    return present, weight


def _read_list(path: Path, notes: list[str]) -> tuple[list[int], list[str]]:
    """Lines of "number name"."""
    ids, names, broken = [], [], []
    for k, line in enumerate(_open_lines(path), 1):
        number, _, name = line.strip().partition(" ")
        if number.isdecimal() and len(number) < 20 and name.strip():
            ids.append(int(number))
            names.append(name.strip())
        elif line.strip():
            broken.append(k)
    _note_broken(path, broken, notes)
    return ids, names


def _read_numbers(path: Path, n_fields: int, notes: list[str], kind: Callable[[str], Any] = int) -> Iterator[tuple]:
    """The first fields of each line; CUB's attribute file has lines with more of them than it should."""
    broken = []
    for k, line in enumerate(_open_lines(path), 1):
        fields = line.split(None, n_fields)[:n_fields]
        try:
            numbers = tuple(map(kind, fields))
        except ValueError:
            numbers = ()
        if len(numbers) == n_fields:
            yield numbers
        elif fields:
            broken.append(k)
    _note_broken(path, broken, notes)


def _finite(text: str) -> float:
    """A number that is one.

    >>> _finite("nan")
    Traceback (most recent call last):
    ValueError: 'nan' is no finite number
    """
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text!r} is no finite number")
    return number


class _Line(NamedTuple):
    """Of a CSV: a picture and its class, and perhaps the place of a part, left and right merged, and its attribute."""

    image: str
    label: str
    part: str = ""
    x: float = 0.0
    y: float = 0.0
    attribute: str = ""

    @property
    def is_placed(self) -> bool:
        return self.part != ""


def _read_csv_lines(path: Path, notes: list[str]) -> Iterator[_Line]:
    """All lines that name a picture; those that say nothing else are counted."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        absent = [name for name in CSV_COLUMNS if name not in (reader.fieldnames or ())]
        if absent:
            raise ValueError(f"{path} has no column {absent[0]!r}; expected {', '.join(CSV_COLUMNS)}")
        broken = []
        for fields in reader:
            told = {name: (value or "").strip() for name, value in fields.items() if isinstance(name, str)}
            line = _Line(told["image"], told.get("class", ""))
            with suppress(ValueError):
                x, y = _finite(told["x"]), _finite(told["y"])
                line = line._replace(part=merge_sides(told["part"]), x=x, y=y, attribute=told["attribute"])
            if not line.image or not line.is_placed:
                broken.append(reader.line_num)
            if line.image:
                yield line
        _note_broken(path, broken, notes)


def _open_lines(path: Path) -> Iterator[str]:
    if not path.exists():
        raise FileNotFoundError(f"expected CUB's file {path}, which is not there; give the folder CUB_200_2011")
    with open(path, encoding="utf-8", errors="replace") as file:
        yield from file


def _note_broken(path: Path, broken: list[int], notes: list[str]) -> None:
    if broken:
        lines = "1 line" if len(broken) == 1 else f"{len(broken):,} lines"
        notes.append(f"{path.name}: {lines} could not be read, first line {broken[0]:,}")
