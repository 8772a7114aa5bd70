"""Benchmarks of neuralbasis: accuracy, time, memory and robustness, next to other learners and published figures.

    python -m benchmarks list                       # names of all benchmarks
    python -m benchmarks run speed.predict          # run one and record what it prints
    python -m benchmarks report                     # write RESULTS.md from the records

Folders: `paper` (the paper's tables), `accuracy`, `speed`, `robustness`, `datasets`, `baselines` (learners), `results`
(records and generated tables). `--quick` uses tiny generated tables; its figures are meaningless. Not in the wheel.
"""
