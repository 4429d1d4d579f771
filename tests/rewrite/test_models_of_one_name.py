"""Models without a class that have one name in several scopes."""

from migrate.files.source import parse
from migrate.pipeline import convert

SCRIPT = """import torch
from torch import nn


def attention(size):
    model = nn.Sequential(nn.Linear(size, 3), nn.Tanh())
    return model


def attend(model, x):
    return torch.softmax(model(x), dim=0)


model = attention(4)
print(attend(model, torch.ones(2, 4)).shape)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = attention(5)

    def forward(self, x):
        return attend(self.attention, x)


net = Net()
print(net(torch.ones(2, 5)).shape)
"""


def test_a_function_that_makes_a_model_and_a_part_of_another() -> None:
    report = convert(parse("train.py", SCRIPT)).report
    assert not [found for found in report.diagnostics if found.code == "MIG900"], report.as_text()
