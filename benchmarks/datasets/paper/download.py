"""Download public files of the paper's sets: to a temporary name, verified, then renamed.

Nothing is downloaded without a request: `fetch(SETS["higgs"])`, or `python -m benchmarks.datasets.paper --fetch higgs`.
"""

from __future__ import annotations

import hashlib
import http.client
from pathlib import Path
from urllib.request import Request, urlopen

from tqdm import tqdm

from ..real import CACHE, data_folder
from .source import BLOCK, Source

SECONDS = 60  # timeout without data


def fetch(source: Source) -> None:
    """Download missing public files of a source into the data folder."""
    if source.find_missing() is None and all(file.find() or not file.url for file in source.files):
        return
    if source.fetch is not None:
        try:
            source.fetch(data_folder() / CACHE)
        except OSError as error:
            raise OSError(f"scikit-learn could not fetch it: {error}; {source.find_missing()}") from error
    for file in source.files:
        if file.url is None or file.find() is not None:
            continue
        try:
            download(file.url, data_folder() / file.paths[0], file.sha256.get(file.paths[0]))
        except OSError as error:
            if not file.optional:
                raise
            print(f"{source.title} can be read without this: {error}")
    problem = source.find_missing()
    if problem:
        raise FileNotFoundError(problem)


def download(url: str, path: Path, sha256: str | None = None) -> None:
    """Download completely, with this checksum if one is given, or raise and leave nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    try:
        found = _copy(url, part)
        if sha256 is not None and found != sha256:
            raise OSError(f"expected sha256 {sha256}, got {found}")
        part.replace(path)
    except (OSError, http.client.HTTPException) as error:
        raise OSError(f"{url} could not be fetched: {error}; place the file as {path}") from error
    finally:
        part.unlink(missing_ok=True)


def _copy(url: str, path: Path) -> str:
    """Copy the data; returns its checksum."""
    digest = hashlib.sha256()
    request = Request(url, headers={"User-Agent": "neuralbasis benchmarks"})
    with urlopen(request, timeout=SECONDS) as answer, path.open("wb") as file:
        length = int(answer.headers.get("Content-Length") or 0)
        with tqdm(total=length or None, unit="B", unit_scale=True, desc=path.stem, disable=None) as bar:
            while block := answer.read(BLOCK):
                file.write(block)
                digest.update(block)
                bar.update(len(block))
        if length and file.tell() != length:
            raise OSError(f"expected {length:,} bytes, got {file.tell():,}")
    return digest.hexdigest()
