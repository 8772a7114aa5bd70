import pytest

from neuralbasis.training import training_threads


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """torch on one thread, as in a fit."""
    with training_threads():
        yield
