"""What NVIDIA's apex has that torch has by now."""

from __future__ import annotations

import pytest

from migrate.files.source import parse
from migrate.pipeline import convert

TEXT = """import torch
import torch.nn as nn

try:
    IMPORT
except ImportError:
    pass

model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
model = CALL(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.ones(5, 3)
for step in range(3):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("import apex", "apex.parallel.convert_syncbn_model"),
        ("from apex import parallel", "parallel.convert_syncbn_model"),
        ("from apex.parallel import convert_syncbn_model", "convert_syncbn_model"),
        ("from apex.parallel import DistributedDataParallel as DDP", "DDP"),
    ],
)
def test_it_is_torchs(line: str, call: str) -> None:
    made = convert(parse("x.py", TEXT.replace("IMPORT", line).replace("CALL", call)))
    assert made.report.exit_code == 0, made.report.as_text()
    assert call not in made.text
    assert "from apex.parallel" not in made.text


def test_a_class_that_is_asked_for_is_still_imported() -> None:
    line = "from apex.parallel import DistributedDataParallel as DDP"
    text = TEXT.replace("IMPORT", line).replace("CALL", "DDP") + "print(isinstance(loader, DDP))\n"
    assert line in convert(parse("x.py", "loader = []\n" + text)).text


def test_what_else_it_has_is_not_known() -> None:
    made = convert(parse("x.py", TEXT.replace("IMPORT", "from apex import amp").replace("CALL", "amp.initialize")))
    assert made.report.exit_code == 1
    assert "from apex import amp" in made.text


def test_a_name_of_the_script_s_own_is_left() -> None:
    text = TEXT.replace("IMPORT", "import os").replace("CALL", "convert_syncbn_model")
    made = convert(
        parse("x.py", text.replace("model = nn", "def convert_syncbn_model(m):\n    return m\n\n\nmodel = nn"))
    )
    assert made.report.exit_code == 0, made.report.as_text()
    assert "convert_syncbn_model(model)" in made.text
