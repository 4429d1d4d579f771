"""The state that a step begins with, where the script calls its model before the step as well."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from parity.passes_torch import Outputs, Passes
from parity.record import Tensors


def _watched(passes: Passes, net: nn.BatchNorm1d, x: Tensor) -> Tensor:
    def state() -> Tensors:
        assert net.running_mean is not None
        return {"Net|running_mean": net.running_mean.numpy().copy()}

    passes.begin("Net", net, state)
    made = net(x)
    passes.end([made])
    return made


def test_the_pass_that_the_loss_comes_from() -> None:
    net, passes, x = nn.BatchNorm1d(2), Passes(), torch.arange(6.0).reshape(3, 2)
    _watched(passes, net, x)
    assert net.running_mean is not None
    expected = net.running_mean.tolist()
    loss = _watched(passes, net, x).square().sum() + _watched(passes, net, x).sum()
    assert passes.before(loss)["Net|running_mean"].tolist() == expected
    _watched(passes, net, x)
    after = net.running_mean.tolist()
    _watched(passes, net, x)
    assert passes.before(torch.zeros(1))["Net|running_mean"].tolist() != after  # of no pass: the first of them


def _returned(outputs: Outputs, net: nn.Module, x: Tensor) -> Tensor:
    outputs.begin("Net")
    made = net(x)
    outputs.note("Net||0|0", lambda: made.detach().numpy().copy())
    outputs.end()
    return made


def test_outputs_are_of_the_pass_that_the_loss_comes_from() -> None:
    """A script that chooses its actions with gradients on calls its model many times before it learns."""
    found: Tensors = {}
    net, outputs = nn.Linear(2, 2), Outputs(found)
    for turn in range(20):
        _returned(outputs, net, torch.full((1, 2), float(turn)))
    learnt = _returned(outputs, net, torch.ones(3, 2))
    outputs.differentiated(learnt.sum() + _returned(outputs, net, torch.zeros(3, 2)).sum())
    outputs.finish()
    assert found["Net||0|0"].tolist() == learnt.tolist()


def test_a_pass_that_is_no_longer_known_is_not_taken_for_another() -> None:
    """A recurrent network is called for each letter: the first of many that one loss comes from counts, or none."""
    found: Tensors = {}
    net, outputs = nn.Linear(2, 2), Outputs(found)
    _returned(outputs, net, torch.zeros(1, 2))
    losses = [_returned(outputs, net, torch.full((1, 2), float(turn))).sum() for turn in range(20)]
    outputs.differentiated(torch.stack(losses).sum())
    outputs.finish()
    assert not found
