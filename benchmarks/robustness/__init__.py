"""Robustness: hostile and damaged files in large numbers, to see that what is promised holds.

python -m benchmarks run robustness.model_files --cases 30000
python -m benchmarks run robustness.checkpoints --cases 1000
"""
