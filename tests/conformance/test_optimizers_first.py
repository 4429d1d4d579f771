"""Optimizers that are made between a forward pass and `backward()`: the step is torch's."""

from __future__ import annotations

import numpy as np

from tests.conformance import rewritten

TEXT = (
    rewritten.NET
    + """import torch.optim as optim

x = torch.linspace(-1, 2, 24).reshape(6, 4).cos()
rate = 0.1
model = Net()
criterion = nn.MSELoss()
prediction = model(x)
print(prediction.shape)
loss = criterion(prediction, torch.ones(6, 1))
# the optimizer
optimizer = optim.SGD(model.parameters(), lr=rate)
optimizer.zero_grad()
loss.backward()
optimizer.step()
losses = [loss.item(), criterion(model(x), torch.ones(6, 1)).item()]
"""
)


def test_the_step_is_torchs() -> None:
    theirs, ours = rewritten.both(TEXT)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, a step of SGD
    made = rewritten.clean(TEXT).text
    assert made.index("# the optimizer") < made.index("train_step(params") and theirs["losses"][1] < theirs["losses"][0]


def test_what_is_frozen_in_between_stays_as_it_is() -> None:
    frozen = "for p in model.parameters():\n    p.requires_grad = False"
    theirs, ours = rewritten.both(TEXT.replace("print(prediction.shape)", frozen))
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-6)
    assert theirs["losses"][0] == theirs["losses"][1]


def test_an_optimizer_that_needs_the_forward_pass_is_refused() -> None:
    text = TEXT.replace("print(prediction.shape)", "rate = prediction.sum().item()")
    told = [found.message for found in rewritten.conversion(text).report.diagnostics]
    assert told == ["optimizer is made after the forward pass, and clears gradients before backward(): make it first"]
