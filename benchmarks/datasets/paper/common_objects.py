"""Common Objects: which of 114 objects, or none, a box of an image contains, from 2,618 sparse scores of parts.

DIFF: the paper's set is proprietary. This is a generated table of the same size, sparsity and classes, with features
that occur together by topic, main effects and pairs (`datasets.objects`). Accuracies cannot be compared with the
paper's; sizes, memory and time can.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..objects import draw_objects, make_world
from .source import Source
from .splits import SEED, Part, Sizes

SPARSITY = 0.97
N_PAIRS = 1_000


def read(paths: Sequence[Path], sizes: Sizes) -> tuple[Part, Part, Part]:
    world = make_world(sizes.n_features, sizes.n_classes, SPARSITY, N_PAIRS, SEED)
    tables = [draw_objects(world, n_rows, SEED + 1 + part) for part, n_rows in enumerate(sizes.count_rows())]
    train, valid, test = (Part(table.X, table.y) for table in tables)
    return train, valid, test


COMMON_OBJECTS = Source(
    "common_objects", "Common Objects", "classification", "none", Sizes(2_645_488, 58_525, None, 2_618, 115), read,
    page="the paper, appendix",
    drawn="generated; the paper's set is proprietary",
)  # fmt: skip
