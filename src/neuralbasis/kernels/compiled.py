"""The only import of numba: `njit`, which returns functions unchanged if numba is not installed.

`NUMBA` is then False and models predict with NumPy, because the loops would run as slow Python. Set the environment
variable NEURALBASIS_NUMBA=0 to disable numba.
"""

from __future__ import annotations

import os

BLOCK = 1024  # rows at a time: the positions of a block stay in the cache
NUMBA = os.environ.get("NEURALBASIS_NUMBA", "1") != "0"
if NUMBA:
    try:
        from numba import njit
    except ImportError:  # pragma: no cover - exercised in a subprocess
        NUMBA = False

if not NUMBA:

    def njit(*_args, **_options):
        return lambda function: function
