"""Encoding: raw columns to positions on axes.

`axis` (knots of one column), `encoder` (all columns), `layout` (flat arrays of axes and terms for the kernels),
`sparse_codes` (very wide tables: the terms that a row touches). Files larger than memory: `profile` (axes from
sketches), `disk_cache` (numbers on disk, in random buckets).
"""

from __future__ import annotations

from typing import Any

from ..lazy import find_name


def __getattr__(name: str) -> Any:  # lazy: files need pyarrow, which a model in use does not
    home = dict.fromkeys(("Axis", "continuous_axis", "level_axis"), "axis")
    home |= dict.fromkeys(("Encoder", "settle_texts"), "encoder")
    home |= dict.fromkeys(("Anchor", "Layout", "flatten", "lay_out", "line_up", "list_touches"), "layout")
    home |= dict.fromkeys(("Profile", "ProfileOptions", "choose_roles", "make_profile"), "profile")
    home |= dict.fromkeys(("Cache", "make_cache", "remove_cache"), "disk_cache")
    home |= dict.fromkeys(("CodeFinder", "SparseCodes", "coarsen_axis", "pool_axis"), "sparse_codes")
    return find_name(__name__, home, name)
