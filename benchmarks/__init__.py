"""Benchmarks of neuralbasis: accuracy, time and memory beside EBM and the published figures.

`python -m benchmarks.run` prints all tables; each script also runs alone (`python -m benchmarks.speed.predict`), and
each has `--quick`, which uses tiny generated tables and says nothing about speed or accuracy. Not in the wheel.
"""
