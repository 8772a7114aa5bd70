"""Robustness: hostile and damaged input in large numbers, to see that what is promised holds.

python -m benchmarks.robustness.model_files --cases 30000
"""
