"""Run the other benchmarks, each in a process of its own, and keep what they print as JSON lines.

    python -m benchmarks.record predict epoch --note "an idle machine"

Without names all of them run. A line of `records.jsonl` is one output with its command, date, machine, versions and
commit; `benchmarks.report` shows the latest of each name. A note stands above the output there.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

from .journal import append_line
from .measure import ROOT
from .origin import describe_origin

LINES = Path(__file__).resolve().parent / "records.jsonl"
# name -> module and its arguments, title
BENCHMARKS = {
    "main_effects": ("benchmarks.accuracy.main_effects", "Main effects: accuracy, time and memory"),
    "main_effects_fresh": (
        "benchmarks.accuracy.main_effects --only ca,heloc,fraud,cancer --first-split 100 --fraud-splits 1",
        "Main effects on other splits",
    ),
    "interactions": ("benchmarks.accuracy.interactions", "Pairs: accuracy, time and memory"),
    "covertype_pairs": (
        "benchmarks.accuracy.covertype --terms pairs --set outer_bags=2 max_steps=3000 max_interaction_bins=49 "
        "hidden=(128,128,64) n_interaction_bases=64",
        "All pairs of CoverType",
    ),
    "covertype_triples": ("benchmarks.accuracy.covertype --terms triples", "Triples of CoverType"),
    "newsgroups": ("benchmarks.accuracy.newsgroups", "20 Newsgroups: a sparse and wide table"),
    "planted": ("benchmarks.accuracy.planted --ebm-mains", "Planted pairs"),
    "screen": ("benchmarks.speed.screen", "Screening of pairs"),
    "epoch": ("benchmarks.speed.epoch --batch 8192", "One epoch of training"),
    "epoch_small": ("benchmarks.speed.epoch", "One epoch of training, batch 1,024"),
    "predict": ("benchmarks.speed.predict", "Prediction"),
    "predict_pairs": ("benchmarks.speed.predict --pairs 10", "Prediction with pairs"),
    "predict_mixed": ("benchmarks.speed.predict --mixed", "Prediction from a pandas frame with text"),
    "start": ("benchmarks.speed.start", "Start"),
    "serve": ("benchmarks.speed.serve", "Serving"),
    "formats": ("benchmarks.speed.formats", "Formats: size and speed"),
    "page": ("benchmarks.speed.page", "The page of a model"),
    "figures": ("benchmarks.speed.figures", "Figures"),
    "pictures": ("benchmarks.speed.pictures", "Pictures to concepts"),
    "stability": ("benchmarks.accuracy.stability", "Stability of the shapes by the number of members"),
    "command": ("benchmarks.speed.command", "Command line over a large CSV"),
    "growth": ("benchmarks.speed.growth", "Growth with rows and columns"),
    "sparse_growth": ("benchmarks.speed.sparse_growth", "Growth with stored entries and with columns"),
    "wide": ("benchmarks.speed.wide", "Far more columns than rows"),
    "objects": ("benchmarks.speed.objects", "A sparse table with a hundred thousand pairs"),
    "encode": ("benchmarks.speed.encode", "The passes over a table on disk"),
    "beyond": ("benchmarks.speed.beyond --in-memory", "A table beyond memory"),
    "beyond_large": ("benchmarks.speed.beyond --rows 50_000_000", "Fifty million rows"),
    "processes": ("benchmarks.speed.beyond --rows 2_000_000 --processes 1 2 4", "Several processes"),
    "scaling": ("benchmarks.scaling", "What a fit beyond memory costs"),
    "update": ("benchmarks.speed.update", "An update against a fit anew"),
    "kills": ("benchmarks.drills.kill --kills 30", "Fits that are killed"),
    "faults": ("benchmarks.drills.faults", "Fits that meet faults"),
    "concepts": ("benchmarks.speed.concepts cub", "Concepts of birds, at CUB's size"),
    "concepts_pairs": ("benchmarks.speed.concepts pairs", "Concepts of birds, at CUB's size, with all pairs"),
    "concepts_many": ("benchmarks.speed.concepts birds", "Concepts of birds, at iNaturalist's size"),
    "detection": ("benchmarks.speed.detection", "Boxes with a hundred thousand pairs, and mean average precision"),
}


def record(name: str, quick: bool, note: str = "") -> dict[str, Any]:
    """Print what a benchmark prints, and return its line; `failed` has the exit code of one that failed."""
    call, title = BENCHMARKS[name]
    print(f"\n## {title}\n\n`python -m {call}`\n", flush=True)
    command = [sys.executable, "-m", *call.split(), *(["--quick"] if quick else [])]
    printed = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            printed.append(line)
    fields = {"name": name, "title": title, "command": f"python -m {call}", "note": note, "output": "".join(printed)}
    if process.returncode != 0:
        print(f"failed with exit code {process.returncode}")
        fields["failed"] = process.returncode
    return fields | describe_origin()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; all if not given")
    parser.add_argument("--note", default="", help="what a reader of the figures should know")
    parser.add_argument("--out", type=Path, help=f"file of lines; {LINES.name} beside the benchmarks if not given")
    parser.add_argument("--quick", action="store_true", help="tiny generated tables, seconds instead of hours")
    given = parser.parse_args()
    if unknown := sorted(set(given.names) - set(BENCHMARKS)):
        parser.error(f"there is no benchmark {', '.join(unknown)}; they are {', '.join(BENCHMARKS)}")
    if given.quick:
        print("A quick run on tiny generated tables: the figures and verdicts mean nothing.")
    out, failed = given.out or (None if given.quick else LINES), False
    for name in given.names or BENCHMARKS:
        line = record(name, given.quick, given.note)
        failed |= "failed" in line
        if out is not None and "failed" not in line:
            append_line(out, line)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
