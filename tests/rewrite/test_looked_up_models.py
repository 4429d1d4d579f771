"""Models of a file that a script makes by a name of the command line: `models.__dict__[args.model]()`."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrate.files.project import read_project
from migrate.pipeline import ProjectConversion, convert_project

MODELS = """from functools import partial

import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, width=8, norm=nn.LayerNorm, scale=False):
        super().__init__()
        self.first = nn.Linear(4, width)
        self.norm = norm(width)
        self.scale = scale

    def forward(self, x):
        return self.norm(self.first(x)) * (2 if self.scale else 1)

    def strange(self, x):
        return torch.jit.wait(x)


def small(**kwargs):
    model = Net(width=4, norm=partial(nn.LayerNorm, eps=1e-6), **kwargs)
    return model


def large(**kwargs):
    model = Net(width=16, norm=partial(nn.LayerNorm, eps=1e-6), **kwargs)
    return model


small_by_another_name = small
"""
OTHERS = "import torch\n\n\ndef strange(x):\n    return torch.jit.wait(x)\n\n\ndef halved(x):\n    return x / 2\n"
SCRIPT = """import argparse
import torch
import models
from others import halved

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="small")
args = parser.parse_args([])
model = LOOKED_UP(scale=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.ones(2, 4)
for step in range(3):
    AUTOCAST
        loss = halved(model(x)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
PLAIN = "if True:"
LOOKED_UP = "models.__dict__[args.model]"


def converted(folder: Path, looked_up: str, around: str = PLAIN) -> ProjectConversion:
    (folder / "models.py").write_text(MODELS)
    (folder / "others.py").write_text(OTHERS)
    (folder / "train.py").write_text(SCRIPT.replace("LOOKED_UP", looked_up).replace("AUTOCAST", around))
    return convert_project(read_project([folder / "train.py"]))


@pytest.mark.parametrize("looked_up", [LOOKED_UP, "vars(models)[args.model]", "getattr(models, args.model)"])
def test_each_maker_gives_the_same_class(looked_up: str, tmp_path: Path) -> None:
    made = converted(tmp_path, looked_up)
    assert made.report.exit_code == 0, made.report.as_text()
    text = next(output.data.decode() for output in made.outputs if output.member.place == "train.py")
    assert f"model = {looked_up}(scale=True)\n" in text
    (model,) = made.manifest.models
    assert [leaf.torch for leaf in model.leaves] == ["first.weight", "first.bias", "norm.weight", "norm.bias"]


def test_what_no_name_can_mean_is_no_use(tmp_path: Path) -> None:
    """The file may be asked for anything that it binds: not for methods, nor for what other files bind."""
    made = converted(tmp_path, LOOKED_UP)
    notes = [found.message.partition(":")[0] for found in made.report.diagnostics]
    assert notes == ["Net.strange", "strange"]


def test_norms_by_value_stay_in_float32_under_autocast(tmp_path: Path) -> None:
    made = converted(tmp_path, LOOKED_UP, 'with torch.autocast("cpu", dtype=torch.bfloat16):')
    assert made.report.exit_code == 0, made.report.as_text()
    text = next(output.data.decode() for output in made.outputs if output.member.place == "models.py")
    assert "self.norm_layer = self.norm(self.width)\n" in text
    assert "self.first = nn.Dense(self.width, **torch_init(fan_in=4), dtype=self.dtype)\n" in text
