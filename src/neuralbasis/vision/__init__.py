"""Concepts: pictures -> a table of things that a person can name, such as "striped wing".

    annotations = read_cub(folder)                           pictures, parts and where they are, attributes
    backbone    = Backbone.load(folder)                      picture -> features on a grid
    extractor   = ConceptExtractor.fit(annotations, backbone)
    concepts    = extractor.apply(paths)                     Concepts: images, names, scores
    heat        = extractor.locate(path, "striped wing")     where it was seen

In the order of the work: `pictures`, `annotations`, `formats`, `backbone`, `shelf` (what was computed before), `grids`
(many pictures, ahead of the network), `cells` (which cells teach which concept), `classifiers`, `knowledge` (what was
learned, and its file), `learning`, `extractor`.
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
