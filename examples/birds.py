"""Classify birds by named concepts: pictures -> concepts -> model -> report page.

    python examples/birds.py                                              drawn birds and a small network
    python examples/birds.py --cub CUB_200_2011 --backbone resnet-50      photographs and a folder of weights

`--cub` is the folder of the Caltech-UCSD Birds, `--backbone` a folder with the weights of a `transformers` backbone
such as microsoft/resnet-50. Everything is written to `birds_output`, which also caches features for later runs.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
from drawn_birds import draw_birds
from small_resnet import train_small_resnet

from neuralbasis import NeuralBasisClassifier, explain, plot, report
from neuralbasis.vision import Annotations, Backbone, ConceptExtractor, Concepts, read_cub, read_picture

N_EXAMPLES = 4  # pictures per class
THUMBNAIL = 160  # pixels


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cub", type=Path, help="the folder CUB_200_2011; by default birds are drawn")
    parser.add_argument("--backbone", help="folder of weights; by default a small network is trained")
    parser.add_argument("--output", type=Path, default=Path("birds_output"))
    parser.add_argument("--images", type=int, default=800, help="pictures to draw")
    parser.add_argument("--classes", type=int, default=10, help="species to draw")
    return parser.parse_args()


def make_once(folder: Path, make: Callable[[Path], object]) -> None:
    """Create a folder unless it exists; an interrupted run leaves only a temporary folder."""
    if not folder.exists():
        temporary = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(temporary, ignore_errors=True)
        make(temporary)
        temporary.rename(folder)


def load_annotations(options: argparse.Namespace) -> Annotations:
    """Pictures with located parts (beak, wing, crown, …) and their attributes ("striped wing")."""
    if options.cub:
        return read_cub(options.cub)
    folder = options.output / "drawn"
    make_once(folder, lambda path: draw_birds(path, options.images, options.classes, size=160))
    return read_cub(folder)


def load_backbone(options: argparse.Namespace, annotations: Annotations) -> Backbone:
    """The network that computes features on a grid of patches; the paper uses ResNet-50 at 448 × 448."""
    if options.backbone:
        return Backbone.load(options.backbone)
    folder = options.output / "small_resnet"
    make_once(folder, lambda path: train_small_resnet(annotations, path, side=128))
    return Backbone.load(folder, side=128)


def extract_concepts(options: argparse.Namespace, annotations: Annotations) -> tuple[ConceptExtractor, Concepts]:
    """Fit one linear classifier per concept at the annotated parts and apply it to all patches of all pictures.

    The largest probability over the patches is the picture's score. Held-out pictures measure each concept.
    """
    cache = options.output / "cache"
    extractor = ConceptExtractor.fit(annotations, load_backbone(options, annotations), cache=cache, verbose=True)
    extractor.save(options.output / "concepts.nbc")
    measured = sorted((row for row in extractor.trust() if row.is_measured), key=lambda row: -row.auroc)
    median = np.median([row.auroc for row in measured])
    print(
        f"{len(measured)} of {len(extractor.names)} concepts measured on held-out pictures; median AUROC {median:.3f}"
    )
    for row in (*measured[:3], *measured[-3:]):
        print(f"  {row.concept:<28}{row.auroc:.3f}  ({row.n_train} training pictures)")
    concepts = extractor.apply(annotations.images, cache=cache, verbose=True)
    print(concepts.report())
    return extractor, concepts


def fit_model(concepts: Concepts, labels: np.ndarray, is_train: np.ndarray) -> NeuralBasisClassifier:
    """Fit an additive model whose only features are the concepts."""
    model = NeuralBasisClassifier(feature_names=list(concepts.names), interactions=0, random_state=0)
    model.fit(concepts.scores[is_train], labels[is_train])
    is_test = ~is_train & concepts.is_read
    accuracy = (model.predict(concepts.scores[is_test]) == labels[is_test]).mean()
    print(f"{len(model.classes_)} species: accuracy {accuracy:.1%} on {is_test.sum()} test pictures")
    return model


def explain_species(
    model: NeuralBasisClassifier, concepts: Concepts, labels: np.ndarray
) -> list[explain.ClassExplanation]:
    """Concepts that raise the score of each class on its own pictures, and concepts that lower it on others."""
    found = []
    for label in model.classes_:
        rows = np.flatnonzero((labels == label) & concepts.is_read)
        examples = [read_picture(concepts.images[row], THUMBNAIL).pixels for row in rows[:N_EXAMPLES]]
        found.append(explain.explain_class(model, label, concepts.scores[rows], pictures=examples))
    return found


def explain_picture(
    model: NeuralBasisClassifier, extractor: ConceptExtractor, concepts: Concepts, row: int, label: str
) -> explain.PictureExplanation:
    """Contributions of a picture's concepts to its score, with a heat map of each concept."""
    path = concepts.images[row]
    heat = dict(zip(extractor.names, extractor.locate(path), strict=True))
    picture = read_picture(path, 448).pixels
    return explain.explain_picture(model, concepts.scores[[row]], picture, heat, actual=label)


def main() -> None:
    options = read_options()
    options.output.mkdir(parents=True, exist_ok=True)
    annotations = load_annotations(options)
    print(annotations)
    labels = np.array([name.replace("_", " ") for name in annotations.classes])[annotations.labels]
    extractor, concepts = extract_concepts(options, annotations)
    is_test = ~annotations.is_train & concepts.is_read
    model = fit_model(concepts, labels, annotations.is_train & concepts.is_read)

    species = explain_species(model, concepts, labels)
    print(species[0])
    plot.class_shapes(species[0], path=options.output / "class.png")

    # Two test pictures: one with a correct prediction and, if there is one, one with a wrong prediction.
    is_correct = model.predict(concepts.scores) == labels
    rows = [*np.flatnonzero(is_test & is_correct)[:1], *np.flatnonzero(is_test & ~is_correct)[:1]]
    pictures = [explain_picture(model, extractor, concepts, row, labels[row]) for row in rows]
    plot.picture(pictures[0], path=options.output / "picture.png")

    page = options.output / "birds.html"
    X, y = concepts.scores[is_test], labels[is_test]
    report.write(page, model, X, y, title="What a bird is known by", pictures=[*species, *pictures])
    model.save(options.output / "birds.nbm")
    print(f"report page: {page}; figures, concepts and the model are in the same folder")


if __name__ == "__main__":
    main()
