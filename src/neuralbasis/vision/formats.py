"""Readers of annotation files: CUB-200-2011, iNaturalist 2021, CSV files and folders of pictures -> `Annotations`.

Unreadable lines are skipped and counted in `notes`. A missing file or a file in another format is an error. Pictures
are not opened.
"""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..data.columns import list_names
from .annotations import ABSENT, PRESENT, UNKNOWN, Annotations, Locations, index_values, merge_sides, name_concept
from .pictures import list_pictures

# "not visible", "guessing", "probably" and "definitely". DIFF: the paper does not mention certainties.
CERTAINTY_WEIGHTS = {1: 0.0, 2: 0.5, 3: 0.75, 4: 1.0}
CSV_COLUMNS = ("image", "part", "x", "y", "attribute")


def read_annotations(
    path: str | os.PathLike[str], supercategory: str | None = None, with_parts: bool = True,
    folder: str | os.PathLike[str] | None = None,
) -> Annotations:  # fmt: skip
    """Read annotations in any supported format.

    Parameters
    ----------
    path : folder of CUB-200-2011, a folder of pictures, a .json or a .csv file
    supercategory : for iNaturalist, only its pictures, such as "Birds"
    with_parts : for CUB, whether to read parts and attributes
    folder : folder of the pictures of a .json or .csv file; by default the folder of the file

    Returns
    -------
    Annotations

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "birds.csv")
    ...     _ = path.write_text("image,part,x,y,attribute\\na.jpg,tail,40,18,red\\n")
    ...     read_annotations(path).concepts
    ('red tail',)
    """
    path = Path(path)
    if path.suffix.lower() == ".json" and not path.is_dir():
        return read_inaturalist(path, folder, supercategory)
    if supercategory is not None:
        raise ValueError(f"supercategory applies to a JSON file of iNaturalist; leave it out for {os.fspath(path)}")
    if path.is_dir():
        return read_cub(path, with_parts) if (path / "images.txt").exists() else read_folder(path)
    if path.suffix.lower() == ".csv":
        return read_csv(path, folder)
    raise ValueError(f"expected CUB's folder, a folder of pictures, a .json or a .csv file, got {os.fspath(path)!r}")


def read_cub(folder: str | os.PathLike[str], with_parts: bool = True) -> Annotations:
    """Read the folder CUB_200_2011: pictures, classes, split, parts, and attributes with their certainties.

    Attributes that are "not visible" are unknown; the other certainties become weights (`CERTAINTY_WEIGHTS`).

    Parameters
    ----------
    folder : path of CUB_200_2011
    with_parts : whether to read parts and attributes, or only pictures, classes and the split

    Returns
    -------
    Annotations

    Examples
    --------
    >>> read_cub("CUB_200_2011").classes[0]  # doctest: +SKIP
    '001.Black_footed_Albatross'
    """
    folder = Path(folder)
    notes: list[str] = []
    index, names = _read_list(folder / "images.txt", notes)
    class_index, classes = _read_list(folder / "classes.txt", notes)
    label_of = dict(_read_numbers(folder / "image_class_labels.txt", 2, notes))
    split_of = dict(_read_numbers(folder / "train_test_split.txt", 2, notes))
    labels = np.array([class_index.get(label_of.get(number, -1), -1) for number in index], dtype=int)
    is_train = np.array([split_of.get(number, 1) == 1 for number in index], dtype=bool)
    images = _find_pictures(folder / "images", names, folder / "images.txt")
    pictures = _make_annotations(images, labels, tuple(classes), is_train)
    if not with_parts:
        return replace(pictures, notes=tuple(notes))
    sides, side_names = _read_list(folder / "parts" / "parts.txt", notes)
    merged = [merge_sides(name) for name in side_names]
    parts = tuple(dict.fromkeys(merged))
    part_index = {number: parts.index(merged[k]) for number, k in sides.items()}
    located = [
        (index[image], part_index[part], x, y)
        for image, part, x, y, is_visible in _read_numbers(folder / "parts" / "part_locs.txt", 5, notes, _finite)
        if is_visible == 1 and image in index and part in part_index
    ]
    concepts, shows, columns = _read_attributes(folder, parts, notes)
    present, weight = _read_presence(folder, index, columns, notes)
    return replace(
        pictures,
        parts=parts,
        concepts=concepts,
        shows=shows,
        locations=_make_locations(located),
        present=present,
        weight=weight,
        notes=tuple(notes),
    )


def _read_attributes(
    folder: Path, parts: tuple[str, ...], notes: list[str]
) -> tuple[tuple[str, ...], np.ndarray, dict[int, int]]:
    """Concept names, the parts (K, P) at which they are visible, and the concept of each attribute's number."""
    paths = (folder / "attributes" / "attributes.txt", folder / "attributes.txt", folder.parent / "attributes.txt")
    index, attributes = _read_list(next((path for path in paths if path.exists()), paths[0]), notes)
    found = {number: name_concept(attributes[k], parts) for number, k in index.items()}
    kept = {number: concept for number, concept in found.items() if concept is not None}
    if left_out := [attributes[k].partition("::")[0] for number, k in index.items() if number not in kept]:
        groups = f"{', '.join(dict.fromkeys(left_out))} ({len(left_out)} of {len(attributes)})"
        notes.append(f"attributes.txt: left out, because they belong to no part: {groups}")
    names = tuple(name for name, _ in kept.values())
    if len(set(names)) < len(names):
        raise ValueError(f"{folder}: two attributes have the same concept name; rename one of them in attributes.txt")
    shows = np.array([[part in visible for part in parts] for _, visible in kept.values()], dtype=bool)
    return names, shows.reshape(len(kept), len(parts)), {number: k for k, number in enumerate(kept)}


def _read_presence(
    folder: Path, index: dict[int, int], columns: dict[int, int], notes: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """(N, K) labels of the annotators and their weights; of several labels, the last of the most certain ones."""
    path = folder / "attributes" / "image_attribute_labels.txt"
    records = (
        (index[image], columns[attribute], flag == 1, CERTAINTY_WEIGHTS.get(certainty, 0.0))
        for image, attribute, flag, certainty in _read_numbers(path, 4, notes)
        if attribute in columns and image in index
    )
    kinds = [("image", "i4"), ("concept", "i4"), ("flag", "i1"), ("weight", "f4")]
    labels = np.sort(np.fromiter(records, dtype=kinds), order="weight", kind="stable")  # CUB has 3.7 million
    place = labels["image"], labels["concept"]
    present = np.full((len(index), len(columns)), UNKNOWN, dtype=np.int8)
    weight = np.zeros((len(index), len(columns)), dtype=np.float32)
    weight[place] = labels["weight"]
    present[place] = np.where(labels["weight"] > 0, labels["flag"], UNKNOWN)
    return present, weight


def read_inaturalist(
    path: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None, supercategory: str | None = None,
    is_train: bool = True,
) -> Annotations:  # fmt: skip
    """Read a JSON file of iNaturalist 2021: pictures and classes, without parts.

    Parameters
    ----------
    path : train.json, train_mini.json, val.json or public_test.json, which has no labels
    folder : folder that contains all pictures; by default the folder of the file
    supercategory : only its pictures, such as "Birds" (the paper's 1,486 classes)
    is_train : whether these are training pictures

    Returns
    -------
    Annotations

    Examples
    --------
    >>> import tempfile
    >>> birds = {
    ...     "images": [{"id": 1, "file_name": "a.jpg"}],
    ...     "annotations": [{"image_id": 1, "category_id": 4}],
    ...     "categories": [{"id": 4, "name": "Ardea cinerea", "supercategory": "Birds"}],
    ... }
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "train.json")
    ...     _ = path.write_text(json.dumps(birds))
    ...     read_inaturalist(path, supercategory="Birds").classes
    ('Ardea cinerea',)
    """
    path = Path(path)
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not an iNaturalist file: expected JSON ({error})") from None
    if not isinstance(document, dict) or not isinstance(document.get("images"), list):
        raise ValueError(f"{path} is not an iNaturalist file: expected an object with a list 'images'")
    try:
        categories = document.get("categories", [])
        known = {str(category.get("supercategory")) for category in categories}
        if supercategory is not None and supercategory not in known:
            listed = list_names(sorted(known)) or "none"
            raise ValueError(f"{path} has no supercategory {supercategory!r}; it has {listed}")
        categories = [c for c in categories if supercategory in (None, c.get("supercategory"))]
        class_index = {category["id"]: k for k, category in enumerate(categories)}
        label_of = {a["image_id"]: class_index.get(a["category_id"], -1) for a in document.get("annotations", [])}
        images = [i for i in document["images"] if supercategory is None or label_of.get(i["id"], -1) >= 0]
        labels = np.array([label_of.get(image["id"], -1) for image in images], dtype=int)
        names, classes = [image["file_name"] for image in images], tuple(str(c["name"]) for c in categories)
        if odd := [name for name in names if not isinstance(name, str)]:
            raise TypeError(f"expected a string, got {odd[0]!r:.80}")
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not an iNaturalist file: an entry has an unexpected form ({error})") from None
    pictures = _find_pictures(Path(folder or path.parent), names, path)
    return _make_annotations(pictures, labels, classes, np.full(len(names), is_train))


def _find_pictures(folder: Path, names: Sequence[str], source: Path) -> list[Path]:
    """Paths of the pictures that a file names; a name that leads out of the folder is refused."""
    top = os.path.abspath(folder)
    for name in names:
        # The comparison of paths is slow, and iNaturalist has millions of names.
        is_suspect = os.path.isabs(name) or ".." in name
        if is_suspect and os.path.commonpath([top, os.path.abspath(folder / name)]) != top:
            raise ValueError(
                f"{source} names the picture {name!r}, which is not inside {os.fspath(folder)!r}; to allow it, "
                "give a folder that contains all pictures (folder=, --folder)"
            )
    return [folder / name for name in names]


def read_csv(path: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> Annotations:
    """Read a CSV file with the columns image, part, x, y, attribute and optionally class.

    A line states that the part at (x, y) pixels has an attribute. A part with several attributes has several lines with
    the same location, a part without any has a line with an empty attribute. Attributes of the part that are not
    listed are absent at that location. A picture without locations is kept as a picture without parts.

    Parameters
    ----------
    path : CSV file in UTF-8
    folder : folder that contains all pictures; by default the folder of the file

    Returns
    -------
    Annotations

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "birds.csv")
    ...     _ = path.write_text("image,part,x,y,attribute\\na.jpg,left wing,31,12,striped\\na.jpg,tail,40,18,\\n")
    ...     read_csv(path).concepts
    ('striped wing',)
    """
    path = Path(path)
    notes: list[str] = []
    try:
        lines = list(_read_csv_lines(path, notes))
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read as CSV in UTF-8: {error}") from None
    names, located = list(dict.fromkeys(line.image for line in lines)), [line for line in lines if line.part]
    parts = tuple(dict.fromkeys(line.part for line in located))
    columns = index_values((line.attribute, line.part) for line in located if line.attribute)
    concepts: dict[str, tuple[str, str]] = {}
    for attribute, part in columns:
        name = f"{attribute} {part}"
        if name in concepts:
            both = f"{concepts[name]} and {(attribute, part)}"
            raise ValueError(f"{path}: {both} have the same concept name {name!r}; rename one of them")
        concepts[name] = (attribute, part)
    shows = np.array([part == other for _, part in columns for other in parts], dtype=bool)
    shows = shows.reshape(len(columns), len(parts))
    image_index, part_index = index_values(names), index_values(parts)
    places = [(image_index[line.image], part_index[line.part], line.x, line.y) for line in located]
    row_of = index_values(places)
    locations = _make_locations(list(row_of))._replace(row=np.arange(len(row_of)))
    present = np.where(shows.T[locations.part], ABSENT, UNKNOWN).astype(np.int8)
    for line, place in zip(located, places, strict=True):
        if line.attribute:
            present[row_of[place], columns[line.attribute, line.part]] = PRESENT
    class_of = {line.image: line.label for line in lines if line.label}
    images = _find_pictures(Path(folder or path.parent), names, path)
    return replace(
        _label_pictures(images, [class_of.get(name, "") for name in names]),
        parts=parts,
        concepts=tuple(concepts),
        shows=shows,
        locations=locations,
        present=present,
        weight=(present != UNKNOWN).astype(np.float32),
        row_images=locations.image,
        notes=tuple(notes),
    )


class _Line(NamedTuple):
    """A line of a CSV file: a picture and its class, and the location of a part and its attribute if it has any."""

    image: str
    label: str
    part: str = ""
    x: float = 0.0
    y: float = 0.0
    attribute: str = ""


def _read_csv_lines(path: Path, notes: list[str]) -> Iterator[_Line]:
    """All lines that name a picture; lines without a picture or a location are counted in `notes`."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        absent = [name for name in CSV_COLUMNS if name not in (reader.fieldnames or ())]
        if absent:
            raise ValueError(f"{path} has no column {absent[0]!r}; expected {', '.join(CSV_COLUMNS)}")
        broken = []
        for fields in reader:
            texts = {name: (value or "").strip() for name, value in fields.items() if isinstance(name, str)}
            line = _Line(texts["image"], texts.get("class", ""))
            with suppress(ValueError):
                x, y = _finite(texts["x"]), _finite(texts["y"])
                line = line._replace(part=merge_sides(texts["part"]), x=x, y=y, attribute=texts["attribute"])
            if not line.image or not line.part:
                broken.append(reader.line_num)
            if line.image:
                yield line
        _note_broken(path, broken, notes)


def read_folder(folder: str | os.PathLike[str]) -> Annotations:
    """Read a folder of pictures; the names of its subfolders are the classes.

    Parameters
    ----------
    folder : path

    Returns
    -------
    Annotations

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Path(folder, "heron").mkdir()
    ...     Image.new("L", (8, 8)).save(f"{folder}/heron/1.png")
    ...     read_folder(folder).classes
    ('heron',)
    """
    images = list_pictures(folder)
    names = [image.relative_to(folder).parts[0] if image.parent != Path(folder) else "" for image in images]
    return _label_pictures(images, names)


def _label_pictures(images: Sequence[Path], names: Sequence[str]) -> Annotations:
    """Training pictures with the names of their classes; the name is empty if the class is unknown."""
    class_index = index_values(sorted(set(names) - {""}))
    labels = np.array([class_index.get(name, -1) for name in names], dtype=int)
    return _make_annotations(images, labels, tuple(class_index), np.ones(len(images), dtype=bool))


def _make_annotations(
    images: Sequence[Path], labels: np.ndarray, classes: tuple[str, ...], is_train: np.ndarray
) -> Annotations:
    """Annotations without parts and concepts."""
    none = np.zeros((len(images), 0))
    return Annotations(
        images=tuple(images),
        parts=(),
        concepts=(),
        shows=np.zeros((0, 0), dtype=bool),
        locations=_make_locations([]),
        present=none.astype(np.int8),
        weight=none.astype(np.float32),
        row_images=np.arange(len(images)),
        labels=labels,
        classes=classes,
        is_train=is_train,
    )


def _make_locations(located: Sequence[tuple[int, int, float, float]]) -> Locations:
    """Locations from (picture, part, x, y); each is described by the row of its picture."""
    image, part, x, y = np.array(located, dtype=float).reshape(-1, 4).T
    return Locations(image.astype(int), part.astype(int), x, y, image.astype(int))


def _read_list(path: Path, notes: list[str]) -> tuple[dict[int, int], list[str]]:
    """The names of lines "number name", and the index of each number's name."""
    index, names, broken = dict[int, int](), list[str](), []
    for k, line in enumerate(_open_lines(path), 1):
        number, _, name = line.strip().partition(" ")
        if number.isdecimal() and len(number) < 20 and name.strip():
            index[int(number)] = len(names)
            names.append(name.strip())
        elif line.strip():
            broken.append(k)
    _note_broken(path, broken, notes)
    return index, names


def _read_numbers(path: Path, n_fields: int, notes: list[str], kind: Callable[[str], Any] = int) -> Iterator[tuple]:
    """The first fields of each line; some lines of CUB's attribute file have additional fields."""
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
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text!r} is not a finite number")
    return number


def _open_lines(path: Path) -> Iterator[str]:
    if not path.exists():
        raise FileNotFoundError(f"CUB's file {path} does not exist; give the folder CUB_200_2011")
    with open(path, encoding="utf-8", errors="replace") as file:
        yield from file


def _note_broken(path: Path, broken: list[int], notes: list[str]) -> None:
    if broken:
        lines = "1 line" if len(broken) == 1 else f"{len(broken):,} lines"
        notes.append(f"{path.name}: {lines} could not be read, first line {broken[0]:,}")
