"""Data: any source of rows as typed columns and targets.

A table in memory: `columns` (frames, arrays, dicts), `sparse` (SciPy matrices), `numbers`, `target` (target, weights,
given scores). Files larger than memory: `files` (sources), `sketches` and `counts` (one pass over columns and target),
`writers` (what is put on disk), `memory` (how much may be held).
"""
