"""Grids: the features of many pictures, a batch at a time, in the order of the list.

Threads decode the pictures of the next batches while the network works on this one, so that it never waits. A picture
that cannot be read is left out of its batch and noted with the reason; memory does not grow with the list.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..progress import open_bar
from .feature_store import Shelf, picture_key
from .pictures import Picture, PictureError, read_picture

if TYPE_CHECKING:
    from .backbone import Backbone

AHEAD = 2  # batches that are decoded while the network works


class Grids(NamedTuple):
    """rows : (b,) places of the pictures in the list; features : (b, C, h, w) float16"""

    rows: np.ndarray
    features: np.ndarray


class Plan(NamedTuple):
    """How to go through many pictures.

    batch_size : pictures that the network sees at once
    n_threads : that decode pictures
    shown : whether to show progress
    """

    batch_size: int = 16
    n_threads: int = 2
    shown: bool = False


@contextmanager
def open_grids(cache: str | os.PathLike[str] | None, backbone: Backbone, is_new: bool) -> Iterator[Shelf | None]:
    """The shelf of a backbone's grids in a folder; None without a folder, or where none is and none is to be made."""
    path = Path(cache or "") / f"grids-{backbone.digest[:16]}.shelf"
    if cache is None or not (is_new or path.exists()):
        yield None
        return
    with Shelf(path, backbone.shape, "f2", is_read_only=not is_new) as shelf:
        yield shelf


def stream_grids(
    paths: Sequence[str | os.PathLike[str]],
    backbone: Backbone,
    plan: Plan,
    broken: dict[int, str],
    shelf: Shelf | None = None,
    is_kept: bool = False,
) -> Iterator[Grids]:
    """Features of all pictures that can be read; the others go to `broken`, by their place in the list.

    Parameters
    ----------
    shelf : where grids may be already
    is_kept : whether to put new grids there
    """
    batches = [range(len(paths))[start : start + plan.batch_size] for start in range(0, len(paths), plan.batch_size)]
    with ThreadPoolExecutor(plan.n_threads) as pool, open_bar(len(paths), "pictures", "picture", plan.shown) as bar:
        waiting: deque[_Batch] = deque()
        try:
            for rows in batches:
                waiting.append(_begin(pool, paths, rows, backbone, shelf))
                if len(waiting) > AHEAD:
                    yield from _finish(waiting.popleft(), backbone, broken, shelf, is_kept, bar)
            while waiting:
                yield from _finish(waiting.popleft(), backbone, broken, shelf, is_kept, bar)
        finally:
            for batch in waiting:  # stopped early: what was not begun is not decoded
                for future in batch.futures.values():
                    future.cancel()


class _Batch(NamedTuple):
    """Rows of the list: the keys of their pictures, the grids that are known, the pictures that are being decoded."""

    keys: dict[int, bytes | None]
    known: dict[int, np.ndarray]
    futures: dict[int, Future[Picture]]


def _begin(pool: ThreadPoolExecutor, paths: Sequence, rows: range, backbone: Backbone, shelf: Shelf | None) -> _Batch:
    keys = {row: picture_key(paths[row]) if shelf is not None else None for row in rows}
    known = {row: grid for row in rows if shelf is not None and (grid := shelf.get(keys[row])) is not None}
    futures = {
        row: pool.submit(read_picture, paths[row], backbone.side, backbone.resample) for row in rows if row not in known
    }
    return _Batch(keys, known, futures)


def _finish(
    batch: _Batch, backbone: Backbone, broken: dict[int, str], shelf: Shelf | None, is_kept: bool, bar
) -> Iterator[Grids]:
    found, pixels = dict(batch.known), dict[int, np.ndarray]()
    for row, future in batch.futures.items():
        try:
            pixels[row] = future.result().pixels
        except PictureError as error:
            broken[row] = str(error)
    if pixels:
        for row, features in zip(pixels, backbone.features(np.stack(list(pixels.values()))), strict=True):
            found[row] = features
            if is_kept and shelf is not None:
                shelf.put(batch.keys[row], features)
    bar.update(len(batch.keys))
    if found:
        rows = sorted(found)
        yield Grids(np.array(rows), np.stack([found[row] for row in rows]))


def find_logits(features: np.ndarray, coefficients: np.ndarray, intercepts: np.ndarray) -> np.ndarray:
    """(b, C, h, w) -> (b, K, h · w): linear classifiers at every cell."""
    flat = features.reshape(*features.shape[:2], -1).astype(np.float32)
    return coefficients @ flat + intercepts[:, None]


def find_peaks(features: np.ndarray, coefficients: np.ndarray, intercepts: np.ndarray) -> np.ndarray:
    """(b, C, h, w) -> (b, K): the largest logit over the cells."""
    return find_logits(features, coefficients, intercepts).max(axis=2)
