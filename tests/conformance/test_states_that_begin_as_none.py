"""Hidden states that begin as None, are detached where they are there, and go through a function."""

from __future__ import annotations

import pytest

from tests.conformance.rewritten import both

TEXT = """import torch
import torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 3)
        nn.init.constant_(self.fc.weight, 0.1)
        nn.init.constant_(self.fc.bias, 0.2)
    def forward(self, x, h):
        if h is None:
            h = torch.zeros(2, 3)
        h = torch.tanh(self.fc(torch.cat([x, h], 1)))
        return h.sum(1), h
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = torch.arange(12.0).reshape(3, 2, 2) / 12
losses = []
def train(HIDDEN):
    for i in range(3):
        optimizer.zero_grad()
        DETACH
        out, hidden = net(data[i], hidden)
        loss = ((out - 1) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return hidden
CALLS
"""


@pytest.mark.parametrize(
    "detach",
    [
        "if hidden is not None: hidden.detach_()",
        "if hidden is not None:\n            hidden = hidden.detach()",
        "hidden = None if hidden is None else hidden.detach()",
    ],
)
@pytest.mark.parametrize(
    "calls",
    [
        "hidden = None\nfor epoch in range(2):\n    hidden = train(hidden)",
        "hidden = train(None)\nhidden = train(hidden)",
    ],
)
def test_the_state_of_one_call_is_that_of_the_next(detach: str, calls: str) -> None:
    text = TEXT.replace("HIDDEN", "hidden").replace("DETACH", detach).replace("CALLS", calls)
    theirs, ours = both(text)
    assert ours["losses"] == pytest.approx(theirs["losses"], rel=1e-5)  # float32, six steps
    assert ours["hidden"].ravel().tolist() == pytest.approx(theirs["hidden"].flatten().tolist(), rel=1e-5)
