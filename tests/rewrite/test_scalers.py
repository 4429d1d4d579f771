"""A gradient scaler disappears, and so does a branch on it; where it may be None, only if both ways are alike."""

from __future__ import annotations

from migrate.files.source import parse
from migrate.pipeline import convert

TEXT = """\
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return self.fc(x)


def train(model, optimizer, scaler=None):
    for step in range(5):
        loss = model(torch.ones(4, 3)).square().mean()
        optimizer.zero_grad()
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()


def main(scaled):
    model = Net()
    scaler = {made}
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), scaler)
    if scaler:
        print("scaled by", scaler.get_scale())


main(False)
"""
SURE = 'torch.amp.GradScaler("cuda")'


def test_the_two_ways_are_one_without_a_scaler() -> None:
    made = convert(parse("x.py", TEXT.format(made=SURE)))
    assert made.report.exit_code == 0, made.report.as_text()
    assert "scaler" not in made.text
    assert '    print("scaled by", 1.0)\n' in made.text.partition("def main")[2]


def test_a_scaler_that_may_be_none_is_no_reason_to_do_what_goes_by_it() -> None:
    made = convert(parse("x.py", TEXT.format(made=f"{SURE} if scaled else None")))
    assert "if scaler:" in made.text
    assert "MIG305 the output reads `scaler`" in made.report.as_text()
