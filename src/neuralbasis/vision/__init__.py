"""Vision: pictures -> a table of named concepts such as "striped wing", and object detection.

    annotations = read_cub(folder)                           pictures, located parts, attributes
    backbone    = Backbone.load(folder)                      picture -> features on a grid of patches
    extractor   = ConceptExtractor.fit(annotations, backbone)
    concepts    = extractor.apply(paths)                     Concepts: images, names, scores
    heat        = extractor.locate(path, "striped wing")     probability at each patch

Modules in the order of the computation: `pictures`, `annotations`, `formats`, `backbone`, `feature_store` (cache on
disk), `feature_grids` (features of many pictures), `patches` (training data), `classifiers`, `concept_file`,
`learning`, `extractor`. Detection: `boxes`, `box_files`, `coco`, `detection`.
"""

from __future__ import annotations

from typing import Any

from ..lazy import find_name

_HOME = {
    "Annotations": "annotations",
    "Backbone": "backbone",
    "ConceptExtractor": "extractor",
    "Concepts": "extractor",
    "PictureError": "pictures",
    "list_pictures": "pictures",
    "load": "extractor",
    "read_annotations": "formats",
    "read_cub": "formats",
    "read_csv": "formats",
    "read_folder": "formats",
    "read_inaturalist": "formats",
    "read_picture": "pictures",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    return find_name(__name__, _HOME, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
