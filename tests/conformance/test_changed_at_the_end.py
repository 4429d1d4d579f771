"""Methods in place in the value of a `return`, or one on top of the other: nothing reads the old value any more."""

from __future__ import annotations

import pytest

from tests.conformance.rewritten import both, clean, conversion

HEAD = "import torch\nx = torch.arange(6.0).reshape(2, 3) / 3\ny = x + 1\n"


@pytest.mark.parametrize(
    "body",
    [
        "c = torch.zeros_like(a)\n    c.add_(a)\n    return c.mul_(b).sub_(1)",
        "c = a * 2\n    return c.mul_(b)",
        "c = a + b\n    return c.clamp_(0, 2).mul_(3).add_(b)",
        "c = a.clone()\n    return c.view(-1).mul_(2).sum()",
        "c = a * 1\n    c = c.add_(b).mul_(2)\n    return c",
        "c = a * 1\n    return c.mul_(2) + b",
    ],
)
def test_a_value_that_nobody_else_has(body: str) -> None:
    text = f"{HEAD}def mix(a, b):\n    {body}\nout = mix(x, y).flatten().tolist()\nleft = x.flatten().tolist()\n"
    theirs, ours = both(text)
    assert ours["out"] == pytest.approx(theirs["out"], rel=1e-6)
    assert ours["left"] == pytest.approx(theirs["left"], rel=1e-6)


def test_the_noise_of_an_autoencoder() -> None:
    """Drawn into memory of the same type as the deviations."""
    text = """import torch
import torch.nn as nn
class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)
    def forward(self, x):
        mu, logvar = self.fc(x).chunk(2, dim=1)
        std = logvar.mul(0.5).exp_()
        eps = std.data.new(std.size()).normal_()
        return eps.mul_(std).add_(mu)
net = Noisy()
y = net(torch.ones(2, 3))
"""
    made = clean(text).text
    assert 'eps = jax.random.normal(self.make_rng("sample"), std.shape, std.dtype)' in made
    assert "return (eps * std) + mu" in made


@pytest.mark.parametrize(
    "body",
    [
        "c = a\n    return c.mul_(b).add_(1)",  # the caller sees it change
        "c = a.view(-1)\n    return c.mul_(2).add_(1)",
    ],
)
def test_what_somebody_else_sees_is_refused(body: str) -> None:
    text = f"{HEAD}def mix(a, b):\n    {body}\nout = mix(x, y)\nprint(x)\n"
    assert "MIG303" in conversion(text).report.as_text()
