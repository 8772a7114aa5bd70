"""Run: what every step of a fit needs beside the data."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..config import FitConfig
from ..distributed.process_group import SINGLE_PROCESS, ProcessGroup
from .checkpointer import NO_CHECKPOINTS, Checkpointer
from .history import History


@dataclass(frozen=True, eq=False)
class Run:
    """What every step of a fit needs: parameters, random numbers, processes, checkpoints, and the history it writes."""

    config: FitConfig
    rng: np.random.Generator
    group: ProcessGroup = SINGLE_PROCESS
    checkpointer: Checkpointer = NO_CHECKPOINTS
    history: History = field(default_factory=History)
