"""Seconds to import neuralbasis in fresh processes, and whether torch is imported.

python -m benchmarks run speed.import_time
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

from ..results.markdown import format_number, print_table

STATEMENTS = {
    "import neuralbasis": "import neuralbasis",
    "the fitted model's class": "from neuralbasis import AdditiveModel",
    "the estimators": "from neuralbasis import NeuralBasisRegressor",
}
CODE = """
import sys, time
start = time.perf_counter()
{statement}
print(time.perf_counter() - start, "torch" in sys.modules)
"""


def time_import(statement: str) -> tuple[float, bool]:
    """Seconds in a fresh process, and whether torch was imported."""
    command = [sys.executable, "-c", CODE.format(statement=statement)]
    seconds, has_torch = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    return float(seconds), has_torch == "True"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=7, help="number of processes for the median")
    parser.add_argument("--quick", action="store_true", help="one process each")
    given = parser.parse_args()
    rows = []
    for name, statement in STATEMENTS.items():
        found = [time_import(statement) for _ in range(1 if given.quick else given.processes)]
        seconds = statistics.median(seconds for seconds, _ in found)
        rows.append([name, format_number(seconds), "yes" if found[0][1] else "no"])
    print_table(["in a fresh process", "seconds", "imports torch"], rows)


if __name__ == "__main__":
    main()
