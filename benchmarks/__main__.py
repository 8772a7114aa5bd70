"""Command line of the benchmarks.

    python -m benchmarks list
    python -m benchmarks run speed.predict
    python -m benchmarks run laboratory --problems small --splits 3
    python -m benchmarks run --note "idle machine" all
    python -m benchmarks report

`run NAME --help` shows the options of a benchmark. A run without options is recorded in results/; a run with options
(`--quick`, for example) is only printed, unless --out names a file. `paper`, `laboratory`, `tuning` and `measure` keep
their own records and can be resumed. `all` runs every other benchmark.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .harness import RESULTS, ROOT
from .registry import BENCHMARKS, RECORDED
from .results.jsonl import append_line
from .results.provenance import describe_origin

OUTPUTS = RESULTS / "outputs.jsonl"


def run(name: str, options: Sequence[str], note: str, out: Path | None) -> int:
    """Run one benchmark, record what it prints, and return its exit code."""
    benchmark = BENCHMARKS[name]
    command = [sys.executable, *benchmark.command, *options]
    if benchmark.keeps_records:
        return subprocess.run(command, cwd=ROOT, check=False).returncode
    out = out or (None if options else OUTPUTS)
    printed = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            printed.append(line)
    if process.returncode == 0 and out is not None:
        append_line(out, describe_output(name, options, note, "".join(printed)))
    return process.returncode


def describe_output(name: str, options: Sequence[str], note: str, output: str) -> dict[str, Any]:
    command = " ".join(["python -m benchmarks run", name, *options])
    return {"name": name, "command": command, "note": note, "output": output, **describe_origin()}


def run_all(options: Sequence[str], note: str, out: Path | None) -> int:
    failed = []
    for name in RECORDED:
        print(f"\n## {name}\n", flush=True)
        if run(name, options, note, out):
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def list_benchmarks() -> None:
    width = max(map(len, BENCHMARKS))
    for name, benchmark in BENCHMARKS.items():
        print(f"{name:{width}}  {benchmark.summary}")


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="show the names of all benchmarks")
    running = commands.add_parser("run", help="run a benchmark")
    running.add_argument("--note", default="", help="remark on the conditions of the run, kept in the record")
    running.add_argument("--out", type=Path, help="file of records; results/outputs.jsonl by default")
    running.add_argument("name", metavar="NAME", help="name of a benchmark, or all")
    running.add_argument("options", nargs=argparse.REMAINDER, help="options of the benchmark")
    commands.add_parser("report", help="write RESULTS.md and the tables in results/ from the records")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    parser = make_parser()
    given = parser.parse_args(arguments)
    if given.command == "list":
        list_benchmarks()
        return 0
    if given.command == "report":
        from .results.report import write_files

        write_files()
        return 0
    if given.name == "all":
        return run_all(given.options, given.note, given.out)
    if given.name not in BENCHMARKS:
        parser.error(f"there is no benchmark {given.name!r}; `python -m benchmarks list` shows all names")
    return run(given.name, given.options, given.note, given.out)


if __name__ == "__main__":
    sys.exit(main())
