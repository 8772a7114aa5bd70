"""iNaturalist Birds: which of 1,486 birds an image shows, from scores of CUB's 278 concepts.

DIFF: the images are public, the scores are not; write them with a concept extractor in the format of `concepts`. The
paper does not state how scores are scaled; ours are scaled to [0, 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .concepts import read_concepts
from .source import File, Source
from .splits import Part, Sizes


def read(paths: Sequence[Path], sizes: Sizes) -> tuple[Part, Part, Part]:
    return read_concepts(paths[0], sizes)


INATURALIST = Source(
    "inaturalist", "iNaturalist Birds", "classification", "minmax", Sizes(414_847, 14_860, None, 278, 1_486), read,
    page="https://github.com/visipedia/inat_comp/tree/master/2021",
    files=(File(("inaturalist/concepts.npz",)),),
    advice="write the scores of a concept extractor as concepts.npz with X_train, y_train, X_valid and y_valid",
)  # fmt: skip
