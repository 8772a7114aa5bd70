"""Compiled inner loops, one file per use; none imports torch.

Loops release the GIL and work on a range of rows or terms, first … last - 1, which plain threads share (`threads`).
They write to the arrays that they are given and return -1, unless their docstring states otherwise. "Stored" in a
name means sparse rows. A loop that calls one of another file is compiled together with it: after a change of the inner
loop, delete the caches of both files.
"""
# ruff: noqa: F401

from .boosting import cut_columns, cut_pairs
from .compiled import BLOCK, NUMBA
from .lookup import gather_rows, gather_stored, locate_stored, scatter_rows, scatter_stored, take_rows
from .optimizer import measure_roughness, pull_bends, pull_edges, step_adam
from .predict import locate_rows, narrow_rows, pick_classes, score_few_rows, score_rows
from .present import contribute_present, mix_present, shrink_rows, step_present
from .reading import digest_rows, digest_stored, thin_points
from .screening import N_GROUPS, count_cells, find_view, weigh_columns
from .sparse import (
    add_entries,
    add_sorted_entries,
    blend_bases,
    list_entries,
    pull_bases,
    shrink_terms,
    sort_entries,
    step_terms,
)
from .threads import FEW_ROWS, MIN_ROWS, count_threads, share_rows, share_work
