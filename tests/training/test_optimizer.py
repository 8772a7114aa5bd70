"""FlatAdamW: its steps are torch's, and the learning rate warms up and falls to zero."""

import numpy as np
import pytest
import torch
from torch import nn

from neuralbasis import kernels
from neuralbasis.training.members import FlatAdamW, schedule


def draw_module(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_steps_are_torch_s_adamw(weight_decay):
    mine, reference = draw_module(), draw_module()
    flat = FlatAdamW(mine.parameters(), weight_decay, averaging=7)
    other = torch.optim.AdamW(
        reference.parameters(), betas=flat.betas, eps=FlatAdamW.epsilon, weight_decay=weight_decay
    )
    generator, average = torch.Generator().manual_seed(1), None
    for step in range(1, 51):
        x, y = (torch.randn(8, size, generator=generator, dtype=torch.float64) for size in (3, 2))
        rate = 0.1 / step
        for net in (mine, reference):
            (net(x) - y).square().mean().backward()
        flat.step(rate)
        other.param_groups[0]["lr"] = rate
        other.step()
        other.zero_grad()
        expected = nn.utils.parameters_to_vector(reference.parameters()).detach()
        torch.testing.assert_close(flat.values, expected, rtol=1e-9, atol=1e-12)
        # A plain mean of the values so far, and from step 8 on an exponential one.
        share = 1 / min(step, 8)
        average = expected if average is None else (1 - share) * average + share * expected
        torch.testing.assert_close(flat.average, average, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(nn.utils.parameters_to_vector(mine.parameters()).detach(), flat.values, rtol=0, atol=0)


def test_without_averaging_the_average_is_the_values():
    module = draw_module()
    flat = FlatAdamW(module.parameters(), 0.0, averaging=0)
    for _ in range(5):
        module(torch.ones(1, 3).double()).sum().backward()
        flat.step(0.1)
        torch.testing.assert_close(flat.average, flat.values, rtol=0, atol=0)


def test_parameters_are_views_and_gradients_are_taken():
    module = draw_module()
    before = [parameter.detach().clone() for parameter in module.parameters()]
    flat = FlatAdamW(module.parameters(), 0.0, averaging=3)
    for parameter, old in zip(module.parameters(), before, strict=True):
        assert torch.equal(parameter, old)
    flat.values.zero_()
    assert all(parameter.abs().max() == 0 for parameter in module.parameters())
    module(torch.ones(1, 3).double()).sum().backward()
    flat.step(0.1)
    assert all(parameter.grad.abs().max() == 0 for parameter in module.parameters())
    flat.step(0.0)  # without gradients, and at rate 0
    assert flat.steps == 2


def test_compiled_and_torch_steps_agree(monkeypatch):
    """The loop on the CPU, and plain torch for other devices."""
    compiled, plain = draw_module().float(), draw_module().float()
    flats = [FlatAdamW(module.parameters(), 0.1, averaging=4) for module in (compiled, plain)]
    for step in range(1, 20):
        for module, flat in zip((compiled, plain), flats, strict=True):
            module(torch.full((1, 3), 1.0 / step)).square().sum().backward()
            with monkeypatch.context() as patch:
                if module is plain:
                    patch.setattr(kernels, "NUMBA", False)
                flat.step(0.05)
    torch.testing.assert_close(flats[0].values, flats[1].values, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(flats[0].average, flats[1].average, rtol=1e-5, atol=1e-6)
    assert flats[0].grad.abs().max() == flats[1].grad.abs().max() == 0


def test_empty_parameters_are_left_out():
    module = nn.ParameterList([nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(0, 3))])
    flat = FlatAdamW(module.parameters(), 0.0, 1.0)
    module[0].sum().backward()
    flat.step(0.5)
    torch.testing.assert_close(module[0].detach(), torch.tensor([0.5, 0.5]))


def test_the_rate_warms_up_and_falls_to_zero():
    rates = [schedule(progress) for progress in np.linspace(0, 1, 201)]
    assert rates[0] == 0
    assert rates[-1] == pytest.approx(0, abs=1e-12)
    assert 0.99 < max(rates) <= 1
    assert np.argmax(rates) == 10
    assert schedule(0.5) == pytest.approx(0.5)
