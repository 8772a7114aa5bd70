"""The commands `neuralbasis concepts fit` and `neuralbasis concepts apply`."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

pytest.importorskip("transformers")
pytest.importorskip("PIL")


from neuralbasis.cli import main
from neuralbasis.vision import ConceptExtractor, load


def run(*arguments, code: int = 0):
    found = CliRunner().invoke(main, [str(a) for a in arguments])
    assert found.exit_code == code, found.output
    return found


def test_fit_and_apply(birds, tmp_path: Path) -> None:
    file, table = tmp_path / "birds.nbc", tmp_path / "table.parquet"
    page = run("concepts", "fit", birds.folder, "--backbone", birds.checkpoint, "--side", 96, "-o", file).stdout
    assert f"saved {file}: 38 concepts, measured on held-out pictures" in page
    assert "AUROC" in page
    fitted = load(file)
    assert np.array_equal(fitted.learned.coefficients, birds.extractor.learned.coefficients)
    assert "exists already" in run("concepts", "fit", birds.folder, "--backbone", "x", "-o", file, code=1).stderr
    run("concepts", "apply", file, birds.folder, "-o", table)
    rows = pq.read_table(table)
    assert rows.column_names == ["image", "class", "split", *fitted.names]
    assert rows["image"][0].as_py() == "images/001.Drawn_bird/Drawn_bird_0001.jpg"
    assert rows["class"][-1].as_py() == "010.Drawn_bird"
    assert [text == "train" for text in rows["split"].to_pylist()] == birds.annotations.is_train.tolist()
    scores = np.stack([rows[name].to_numpy() for name in fitted.names], axis=1)
    assert np.array_equal(scores, birds.extractor.apply(birds.annotations.images).scores)
    assert not list(tmp_path.glob("*.unfinished"))
    assert pq.ParquetFile(table).num_row_groups == 1  # not one per batch
    parts = []
    for split in ("train", "test"):
        run("concepts", "apply", file, birds.folder, "--split", split, "-o", tmp_path / f"{split}.parquet")
        parts.append(pq.read_table(tmp_path / f"{split}.parquet"))
        assert parts[-1].column_names == ["image", "class", *fitted.names]
        assert parts[-1]["image"].to_pylist() == rows.filter(pa.compute.field("split") == split)["image"].to_pylist()
    assert sum(part.num_rows for part in parts) == rows.num_rows


def test_annotations_are_never_overwritten(birds, tmp_path: Path) -> None:
    birds.extractor.save(tmp_path / "birds.nbc")
    text = f"image,part,x,y,attribute\n{birds.annotations.images[0]},wing,1,2,red\n"
    (tmp_path / "own.csv").write_text(text)
    failed = run("concepts", "apply", tmp_path / "birds.nbc", tmp_path / "own.csv", "-o", tmp_path / "own.csv", code=1)
    assert "is read and cannot be written" in failed.stderr
    assert (tmp_path / "own.csv").read_text() == text


def test_unreadable_pictures_are_listed(birds, tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for k, image in enumerate(birds.annotations.images[:3]):
        shutil.copy(image, pictures / f"{k}.jpg")
    (pictures / "1.jpg").write_bytes(b"nothing")
    birds.extractor.save(tmp_path / "birds.nbc")
    found = run("concepts", "apply", tmp_path / "birds.nbc", pictures, "-o", tmp_path / "table.csv")
    assert "1 picture could not be read" in found.stderr
    assert "1.jpg: it is empty or not a picture" in found.stderr
    lines = (tmp_path / "table.csv").read_text().splitlines()
    assert len(lines) == 4
    assert lines[2] == "1.jpg" + "," * 38
    many = [pictures / f"broken {k:02d}.jpg" for k in range(12)]
    for path in many:
        path.write_bytes(b"nothing")
    again = ("concepts", "apply", tmp_path / "birds.nbc", pictures, "-o", tmp_path / "table.csv")
    assert "table.csv exists already; --force replaces it" in run(*again, code=1).stderr
    found = run(*again, "--force")
    assert "13 pictures could not be read" in found.stderr
    assert f"full list: {tmp_path / 'table.csv'}.unread.txt" in found.stderr
    listed = (tmp_path / "table.csv.unread.txt").read_text().splitlines()
    assert [line.split(": ")[0] for line in listed] == [str(pictures / "1.jpg"), *map(str, many)]
    shutil.rmtree(pictures)
    pictures.mkdir()
    assert "has no pictures" in run(*again, "--force", code=1).stderr


def test_file_names_that_are_not_utf_8(birds, tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path / "pictures") + b"/Kr\xe4he"
    try:
        os.makedirs(folder)
    except OSError:
        pytest.skip("this file system takes only UTF-8")
    shutil.copy(birds.annotations.images[0], folder + b"/1\xff.jpg")
    with open(folder + b"/2\xff.jpg", "wb") as file:
        file.write(b"nothing")
    birds.extractor.save(tmp_path / "birds.nbc")
    found = run("concepts", "apply", tmp_path / "birds.nbc", tmp_path / "pictures", "-o", tmp_path / "table.parquet")
    assert "1 picture could not be read" in found.stderr
    rows = pq.read_table(tmp_path / "table.parquet")
    assert rows["image"].to_pylist() == ["Kr\ufffdhe/1\ufffd.jpg", "Kr\ufffdhe/2\ufffd.jpg"]
    assert rows["class"].to_pylist() == ["Kr\ufffdhe"] * 2
    learned = replace(birds.extractor.learned, broken=(os.fsdecode(folder + b"/2\xff.jpg: it is empty"),))
    ConceptExtractor(learned).save(tmp_path / "odd.nbc")
    assert load(tmp_path / "odd.nbc").learned.broken[0].endswith("/2?.jpg: it is empty")


def test_skipped_lines_are_reported(birds, tmp_path: Path) -> None:
    birds.extractor.save(tmp_path / "birds.nbc")
    lines = ["image,part,x,y,attribute", f"{birds.annotations.images[0]},wing,,,", ",,,,"]
    (tmp_path / "own.csv").write_text("\n".join(lines))
    command = ("concepts", "apply", tmp_path / "birds.nbc", tmp_path / "own.csv", "-o", tmp_path / "table.csv")
    assert "give a folder that contains all pictures (folder=, --folder)" in run(*command, code=1).stderr
    found = run(*command, "--folder", birds.folder)
    assert "note: own.csv: 2 lines could not be read, first line 2" in found.stderr
    _, line = (tmp_path / "table.csv").read_text().splitlines()
    assert line.startswith("images/001.Drawn_bird/Drawn_bird_0001.jpg,")
    wrong = ("concepts", "apply", tmp_path / "birds.nbc", birds.folder, "-o", tmp_path / "a.csv")
    assert "leave it out" in run(*wrong, "--supercategory", "Birds", code=1).stderr


def test_an_unavailable_device_is_named(birds, tmp_path: Path) -> None:
    birds.extractor.save(tmp_path / "birds.nbc")
    for command in (
        ("fit", birds.folder, "--backbone", birds.checkpoint, "-o", tmp_path / "new.nbc"),
        ("apply", tmp_path / "birds.nbc", birds.folder, "-o", tmp_path / "a.csv"),
    ):
        failed = run("concepts", *command, "--device", "nonsense", code=1)
        assert "the device 'nonsense' is not available" in failed.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"birds.nbc"}
