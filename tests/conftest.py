"""What several test files share."""

import pytest

import neuralbasis.fitting
from neuralbasis.trainer import Trainer


@pytest.fixture
def trainers(monkeypatch):
    """The Trainer of every fit."""
    found = []

    def make_trainer(*arguments):
        found.append(Trainer(*arguments))
        return found[-1]

    monkeypatch.setattr(neuralbasis.fitting, "Trainer", make_trainer)
    return found
