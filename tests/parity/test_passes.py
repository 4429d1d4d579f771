"""The state that a step begins with, where the script calls its model before the step as well."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from parity.passes_torch import Passes
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
