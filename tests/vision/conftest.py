"""Fixtures of the tests of pictures."""

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """The networks are tiny: with several threads, waiting would dominate."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)
