"""List the paper's data sets: available or missing, and what to do; `--fetch higgs year` downloads public ones."""

from __future__ import annotations

import argparse
import sys

from ...results.markdown import print_table
from . import SETS, Source, fetch_files
from .splits import write


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.datasets.paper", description=__doc__)
    parser.add_argument("--fetch", nargs="+", choices=SETS, metavar="KEY", default=[], help=f"any of {', '.join(SETS)}")
    failed = [key for key in parser.parse_args().fetch if not try_to_fetch(SETS[key])]
    print_table(("set", "key", "rows", "features", "state"), [write_row(source) for source in SETS.values()])
    notes = [write_note(source) for source in SETS.values()]
    print("", *filter(None, notes), sep="\n")
    sys.exit(1 if failed else 0)


def try_to_fetch(source: Source) -> bool:
    try:
        fetch_files(source)
    except OSError as error:
        print(f"{source.title}: {error}\n")
        return False
    return True


def write_row(source: Source) -> tuple[str, ...]:
    state = "missing" if source.find_missing() else "drawn" if source.is_drawn else "available"
    return source.title, source.key, write(source.sizes.count_rows()), f"{source.sizes.n_features:,}", state


def write_note(source: Source) -> str:
    return source.find_missing() or (f"{source.title}: {source.drawn}" if source.is_drawn else "")


if __name__ == "__main__":
    main()
