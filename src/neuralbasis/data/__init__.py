"""Data: any source of rows as typed columns and targets.

A table in memory: `columns` (the records), `frames` (NumPy, pandas, polars, Arrow, mappings), `records` (rows as
mappings), `text_numbers`, `sparse` (SciPy matrices), `target` (target, weights, given scores). Files larger than
memory: `files` (sources), `parts` (division among processes), `sketches` and `counts` (one pass over columns and
target), `memory` (limits).
"""

from __future__ import annotations

from typing import Any

from ..lazy import find_name


def __getattr__(name: str) -> Any:  # lazy: files need pyarrow, which a model in use does not
    home = {"Column": "columns", "Columns": "columns", "SparseMatrix": "sparse", "Sample": "target"}
    home |= {"read_columns": "frames", "find_rows": "records", "read_rows": "records"}
    home |= dict.fromkeys(("Source", "open_files", "open_source", "read_column"), "files")
    home |= dict.fromkeys(("check_init_score", "check_weights", "hold_out", "tidy_rows"), "target")
    home |= dict.fromkeys(("LevelSketch", "NumberSketch", "TextSketch"), "sketches")
    home |= dict.fromkeys(("Load", "count_rows_in_memory", "divide_rows", "read_limit"), "memory")
    home |= dict.fromkeys(("assign_parts", "gather_results", "read_pieces"), "parts")
    return find_name(__name__, home, name)
