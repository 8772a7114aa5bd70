"""CUB: which of 200 birds an image shows, from scores of 278 concepts such as "has_wing_pattern::striped".

PAPER §4.1: concepts are attributes of parts. 34 of CUB's 312 attributes describe the whole bird (its size, shape and
primary colour); without them there are the paper's 278.

DIFF: scores need images. Without cub/concepts.npz they are drawn: real classes and split, real shares of a class's
images that show a concept, and a higher score where it is shown. Some pairs of concepts interact: in one half of the
classes they are shown together as often as their shares allow, in the other half one without the other. Figures on
drawn scores cannot be compared with the paper's. The paper does not state how it scales scores; ours are scaled to
[0, 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .concepts import read_concepts, split_images
from .source import File, Source
from .splits import SEED, Part, Sizes
from .text import naming

WHOLE_BIRD = "has_primary_"
SHOWN = 3.0  # deviations between scores of shown and absent concepts
N_PAIRS = 40  # pairs of concepts that interact, among those whose presence is least certain within a class
SHARES = "attributes/class_attribute_labels_continuous.txt"
TEXTS = {
    "attributes.txt": "d64ec5f9492c3c125ec4bef140d171c6ed5c0fdc08f944ea41c1f0c170d2c638",
    SHARES: "2f253a4be38f8c55f30d8456e845edf3d45bd6349504b4401ef464b78a4647bb",
    "image_class_labels.txt": "e9df8c96d897994a245746fe2c98914b9b31f5342bddc6e8b06bdfbf45e49b02",
    "train_test_split.txt": "8bbbfcc09b4d3c9c6e3e40c9874bd863eb6658f4f456e472df1b33d3403d2600",
}


def read(paths: Sequence[Path], sizes: Sizes) -> tuple[Part, Part, Part]:
    names, shares, labels, split, *scores = paths
    if scores:
        return read_concepts(scores[0], sizes)
    kept = find_concepts(names)
    with naming(shares, "a line of percentages for each class"):
        probabilities = np.loadtxt(shares, ndmin=2)[:, kept] / 100
    y, is_train = read_images(labels) - 1, read_images(split) == 1
    X = draw_scores(probabilities, y)
    return split_images(X[is_train], y[is_train], X[~is_train], y[~is_train], sizes)


def find_concepts(path: Path) -> np.ndarray:
    """Numbers of the attributes that describe a part."""
    with naming(path, 'lines such as "1 has_beak_shape::dagger"'):
        attributes = [line.split(maxsplit=1)[1] for line in path.read_text().splitlines()]
    return np.array([number for number, name in enumerate(attributes) if not name.startswith(WHOLE_BIRD)])


def read_images(path: Path) -> np.ndarray:
    """The second number of every line; lines are in the order of the images."""
    with naming(path, "lines of an image and its number"):
        return np.loadtxt(path, dtype=int, ndmin=2)[:, 1]


def draw_scores(probabilities: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(images, concepts) float32: noise, higher where a concept is shown.

    probabilities : (classes, concepts) shares of the images of a class that show a concept
    y : (images,) classes
    """
    rng = np.random.default_rng(SEED)
    level = rng.random((len(y), probabilities.shape[1]))  # a concept is shown where its level is below its share
    first, second = choose_pairs(probabilities).T
    is_together = rng.random((len(probabilities), len(first))) < 0.5
    level[:, second] = np.where(is_together[y], level[:, first], 1 - level[:, first])
    return (SHOWN * (level < probabilities[y]) + rng.normal(size=level.shape)).astype(np.float32)


def choose_pairs(probabilities: np.ndarray) -> np.ndarray:
    """(pairs, 2) concepts that interact, no concept in two pairs: each of similar uncertainty within a class."""
    uncertain = np.argsort(-(probabilities * (1 - probabilities)).mean(axis=0), kind="stable")
    n_pairs = min(N_PAIRS, len(uncertain) // 2)
    return uncertain[: 2 * n_pairs].reshape(n_pairs, 2)


CUB = Source(
    "cub", "CUB", "classification", "minmax", Sizes(5_994, 5_794, None, 278, 200), read,
    page="https://www.vision.caltech.edu/datasets/cub_200_2011/",
    files=(
        *(File((f"cub/{name}",), sha256={f"cub/{name}": digest}) for name, digest in TEXTS.items()),
        File(("cub/concepts.npz",), optional=True),
    ),
    advice="unpack CUB_200_2011.tgz, place these files of it there (attributes.txt lies beside its folder)",
    drawn="scores drawn from the real shares of each class; cub/concepts.npz would be read instead",
)  # fmt: skip
