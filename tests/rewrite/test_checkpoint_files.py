"""Checkpoints that hold more than arrays: the arguments of a script are pickled with them, as torch does."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import numpy as np
import pytest
from flax import serialization

from migrate.files.source import parse
from migrate.lowering.weights.checkpoint_files import save_objects
from migrate.pipeline import convert
from tests.conformance import rewritten

SCRIPT = """import argparse
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
        nn.init.constant_(self.fc.weight, 0.1)
        nn.init.constant_(self.fc.bias, 0.0)

    def forward(self, x):
        return self.fc(x)


def is_main_process():
    return True


def save_on_master(*args, **kwargs):
    if is_main_process():
        torch.save(*args, **kwargs)


def save(args, model, optimizer, epoch):
    to_save = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch, "args": args}
    SAVE


def train(args, epochs, resume):
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    start, losses = 0, []
    if resume:
        checkpoint = torch.load(args.path, weights_only=False)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        start = checkpoint["epoch"] + 1
    for epoch in range(start, epochs):
        x = torch.linspace(-1, 1, 12).reshape(3, 4) * (epoch + 1)
        loss = ((model(x) - 1) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    save(args, model, optimizer, epochs - 1)
    return losses


args = argparse.Namespace(lr=0.1, path="PATH")
whole = train(args, 4, False)
first = train(args, 2, False)
then = train(args, 4, True)
kept = torch.load("PATH", weights_only=False)["args"].lr
"""
SAVES = ["torch.save(to_save, args.path)", "save_on_master(to_save, args.path)", "save_on_master(to_save, f=args.path)"]


@pytest.mark.parametrize("save", SAVES)
def test_a_run_goes_on_from_them(save: str, tmp_path: Path) -> None:
    text = SCRIPT.replace("SAVE", save).replace("PATH", str(tmp_path / "last.pth"))
    theirs, ours = rewritten.both(text)
    assert ours["whole"] == pytest.approx(
        theirs["whole"], rel=1e-4
    )  # float32: Adam divides by the root of small squares
    assert ours["first"] + ours["then"] == pytest.approx(ours["whole"], rel=1e-6) and ours["kept"] == 0.1


def test_what_holds_arrays_and_numbers_alone_is_msgpack() -> None:
    text = SCRIPT.replace("SAVE", SAVES[0]).replace(', "args": args}', "}").replace('["args"].lr', "")
    made = convert(parse("x.py", text)).text
    assert "serialization.to_bytes(to_save)" in made and "pickle" not in made


@pytest.mark.parametrize(("saved", "objects"), [("args", True), ("self.args", True), ("rate", False), ("rates", False)])
def test_an_object_is_what_attributes_are_read_of(saved: str, objects: bool) -> None:
    text = f"""def save(self, args, rate, rates):
    rates.append(rate.shape[0] * args.lr * self.args.lr)
    return {{"model": self.model.state_dict(), "other": {saved}}}
"""
    assert save_objects([cst.parse_module(text)]) is objects


def test_arguments_that_cannot_be_followed_are_refused() -> None:
    text = 'import torch\n\n\ndef save(*everything):\n    torch.save(*everything)\n\n\nsave(torch.ones(2), "x.pth")\n'
    report = convert(parse("x.py", text)).report
    assert [found.code for found in report.diagnostics] == ["MIG302"]


def test_what_was_ported_from_torch_is_read_as_well(tmp_path: Path) -> None:
    """`migrate port-weights` writes msgpack."""
    text = SCRIPT.replace("SAVE", SAVES[0]).replace("PATH", str(tmp_path / "last.pth"))
    read = rewritten.executed(rewritten.clean(text).text)["checkpoint_from_bytes"]
    assert read(serialization.to_bytes({"model": {"w": np.ones(2)}, "epoch": 3}))["epoch"] == 3


LISTS = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:])])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def save(model, losses):
    sizes = [4, 3, 2]
    torch.save({"sizes": sizes, "shape": (2, 4), "losses": losses, "model": model.state_dict()}, "PATH")


def load():
    checkpoint = torch.load("PATH")
    model = Net(checkpoint["sizes"])
    model.load_state_dict(checkpoint["model"])
    return model


model = Net([4, 3, 2])
model(torch.ones(2, 4))
save(model, [loss / 2 for loss in range(3)])
checkpoint = torch.load("PATH")
model = load()
out = model(torch.ones(*checkpoint["shape"])).shape
total = sum(loss for loss in checkpoint["losses"])
second = checkpoint["sizes"][1]
"""


def test_lists_that_were_saved_are_lists(tmp_path: Path) -> None:
    theirs, ours = rewritten.both(LISTS.replace("PATH", str(tmp_path / "last.pth")))
    assert ours["out"] == tuple(theirs["out"]) == (2, 2)
    assert ours["total"] == theirs["total"] == 1.5 and ours["second"] == theirs["second"] == 3


def test_what_is_no_list_everywhere_is_left_as_it_was_saved() -> None:
    other = 'torch.save({"sizes": {"in": 4}, "model": model.state_dict()}, "OTHER")\ncheckpoint = torch.load("PATH")'
    text = LISTS.replace('checkpoint = torch.load("PATH")\nmodel = load()', other)
    made = rewritten.conversion(text)
    assert 'checkpoint["sizes"].values()' not in made.text and 'checkpoint["losses"].values()' in made.text
