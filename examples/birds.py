"""Birds: from a folder of pictures to named concepts, a model on them, and a page that shows what it has learnt.

    python examples/birds.py                                              drawn birds, and a small network for them
    python examples/birds.py --cub CUB_200_2011 --backbone resnet-50      the photographs, and a folder of weights

The two paths are all that changes: the folder of the Caltech-UCSD Birds, and a folder with the weights of a
backbone of `transformers`, such as microsoft/resnet-50. Everything is written to `birds_output`; what was computed once
is kept there, so that a second run is quick.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
from drawn_birds import draw_birds
from small_resnet import teach

from neuralbasis import NeuralBasisClassifier, explain, plot, report
from neuralbasis.vision import Annotations, Backbone, ConceptExtractor, Concepts, read_cub, read_picture

N_EXAMPLES = 4  # pictures of a class
THUMBNAIL = 160  # pixels


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cub", type=Path, help="the folder CUB_200_2011; without it birds are drawn")
    parser.add_argument("--backbone", help="folder of a network; without it a small one is taught")
    parser.add_argument("--output", type=Path, default=Path("birds_output"))
    parser.add_argument("--images", type=int, default=800, help="pictures to draw")
    parser.add_argument("--classes", type=int, default=10, help="species to draw")
    return parser.parse_args()


# A folder that is there is whole: a run that was stopped leaves nothing but its draft.
def make_once(folder: Path, make: Callable[[Path], object]) -> None:
    if not folder.exists():
        draft = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(draft, ignore_errors=True)
        make(draft)
        draft.rename(folder)


# Pictures come with the places of their parts (beak, wing, crown, …) and what people said of them ("striped wing").
def find_pictures(options: argparse.Namespace) -> Annotations:
    if options.cub:
        return read_cub(options.cub)
    folder = options.output / "drawn"
    make_once(folder, lambda draft: draw_birds(draft, options.images, options.classes, size=160))
    return read_cub(folder)


# A network turns a picture into features on a grid. The paper's is ResNet-50 at 448 × 448.
def find_backbone(options: argparse.Namespace, annotations: Annotations) -> Backbone:
    if options.backbone:
        return Backbone.load(options.backbone)
    folder = options.output / "small_resnet"
    make_once(folder, lambda draft: teach(annotations, draft, side=128))
    return Backbone.load(folder, side=128)


# One linear classifier a concept learns at the annotated parts. Applied to every cell of a picture, its largest answer
# is the picture's score: the probability that it shows the concept. Pictures held out tell how far it can be trusted.
def find_concepts(options: argparse.Namespace, annotations: Annotations) -> tuple[ConceptExtractor, Concepts]:
    cache = options.output / "cache"
    extractor = ConceptExtractor.fit(annotations, find_backbone(options, annotations), cache=cache, verbose=True)
    extractor.save(options.output / "concepts.nbc")
    trusted = sorted((row for row in extractor.trust() if row.is_measured), key=lambda row: -row.auroc)
    median = np.median([row.auroc for row in trusted])
    print(f"{len(trusted)} of {len(extractor.names)} concepts measured on pictures held out; median AUROC {median:.3f}")
    for row in (*trusted[:3], *trusted[-3:]):
        print(f"  {row.concept:<28}{row.auroc:.3f}  ({row.n_train} pictures to learn from)")
    concepts = extractor.apply(annotations.images, cache=cache, verbose=True)
    print(concepts.report())
    return extractor, concepts


# The model sees nothing but the concepts: every reason it has can be named.
def fit_model(concepts: Concepts, labels: np.ndarray, is_train: np.ndarray) -> NeuralBasisClassifier:
    model = NeuralBasisClassifier(feature_names=list(concepts.names), interactions=0, random_state=0)
    model.fit(concepts.scores[is_train], labels[is_train])
    is_test = ~is_train & concepts.is_read
    accuracy = (model.predict(concepts.scores[is_test]) == labels[is_test]).mean()
    print(f"{len(model.classes_)} species: {accuracy:.1%} of {is_test.sum()} test pictures right")
    return model


# A class: what raises its score on its own pictures, and what turns other birds away from it.
def explain_species(
    model: NeuralBasisClassifier, concepts: Concepts, labels: np.ndarray
) -> list[explain.ClassExplanation]:
    found = []
    for label in model.classes_:
        rows = np.flatnonzero((labels == label) & concepts.is_read)
        examples = [read_picture(concepts.images[row], THUMBNAIL).pixels for row in rows[:N_EXAMPLES]]
        found.append(explain.explain_class(model, label, concepts.scores[rows], pictures=examples))
    return found


# A picture: its concepts from the intercept to the score of the species, and where in the picture each was seen.
def explain_one(
    model: NeuralBasisClassifier, extractor: ConceptExtractor, concepts: Concepts, row: int, label: str
) -> explain.PictureExplanation:
    path = concepts.images[row]
    heat = dict(zip(extractor.names, extractor.locate(path), strict=True))
    picture = read_picture(path, 448).pixels
    return explain.explain_picture(model, concepts.scores[[row]], picture, heat, actual=label)


def main() -> None:
    options = read_options()
    options.output.mkdir(parents=True, exist_ok=True)
    annotations = find_pictures(options)
    print(annotations)
    labels = np.array([name.replace("_", " ") for name in annotations.classes])[annotations.labels]
    extractor, concepts = find_concepts(options, annotations)
    is_test = ~annotations.is_train & concepts.is_read
    model = fit_model(concepts, labels, annotations.is_train & concepts.is_read)

    species = explain_species(model, concepts, labels)
    print(species[0])
    plot.class_shapes(species[0], path=options.output / "class.png")

    # Two pictures that the model has not seen: one that it gets right, and, if there is one, one that it gets wrong.
    is_right = model.predict(concepts.scores) == labels
    rows = [*np.flatnonzero(is_test & is_right)[:1], *np.flatnonzero(is_test & ~is_right)[:1]]
    seen = [explain_one(model, extractor, concepts, row, labels[row]) for row in rows]
    plot.picture(seen[0], path=options.output / "picture.png")

    tested = concepts.scores[is_test], labels[is_test]
    page = options.output / "birds.html"
    report.write(page, model, *tested, title="What a bird is known by", pictures=[*species, *seen])
    model.save(options.output / "birds.nbm")
    print(f"the page, open it in a browser: {page}; figures, concepts and the model beside it")


if __name__ == "__main__":
    main()
