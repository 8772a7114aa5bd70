"""Robustness: altered files, and what reads them."""
