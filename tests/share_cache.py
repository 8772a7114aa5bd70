"""Fits to files in a separate process, for tests of cache folders that several processes share.

`python -m tests.share_cache FILES CACHE_DIR KEEP SEED...` fits once per seed and prints the sum of the predictions and
the number of caches that were written.
"""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.robustness.fit_process import small_memory
from neuralbasis import NeuralBasisRegressor
from neuralbasis.encoding import disk_cache
from tests.laws.fit_together import QUICK, draw


def main(files: str, folder: str, keep: str, *seeds: str) -> None:
    written, write = [], disk_cache.write_cache
    disk_cache.write_cache = lambda *given: written.append(given) or write(*given)
    X, _ = draw("regression", 500)
    for seed in map(int, seeds):
        written.clear()
        given = QUICK | {
            "random_state": seed,
            "interactions": 0,
            "max_steps": 8,
            "boosted_steps": False,
            "outer_bags": 2,
        }
        model = NeuralBasisRegressor(
            **given, storage__memory_limit=450_000, storage__cache_dir=folder, storage__keep_cache=keep == "keep"
        )
        with small_memory():
            model.fit(files, "target")
        print(float(np.sum(model.predict(X))), len(written), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
