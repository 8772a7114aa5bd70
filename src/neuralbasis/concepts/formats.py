"""Formats: the files in which annotations come -> `Annotations`.

CUB-200-2011's folder, the JSON of iNaturalist 2021, a CSV of (image, part, x, y, attribute), a folder of pictures.
Lines that cannot be read are left out and counted in `notes`; only a file that is not there, or has another form
altogether, is an error. No picture is opened.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from .annotations import ABSENT, PRESENT, UNKNOWN, Annotations, Locations, merge_sides, name_concept
from .pictures import list_pictures

# Of "not visible", "guessing", "probably" and "definitely". The paper does not say what it does with them.
CERTAINTY_WEIGHTS = {1: 0.0, 2: 0.5, 3: 0.75, 4: 1.0}
CSV_COLUMNS = ("image", "part", "x", "y", "attribute")


def read_annotations(path: str | os.PathLike[str], supercategory: str | None = None) -> Annotations:
    """Annotations by the form in which they come: CUB's folder, a folder of pictures, a .json or a .csv file.

    `supercategory` chooses from a file of iNaturalist.
    """
    path = Path(path)
    if path.is_dir():
        return read_cub(path) if (path / "images.txt").exists() else read_folder(path)
    if path.suffix.lower() == ".json":
        return read_inaturalist(path, supercategory=supercategory)
    if path.suffix.lower() == ".csv":
        return read_csv(path)
    raise ValueError(f"expected CUB's folder, a folder of pictures, a .json or a .csv file, got {os.fspath(path)!r}")


def read_cub(folder: str | os.PathLike[str]) -> Annotations:
    """The folder CUB_200_2011: pictures, classes, split, parts, and attributes with their certainties.

    Attributes that are "not visible" are unknown; the other certainties are weights (`CERTAINTY_WEIGHTS`).
    """
    folder = Path(folder)
    notes: list[str] = []
    ids, names = _read_list(folder / "images.txt", notes)
    place = {number: k for k, number in enumerate(ids)}
    class_ids, classes = _read_list(folder / "classes.txt", notes)
    class_place = {number: k for k, number in enumerate(class_ids)}
    labels = np.full(len(ids), -1)
    for number, label in _read_numbers(folder / "image_class_labels.txt", 2, notes):
        if number in place:
            labels[place[number]] = class_place.get(label, -1)
    is_train = np.ones(len(ids), dtype=bool)
    for number, flag in _read_numbers(folder / "train_test_split.txt", 2, notes):
        if number in place:
            is_train[place[number]] = flag == 1
    part_ids, part_names = _read_list(folder / "parts" / "parts.txt", notes)
    parts = tuple(dict.fromkeys(map(merge_sides, part_names)))
    part_place = {number: parts.index(merge_sides(name)) for number, name in zip(part_ids, part_names, strict=True)}
    located = [
        (place[image], part_place[part], x, y)
        for image, part, x, y, seen in _read_numbers(folder / "parts" / "part_locs.txt", 5, notes, float)
        if seen == 1 and image in place and part in part_place
    ]
    concepts, shows, columns = _read_attributes(folder, parts, notes)
    present, weight = _read_presence(folder, place, columns, len(concepts), notes)
    return Annotations(
        images=tuple(folder / "images" / name for name in names),
        parts=parts,
        concepts=concepts,
        shows=shows,
        locations=_list_locations(located),
        present=present,
        weight=weight,
        row_images=np.arange(len(ids)),
        labels=labels,
        classes=tuple(classes),
        is_train=is_train,
        notes=tuple(notes),
    )


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
    folder : where the pictures are; by default beside the file
    supercategory : only the pictures of one, such as "Birds" (the paper's 1,486 classes)
    is_train : whether to fit on these pictures
    """
    path = Path(path)
    try:
        found = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is not a file of iNaturalist: it is not JSON ({error})") from None
    if not isinstance(found, dict) or not isinstance(found.get("images"), list):
        raise ValueError(f"{path} is not a file of iNaturalist: expected an object with a list 'images'")
    try:
        return _read_inaturalist(found, Path(folder or path.parent), supercategory, is_train)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a file of iNaturalist: an entry of it has another form ({error})") from None


def _read_inaturalist(found: dict, folder: Path, supercategory: str | None, is_train: bool) -> Annotations:
    categories = [c for c in found.get("categories", []) if supercategory in (None, c.get("supercategory"))]
    class_place = {category["id"]: k for k, category in enumerate(categories)}
    label_of = {a["image_id"]: class_place.get(a["category_id"], -1) for a in found.get("annotations", [])}
    images = [i for i in found["images"] if supercategory is None or label_of.get(i["id"], -1) >= 0]
    return _without_parts(
        [folder / image["file_name"] for image in images],
        np.array([label_of.get(image["id"], -1) for image in images], dtype=int),
        tuple(category["name"] for category in categories),
        np.full(len(images), is_train),
    )


def read_csv(path: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> Annotations:
    """One's own annotations: a CSV with the columns image, part, x, y, attribute, and perhaps class.

    A line says that the part at (x, y) pixels has an attribute; a part with several attributes has several lines with
    the same place, and one without any has a line with an empty attribute. Attributes of that part which are not listed
    are absent there. Pictures are sought in `folder`, by default beside the file.
    """
    path = Path(path)
    notes: list[str] = []
    lines = list(_read_csv_lines(path, notes))
    names = list(dict.fromkeys(line["image"] for line in lines))
    parts = tuple(dict.fromkeys(merge_sides(line["part"]) for line in lines))
    pairs = dict.fromkeys((line["attribute"], merge_sides(line["part"])) for line in lines if line["attribute"])
    columns = {pair: k for k, pair in enumerate(pairs)}
    shows = np.array([[part == other for other in parts] for _, part in pairs], dtype=bool).reshape(-1, len(parts))
    image_place, part_place = {n: k for k, n in enumerate(names)}, {p: k for k, p in enumerate(parts)}
    located: dict[tuple[int, int, float, float], int] = {}
    there = []
    for line in lines:
        part = merge_sides(line["part"])
        key = (image_place[line["image"]], part_place[part], float(line["x"]), float(line["y"]))
        row = located.setdefault(key, len(located))
        if line["attribute"]:
            there.append((row, columns[line["attribute"], part]))
    locations = _list_locations(list(located))._replace(row=np.arange(len(located)))
    present = np.where(shows.T[locations.part], ABSENT, UNKNOWN).astype(np.int8)
    if there:
        present[tuple(np.array(there).T)] = PRESENT
    class_of = {line["image"]: line["class"] for line in lines if line.get("class")}
    classes = tuple(sorted(set(class_of.values())))
    return Annotations(
        images=tuple(Path(folder or path.parent) / name for name in names),
        parts=parts,
        concepts=tuple(f"{attribute} {part}" for attribute, part in pairs),
        shows=shows,
        locations=locations,
        present=present,
        weight=(present != UNKNOWN).astype(np.float32),
        row_images=locations.image,
        labels=np.array([classes.index(class_of[n]) if n in class_of else -1 for n in names], dtype=int),
        classes=classes,
        is_train=np.ones(len(names), dtype=bool),
        notes=tuple(notes),
    )


def read_folder(folder: str | os.PathLike[str]) -> Annotations:
    """A folder of pictures; those in subfolders have the subfolder's name as their class."""
    images = list_pictures(folder)
    names = [image.relative_to(folder).parts[0] if image.parent != Path(folder) else "" for image in images]
    classes = tuple(sorted(set(names) - {""}))
    labels = np.array([classes.index(name) if name else -1 for name in names], dtype=int)
    return _without_parts(images, labels, classes, np.ones(len(images), dtype=bool))


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
    return tuple(concept.name for concept in kept.values()), shows.reshape(-1, len(parts)), columns


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
        if number.isdigit() and name.strip():
            ids.append(int(number))
            names.append(name.strip())
        elif line.strip():
            broken.append(k)
    _note_broken(path, broken, notes)
    return ids, names


def _read_numbers(path: Path, n_fields: int, notes: list[str], kind: type = int) -> Iterator[tuple]:
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


def _read_csv_lines(path: Path, notes: list[str]) -> Iterator[dict[str, str]]:
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        absent = [name for name in CSV_COLUMNS if name not in (reader.fieldnames or ())]
        if absent:
            raise ValueError(f"{path} has no column {absent[0]!r}; expected {', '.join(CSV_COLUMNS)}")
        broken = []
        for fields in reader:
            line = {name: (value or "").strip() for name, value in fields.items() if isinstance(name, str)}
            try:
                is_placed = bool(np.isfinite([float(line["x"]), float(line["y"])]).all())
            except ValueError:
                is_placed = False
            if is_placed and line["image"] and line["part"]:
                yield line
            else:
                broken.append(reader.line_num)
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
