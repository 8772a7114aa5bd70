"""Training: where bases are evaluated (points), how rows read the table (rows, lookup), penalties, and the loop."""

from .loop import Settings, train, training_threads
from .points import ExactEngine, GridEngine
from .rows import Rows, place_rows
from .stage import Stage

__all__ = ["ExactEngine", "GridEngine", "Rows", "Settings", "Stage", "place_rows", "train", "training_threads"]
