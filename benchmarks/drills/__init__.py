"""Drills: fits that are killed, and disks and files that fail, to see that what is promised holds.

python -m benchmarks.drills.kill --kills 30
python -m benchmarks.drills.faults
"""
