"""Training: where bases are evaluated (points), how rows read the table (rows, lookup), penalties, the processes
(group), batches (feed), the members on their threads (crew), the loop and who remembers it (keeper), and the free parts
that are found after it (refine, blend, cuts)."""

from .blend import blend
from .boosting import FEW_ROWS
from .crew import Settings
from .cuts import cut, cut_weak, keep_strongest
from .factored import FactoredCrew, FactoredNet, Regime, count_mass
from .feed import Feed, Pool
from .group import ALONE, Group, find_group
from .keeper import FORGETFUL, Keeper, RunState, StateError, check_form
from .loop import run, train, training_threads
from .penalty import CURVATURE
from .points import ExactEngine, GridEngine
from .refine import refine
from .rows import Rows, place_rows
from .stage import Stage

__all__ = [
    "ALONE", "CURVATURE", "FEW_ROWS", "FORGETFUL", "ExactEngine", "FactoredCrew", "FactoredNet", "Feed", "GridEngine",
    "Group", "Keeper", "Pool", "Regime", "Rows", "RunState", "Settings", "Stage", "StateError", "blend", "check_form",
    "count_mass", "cut", "cut_weak", "find_group", "keep_strongest", "place_rows", "refine", "run", "train",
    "training_threads",
]  # fmt: skip
