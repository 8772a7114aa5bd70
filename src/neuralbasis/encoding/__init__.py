"""Encoding: raw columns to positions on axes.

`axis` (knots of one column), `encoder` (all columns), `layout` (flat arrays of axes and terms for the kernels),
`guide` (tables that speed up the search for a knot), `sparse_codes` (very wide tables: the terms that a row touches).
Files larger than memory: `profile` (axes from sketches), `disk_cache` (numbers on disk, in random buckets),
`cache_folder` (locks), `loading` (rows back in memory).
"""
