"""All benchmarks in turn, each in a process of its own; prints every table.

python -m benchmarks.run --only start predict --out results.md
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import TextIO

from .measure import ROOT
from .versions import read_versions

# name -> module and its arguments, title
BENCHMARKS = {
    "main_effects": ("benchmarks.accuracy.main_effects", "Main effects: accuracy, time and memory"),
    "interactions": ("benchmarks.accuracy.interactions", "Pairs: accuracy, time and memory"),
    "covertype_pairs": (
        "benchmarks.accuracy.covertype --terms pairs --set outer_bags=2 max_steps=3000 max_interaction_bins=49 "
        "hidden=(128,128,64) n_interaction_bases=64",
        "All pairs of CoverType",
    ),
    "covertype_triples": ("benchmarks.accuracy.covertype --terms triples", "Triples of CoverType"),
    "newsgroups": ("benchmarks.accuracy.newsgroups", "20 Newsgroups: a sparse and wide table"),
    "planted": ("benchmarks.accuracy.planted --ebm-mains", "Planted pairs"),
    "laboratory": ("benchmarks.accuracy.laboratory", "Learners beside each other on many problems"),
    "screen": ("benchmarks.speed.screen", "Screening of pairs"),
    "epoch": ("benchmarks.speed.epoch", "One epoch of training"),
    "predict": ("benchmarks.speed.predict", "Prediction"),
    "predict_pairs": ("benchmarks.speed.predict --pairs 10", "Prediction with pairs"),
    "start": ("benchmarks.speed.start", "Start"),
    "serve": ("benchmarks.speed.serve", "Serving"),
    "formats": ("benchmarks.speed.formats", "Formats: size and speed"),
    "page": ("benchmarks.speed.page", "The page of a model"),
    "figures": ("benchmarks.speed.figures", "Figures"),
    "stability": ("benchmarks.accuracy.stability", "Stability of the shapes"),
    "command": ("benchmarks.speed.command", "Command line over a large CSV"),
    "growth": ("benchmarks.speed.growth", "Growth with rows and columns"),
    "sparse_growth": ("benchmarks.speed.sparse_growth", "Growth with stored entries and with columns"),
    "objects": ("benchmarks.speed.objects", "A sparse table with a hundred thousand pairs"),
}


def say(text: str, file: TextIO | None) -> None:
    print(text, end="", flush=True)
    if file is not None:
        file.write(text)
        file.flush()


def run(name: str, quick: bool, file: TextIO | None) -> bool:
    """Print a heading and the output of one benchmark; False if it failed."""
    call, title = BENCHMARKS[name]
    say(f"\n## {title}\n\n`python -m {call}`\n\n", file)
    command = [sys.executable, "-m", *call.split(), *(["--quick"] if quick else [])]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            say(line, file)
    if process.returncode != 0:
        say(f"failed with exit code {process.returncode}\n", file)
    return process.returncode == 0


def describe_machine() -> str:
    versions = ", ".join(f"{name} {version}" for name, version in read_versions().items())
    return f"# Benchmarks\n\n{os.cpu_count()} cores; {versions}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(BENCHMARKS), default=list(BENCHMARKS), metavar="NAME")
    parser.add_argument("--out", type=Path, help="also write the tables to this file")
    parser.add_argument("--quick", action="store_true", help="tiny generated tables, seconds instead of hours")
    given = parser.parse_args()
    file = given.out.open("w", encoding="utf-8") if given.out else None
    try:
        say(describe_machine(), file)
        if given.quick:
            say("\nA quick run on tiny generated tables: the figures and verdicts mean nothing.\n", file)
        passed = [run(name, given.quick, file) for name in given.only]
    finally:
        if file is not None:
            file.close()
    sys.exit(0 if all(passed) else 1)


if __name__ == "__main__":
    main()
