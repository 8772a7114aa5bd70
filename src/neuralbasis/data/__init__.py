"""Data: any source of rows as typed columns and targets.

A table in memory: `columns` (frames, arrays, dicts), `sparse` (SciPy matrices), `target` (target, weights, scores).
Files larger than memory: `files` (sources), `profile` (first pass: sketches and counts of columns), `disk_cache`
(second pass: numbers on disk in random parts), `loading`, `memory` (how much may be held).
"""
