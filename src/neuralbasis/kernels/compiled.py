"""The home of numba: `njit`, which leaves functions as they are where numba is absent.

`NUMBA` is then False, and the NumPy path of the model predicts instead; the loops would run as slow Python.
"""

from __future__ import annotations

import os

BLOCK = 1024  # rows worked on at a time: positions of a block stay in the cache
NUMBA = os.environ.get("NEURALBASIS_NUMBA", "1") != "0"
if NUMBA:
    try:
        from numba import njit
    except ImportError:  # pragma: no cover - exercised in a subprocess
        NUMBA = False

if not NUMBA:

    def njit(*_args, **_options):
        return lambda function: function
