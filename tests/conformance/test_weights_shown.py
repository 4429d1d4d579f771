"""Names, shapes and elements of weights that a script shows: torch's, in torch's order."""

from __future__ import annotations

import re

import pytest

from tests.conformance import rewritten

NET = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(2)
        self.row = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 4))
        self.convolution = nn.Conv1d(1, 2, 3)
        nn.init.constant_(self.row[0].weight, 0.5)
        nn.init.constant_(self.row[0].bias, 0.25)

    def forward(self, x):
        return self.convolution(self.row(self.norm(x))[:, None])


net = Net()
net(torch.arange(6.0).reshape(3, 2))
"""

SHOWN = {
    "names and shapes": "for name, p in net.named_parameters():\n    print(name, p.shape)",
    "sizes": "for name, p in net.named_parameters():\n    print(f'{name}: {p.size()}')",
    "formatted": "for name, p in net.named_parameters():\n    print('{} {}'.format(name, list(p.shape)))",
    "by percent": "for name, p in net.named_parameters():\n    print('%s %s' % (name, tuple(p.shape)))",
    "those that learn": "for name, p in net.named_parameters():\n    if p.requires_grad:\n        print(name, len(p))",
    "elements": "for name, p in net.named_parameters():\n    if 'row.0' in name:\n        print(name, p[:2].tolist())",
    "an element": "for p in net.parameters():\n    print(p[0].shape)",
    "without names": "for p in net.parameters():\n    print(p.shape)",
    "counted": "for i, p in enumerate(net.parameters()):\n    print(i, p.numel())",
    "counted, by name": "for i, (name, p) in enumerate(net.named_parameters()):\n    print(i, name, p.dim())",
    "listed": "print([p.shape for p in net.parameters()])",
    "names listed": "print([name for name, p in net.named_parameters()])",
    "some of them": "print([(n, tuple(p.shape)) for n, p in net.named_parameters() if n.endswith('weight')])",
    "an entry of the state dict": "print(net.state_dict()['row.0.weight'].shape)",
    "an entry that is kept": "w = net.state_dict()['row.0.weight']\nprint(w[0].tolist(), w.shape)",
}


def numbers_and_names(shown: str) -> list[str]:
    """What was printed, but for how the frameworks write shapes: `torch.Size([3, 2])` and `(3, 2)`."""
    return re.findall(r"[A-Za-z_][\w.]*|\d+(?:\.\d+)?", shown.replace("torch.Size", ""))


@pytest.mark.parametrize("code", SHOWN.values(), ids=SHOWN)
def test_the_same_is_printed(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    rewritten.executed(f"{NET}{code}\n")
    theirs = capsys.readouterr().out
    rewritten.executed(rewritten.clean(f"{NET}{code}\n").text)
    assert numbers_and_names(capsys.readouterr().out) == numbers_and_names(theirs) != []


STATE = """print("state dict")
for name in net.state_dict():
    print(name, net.state_dict()[name].size())
for name, value in net.state_dict().items():
    print(name, value.shape)
"""


def test_a_state_dict_is_shown_without_its_counters(capsys: pytest.CaptureFixture[str]) -> None:
    rewritten.executed(NET + STATE)
    theirs = "".join(line for line in capsys.readouterr().out.splitlines(True) if "num_batches" not in line)
    made = rewritten.clean(NET + STATE)
    rewritten.executed(made.text)
    assert numbers_and_names(capsys.readouterr().out) == numbers_and_names(theirs)
    assert {one.code for one in made.report.diagnostics} == {"MIG520"}
    assert made.text.count("own_weights = state_dict(") == made.text.count("own_weights_2 = state_dict(") == 1


@pytest.mark.parametrize(
    "code",
    [
        "print(sum(p.numel() for p in net.parameters() if p.requires_grad))",
        "print(sum([p.numel() for p in net.parameters()]))",
        "total = 0\nfor p in net.parameters():\n    total += p.numel()\nprint(total)",
        "norms = {}\nfor name, p in net.named_parameters():\n    norms[name] = p.norm()\nprint(len(norms))",
    ],
)
def test_what_shows_no_order_needs_no_names_of_torchs(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    rewritten.executed(f"{NET}{code}\n")
    theirs = capsys.readouterr().out
    text = rewritten.clean(f"{NET}{code}\n").text
    rewritten.executed(text)
    assert capsys.readouterr().out == theirs
    assert "def state_dict" not in text
