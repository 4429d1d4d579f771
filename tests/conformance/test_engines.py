"""Training loops that leave the update to an object in another file: `loss_scaler(loss, optimizer, parameters=...)`."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from migrate.files.project import read_project
from migrate.pipeline import convert_project

MISC = """import torch
from math import inf


class Scaler:
    def __init__(self):
        self._scaler = torch.cuda.amp.GradScaler()

    def __call__(self, loss, optimizer, clip_grad=None, parameters=None, create_graph=False, update_grad=True):
        self._scaler.scale(loss).backward(create_graph=create_graph)
        if update_grad:
            if clip_grad is not None:
                assert parameters is not None
                self._scaler.unscale_(optimizer)
                norm = torch.nn.utils.clip_grad_norm_(parameters, clip_grad)
            else:
                self._scaler.unscale_(optimizer)
                norm = grad_norm(parameters)
            self._scaler.step(optimizer)
            self._scaler.update()
        else:
            norm = None
        return norm


def grad_norm(parameters, norm_type=2.0):
    if isinstance(parameters, torch.Tensor):
        parameters = [parameters]
    parameters = [p for p in parameters if p.grad is not None]
    norm_type = float(norm_type)
    if len(parameters) == 0:
        return torch.tensor(0.)
    device = parameters[0].grad.device
    if norm_type == inf:
        return max(p.grad.detach().abs().max().to(device) for p in parameters)
    return torch.norm(torch.stack([torch.norm(p.grad.detach(), norm_type).to(device) for p in parameters]), norm_type)
"""
GROUPS = """def add_weight_decay(model, weight_decay=1e-5, skip_list=()):
    decay, no_decay = [], []
    for name, param in model.named_parameters():
        if not param.requires_grad:
            continue
        if len(param.shape) == 1 or name.endswith(".bias") or name in skip_list:
            no_decay.append(param)
        else:
            decay.append(param)
    return [{'params': no_decay, 'weight_decay': 0.}, {'params': decay, 'weight_decay': weight_decay}]
"""
ENGINE = """import math
import sys
import torch.nn.functional as F
import helpers.misc as misc


def train_one_epoch(model, batches, optimizer, epoch, scaler, accumulate, clip=None):
    norms, losses = [], []
    model.train(True)
    optimizer.zero_grad()
    for i, (x, y) in enumerate(batches):
        loss = F.mse_loss(model(x), y)
        value = loss.item()
        if not math.isfinite(value):
            sys.exit(1)
        loss /= accumulate
        CALL
        if (i + 1) % accumulate == 0:
            optimizer.zero_grad()
        losses.append(value)
    return losses, norms
"""
MAIN = """import torch
from torch import nn
from engine import train_one_epoch
from helpers.groups import add_weight_decay
from helpers.misc import Scaler


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.norm = nn.LayerNorm(4)
        self.second = nn.Linear(4, 2)
        for layer in (self.first, self.second):
            nn.init.constant_(layer.weight, 0.3)
            nn.init.constant_(layer.bias, -0.1)

    def forward(self, x):
        slopes = torch.tensor([1.0, 0.5, -1.0, 2.0])
        return self.second(self.norm(torch.tanh(self.first(x) * slopes)) * slopes)


def main():
    x = torch.linspace(-2, 3, 48).reshape(4, 4, 3)
    y = torch.sin(torch.linspace(0, 5, 32)).reshape(4, 4, 2)
    model = Net()
    groups = add_weight_decay(model, 0.5)
    optimizer = torch.optim.AdamW(groups, lr=0.05, betas=(0.9, 0.95))
    scaler = Scaler()
    batches = [(x[i], y[i]) for i in range(4)]
    losses, norms = [], []
    for epoch, clip in enumerate([None, 0.1]):
        more, of_these = train_one_epoch(model, batches, optimizer, epoch, scaler, 2, clip)
        losses += more
        norms += of_these
    return losses, norms


losses, norms = main()
"""
KEPT = """norm = scaler(loss, optimizer, clip_grad=clip, parameters=model.parameters(),
                      update_grad=(i + 1) % accumulate == 0)
        if norm is not None:
            norms.append(float(norm))"""
LEFT = "scaler(loss, optimizer, parameters=model.parameters(), update_grad=(i + 1) % accumulate == 0)"
FORMS = {"the norm is kept": KEPT, "the norm is left": LEFT}  # how the engine calls its scaler


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The project in each form, before and after its conversion, which needs nothing done by hand."""
    made: dict[str, Path] = {}
    for form, call in FORMS.items():
        made[form] = folder = tmp_path_factory.mktemp("engine")
        files = {"helpers/misc.py": MISC, "helpers/groups.py": GROUPS, "main.py": MAIN}
        for place, text in {**files, "engine.py": ENGINE.replace("CALL", call)}.items():
            put(folder / "before" / place, text.encode())
        conversion = convert_project(read_project([folder / "before" / "main.py"]))
        assert conversion.report.exit_code == 0, conversion.report.as_text()
        for output in conversion.outputs:
            put(folder / "after" / output.member.place, output.data)
    return made


def put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@contextmanager
def searched(folder: Path) -> Iterator[None]:
    """Imports find the modules of a folder, which are forgotten afterwards."""
    sys.path.insert(0, str(folder))
    before = set(sys.modules)
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if str(folder) in str(getattr(sys.modules[name], "__file__", None) or sys.modules[name]):
                del sys.modules[name]


def run(folder: Path) -> dict[str, Any]:
    with searched(folder):
        return runpy.run_path(str(folder / "main.py"))


@pytest.mark.filterwarnings("ignore:.*GradScaler:FutureWarning", "ignore:.*GradScaler is enabled:UserWarning")
@pytest.mark.parametrize("form", FORMS)
def test_same_losses_and_norms(form: str, folders: dict[str, Path]) -> None:
    theirs, ours = run(folders[form] / "before"), run(folders[form] / "after")
    assert len(theirs["losses"]) == 8 and len(theirs["norms"]) == (0 if "left" in form else 4)
    for what in ("losses", "norms"):
        np.testing.assert_allclose(ours[what], theirs[what], rtol=2e-5)  # float32: each of four steps rounds


def test_nothing_is_left_of_the_scaler_in_the_loop(folders: dict[str, Path]) -> None:
    after = folders["the norm is left"] / "after"
    engine, misc, main = ((after / place).read_text() for place in ("engine.py", "helpers/misc.py", "main.py"))
    assert "        if update_grad:\n            params, opt_state = optimizer_update(" in engine
    assert "norm" not in engine.partition("def train_one_epoch")[2].replace("norms", "")
    assert "def __call__" not in misc and "def grad_norm" not in misc
    assert "optax.adamw(" in main and "add_weight_decay" not in main
