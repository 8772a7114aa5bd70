"""Source: one set of the paper: what the paper says of it, its files, where they come from and how they are read.

Files lie in the data folder (NEURALBASIS_DATA). A file whose checksum is widely published is compared with it. Others
are recorded in checksums.json of that folder when they are first read with the paper's sizes, and compared from then
on; a line of that file also overrules a published checksum. A folder that cannot be written records nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..real import CACHE, data_folder, find_file
from .splits import Part, Sizes, Splits, check_sizes
from .text import naming

RECORDED = "checksums.json"
BLOCK = 1 << 22


@dataclass(frozen=True)
class File:
    """A file of the data folder.

    paths : where it may lie, relative to the folder; a download goes to the first
    url : where it can be had without an account
    sha256 : published checksums by path
    optional : the set can be read without it
    """

    paths: tuple[str, ...]
    url: str | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)
    optional: bool = False

    def find(self) -> Path | None:
        return next((found for path in self.paths if (found := find_file(path))), None)


@dataclass(frozen=True)
class Source:
    """A set of the paper.

    read : paths of the files that are there, in their order, and the sizes -> the three parts
    n_columns : of the raw table, where they are not as many as its features
    page : where people find the data; `advice` what to do there where a program cannot
    levels : columns of levels and how many they have, for the stand-in
    slack : rows by which the first two parts may differ from the paper's
    fetch : makes the files where they are scikit-learn's to fetch
    drawn : how the rows are generated where none are real; None for real ones
    """

    key: str
    title: str
    task: str
    recipe: str
    sizes: Sizes
    read: Callable[[Sequence[Path], Sizes], tuple[Part, Part, Part]]
    page: str
    files: tuple[File, ...] = ()
    advice: str = ""
    n_columns: int = 0
    levels: Mapping[str, int] = field(default_factory=dict)
    slack: int = 0
    fetch: Callable[[Path], object] | None = None
    drawn: str | None = None

    def find_missing(self) -> str | None:
        """Why it cannot be read here, or None if it can."""
        absent = [file.paths[0] for file in self.files if not file.optional and file.find() is None]
        if not absent:
            return None
        return (
            f"{self.title}: {', '.join(absent)} not in {data_folder()} (the folder that NEURALBASIS_DATA names): "
            f"{' or '.join(filter(None, [self.command, self.advice]))}; see {self.page}"
        )

    @property
    def command(self) -> str:
        """What fetches it, or nothing."""
        can = self.fetch or any(file.url for file in self.files)
        return f"python -m benchmarks.datasets.paper --fetch {self.key}" if can else ""

    @property
    def is_drawn(self) -> bool:
        """Are the rows generated here? Not where an optional file has real ones."""
        return self.drawn is not None and not any(file.optional and file.find() for file in self.files)

    def load(self) -> Splits:
        """Raw columns in the paper's parts, with the paper's sizes and from unchanged files."""
        problem = self.find_missing()
        if problem:
            raise FileNotFoundError(problem)
        paths = [found for file in self.files if (found := file.find())]
        digests = check_files(paths, self.files)
        name = f"{self.title} (drawn)" if self.is_drawn else self.title
        splits = Splits(name, self.task, *self.read(paths, self.sizes), self.recipe)
        check_sizes(splits, self.sizes, self.slack)
        record_digests(digests)
        return splits


def check_files(paths: Sequence[Path], files: Sequence[File]) -> dict[str, str]:
    """Checksums of the files of the data folder by their path in it, none of which is another than it should be."""
    known = {path: digest for file in files for path, digest in file.sha256.items()} | read_digests()
    found = {}
    for path in paths:
        if not path.is_relative_to(data_folder()):
            continue
        name = path.relative_to(data_folder()).as_posix()
        if name.startswith(CACHE):
            continue  # scikit-learn compares what it downloads, and writes its cache as its version does
        found[name] = compute_digest(path)
        if found[name] != known.get(name, found[name]):
            raise ValueError(
                f"{path}: expected sha256 {known[name]}, got {found[name]}: another or a broken file; place it again, "
                f'or trust it with the line "{name}": "{found[name]}" in {data_folder() / RECORDED}'
            )
    return found


def compute_digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def read_digests() -> dict[str, str]:
    path = data_folder() / RECORDED
    with naming(path, "checksums by file"):
        return json.loads(path.read_text()) if path.exists() else {}


def record_digests(digests: Mapping[str, str]) -> None:
    before = read_digests()
    if digests.items() <= before.items():
        return
    try:
        (data_folder() / RECORDED).write_text(json.dumps(before | dict(digests), indent=1, sort_keys=True) + "\n")
    except OSError:
        return  # a folder that is only read from
