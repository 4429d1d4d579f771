"""What a forward pass keeps on its module goes among Flax's intermediates, where only those who ask find it."""

import pytest

from migrate.files.source import parse
from migrate.pipeline import convert

SCRIPT = """\
import torch
import torch.nn as nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = None
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        self.attn = torch.softmax(self.fc(x), dim=-1)
        return x * self.attn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = Gate()

    def forward(self, x):
        return self.gate(x).sum()


model = Net()
print(model(torch.ones(2, 3)))
"""


def test_what_nothing_reads_before_is_sown() -> None:
    conversion = convert(parse("train.py", SCRIPT))
    assert not conversion.report.diagnostics
    assert '    self.sow("intermediates", "attn", attn)\n        return x * attn\n' in conversion.text
    assert "self.attn" not in conversion.text


def test_so_is_what_branches_set() -> None:
    branch = """\
        weights = torch.softmax(self.fc(x), dim=-1)
        if detail:
            self.attn = weights
            x = x + 1
        else:
            self.attn = None
        return x * weights
"""
    old = SCRIPT[SCRIPT.index("        self.attn = torch") : SCRIPT.index("\n\nclass Net")]
    conversion = convert(
        parse("train.py", SCRIPT.replace(old, branch).replace("(self, x)", "(self, x, detail=True)", 1))
    )
    assert not conversion.report.diagnostics
    assert '        if detail:\n            self.sow("intermediates", "attn", weights)\n' in conversion.text
    assert "self.attn" not in conversion.text


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "        self.attn = torch",
            "        x = x if self.attn is None else x + self.attn\n        self.attn = torch",
            "set in",
        ),
        (
            "        return x * self.attn\n",
            "        return x\n\n    def seen(self):\n        return self.attn\n",
            "set in",
        ),
        ("        self.attn = None\n", "        self.attn = nn.Linear(3, 3)\n", "set in"),
        (
            "        return self.gate(x).sum()\n",
            "        y = self.gate.attn\n        return (y + self.gate(x)).sum()\n",
            "intermediates",
        ),
        ("print(", "for layer in [model.gate]:\n    print(layer.attn)\nprint(", "model.gate"),
        ("print(", "def show(layer):\n    print(layer.attn)\n\n\nprint(", "intermediates"),
    ],
)
def test_what_is_read_elsewhere_is_refused(old: str, new: str, said: str) -> None:
    report = convert(parse("train.py", SCRIPT.replace(old, new, 1))).report
    assert said in report.as_text(), report.as_text()
