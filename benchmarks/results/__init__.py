"""Records of benchmark runs (`*.jsonl`), tables generated from them (`*.md`), and the code that writes both.

paper.jsonl        cells of the paper's tables           `python -m benchmarks run paper`
laboratory.jsonl   one learner on one split              `python -m benchmarks run laboratory`
tuning.jsonl       gains of a search                     `python -m benchmarks run tuning`
outputs.jsonl      printed tables of all others          `python -m benchmarks run NAME`
"""
