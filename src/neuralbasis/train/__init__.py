"""Training: where bases are evaluated (points), how rows read the table (lookup), and the loop (loop)."""

from .loop import Settings, place_rows, train, training_threads
from .points import ExactEngine, GridEngine

__all__ = ["ExactEngine", "GridEngine", "Settings", "place_rows", "train", "training_threads"]
