"""Concepts from images: extraction compared with the bare network, and classifiers at the size of CUB.

    python -m benchmarks run speed.concept_extraction

ResNet-50 with random weights at 448 × 448 pixels. The same number of images runs through the network alone (prepared in
memory) and through `apply` (JPEG files to scores), in turns. Classifiers: generated features of 6,000 images × 14
patches × 2,048, 278 concepts, five ridge strengths. On a busy machine, processor seconds measure the work; set
OMP_WAIT_POLICY=passive there.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..results.markdown import format_number, format_verdict, print_table
from .resources import PeakMemory, resident_mb, time_once

MIN_SHARE = 0.9
MAX_SECONDS, MAX_MB = 180.0, 4096.0


class Size(NamedTuple):
    """Side in pixels, images per round, rounds; then the size of the classifiers' training data."""

    side: int = 448
    n_images: int = 32
    n_rounds: int = 3
    n_learned: int = 6000
    n_patches: int = 14
    n_features: int = 2048
    n_concepts: int = 278


QUICK = Size(64, 8, 2, 60, 4, 32, 5)


def time_wall_and_cpu(function: Callable[[], Any]) -> tuple[float, float, Any]:
    """Wall seconds, processor seconds, and the result."""
    start = time.process_time()
    seconds, found = time_once(function)
    return seconds, time.process_time() - start, found


def write_images(folder: Path, n_images: int) -> list[Path]:
    """JPEG files of 500 × 375 pixels, the size of CUB's."""
    from PIL import Image

    rng = np.random.default_rng(0)
    paths = []
    for k in range(n_images):
        coarse = Image.fromarray(rng.integers(0, 256, (24, 32, 3), dtype=np.uint8))
        paths.append(folder / f"{k}.jpg")
        coarse.resize((500, 375), Image.Resampling.BICUBIC).save(paths[-1], quality=90)
    return paths


def make_extractor(size: Size, is_small: bool):
    import torch
    from transformers import ResNetConfig, ResNetModel

    from neuralbasis.vision import Backbone, ConceptExtractor
    from neuralbasis.vision.concept_file import BackboneSource, LearnedConcepts

    torch.manual_seed(0)
    small = {"embedding_size": 8, "hidden_sizes": [8, size.n_features], "depths": [1, 1], "layer_type": "basic"}
    backbone = Backbone(ResNetModel(ResNetConfig(**small if is_small else {})), side=size.side)
    n_concepts, n_features = size.n_concepts, backbone.shape[0]
    rng = np.random.default_rng(0)
    learned = LearnedConcepts(
        tuple(f"concept {k}" for k in range(n_concepts)),
        (("part",),) * n_concepts,
        rng.normal(size=(n_concepts, n_features)).astype(np.float32),
        np.zeros(n_concepts, dtype=np.float32),
        np.tile([1.0, 0.0], (n_concepts, 1)),
        (),
        BackboneSource("", size.side, backbone.digest),
    )
    return ConceptExtractor(learned, backbone)


def compare_extraction(size: Size, is_small: bool) -> None:
    import torch

    extractor = make_extractor(size, is_small)
    backbone, batch_size = extractor.backbone, min(16, size.n_images)
    batch = backbone.prepare(np.zeros((batch_size, size.side, size.side, 3), dtype=np.uint8))

    def run_bare() -> None:
        with torch.inference_mode():
            for _ in range(size.n_images // batch_size):
                backbone.forward(batch)

    with tempfile.TemporaryDirectory() as folder:
        paths = write_images(Path(folder), size.n_images)
        run_bare()
        extractor.apply(paths[:batch_size])
        turns = np.array(
            [
                [
                    time_wall_and_cpu(run_bare)[:2],
                    time_wall_and_cpu(lambda: extractor.apply(paths, batch_size=batch_size))[:2],
                ]
                for _ in range(size.n_rounds)
            ]
        )
        with PeakMemory() as memory:
            extractor.apply(paths, batch_size=batch_size)
    (bare, bare_cpu), (ours, ours_cpu) = turns.min(axis=0)
    speeds = [format_number(size.n_images / seconds) for seconds in (bare, ours)]
    work = [format_number(seconds / size.n_images) for seconds in (bare_cpu, ours_cpu)]
    rows = [
        ["network alone", speeds[0], work[0], "", "", ""],
        [
            "files to scores",
            speeds[1],
            work[1],
            f"{bare / ours:.1%}",
            format_number(memory.mb),
            format_verdict(bare / ours >= MIN_SHARE),
        ],
    ]
    header = [
        "best round",
        "images per second",
        "CPU s per image",
        "of the network",
        "peak MB",
        f"≥ {MIN_SHARE:.0%}",
    ]
    print_table(header, rows)


def draw_problem(size: Size) -> tuple[np.ndarray, np.ndarray]:
    """float16 features with the decreasing variances of a network, and balanced weights of concept labels."""
    rng = np.random.default_rng(0)
    n_rows = size.n_learned * size.n_patches
    turn = rng.normal(size=(size.n_features, size.n_features)).astype(np.float32)
    turn *= (np.arange(1, size.n_features + 1) ** -0.5)[:, None].astype(np.float32)
    truth = rng.normal(size=(size.n_features, size.n_concepts)).astype(np.float32)
    features = np.empty((n_rows, size.n_features), dtype=np.float16)
    weights = np.zeros((n_rows, size.n_concepts), dtype=np.float32)
    for start in range(0, n_rows, 4096):
        rows = slice(start, start + 4096)
        hidden = rng.normal(size=(len(features[rows]), size.n_features)).astype(np.float32)
        features[rows] = hidden @ turn / 3
        score = hidden[:, :256] @ truth[:256] / 16 + rng.normal(size=(len(hidden), size.n_concepts))
        weights[rows] = np.where(score > np.linspace(1, 3, size.n_concepts), 1, -1)
    is_yes = weights > 0
    n_yes = np.maximum(is_yes.sum(axis=0), 1)
    np.copyto(weights, (0.5 / n_yes).astype(np.float32), where=is_yes)
    np.copyto(weights, (-0.5 / np.maximum(n_rows - n_yes, 1)).astype(np.float32), where=~is_yes)
    return features, weights


def time_classifiers(size: Size) -> None:
    from neuralbasis.vision.classifiers import fit_classifiers

    features, weights = draw_problem(size)
    held = len(features) // 5
    before = resident_mb()
    with PeakMemory() as memory:
        seconds, cpu, found = time_wall_and_cpu(
            lambda: fit_classifiers(features[held:], weights[held:], features[:held], weights[:held])
        )
    score = features[:held].astype(np.float32) @ found.coefficients.T + found.intercepts
    accuracy = float(np.mean(np.where((score > 0) == (weights[:held] > 0), np.abs(weights[:held]), 0).sum(axis=0) * 5))
    row = [
        f"{size.n_concepts} concepts, {len(features):,} patches × {size.n_features:,}",
        format_number(seconds),
        format_number(cpu),
        format_number(before),
        format_number(memory.mb),
        format_number(accuracy),
        format_verdict(seconds <= MAX_SECONDS and memory.mb <= MAX_MB),
    ]
    limits = f"≤ {MAX_SECONDS:g} s and ≤ {MAX_MB:,.0f} MB"
    header = ["classifiers", "seconds", "CPU s", "MB before", "peak MB", "balanced accuracy, held out", limits]
    print_table(header, [row])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["extraction", "classifiers"])
    parser.add_argument("--quick", action="store_true", help="a small network and small images")
    parser.add_argument("--images", type=int, help="images per round, at least 16")
    parser.add_argument("--rounds", type=int)
    given = parser.parse_args()
    size = QUICK if given.quick else Size()
    size = size._replace(n_images=given.images or size.n_images, n_rounds=given.rounds or size.n_rounds)
    if given.only != "classifiers":
        compare_extraction(size, given.quick)
        print()
    if given.only != "extraction":
        time_classifiers(size)


if __name__ == "__main__":
    main()
