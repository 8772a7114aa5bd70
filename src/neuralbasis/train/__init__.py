"""Training: where bases are evaluated (points), how rows read the table (rows, lookup), penalties, the members on
their threads (crew), the loop, and what is refined after it."""

from .crew import Settings
from .cuts import cut
from .factored import FactoredCrew, FactoredNet, Pace, count_mass
from .loop import run, train, training_threads
from .penalty import CURVATURE
from .points import ExactEngine, GridEngine
from .refine import refine
from .rows import Rows, place_rows
from .stage import Stage

__all__ = [
    "CURVATURE", "ExactEngine", "FactoredCrew", "FactoredNet", "GridEngine", "Pace", "Rows", "Settings", "Stage",
    "count_mass", "cut", "place_rows", "refine", "run", "train", "training_threads",
]  # fmt: skip
