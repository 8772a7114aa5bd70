"""Keeper: remembers how far a training run has come, so that a fit which was cut off can go on.

The loop tells a keeper when a run begins, after every round of batches and when it ends. `Keeper` is the one that
forgets; `checkpoint.Checkpoints` writes to disk. Runs of a fit follow one another in the same order every time, and all
that lies between them is found again from the same seed: only runs are remembered.
"""

from __future__ import annotations

from typing import Any, Protocol


class RunState(Protocol):
    """What can be remembered of a run."""

    def read(self) -> dict[str, Any]: ...
    def write(self, state: dict[str, Any], is_over: bool) -> None: ...


class Keeper:
    """Remembers nothing."""

    def choose(self, _name: str, value: Any) -> Any:
        """A choice that a fit must make once: this one, or that of the fit which goes on."""
        return value

    def check(self, _fit: dict[str, Any]) -> None:
        """Refuse to go on with another fit than the one that is described."""

    def begin(self, _state: RunState) -> bool:
        """Give a run that begins what is known of it; True if it was over."""
        return False

    def note(self, _state: RunState) -> None:
        """A round of batches is done."""

    def end(self, _state: RunState) -> None:
        """The run is over."""

    def finish(self) -> None:
        """So is the fit."""


FORGETFUL = Keeper()
