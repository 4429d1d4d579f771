"""A run that torch has begun goes on in the rewritten script, from torch's checkpoint ported as that would have saved
it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flax import serialization

from migrate.files.source import parse
from migrate.manifest import dumps, loads
from migrate.pipeline import Conversion, convert
from tests.conformance import rewritten
from weight_port import port_weights

HEAD = """import copy
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3)
        self.norm = nn.BatchNorm2d(3)
        self.head = nn.Linear(12, 2)

    def forward(self, x):
        return self.head(F.relu(self.norm(self.conv(x))).flatten(1))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 4)
        self.last = nn.Linear(4, 1)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x.flatten(1))))


x = torch.linspace(-1, 1, 8 * 16).reshape(8, 1, 4, 4).sin()
y = torch.arange(8) % 2
lr, momentum = 0.05, 0.9
"""
TAIL = """
found = main("RESUME", "SAVE", 3)
"""
# Each goes on from a file, if there is one, to that epoch, and saves.
TWO_MODELS = """
def save_checkpoint(state, path):
    torch.save(state, path)


def main(resume, save, epochs):
    net, critic = Net(), Critic()
    optimizer = torch.optim.AdamW(net.parameters(), lr=lr, weight_decay=0.1, amsgrad=True)
    other = torch.optim.SGD(critic.parameters(), lr=lr, momentum=momentum, weight_decay=1e-3, nesterov=True)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(other, patience=0, factor=0.5, threshold=0.9)
    scaler = torch.amp.GradScaler("cuda", enabled=False)
    start, best, history, found = 0, np.float64(1e9), [], []
    if resume:
        checkpoint = torch.load(resume, weights_only=False)
        start, best, history = checkpoint["epoch"], checkpoint["best"], checkpoint["history"]
        net.load_state_dict(checkpoint["net"])
        critic.load_state_dict(checkpoint["critic"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        other.load_state_dict(checkpoint["other"])
        cosine.load_state_dict(checkpoint["cosine"])
        plateau.load_state_dict(checkpoint["plateau"])
        scaler.load_state_dict(checkpoint["scaler"])
    for epoch in range(start, epochs):
        net.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        other.zero_grad()
        second = ((critic(x) - 1) ** 2).mean()
        second.backward()
        other.step()
        cosine.step()
        plateau.step(second.item())
        best = min(best, loss.item())
        history.append(loss.item())
        found.append((loss.item(), second.item(), best, len(history), f"{epoch:03d}"))
        save_checkpoint({
            "epoch": epoch + 1, "name": "two", "best": np.float64(best), "history": history, "none": None,
            "net": net.state_dict(), "critic": critic.state_dict(), "scaler": scaler.state_dict(),
            "optimizer": optimizer.state_dict(), "other": other.state_dict(),
            "cosine": cosine.state_dict(), "plateau": plateau.state_dict(),
        }, save)
    return found
"""
TRAINER = """
class Trainer:
    def __init__(self, lr):
        self.model = Net()
        self.optimizer = torch.optim.RMSprop(self.model.parameters(), lr=lr)
        self.epoch = 0

    def save(self, path):
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "epoch": self.epoch,
            "lrs": [lr, lr / 2],
        }
        torch.save(state, path)

    def load(self, path):
        state = torch.load(path)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.epoch = state["epoch"]

    def step(self, x, y):
        loss = F.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.epoch += 1
        return loss.item()


def main(resume, save, epochs):
    trainer, found = Trainer(lr), []
    if resume:
        trainer.load(resume)
    for _ in range(trainer.epoch, epochs):
        found.append(trainer.step(x, y))
    trainer.save(save)
    return found
"""
ALONE = """
def main(resume, save, epochs):
    critic, found = Critic(), []
    if resume:
        critic.load_state_dict(torch.load(resume))
    optimizer = torch.optim.SGD(critic.parameters(), lr=lr)
    for _ in range(epochs // 2):
        optimizer.zero_grad()
        loss = ((critic(x) - 1) ** 2).mean()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    torch.save(critic.state_dict(), save)
    return found
"""
CHOSEN = """
def main(resume, save, epochs, kind="adam"):
    critic, found, start = Critic(), [], 0
    if kind == "adam":
        optimizer = torch.optim.Adam(list(critic.parameters()), lr=lr, betas=(momentum, 0.99))
    else:
        optimizer = torch.optim.SGD(critic.parameters(), lr=lr, momentum=momentum)
    if resume:
        checkpoint = torch.load(resume)
        critic.load_state_dict(checkpoint["critic"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        start = checkpoint["start"]
    for _ in range(start, epochs):
        optimizer.zero_grad()
        loss = ((critic(x) - 1) ** 2).mean()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    torch.save(dict(critic=critic.state_dict(), optimizer=optimizer.state_dict(), start=epochs), save)
    return found
"""
SCRIPTS = {"two models": TWO_MODELS, "a trainer": TRAINER, "weights alone": ALONE, "a chosen optimizer": CHOSEN}
# One step of float32 after another, in two frameworks: tests/weight_port/test_optimizer_state.py has the same bound.
RELATIVE = 1e-5


def same(ours: Any, theirs: Any) -> None:
    """Numbers that are close, texts that are equal, in lists and tuples."""
    if isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs)
        for own, their in zip(ours, theirs, strict=True):
            same(own, their)
    else:
        assert ours == (theirs if isinstance(theirs, str) else pytest.approx(theirs, rel=RELATIVE))


@pytest.fixture(scope="module")
def conversions() -> dict[str, Conversion]:
    return {name: convert(parse("train.py", HEAD + text + TAIL)) for name, text in SCRIPTS.items()}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_run_of_torch_goes_on_in_jax(name: str, conversions: dict[str, Conversion], tmp_path: Path) -> None:
    made = conversions[name]
    assert made.report.exit_code == 0, made.report.as_text()
    torch.manual_seed(0)
    begun, ported = tmp_path / "begun.pt", tmp_path / "begun.msgpack"
    run(HEAD + SCRIPTS[name] + TAIL, "", begun, 3)
    expected = run(HEAD + SCRIPTS[name] + TAIL, begun, tmp_path / "theirs.pt", 6)
    manifest = loads(dumps(made.manifest))
    port_weights(begun, manifest, ported, as_saved=True, verify=True)
    assert expected
    same(run(made.text, ported, tmp_path / "ours.msgpack", 6), expected)

    # and what the script itself saves then is what the ported file of torch's would be, name for name
    port_weights(tmp_path / "theirs.pt", manifest, tmp_path / "theirs.msgpack", as_saved=True)
    assert leaves(restored(tmp_path / "ours.msgpack")) == leaves(restored(tmp_path / "theirs.msgpack"))


def run(text: str, resume: str | Path, save: Path, epochs: int) -> Any:
    """What a script finds, torch's or the rewritten one."""
    told = f'main("{resume}", "{save}", {epochs}'
    return rewritten.executed(text.replace('main("RESUME", "SAVE", 3', told))["found"]


def restored(path: Path) -> Any:
    return serialization.msgpack_restore(path.read_bytes())


def leaves(tree: Any, path: str = "") -> dict[str, Any]:
    """The shapes of arrays, the kinds of other values."""
    if isinstance(tree, dict):
        found = {path: {}} if not tree else {}
        for name, child in tree.items():
            found |= leaves(child, f"{path}/{name}")
        return found
    return {path: np.shape(tree)}
