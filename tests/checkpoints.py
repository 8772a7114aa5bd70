"""Checkpoints of a fit, found by their file names."""

from __future__ import annotations

from pathlib import Path


def list_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a folder, the oldest first."""
    return sorted(folder.glob("fit-*.checkpoint"))
