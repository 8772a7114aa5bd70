import pytest


@pytest.fixture(autouse=True, scope="module")
def _one_thread(one_torch_thread):
    """torch on one thread, as in a fit."""
