"""Features of many pictures, batch by batch, in the order of a list of paths.

    paths, Backbone -> FeatureGrids: (b,) rows of the list, (b, C, h, w) features

Threads decode the next batches while the network computes the current one. An unreadable picture is left out of its
batch and recorded with the reason. Memory does not grow with the number of pictures.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..progress import open_bar
from .feature_store import SUFFIX, FeatureStore, picture_key
from .pictures import Picture, PictureError, read_picture

if TYPE_CHECKING:
    from .backbone import Backbone

PREFETCHED_BATCHES = 2  # decoded while the network computes


class FeatureGrids(NamedTuple):
    """Features of a batch: (b,) rows of the list, (b, C, h, w) float16."""

    rows: np.ndarray
    features: np.ndarray


@dataclass(frozen=True)
class BatchOptions:
    """How pictures are processed.

    batch_size : pictures per call of the network
    n_threads : threads that decode pictures
    verbose : show a progress bar
    """

    batch_size: int = 16
    n_threads: int = 2
    verbose: bool = False


@contextmanager
def open_grid_store(
    cache: str | os.PathLike[str] | None, backbone: Backbone, is_writer: bool
) -> Iterator[FeatureStore | None]:
    """The store of a backbone's features in a cache folder; None without a folder, or if a reader finds no file."""
    path = Path(cache or "") / f"grids-{backbone.digest[:16]}{SUFFIX}"
    if cache is None or not (is_writer or path.exists()):
        yield None
        return
    with FeatureStore(path, backbone.shape, "f2", is_read_only=not is_writer) as store:
        yield store


def stream_grids(
    paths: Sequence[str | os.PathLike[str]],
    backbone: Backbone,
    options: BatchOptions,
    broken: dict[int, str],
    store: FeatureStore | None = None,
    is_writer: bool = False,
) -> Iterator[FeatureGrids]:
    """Features of all readable pictures; reasons for the others are added to `broken` by their row in the list.

    Parameters
    ----------
    store : features computed earlier
    is_writer : add new features to the store
    """
    n_images, size = len(paths), options.batch_size
    with (
        ThreadPoolExecutor(options.n_threads) as pool,
        open_bar(n_images, "pictures", "picture", options.verbose) as bar,
    ):
        waiting: deque[_Batch] = deque()

        def finish_batch() -> Iterator[FeatureGrids]:
            batch = waiting.popleft()
            grids = _compute_batch(batch, backbone, broken, store if is_writer else None)
            bar.update(len(batch.keys))
            if grids is not None:
                yield grids

        try:
            for start in range(0, n_images, size):
                waiting.append(_submit_batch(pool, paths, range(n_images)[start : start + size], backbone, store))
                if len(waiting) > PREFETCHED_BATCHES:
                    yield from finish_batch()
            while waiting:
                yield from finish_batch()
        finally:
            for batch in waiting:  # the caller stopped early
                for future in batch.futures.values():
                    future.cancel()


class _Batch(NamedTuple):
    """A batch by rows of the list: keys of the pictures, stored features, and pictures being decoded."""

    keys: dict[int, bytes | None]
    stored: dict[int, np.ndarray]
    futures: dict[int, Future[Picture]]


def _submit_batch(
    pool: ThreadPoolExecutor,
    paths: Sequence[str | os.PathLike[str]],
    rows: range,
    backbone: Backbone,
    store: FeatureStore | None,
) -> _Batch:
    """Read stored features and start decoding the other pictures."""
    keys = {row: picture_key(paths[row]) if store is not None else None for row in rows}
    stored = {row: grid for row in rows if store is not None and (grid := store.get(keys[row])) is not None}
    futures = {
        row: pool.submit(read_picture, paths[row], backbone.side, backbone.resample)
        for row in rows
        if row not in stored
    }
    return _Batch(keys, stored, futures)


def _compute_batch(
    batch: _Batch, backbone: Backbone, broken: dict[int, str], store: FeatureStore | None
) -> FeatureGrids | None:
    """Compute missing features and write them to the store; None if no picture could be read."""
    found, pixels = dict(batch.stored), dict[int, np.ndarray]()
    for row, future in batch.futures.items():
        try:
            pixels[row] = future.result().pixels
        except PictureError as error:
            broken[row] = str(error)
    if pixels:
        for row, features in zip(pixels, backbone.features(np.stack(list(pixels.values()))), strict=True):
            found[row] = features
            if store is not None:
                store.put(batch.keys[row], features)
    if not found:
        return None
    rows = sorted(found)
    return FeatureGrids(np.array(rows), np.stack([found[row] for row in rows]))


def compute_logits(features: np.ndarray, coefficients: np.ndarray, intercepts: np.ndarray) -> np.ndarray:
    """(b, C, h, w) -> (b, K, h · w): linear classifiers at every patch."""
    flat = features.reshape(*features.shape[:2], -1).astype(np.float32)
    return coefficients @ flat + intercepts[:, None]


def compute_max_logits(features: np.ndarray, coefficients: np.ndarray, intercepts: np.ndarray) -> np.ndarray:
    """(b, C, h, w) -> (b, K): the largest logit over all patches."""
    return compute_logits(features, coefficients, intercepts).max(axis=2)
