"""Source: one set of the paper, with its description, its files, their origin and their reader.

Files are in the data folder (NEURALBASIS_DATA). Published checksums are verified. Other checksums are recorded in
checksums.json of that folder when a file is first read with the paper's sizes, and verified from then on; an entry of
that file overrides a published checksum. A read-only folder records nothing.
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

    paths : possible locations relative to the folder; a download goes to the first
    url : public address, without an account
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

    read : (paths of the existing files in order, sizes) -> the three parts
    n_columns : columns of the raw table, if different from its features
    page : web page of the data; `advice`: manual steps there
    levels : columns of levels and their numbers of levels, for the generated stand-in
    slack : rows by which the first two parts may differ from the paper's
    fetch : downloads files through scikit-learn
    drawn : how rows are generated; None for real rows
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
        """Why the set is not available; None if it is."""
        absent = [file.paths[0] for file in self.files if not file.optional and file.find() is None]
        if not absent:
            return None
        return (
            f"{self.title}: {', '.join(absent)} not in {data_folder()} (the folder that NEURALBASIS_DATA names): "
            f"{' or '.join(filter(None, [self.command, self.advice]))}; see {self.page}"
        )

    @property
    def command(self) -> str:
        """The command that downloads it, or nothing."""
        can = self.fetch or any(file.url for file in self.files)
        return f"python -m benchmarks.datasets.paper --fetch {self.key}" if can else ""

    @property
    def is_drawn(self) -> bool:
        """Whether the rows are generated; False if an optional file has real ones."""
        return self.drawn is not None and not any(file.optional and file.find() for file in self.files)

    def load(self) -> Splits:
        """Raw columns in the paper's parts; verifies sizes and checksums."""
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
    """Checksums of the files by their path in the data folder; raises if one differs from the known checksum."""
    known = {path: digest for file in files for path, digest in file.sha256.items()} | read_digests()
    found = {}
    for path in paths:
        if not path.is_relative_to(data_folder()):
            continue
        name = path.relative_to(data_folder()).as_posix()
        if name.startswith(CACHE):
            continue  # scikit-learn verifies its downloads, and its cache depends on its version
        found[name] = compute_digest(path)
        if found[name] != known.get(name, found[name]):
            raise ValueError(
                f"{path}: expected sha256 {known[name]}, got {found[name]}: a different or damaged file; replace it "
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
        return  # read-only folder
