"""The commands `neuralbasis concepts fit` and `neuralbasis concepts apply`.

`fit` learns named concepts from annotated pictures and writes a concept file. `apply` reads that file and writes a
table with one row per picture and one column per concept.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from ..printable import escape
from ..serialization.temporary_file import replace_when_done
from . import formatting
from .errors import CommandError, note
from .options import AS_JSON, FORCE, MODEL, OUTPUT, check_new, check_output, group_options
from .terminal import echo

if TYPE_CHECKING:
    from ..vision import Annotations, ConceptExtractor

PICTURES = click.Path(exists=True)
MAX_LISTED = 10  # concepts, or unreadable pictures, in printed lists


batch_options = group_options(
    click.option("--folder", type=click.Path(exists=True, file_okay=False), help="Pictures of a CSV or JSON file."),
    click.option("--cache", type=click.Path(file_okay=False), help="Folder for computed features and scores."),
    click.option("--batch-size", type=click.IntRange(1), default=16, help="Pictures per call of the network."),
    click.option("--download", "allow_download", is_flag=True, help="Allow weights from the Hugging Face hub."),
    click.option("--device", default="cpu", help="Device of the network: cpu, cuda, cuda:1, mps, …"),
    click.option("--threads", "n_threads", type=click.IntRange(1), default=2, help="Threads that decode pictures."),
)


@click.group()
def concepts() -> None:
    """Learn named concepts in pictures and write tables of them.

    `neuralbasis fit` reads the table. Needs the extra `vision`.
    """


@concepts.command()
@click.argument("pictures", type=PICTURES)
@click.option(
    "--backbone",
    required=True,
    metavar="FOLDER | NAME",
    help="Weights: a folder, or with --download a name on the hub.",
)
@click.option("--output", "-o", type=OUTPUT, default="concepts.nbc", help="Concept file to write.")
@click.option("--side", type=click.IntRange(16), default=448, help="Pixels to which pictures are resized.")
@click.option(
    "--held-out",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.2,
    help="Share of the training pictures that measures the concepts.",
)
@click.option("--seed", type=int, default=0, help="Seed for the choice of held-out pictures.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@AS_JSON
@batch_options
def fit(
    pictures: str, backbone: str, output: str, side: int, held_out: float, seed: int, force: bool, as_json: bool,
    device: str, allow_download: bool, folder: str | None, **options: Any,
) -> None:  # fmt: skip
    """Learn concepts from annotated pictures.

    PICTURES is the folder CUB_200_2011, or a CSV file with the columns image, part, x, y, attribute. Concepts are
    learned from the training split; a share of it is held out and measures the quality of each concept.

    \b
    neuralbasis concepts fit CUB_200_2011 --backbone microsoft/resnet-50 --download -o birds.nbc
    """
    from ..vision import Backbone, ConceptExtractor

    check_output(output, pictures)
    check_new(output, "--output", force)
    annotations = _read_annotations(pictures, folder=folder)
    extractor = ConceptExtractor.fit(
        annotations,
        Backbone.load(backbone, side=side, device=device, allow_download=allow_download),
        held_out=held_out,
        random_state=seed,
        verbose=sys.stderr.isatty(),
        **options,
    )
    _report_broken(extractor.learned.broken, output)
    extractor.save(output)
    if as_json:
        trust = [{**row._asdict(), "is_measured": row.is_measured} for row in extractor.trust()]
        echo(formatting.format_json({"concepts": output, "trust": trust}))
    else:
        echo(_write_trust(extractor, output))


@concepts.command()
@click.argument("extractor", type=MODEL)
@click.argument("pictures", type=PICTURES)
@click.option("--output", "-o", type=OUTPUT, required=True, help="CSV or Parquet by its suffix.")
@click.option("--backbone", metavar="FOLDER | NAME", help="Weights, if they were moved since the fit.")
@click.option("--supercategory", metavar="NAME", help="iNaturalist: only these pictures, such as Birds.")
@click.option("--split", type=click.Choice(["train", "test"]), help="CUB: only this part of the pictures.")
@FORCE
@batch_options
def apply(
    extractor: str, pictures: str, output: str, backbone: str | None, supercategory: str | None, split: str | None,
    force: bool, device: str, allow_download: bool, folder: str | None, **options: Any,
) -> None:  # fmt: skip
    """Write a table with one row per picture and one column per concept.

    EXTRACTOR is a concept file. PICTURES is a folder, the folder CUB_200_2011, a JSON file of iNaturalist or a CSV
    file. Repeat an interrupted command to resume it.

    \b
    neuralbasis concepts apply birds.nbc photographs/ -o table.parquet
    neuralbasis fit table.parquet --target class --exclude image
    """
    from ..vision import load
    from .outputs import check_format

    check_format(output)
    check_output(output, extractor, pictures, force=force)
    loaded = load(extractor)
    annotations = _read_annotations(pictures, supercategory=supercategory, with_parts=False, folder=folder)
    if split is not None:
        annotations = annotations.select(annotations.is_train == (split == "train"))
    if not annotations.images:
        raise CommandError(f"{pictures} has no pictures{f' of the split {split!r}' if split else ''}")
    loaded.load_backbone(backbone, device, allow_download=allow_download)
    unfinished = f"{output}.unfinished"
    cache = options.pop("cache") or unfinished
    options |= {"cache": cache, "verbose": sys.stderr.isatty()}
    broken = _write_table(loaded, annotations, folder or pictures, output, **options)
    if cache == unfinished:
        shutil.rmtree(unfinished, ignore_errors=True)
    _report_broken(broken, output)
    echo(f"{output}: {len(annotations.images):,} pictures, {len(loaded.names)} concepts", err=True)


def _read_annotations(pictures: str, **options: Any) -> Annotations:
    from ..vision import read_annotations

    annotations = read_annotations(pictures, **options)
    for text in annotations.notes:
        note(text)
    return annotations


def _write_table(
    extractor: ConceptExtractor, annotations: Annotations, pictures: str, output: str, **options: Any
) -> list[str]:
    """Write all pictures in order; the scores of unreadable ones are empty. Returns why they could not be read."""
    import pyarrow as pa

    from .outputs import open_output

    folder = pictures if os.path.isdir(pictures) else os.path.dirname(pictures)
    names = [_to_unicode(Path(os.path.relpath(image, folder)).as_posix()) for image in annotations.images]
    texts: dict[str, list[str | None]] = {"image": list(names)}
    if annotations.classes:
        classes = [*map(_to_unicode, annotations.classes), None]
        texts["class"] = [classes[label] for label in annotations.labels]  # label -1 is the last entry, None
    if len(set(annotations.is_train.tolist())) == 2:
        texts["split"] = ["train" if flag else "test" for flag in annotations.is_train]
    columns, n_done = [*texts, *extractor.names], 0
    broken: dict[int, str] = {}
    with open_output(output, columns) as file:
        for batch in chain(extractor.stream(annotations.images, broken, **options), [None]):
            stop = len(names) if batch is None else int(batch.rows[-1]) + 1
            scores = np.full((stop - n_done, len(extractor.names)), np.nan, dtype=np.float32)
            if batch is not None:
                scores[batch.rows - n_done] = batch.scores
            arrays = [pa.array(column[n_done:stop], pa.string()) for column in texts.values()]
            arrays += [pa.array(column, from_pandas=True) for column in scores.T]
            if stop > n_done:
                file.write(pa.RecordBatch.from_arrays(arrays, columns))
            n_done = stop
    return [reason for _, reason in sorted(broken.items())]


def _report_broken(broken: Sequence[str], output: str) -> None:
    """Print one note on all unreadable pictures; a long list is written to a file next to the output."""
    if not broken:
        return
    listed = "; ".join(broken[:MAX_LISTED])
    if len(broken) > MAX_LISTED:
        with replace_when_done(f"{output}.unread.txt") as file:
            file.writelines(f"{_to_unicode(reason)}\n".encode() for reason in broken)
        listed += f"; … full list: {output}.unread.txt"
    note(f"{len(broken):,} picture{'s' * (len(broken) != 1)} could not be read: {listed}")


def _to_unicode(path: str) -> str:
    """A path as valid Unicode: file names need not be UTF-8."""
    return path.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _write_trust(extractor: ConceptExtractor, output: str) -> str:
    """A table of the concepts with the highest and the lowest quality."""
    rows = sorted(extractor.trust(), key=lambda row: -np.nan_to_num(row.auroc))
    is_shortened = len(rows) > 2 * MAX_LISTED
    shown = [*rows[:MAX_LISTED], *rows[-MAX_LISTED:]] if is_shortened else rows
    lines = [["concept", "AUROC", "AP", "share", "pictures"]]
    lines += [[r.concept, f"{r.auroc:.3f}", f"{r.ap:.3f}", f"{r.share:.3f}", f"{r.n_train:,}"] for r in shown]
    if is_shortened:
        lines.insert(MAX_LISTED + 1, ["…", "", "", "", ""])
    page = [formatting.align(lines), "", f"saved {output}: {len(rows)} concepts, measured on held-out pictures"]
    if unmeasured := [row.concept for row in rows if not row.is_measured]:
        reason = "because all held-out pictures have them or none does"
        page.append(f"not measured, {reason}: {escape(', '.join(unmeasured))}")
    if left_out := extractor.learned.left_out:
        names = escape(", ".join(left_out))
        page.append(f"left out, because no readable picture shows them at an annotated part: {names}")
    return "\n".join(page)
