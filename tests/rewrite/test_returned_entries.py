"""Buffers that a constructor registers in a loop over a dict that a function returns: the schedules of diffusion."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

TEXT = """import torch
import torch.nn as nn
from torchvision.utils import save_image


class Noisy(nn.Module):
    def __init__(self, betas, n):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        for k, v in schedules(betas[0], betas[1], n).items():
            self.register_buffer(k, v)
        self.n = n

    def forward(self, x, t):
        return self.fc(x) * self.rate[t, None] + self.root[t, None]

    def sample(self, count):
        x = torch.randn(count, 3)
        for i in range(self.n, 0, -1):
            x = self.fc(x) * self.rate[i]
        return x


def schedules(low, high, n):
    rate = (high - low) * torch.arange(0, n + 1, dtype=torch.float32) / n + low
    {returned}


model = Noisy((0.1, 0.9), 4)
y = model(torch.zeros(2, 3), torch.tensor([0, 3]))
"""
WRITTEN_OUT = 'return {"rate": rate, "root": torch.sqrt(rate)}'


def test_each_entry_is_an_attribute() -> None:
    text = TEXT.replace("{returned}", WRITTEN_OUT)
    made = rewritten.clean(text)
    assert 'entries = schedules(self.betas[0], self.betas[1], self.n)\n        self.rate = entries["rate"]' in made.text
    ours = rewritten.executed(made.text.replace("from torchvision.utils import save_image\n", ""))
    rate = np.linspace(0.1, 0.9, 5)[[0, 3], None]
    np.testing.assert_allclose(ours["y"], ours["params"]["fc"]["bias"] * rate + np.sqrt(rate), rtol=1e-5)


def test_what_a_model_draws_is_drawn_in_jax_whatever_it_feeds() -> None:
    text = TEXT.replace("{returned}", WRITTEN_OUT)
    made = rewritten.clean(text + 'save_image(model.sample(2), "sample.png")\n')
    assert "torch.randn" not in made.text and "torch.arange" not in made.text
    assert "torch.from_numpy(\n        np.array(model.apply(" in made.text


@pytest.mark.parametrize(
    "returned",
    [
        "return {name: rate for name in ('rate', 'root')}",
        "return {'rate': rate, 'root': rate} if n > 3 else {'rate': rate}",
        "return {'rate': rate, 'rate': 2 * rate}",
    ],
)
def test_other_dicts_are_refused(returned: str) -> None:
    made = rewritten.conversion(TEXT.replace("{returned}", returned))
    assert "a buffer whose name is not written out" in made.report.as_text()
