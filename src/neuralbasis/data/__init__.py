"""Data: any source of rows as typed columns and targets.

A table in memory: `columns` (the records), `frames` (NumPy, pandas, polars, Arrow, mappings), `arrays` (one column),
`records` (rows as mappings), `text_numbers`, `numbers`, `sparse` (SciPy matrices), `target` (target, weights, given
scores). Files larger than memory: `files` (sources), `parts` (division among processes), `sketches` and `counts` (one
pass over columns and target), `memory` (limits).
"""
