"""Vision: pictures -> a table of named concepts such as "striped wing", and object detection.

Modules in the order of the computation: `pictures`, `annotations`, `formats`, `backbone`, `features` (of many pictures,
with a cache on disk), `classifiers`, `concept_file`, `learning`, `extractor`. Detection: `boxes`, `detection`.
"""

from __future__ import annotations

from typing import Any

from ..lazy import find_name

_MODULES = {
    "annotations": ("Annotations", "Locations"),
    "backbone": ("Backbone",),
    "extractor": ("ConceptExtractor", "Concepts", "load"),
    "formats": ("read_annotations", "read_cub", "read_csv", "read_folder", "read_inaturalist"),
    "pictures": ("PictureError", "list_pictures", "read_picture"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    return find_name(__name__, _HOME, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
