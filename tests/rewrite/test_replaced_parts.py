"""Parts put in the place of others: what would not be the same in JAX is refused at its place."""

from __future__ import annotations

import pytest

from migrate.files.source import parse
from migrate.pipeline import convert

HEAD = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, words=10, width=8):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.body = nn.Linear(width, width)
        self.rows = nn.Sequential(*[nn.Linear(width, width) for _ in range(2)])
        self.head = nn.Linear(width, words)
        self.table.weight = self.head.weight

    def forward(self, x):
        return self.head(self.rows(self.body(self.table(x))))


def fill(module):
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.weight)


def exchange(model):
    model.body = nn.Linear(8, 8, bias=False)


model = Net()
"""
TAIL = """
print(model(torch.zeros(2, 4, dtype=torch.long)).shape)
"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("model.body = nn.Linear(8, 8)\nmodel.apply(fill)", "fills weights of parts that are put into model before"),
        ("model.body = nn.Linear(8, 8)\nnn.init.zeros_(model.body.weight)", "fills weights of parts"),
        ("model.head = nn.Linear(8, 3)", "takes head.weight away, which is tied to another weight"),
        ("model.rows[0] = nn.Linear(8, 8)", "is changed after its module was made"),
        ("exchange(model)", "in another function than that which made it"),
        ("other = model\nmodel.body = nn.Linear(8, 8)", "which other is as well"),
        (
            "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nmodel.body = nn.Linear(8, 8)",
            "after its optimizer optimizer",
        ),
    ],
)
def test_refused(body: str, said: str) -> None:
    found = convert(parse("a.py", HEAD + body + TAIL)).report.diagnostics
    assert any(said in one.message for one in found), [one.message for one in found]


def test_taken() -> None:
    head = HEAD[: HEAD.index("def fill")] + "model = Net()\n"
    made = convert(parse("a.py", head + "model.body = nn.Linear(model.body.in_features, 8, bias=False)" + TAIL))
    assert not made.report.diagnostics, made.report.as_text()
    assert "model = model.clone(new_body=nn.Dense(8, use_bias=False, **torch_init(fan_in=model.width)))" in made.text


@pytest.mark.parametrize("placed", [".to(device)", ".cuda()", ".to(device).cpu()"])
def test_parts_that_are_placed_on_a_device(placed: str) -> None:
    head = HEAD[: HEAD.index("def fill")] + 'device = torch.device("cuda")\nmodel = Net()\n'
    made = convert(parse("a.py", f"{head}model.body = nn.Linear(8, 8, bias=False){placed}{TAIL}"))
    assert not made.report.diagnostics, made.report.as_text()
    assert "model = model.clone(new_body=nn.Dense(8, use_bias=False, **torch_init(fan_in=8)))" in made.text


def test_parts_of_another_type_are_refused() -> None:
    made = convert(parse("a.py", HEAD + "model.body = nn.Linear(8, 8).to(torch.float64)" + TAIL))
    assert made.report.exit_code == 1, made.report.as_text()
