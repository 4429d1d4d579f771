"""Functions given to `apply` that ask for the type of a module or its name; models without a class are met, too."""

import pytest

from migrate.files.source import parse
from migrate.pipeline import convert

SCRIPT = """\
import torch
import torch.nn as nn


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 8, 3)
        self.fc = nn.Linear(8, 2)

    def forward(self, x):
        return self.fc(self.conv(x).mean(2))


def init_weights(m):
    name = m.__class__.__name__
    if TEST:
        nn.init.normal_(m.weight, std=0.5)


model = Own()
model.apply(init_weights)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
net.apply(init_weights)
print(model(torch.ones(2, 3, 8)), net(torch.ones(2, 4)))
"""
DENSE, CONV = "nn.Dense(8, **torch_init(fan_in=4, kernel_init=NORMAL))", "fan_in=3 * 3, kernel_init=NORMAL"
NORMAL = "nn.initializers.normal(0.5)"


@pytest.mark.parametrize(
    ("test", "dense", "convolution"),
    [
        ("type(m) == nn.Linear", True, False),
        ("type(m) is not nn.Conv1d and isinstance(m, nn.Linear)", True, False),
        ("m.__class__ in (nn.Conv1d, nn.Linear)", True, True),
        ("type(m) in [nn.Conv1d]", False, True),
        ('name in ("Linear", "Embedding")', True, False),
        ('"Conv" in name', False, True),
        ('"Conv" not in name and hasattr(m, "weight")', True, False),
        ('m.__class__.__name__.startswith("Lin")', True, False),
        ('type(m).__name__ == "Conv1d"', False, True),
    ],
)
def test_the_layers_that_a_test_means(test: str, dense: bool, convolution: bool) -> None:
    conversion = convert(parse("train.py", SCRIPT.replace("TEST", test)))
    assert not conversion.report.diagnostics
    assert (DENSE.replace("NORMAL", NORMAL) in conversion.text) == dense
    assert (CONV.replace("NORMAL", NORMAL) in conversion.text) == convolution


def test_what_may_be_of_either_type_is_refused() -> None:
    own = "class Wide(nn.Linear):\n    pass\n\n\nclass Own"
    script = SCRIPT.replace("class Own", own, 1).replace("TEST", "type(m) == nn.Linear")
    assert "some layers of one sort are initialised" in convert(parse("train.py", script)).report.as_text()
    renamed = SCRIPT.replace("TEST", 'name == "Linear"').replace("m.__class__.__name__", "str(m)")
    assert "in a function given to apply" in convert(parse("train.py", renamed)).report.as_text()
