"""Training: from a table to a fitted model.

`fit` (the whole way), `tables` and `update` (what can be fitted), `defaults`, `schedule` (the stages of a fit), the
learners (`network_learner`, `step_learner`, `wide`), `shares` (what is kept), `screen`, `checkpointer`, `compile`.
"""

from __future__ import annotations

from typing import Any

from ..lazy import find_name

_MODULES = {
    "checkpointer": ["CheckpointError", "list_checkpoints"],
    "compile": ["compile_model"],
    "defaults": ["make_net", "make_plan", "make_settings"],
    "engines": ["ExactEngine", "GridEngine"],
    "history": ["History"],
    "loop": ["training_threads"],
    "members": ["Settings"],
    "network_learner": ["learn_network", "train_net"],
    "rows": ["Rows", "place_rows"],
    "shares": ["Proposal", "choose_shares"],
    "stage": ["Stage"],
    "step_learner": ["learn_steps"],
    "tables": ["FileTable", "MemoryTable", "read_in_memory"],
    "update": ["UpdateTable"],
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    return find_name(__name__, _HOME, name)
