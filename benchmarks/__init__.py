"""Benchmarks of neuralbasis: accuracy, time and memory beside EBM and the published figures.

`python -m benchmarks.run` does the paper's experiments, `python -m benchmarks.record` all others; each script also runs
alone (`python -m benchmarks.speed.predict`). `python -m benchmarks.report` writes RESULTS.md from the lines they leave.
All that measure have `--quick`, which uses tiny generated tables and says nothing about speed or accuracy. Not in the
wheel.
"""
