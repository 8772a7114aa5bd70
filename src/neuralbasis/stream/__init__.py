"""Tables beyond memory: a source is surveyed in one pass, dealt into a cache on disk in a second, then read in pools.

source (anything that can be read again) -> survey (axes) -> cache (numbers, in random buckets) -> pools of rows
"""
