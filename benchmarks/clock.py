"""Timing of a call."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any


def time_once(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of one call, and what it returned."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def median_seconds(function: Callable[[], Any], n_calls: int) -> float:
    """Median of so many calls after one that does not count."""
    function()
    return statistics.median(time_once(function)[0] for _ in range(n_calls))
