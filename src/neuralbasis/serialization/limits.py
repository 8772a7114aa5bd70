"""Size limits of a model file, checked before training, when a file is written and when it is read.

The limit of the whole file, `MAX_BYTES`, belongs to `archive`.
"""

from __future__ import annotations

MAX_DOCUMENT = 1 << 26  # bytes of the JSON entry
MAX_VALUES = 4_000_000  # approximate number of values in it
MAX_DIGITS = 20  # of an integer in it
MAX_COLUMNS = 1 << 20
MAX_KNOTS = 1 << 22  # of one axis: positions above 2^24 are not exact in single precision
MAX_TERMS = 1 << 21  # stored as factors; MAX_VALUES limits the terms stored as tables
MAX_ORDER = 6  # a row reads 2^order cells of a term
MAX_TABLE = 1 << 26  # numbers in the full table of a term that is stored as factors
MAX_BASES = 10_000
MAX_LABELS = 1 << 24  # characters of all class labels, each as long as the longest
MAX_SCORE = 1e200  # no sum of scores and no product with a weight overflows
MAX_WEIGHT = 1e100
MAX_BASE, MAX_COEFFICIENT = 1e9, 1e25  # a sum of MAX_BASES products of the two is finite in single precision
