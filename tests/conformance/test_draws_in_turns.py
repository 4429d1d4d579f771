"""What Python draws in each turn of a loop of a forward pass (teacher forcing): the same draws in both frameworks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

SCRIPT = """import random

import numpy as np
import torch
import torch.nn as nn


class Decoder(nn.Module):
    def __init__(self, n, h, device):
        super().__init__()
        self.table = nn.Embedding(n, h)
        self.out = nn.Linear(h, n)
        self.device = device

    def forward(self, x, h):
        h = torch.tanh(h + self.table(x))
        return self.out(h), h


class Seq2Seq(nn.Module):
    def __init__(self, decoder, device):
        super().__init__()
        self.decoder = decoder
        self.device = device

    def forward(self, trg, ratio=0.5):
        steps = trg.shape[0]
        outputs = torch.zeros(steps, trg.shape[1], 5).to(self.device)
        h = torch.zeros(trg.shape[1], 4).to(self.device)
        x = trg[0, :]
LOOP
        return outputs


def fill(model):
    state = torch.arange(20.0)
    with torch.no_grad():
        model.decoder.table.weight.copy_(torch.sin(state).reshape(5, 4))
        model.decoder.out.weight.copy_(torch.cos(3 * state).reshape(5, 4))
        model.decoder.out.bias.copy_(torch.sin(state[:5]))


random.seed(7)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Seq2Seq(Decoder(5, 4, device), device).to(device)
fill(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
batches = [(torch.arange(28) * k % 5).reshape(7, 4) for k in (1, 2, 3)]
losses = []
for trg in batches:
    output = model(trg)
    trg = trg[1:].view(-1)
    loss = nn.functional.cross_entropy(output[1:].view(-1, 5), trg)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
with torch.no_grad():
    tested = model(batches[0], 0.0).sum().item()
last = random.random()
"""
STEP = """            y, h = self.decoder(x, h)
            outputs[t] = y
            forced = DRAW < ratio
            x = trg[t] if forced else y.argmax(1)
"""
LOOPS = {
    "teacher forcing": "        for t in range(1, steps):\n" + STEP.replace("DRAW", "random.random()"),
    "from the start": "        for t in range(steps):\n" + STEP.replace("DRAW", "random.random()"),
    "another draw": "        for t in range(1, steps):\n" + STEP.replace("DRAW", "random.uniform(0.0, 0.9)"),
    "by the turn": "        for t in range(1, steps):\n" + STEP.replace("DRAW", "random.uniform(0, 2 / t)"),
    "within the line": "        for t in range(1, steps):\n"
    + STEP.replace("            forced = DRAW < ratio\n", "").replace("forced", "random.random() < ratio"),
    "one before": "        first = random.random()\n        for t in range(1, steps):\n"
    + STEP.replace("DRAW", "first * random.random()"),
}


@pytest.mark.parametrize("form", LOOPS)
def test_each_turn_has_the_draw_that_torch_s_has(form: str) -> None:
    source = SCRIPT.replace("LOOP\n", LOOPS[form])
    theirs, ours = rewritten.both(source)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32
    np.testing.assert_allclose(ours["tested"], theirs["tested"], rtol=1e-5)
    assert ours["last"] == theirs["last"]  # as many were drawn
    assert len(set(theirs["losses"])) == 3


def test_what_the_loss_binds_again_later_is_what_it_was_before() -> None:
    source = SCRIPT.replace("LOOP\n", LOOPS["teacher forcing"])
    source = source.replace(
        "for trg in batches:\n", 'for batch in [{"trg": trg} for trg in batches]:\n    trg = batch["trg"]\n'
    )
    theirs, ours = rewritten.both(source)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32
    assert ours["last"] == theirs["last"]


REFUSED = {
    "two in a turn": "        for t in range(1, steps):\n" + STEP.replace("DRAW", "random.random() * random.random()"),
    "until a break": "        for t in range(1, steps):\n"
    + STEP.replace("DRAW", "random.random()")
    + "            if t == 3:\n                break\n",
    "in a branch": "        for t in range(1, steps):\n" + STEP.replace("DRAW", "(random.random() if t > 2 else 0.5)"),
    "in steps of two": "        for t in range(1, steps, 2):\n" + STEP.replace("DRAW", "random.random()"),
    "in a while loop": "        t = 0\n        while t < steps - 1:\n            t += 1\n"
    + STEP.replace("DRAW", "random.random()"),
    "by what the turn has made": "        for t in range(1, steps):\n"
    + STEP.replace("DRAW", "random.uniform(0, y.shape[0] * t)"),
}


@pytest.mark.parametrize("form", REFUSED)
def test_draws_that_cannot_be_made_before_are_refused(form: str) -> None:
    made = rewritten.conversion(SCRIPT.replace("LOOP\n", REFUSED[form]))
    assert "MIG302" in {found.code for found in made.report.diagnostics}


def test_a_device_is_no_field_of_a_module() -> None:
    text = rewritten.clean(SCRIPT.replace("LOOP\n", LOOPS["teacher forcing"])).text
    assert "device" not in text.replace("jax.default_backend", "") and "model = Seq2Seq(Decoder(5, 4))\n" in text
