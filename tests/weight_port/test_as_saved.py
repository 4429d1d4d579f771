"""A run that torch has begun goes on in the rewritten script, from torch's checkpoint ported as that would have saved
it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flax import serialization
from typer.testing import CliRunner

from migrate.cli import app
from migrate.files.source import parse
from migrate.manifest import Leaf, Manifest, ModelWeights, dumps, loads
from migrate.pipeline import Conversion, convert
from migrate.saved_files import Chain, Entry
from tests.conformance import rewritten
from weight_port import OptimizerOptions, PortError, open_checkpoint, port_weights

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
# Six steps of float32 in two frameworks. Losses are squares of what is left of outputs of about 1, whose own spacing in
# float32 is 1.2e-7.
CLOSE = {"rel": 1e-5, "abs": 1e-6}


def same(ours: Any, theirs: Any) -> None:
    """Numbers that are close, texts that are equal, in lists and tuples."""
    if isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs)
        for own, their in zip(ours, theirs, strict=True):
            same(own, their)
    else:
        assert ours == (theirs if isinstance(theirs, str) else pytest.approx(theirs, **CLOSE))


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


GROUPS = """
def main(resume, save, epochs):
    critic = Critic()
    weights = [p for p in critic.parameters() if p.dim() > 1]
    others = [p for p in critic.parameters() if p.dim() < 2]
    groups = [{"params": weights, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=lr)
    start, found = 0, []
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
    torch.save({"critic": critic.state_dict(), "optimizer": optimizer.state_dict(), "start": epochs, "x": x[:1]}, save)
    return found
"""


def test_the_order_of_parameters_in_groups_is_asked_for(tmp_path: Path) -> None:
    made = convert(parse("train.py", HEAD + GROUPS + TAIL))
    assert made.report.exit_code == 0, made.report.as_text()
    begun, ported = tmp_path / "begun.pt", tmp_path / "begun.msgpack"
    torch.manual_seed(0)
    run(HEAD + GROUPS + TAIL, "", begun, 3)
    expected = run(HEAD + GROUPS + TAIL, begun, tmp_path / "theirs.pt", 6)
    with pytest.raises(PortError, match="WPT120") as error:
        port_weights(begun, made.manifest, ported, as_saved=True)
    assert "--param-names" in str(error.value)
    assert not ported.exists()
    names = tmp_path / "names.json"
    names.write_text(json.dumps([["first.weight", "last.weight"], ["first.bias", "last.bias"]]))
    asked = OptimizerOptions("auto", names=str(names))
    port_weights(begun, made.manifest, ported, as_saved=True, optimizer=asked, verify=True)
    same(run(made.text, ported, tmp_path / "ours.msgpack", 6), expected)
    np.testing.assert_array_equal(restored(ported)["x"], torch.load(begun)["x"].numpy())


class Containing(str):
    """Equal to a text that it is in."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and str(self) in other

    __hash__ = str.__hash__


class Arguments:
    rate = 0.1


CRITIC = ModelWeights("Critic", (Leaf("params/w", "w", (), (2,)),))
ADAM = Chain("torch.optim.Adam", "optax.adam(args.lr)", whole=True)
MODEL, STATE = Entry("model", "model", "Critic"), Entry("optimizer", "optimizer", of="model", chains=(ADAM,))


def saved_by_torch(path: Path, **more: Any) -> Path:
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([weight], lr=0.1)
    weight.sum().backward()
    optimizer.step()
    torch.save({"model": {"w": weight.detach()}, "optimizer": optimizer.state_dict(), **more}, path)
    return path


def test_what_is_no_number_and_no_text_is_left_out_and_told(tmp_path: Path) -> None:
    values = {"args": Arguments(), "seen": {"acc": [0.5, np.float32(0.25)], "none": None, "empty": []}, "big": 2**40}
    entries = (MODEL, STATE, *(Entry(name, "value") for name in values))
    path = saved_by_torch(tmp_path / "a.pt", **values, more=1)
    report = port_weights(path, Manifest("a.py", "linen", (CRITIC,), (entries,)), tmp_path / "a.msgpack", as_saved=True)
    assert any("args is left out: it is a" in note and "Arguments" in note for note in report.notes)
    tree = restored(tmp_path / "a.msgpack")
    assert tree["seen"] == {"acc": {"0": 0.5, "1": 0.25}, "none": None, "empty": {}}
    assert type(tree["seen"]["acc"]["0"]) is float
    assert tree["big"] == 2**40
    assert tree["model"].keys() == {"w"}
    assert "more" not in tree and "more is left out: the script does not save it" in report.notes
    assert list(open_checkpoint(path, key="model")) == ["w"]


def made_by(*chains: str) -> Entry:
    adam = tuple(Chain("torch.optim.Adam", chain, whole=True) for chain in chains)
    return Entry("optimizer", "optimizer", of="model", chains=adam)


REFUSED = {
    "does not say what the script saves": (),
    "holds model, optimizer; the script saves model, optimizer, n": ((MODEL, STATE, Entry("n", "value")),),
    "which model 'optimizer' trains": ((MODEL, Entry("optimizer", "optimizer", of="net", chains=(ADAM,))),),
    "how it is made in optax": ((MODEL, Entry("optimizer", "optimizer", of="model")),),
    "what 'optimizer' is the state of": ((MODEL, Entry("optimizer", "unknown")),),
    "it has no last_epoch": ((MODEL, Entry("optimizer", "steps")),),
    "it has no min_lrs": ((MODEL, Entry("optimizer", "plateau", of="model")),),
    "a value of the script decides": ((MODEL, made_by("optax.adam(args.lr) if args.adam else optax.sgd(1.0)")),),
    "is no expression": ((MODEL, made_by("optax.adam(")),),
    "is not made of optax": ((MODEL, made_by("build(model)")),),
    "is a number of the script's": ((MODEL, made_by("optax.inject_hyperparams(optax.adam)(0.1, eps=args.eps)")),),
    "a value of the script decides what": ((MODEL, made_by("optax.adam(1.0 if args.kind == 1 else 2.0)")),),
    "jnp.save is no part of a chain": ((MODEL, made_by("optax.adam(jnp.save('/tmp/x', 1))")),),
    "is no part of a chain": ((MODEL, made_by("optax.sgd.__globals__['os'].remove('x')")),),
    "optax.base.jax.numpy.save is no part of a chain": ((MODEL, made_by("optax.base.jax.numpy.save('/tmp/x', 1)")),),
    "open('x') is not made": ((MODEL, made_by("open('x')")),),
    "2 of the optimizers": ((MODEL, made_by("optax.adam(1.0)", "optax.adam(2.0)")),),
}


@pytest.mark.parametrize("told", REFUSED)
def test_what_cannot_be_told_is_refused(told: str, tmp_path: Path) -> None:
    path = saved_by_torch(tmp_path / "a.pt")
    with pytest.raises(PortError, match="WPT122") as error:
        port_weights(path, Manifest("a.py", "linen", (CRITIC,), REFUSED[told]), tmp_path / "a.msgpack", as_saved=True)
    assert told in str(error.value)
    assert not (tmp_path / "a.msgpack").exists()


def test_on_the_command_line(tmp_path: Path) -> None:
    path = saved_by_torch(tmp_path / "last.pt")
    manifest = tmp_path / "weights.json"
    manifest.write_text(dumps(Manifest("a.py", "linen", (CRITIC,), ((MODEL, STATE),))))

    def ported(output: str, *more: str) -> tuple[int, str]:
        command = ["port-weights", str(path), "--as-saved", "-o", str(tmp_path / output), *more]
        found = CliRunner().invoke(app, command)
        return found.exit_code, found.output

    told = ("--manifest", str(manifest))
    assert ported("last.msgpack", *told)[0] == 0
    assert restored(tmp_path / "last.msgpack")["optimizer"]["0"]["count"] == 1
    assert ported("x.msgpack", *told, "--key", "model") == (2, Containing("--key is of no use"))
    assert ported("x.msgpack", *told, "--optimizer", "auto") == (2, Containing("--optimizer is of no use"))
    assert ported("x.msgpack") == (2, Containing("needs the manifest"))
    assert ported("x.safetensors", *told) == (2, Containing("as msgpack"))


def test_files_of_one_model_each(tmp_path: Path) -> None:
    """The one that a file fits is taken; where several do, it is asked for."""
    other = ModelWeights("Other", (Leaf("params/v", "v", (), (2,)),))
    like = ModelWeights("Like", (Leaf("params/w", "w", (), (2,)),))
    saved = tuple((Entry("", "model", cls),) for cls in ("Other", "Critic", "Like"))
    torch.save({"w": torch.ones(2)}, tmp_path / "w.pt")
    manifest = Manifest("a.py", "linen", (other, CRITIC), saved[:2])
    assert port_weights(tmp_path / "w.pt", manifest, tmp_path / "w.msgpack", as_saved=True).model == "Critic"
    manifest = Manifest("a.py", "linen", (other, CRITIC, like), saved)
    with pytest.raises(PortError, match="may be any of 2 files"):
        port_weights(tmp_path / "w.pt", manifest, tmp_path / "w.msgpack", as_saved=True)
    report = port_weights(tmp_path / "w.pt", manifest, tmp_path / "w.msgpack", as_saved=True, model="Like")
    assert report.model == "Like"
    torch.save({"u": torch.ones(2)}, tmp_path / "u.pt")
    with pytest.raises(PortError, match="WPT101"):
        port_weights(tmp_path / "u.pt", manifest, tmp_path / "u.msgpack", as_saved=True)


def test_the_rewriter_tells_how_a_script_goes_on(tmp_path: Path) -> None:
    def said(text: str) -> str:
        (tmp_path / "train.py").write_text(HEAD + text + TAIL)
        return CliRunner().invoke(app, ["rewrite", str(tmp_path / "train.py"), "-o", str(tmp_path / "out")]).output

    assert "--as-saved" in said(TRAINER)
    assert "--as-saved" not in said(ALONE.replace("critic.load_state_dict(torch.load(resume))", "pass"))
