"""Encoding: raw columns as positions on axes.

`axis` (knots of one column), `encoder` (all columns), `layout` (flat arrays of axes and terms, as the kernels read
them), `sparse_codes` (very wide tables: the terms that a row touches). Files larger than memory: `profile` (axes from
sketches), `disk_cache` (numbers on disk, in random parts), `loading` (rows back in memory).
"""
