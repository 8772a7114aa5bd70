"""Compiled inner loops, one file per use; none imports torch.

Loops release the GIL and work on a range of rows or terms, first … last - 1, which plain threads share (`threads`).
They write to the arrays that they are given and return -1, unless their docstring says otherwise. "Stored" in a name
means sparse rows. A loop that calls one of another file is compiled together with it: after a change of the inner loop,
delete the caches of both files.
"""

from .boosting import cut_columns, cut_pairs
from .compiled import BLOCK, NUMBA
from .lookup import gather_rows, gather_stored, locate_stored, scatter_rows, scatter_stored, take_rows
from .optimizer import measure_roughness, pull_bends, pull_edges, step_adam
from .predict import locate_rows, narrow_rows, pick_classes, score_few_rows, score_rows
from .reading import digest_rows, digest_stored, thin_points
from .screening import N_GROUPS, count_cells, find_view, weigh_columns
from .sparse import (
    add_entries,
    add_sorted_entries,
    blend_bases,
    count_entries,
    list_entries,
    pull_bases,
    shrink_terms,
    sort_entries,
    step_terms,
)
from .threads import FEW_ROWS, MIN_ROWS, count_threads, share_rows, share_work

__all__ = [
    "BLOCK", "FEW_ROWS", "MIN_ROWS", "NUMBA", "N_GROUPS", "add_entries", "add_sorted_entries", "blend_bases",
    "count_cells", "count_entries", "count_threads", "cut_columns", "cut_pairs", "digest_rows", "digest_stored",
    "find_view", "gather_rows", "gather_stored", "list_entries", "locate_rows", "locate_stored",
    "measure_roughness", "narrow_rows", "pick_classes", "pull_bases", "pull_bends", "pull_edges", "scatter_rows",
    "scatter_stored", "score_few_rows", "score_rows", "share_rows", "share_work", "shrink_terms", "sort_entries",
    "step_adam", "step_terms", "take_rows", "thin_points", "weigh_columns",
]  # fmt: skip
