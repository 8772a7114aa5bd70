"""Robustness: killed fits, failing disks, and large numbers of damaged or hostile files."""
