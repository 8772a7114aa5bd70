"""What several test files share."""

import os
from types import SimpleNamespace

import pytest
from hypothesis import settings

from neuralbasis.training import schedule
from tests.browser import Browser

# The same commit gives the same examples; HYPOTHESIS_PROFILE=random draws others.
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("random")
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# Slow tests, left out by `make test-fast`: real processes, browsers, networks and benchmark scripts.
SLOW = (
    "benchmarks/tests", "examples/tests", "tests/cli", "tests/distributed", "tests/export", "tests/laws",
    "tests/packaging", "tests/report", "tests/tuning", "tests/vision", "tests/test_estimators.py",
    "tests/test_readme.py", "tests/training/test_checkpoints.py", "tests/training/test_learning.py",
    "tests/training/test_schedule.py", "tests/training/test_tables.py", "tests/training/test_update.py",
    "tests/training/test_wide.py",
)  # fmt: skip


def pytest_collection_modifyitems(config, items):
    for item in items:
        path = item.path.relative_to(config.rootpath).as_posix()
        if path.startswith(SLOW):
            item.add_marker("slow")


@pytest.fixture
def trainers(monkeypatch):
    """The Trainer of every fit; `staged=False` with a search has a second one for its first model."""
    found, make = [], schedule.Trainer

    def make_trainer(*arguments):
        found.append(make(*arguments))
        return found[-1]

    monkeypatch.setattr(schedule, "Trainer", make_trainer)
    return found


@pytest.fixture(scope="module")
def one_torch_thread():
    """torch on one thread, as in a fit."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def browser():
    with Browser() as found:
        yield found


@pytest.fixture(scope="session")
def birds(tmp_path_factory):
    """Drawn birds, a small ResNet trained on them, and the concepts fitted with it."""
    pytest.importorskip("transformers")
    import torch

    from examples.drawn_birds import draw_birds
    from examples.small_resnet import train_small_resnet
    from neuralbasis.vision import Backbone, ConceptExtractor, read_cub

    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the network is tiny: threads would wait for one another
    try:
        folder = draw_birds(tmp_path_factory.mktemp("birds"), n_images=600, size=96, seed=1)
        annotations = read_cub(folder)
        checkpoint = train_small_resnet(annotations, tmp_path_factory.mktemp("resnet"), side=96, epochs=7)
        backbone = Backbone.load(checkpoint, side=96)
        extractor = ConceptExtractor.fit(annotations, backbone)
        yield SimpleNamespace(
            folder=folder, annotations=annotations, checkpoint=checkpoint, backbone=backbone, extractor=extractor
        )
    finally:
        torch.set_num_threads(n_threads)
