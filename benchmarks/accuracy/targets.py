"""Targets: a text, and a test of our figure against a limit or against EBM's figure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """`is_met(ours, ebm)` decides; a target that compares has no verdict without EBM's figure."""

    text: str
    is_met: Callable[[float, float], bool]
    compares: bool = False

    def check(self, ours: float | None, ebm: float | None) -> bool | None:
        if ours is None or (self.compares and ebm is None):
            return None
        return self.is_met(ours, float("nan") if ebm is None else ebm)


def at_most(limit: float) -> Target:
    return Target(f"≤ {limit:,g}", lambda ours, _ebm: ours <= limit)


def at_least(limit: float) -> Target:
    return Target(f"≥ {limit:,g}", lambda ours, _ebm: ours >= limit)


def at_least_ebm(slack: float = 0.0) -> Target:
    text = "≥ EBM" if slack == 0 else f"≥ EBM − {slack:g}"
    return Target(text, lambda ours, ebm: ours >= ebm - slack, compares=True)


def at_most_part_of_ebm(parts: int) -> Target:
    return Target(f"≤ EBM / {parts}", lambda ours, ebm: ours <= ebm / parts, compares=True)


def at_most_ebm() -> Target:
    return Target("≤ EBM", lambda ours, ebm: ours <= ebm, compares=True)
