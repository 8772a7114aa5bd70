"""Readers of CUB, iNaturalist, CSV files and folders; concept names as in the paper; invalid and hostile files."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL")

from neuralbasis.vision import (
    PictureError,
    read_annotations,
    read_csv,
    read_cub,
    read_folder,
    read_inaturalist,
    read_picture,
)

CUB_PARTS = (
    "back", "beak", "belly", "breast", "crown", "forehead", "left eye", "left leg", "left wing", "nape", "right eye",
    "right leg", "right wing", "tail", "throat",
)  # fmt: skip
FILES = {
    "images.txt": "1 001.A/x.jpg\n2 001.A/y with space.jpg\n4 002.B/z.jpg\n",
    "classes.txt": "1 001.A\n2 002.B\n",
    "image_class_labels.txt": "1 1\n2 1\n4 2\n",
    "train_test_split.txt": "1 1\n2 0\n4 1\n",
    "parts/parts.txt": "1 back\n2 left wing\n3 right wing\n",
    "parts/part_locs.txt": (
        "1 1 10.0 20.0 1\n1 2 30.5 40.0 1\n1 3 0.0 0.0 0\n2 3 5.0 6.0 1\n4 1 1.0 2.0 1\n9 1 1.0 2.0 1\n"
    ),
    "attributes/attributes.txt": (
        "1 has_wing_pattern::striped\n2 has_size::small_(5_-_9_in)\n3 has_upperparts_color::blue\n"
    ),
    "attributes/image_attribute_labels.txt": (
        "1 1 1 4 3.5\n1 2 1 4 3.5\n1 3 0 3 3.5\n"
        "2 1 0 2 0 1.5\n"  # an additional field, as in the original file
        "2 3 1 1 2.0\n"  # not visible
        "4 1 1 2 2.0\n4 1 0 4 2.0\n4 1 1 3 2.0\n"  # three annotators: the most certain label wins
        "4 x 1\n"
    ),
}


def write_cub(folder: Path, **changes: str) -> Path:
    for path, text in {**FILES, **changes}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def test_cub_is_read_exactly(tmp_path: Path) -> None:
    found = read_annotations(write_cub(tmp_path))
    assert [p.relative_to(tmp_path).as_posix() for p in found.images] == [
        "images/001.A/x.jpg",
        "images/001.A/y with space.jpg",
        "images/002.B/z.jpg",
    ]
    assert found.classes == ("001.A", "002.B")
    assert found.labels.tolist() == [0, 0, 1]
    assert found.is_train.tolist() == [True, False, True]
    assert found.parts == ("back", "wing")
    assert found.concepts == ("striped wing", "blue upperparts")
    assert found.shows.tolist() == [[False, True], [True, True]]
    located = found.locations
    assert located.image.tolist() == [0, 0, 1, 2]
    assert located.part.tolist() == [0, 1, 1, 0]
    assert np.stack([located.x, located.y], 1).tolist() == [[10, 20], [30.5, 40], [5, 6], [1, 2]]
    assert located.row.tolist() == [0, 0, 1, 2]
    assert found.present.tolist() == [[1, 0], [0, -1], [0, -1]]
    assert found.weight.tolist() == [[1.0, 0.75], [0.5, 0.0], [1.0, 0.0]]
    assert found.truth().tolist() == [[1, 0], [0, -1], [0, -1]]
    assert found.notes == (
        "attributes.txt: left out, because they belong to no part: has_size (1 of 3)",
        "image_attribute_labels.txt: 1 line could not be read, first line 9",
    )


def test_attributes_next_to_the_folder(tmp_path: Path) -> None:
    """As in the original archive of CUB."""
    write_cub(tmp_path / "CUB_200_2011")
    (tmp_path / "CUB_200_2011" / "attributes" / "attributes.txt").rename(tmp_path / "attributes.txt")
    assert read_cub(tmp_path / "CUB_200_2011").concepts == ("striped wing", "blue upperparts")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    write_cub(tmp_path)
    (tmp_path / "parts" / "part_locs.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"part_locs\.txt.*CUB_200_2011"):
        read_cub(tmp_path)


def test_select_keeps_rows_consistent(tmp_path: Path) -> None:
    found = read_cub(write_cub(tmp_path))
    train = found.select(found.is_train)
    assert [p.name for p in train.images] == ["x.jpg", "z.jpg"]
    assert train.locations.image.tolist() == [0, 0, 1]
    assert train.locations.row.tolist() == [0, 0, 1]
    assert train.present.tolist() == [[1, 0], [0, -1]]
    assert train.labels.tolist() == [0, 1]
    assert found.select(np.array([2, 0])).labels.tolist() == [1, 0]


def read_attributes(folder: Path, attributes: list[str]) -> dict[str, list[str]]:
    """Concepts of a folder with CUB's parts and these attributes, and the parts at which each is visible."""
    parts = "".join(f"{k} {part}\n" for k, part in enumerate(CUB_PARTS, 1))
    lines = "".join(f"{k} {attribute}\n" for k, attribute in enumerate(attributes, 1))
    found = read_cub(write_cub(folder, **{"parts/parts.txt": parts, "attributes/attributes.txt": lines}))
    assert len(found.parts) == 12
    visible = [[part for part, flag in zip(found.parts, row, strict=True) if flag] for row in found.shows]
    return dict(zip(found.concepts, visible, strict=True))


def test_concepts_are_named_as_in_the_paper(tmp_path: Path) -> None:
    names = {
        "has_leg_color::orange": "orange leg",
        "has_wing_pattern::striped": "striped wing",
        "has_bill_shape::needle": "needle-shaped beak",
        "has_bill_shape::hooked_seabird": "hooked seabird beak",
        "has_bill_color::red": "red beak",
        "has_beak_color::blue": "blue beak",
        "has_tail_shape::forked_tail": "forked tail",
        "has_wing_shape::pointed-wings": "pointed wings",
        "has_under_tail_color::buff": "buff under tail",
        "has_bill_length::shorter_than_head": "beak shorter than head",
        "has_head_pattern::eyering": "eyering head",
    }
    no_part = ["no attribute", "has_size::small", "has_shape::duck-like", "has_primary_color::red"]
    found = read_attributes(tmp_path, [*names, *no_part])
    assert list(found) == list(names.values())
    assert found["eyering head"] == ["crown", "forehead", "eye"]
    with pytest.raises(ValueError, match="two attributes have the same concept name; rename one of them"):
        read_attributes(tmp_path, ["has_beak_shape::needle", "has_bill_shape::needle"])


@pytest.mark.skipif("NEURALBASIS_DATA" not in os.environ, reason="needs CUB's attribute names")
@pytest.mark.parametrize("is_official", [True, False])
def test_cubs_312_attributes_are_278_concepts(is_official: bool, tmp_path: Path) -> None:
    text = Path(os.environ["NEURALBASIS_DATA"], "cub", "attributes.txt").read_text()
    official = {"_beak_": "_bill_", "_primary_size": "_size", "_primary_shape": "_shape"}
    for spelling, official_spelling in official.items() if is_official else ():
        text = text.replace(spelling, official_spelling)
    attributes = [line.split(" ", 1)[1] for line in text.splitlines()]
    found = read_attributes(tmp_path, attributes)
    assert (len(attributes), len(found)) == (312, 278)
    prefix = "has_" if is_official else "has_primary_"
    (note,) = (note for note in read_cub(tmp_path).notes if note.startswith("attributes.txt: left out"))
    for name in (f"{prefix}size", f"{prefix}shape", "has_primary_color", "(34 of 312)"):
        assert name in note
    assert len({part for parts in found.values() for part in parts}) == 12


def test_inaturalist(tmp_path: Path) -> None:
    document = {
        "images": [{"id": k, "file_name": f"train/{name}.jpg"} for k, name in ((7, "a"), (8, "b"), (9, "c"))],
        "annotations": [{"image_id": image, "category_id": k} for image, k in ((8, 3), (7, 5), (9, 4))],
        "categories": [
            {"id": 3, "name": "Parus major", "supercategory": "Birds"},
            {"id": 4, "name": "Bellis perennis", "supercategory": "Plants"},
            {"id": 5, "name": "Pica pica", "supercategory": "Birds"},
        ],
    }
    (tmp_path / "train.json").write_text(json.dumps(document))
    birds = read_inaturalist(tmp_path / "train.json", supercategory="Birds")
    assert birds.classes == ("Parus major", "Pica pica")
    assert [p.relative_to(tmp_path).as_posix() for p in birds.images] == ["train/a.jpg", "train/b.jpg"]
    assert birds.labels.tolist() == [1, 0]
    assert len(read_annotations(tmp_path / "train.json").images) == 3
    with pytest.raises(ValueError, match=r"train\.json has no supercategory 'birds'; it has 'Birds', 'Plants'"):
        read_annotations(tmp_path / "train.json", supercategory="birds")
    with pytest.raises(ValueError, match="supercategory applies to a JSON file of iNaturalist"):
        read_annotations(tmp_path, supercategory="Birds")
    (tmp_path / "test.json").write_text(json.dumps({"images": document["images"]}))
    assert read_inaturalist(tmp_path / "test.json").labels.tolist() == [-1, -1, -1]
    (tmp_path / "odd.json").write_text("[1]")
    with pytest.raises(ValueError, match=r"odd\.json is not an iNaturalist file"):
        read_annotations(tmp_path / "odd.json")
    (tmp_path / "truncated.json").write_text('{"images": [')
    with pytest.raises(ValueError, match=r"truncated\.json is not an iNaturalist file: expected JSON"):
        read_annotations(tmp_path / "truncated.json")


def test_csv_lines_without_a_picture_are_counted(tmp_path: Path) -> None:
    lines = ["image,part,x,y,attribute", " ,wing,1,2,red", "a.jpg,  ,1,2,red", "a.jpg,wing,1,2,red", "a.jpg,wing"]
    (tmp_path / "birds.csv").write_text("\n".join(lines))
    found = read_annotations(tmp_path / "birds.csv")
    assert [image.name for image in found.images] == ["a.jpg"]
    assert found.notes == ("birds.csv: 3 lines could not be read, first line 2",)


def test_csv_pictures_without_locations_are_kept(tmp_path: Path) -> None:
    """Concepts can be applied to pictures without locations."""
    path = tmp_path / "birds.csv"
    path.write_text("image,part,x,y,attribute,class\nb.jpg,,,,,magpie\na.jpg,wing,here,2,red,\n")
    found = read_annotations(path)
    assert [image.name for image in found.images] == ["b.jpg", "a.jpg"]
    assert (found.classes, found.labels.tolist()) == (("magpie",), [0, -1])
    assert (found.parts, found.concepts, found.shows.shape, found.present.shape) == ((), (), (0, 0), (0, 0))
    assert found.notes == ("birds.csv: 2 lines could not be read, first line 2",)
    path.write_text("image,part,x,y,attribute\n")
    assert read_annotations(path).images == ()
    path.write_text("image,part,x,y,attribute\na.jpg,wing,1,2,\n")
    assert read_annotations(path).shows.shape == (0, 1)
    assert read_cub(write_cub(tmp_path / "cub", **{"attributes/attributes.txt": "1 has_size::small\n"})).concepts == ()


def test_equal_concept_names_are_refused(tmp_path: Path) -> None:
    lines = ["image,part,x,y,attribute", "a.jpg,feather,1,2,long tail", "a.jpg,tail feather,1,2,long"]
    (tmp_path / "birds.csv").write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r"birds\.csv: .* have the same concept name 'long tail feather'; rename"):
        read_annotations(tmp_path / "birds.csv")


def test_locations_that_are_not_finite_are_counted(tmp_path: Path) -> None:
    found = read_cub(write_cub(tmp_path, **{"parts/part_locs.txt": "1 1 nan 20.0 1\n1 2 3.0 inf 1\n2 3 5.0 6.0 1\n"}))
    assert found.locations.image.tolist() == [1]
    assert "part_locs.txt: 2 lines could not be read, first line 1" in found.notes


def test_cub_without_parts(tmp_path: Path) -> None:
    write_cub(tmp_path)
    shutil.rmtree(tmp_path / "parts")
    shutil.rmtree(tmp_path / "attributes")
    found = read_annotations(tmp_path, with_parts=False)
    assert [image.name for image in found.images] == ["x.jpg", "y with space.jpg", "z.jpg"]
    assert (found.labels.tolist(), found.is_train.tolist()) == ([0, 0, 1], [True, False, True])
    assert (found.parts, found.concepts, len(found.locations.x)) == ((), (), 0)


def test_csv_is_read_exactly(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(
        "image,part,x,y,attribute,class\n"
        "a.jpg,left wing,10,20,striped,magpie\n"
        "a.jpg,left wing,10,20,black,magpie\n"
        "a.jpg,Right wing,30,20,black,magpie\n"
        "a.jpg,tail,50,20,,magpie\n"
        "b.jpg,tail,5,2,long,\n"
        "b.jpg,tail,here,2,long,\n"
    )
    found = read_annotations(path)
    assert found.concepts == ("striped wing", "black wing", "long tail")
    assert found.parts == ("wing", "tail")
    assert found.present.tolist() == [[1, 1, -1], [0, 1, -1], [-1, -1, 0], [-1, -1, 1]]
    assert found.locations.row.tolist() == [0, 1, 2, 3]
    assert found.locations.image.tolist() == [0, 0, 0, 1]
    assert found.truth().tolist() == [[1, 1, 0], [-1, -1, 1]]
    assert found.classes == ("magpie",)
    assert found.labels.tolist() == [0, -1]
    assert found.notes == ("mine.csv: 1 line could not be read, first line 7",)
    only = found.select(np.array([1]))
    assert only.present.tolist() == [[-1, -1, 1]]
    assert only.locations.row.tolist() == [0]
    path.write_text("image,part,x,attribute\n")
    with pytest.raises(ValueError, match=r"mine\.csv has no column 'y'"):
        read_csv(path)


def test_folders_are_classes(tmp_path: Path) -> None:
    for name in ("b/1.jpg", "a/2.jpg", "3.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    found = read_folder(tmp_path)
    assert [p.name for p in found.images] == ["3.png", "2.jpg", "1.jpg"]
    assert found.classes == ("a", "b")
    assert found.labels.tolist() == [-1, 0, 1]
    with pytest.raises(ValueError, match=r"expected CUB's folder.*a\.txt"):
        read_annotations(tmp_path / "a.txt")


CSV_HEADER = "image,part,x,y,attribute\n"


@pytest.mark.parametrize("name", ["../a.jpg", "b/../../a.jpg", "/etc/a.jpg"])
def test_pictures_outside_their_folder_are_refused(name: str, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    (inner / "cub" / "images").mkdir(parents=True)
    (inner / "a.csv").write_text(f"{CSV_HEADER}{name},wing,1,2,red\n")
    (inner / "a.json").write_text(json.dumps({"images": [{"id": 1, "file_name": name}]}))
    for other in ("classes", "image_class_labels", "train_test_split"):
        (inner / "cub" / f"{other}.txt").write_text("1 1\n")
    (inner / "cub" / "images.txt").write_text(f"1 {name}\n")
    for source in ("a.csv", "a.json", "cub"):
        with pytest.raises(ValueError, match=rf"names the picture '{re.escape(name)}', which is not inside"):
            read_annotations(inner / source, with_parts=False)
    assert read_annotations(inner / "a.csv", folder="/").images == (Path("/") / name,)


def test_any_name_inside_the_folder_is_accepted(tmp_path: Path) -> None:
    names = ["a..b.jpg", "c/../a.jpg", str(tmp_path / "d.jpg")]
    (tmp_path / "a.csv").write_text(CSV_HEADER + "".join(f"{name},wing,1,2,red\n" for name in names))
    assert read_csv(tmp_path / "a.csv").images == tuple(tmp_path / name for name in names)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.json", b'{"images":' + b"[" * 100_000),
        ("a.json", b'{"images": [{"id": 1, "file_name": 5}]}'),
        ("a.csv", CSV_HEADER.encode() + b"x" * 200_000 + b",wing,1,1,red\n"),
        ("a.csv", CSV_HEADER.encode() + b"\xe9.jpg,wing,1,1,red\n"),
    ],
    ids=["nested", "number", "long", "latin-1"],
)
def test_invalid_files_raise_one_error_with_their_name(name: str, data: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=name):
        read_annotations(tmp_path / name)


def test_invalid_line_numbers_are_noted(tmp_path: Path) -> None:
    for name in ("classes", "image_class_labels", "train_test_split"):
        (tmp_path / f"{name}.txt").write_text("1 1\n")
    (tmp_path / "images.txt").write_text("² a.jpg\n" + "9" * 5000 + " b.jpg\n1 c.jpg\n")
    found = read_annotations(tmp_path, with_parts=False)
    assert found.images == (tmp_path / "images" / "c.jpg",)
    assert found.notes == ("images.txt: 2 lines could not be read, first line 1",)


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jpg")
    with pytest.raises(PictureError, match=r"a\.jpg: it is not a regular file"):
        read_picture(tmp_path / "a.jpg")
