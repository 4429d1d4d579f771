"""Weights that a script reads from its files, and goes through by the names that they have in torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, value=0.0):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
        self.head = nn.Linear(3, 2)
        nn.init.constant_(self.body[0].weight, value)
        nn.init.constant_(self.body[0].bias, value)
        nn.init.constant_(self.head.weight, value)
        nn.init.constant_(self.head.bias, value)

    def forward(self, x):
        return self.head(self.body(x))


x = torch.linspace(-1, 2, 12).reshape(3, 4)
before = Net(0.5)
kept = before(x).sum().item()
torch.save(SAVED, "before.pt")
model = Net(0.1)
own = model(x).sum().item()
READ
taken = model(x).sum().item()
"""
ALONE, ENTRY = "before.state_dict()", '{"state_dict": before.state_dict(), "epoch": 3}'
WHOLE = {
    "those that fit": """weights = torch.load("before.pt")
mine = model.state_dict()
weights = {k: v for k, v in weights.items() if k in mine and v.shape == mine[k].shape}
mine.update(weights)
model.load_state_dict(mine)
""",
    "under other names": """weights = torch.load("before.pt")
model.load_state_dict({k.replace("module.", ""): v for k, v in weights.items()})
""",
    "name by name": """from collections import OrderedDict

weights = torch.load("before.pt")
new = OrderedDict()
for k, v in weights.items():
    new[k.removeprefix("module.")] = v
model.load_state_dict(new)
""",
    "as they are, and shown": """weights = torch.load("before.pt")
shapes = {}
for k, v in weights.items():
    shapes[k] = tuple(v.shape)
assert shapes["body.0.weight"] == (3, 4)
model.load_state_dict(weights)
""",
    "copied": """weights = torch.load("before.pt")
mine = model.state_dict()
for name, value in weights.items():
    if name not in mine:
        continue
    mine[name].copy_(value)
""",
}
PARTS = {
    "not strictly": (
        ALONE,
        """weights = torch.load("before.pt")
weights = {k: v for k, v in weights.items() if not k.startswith("head")}
model.load_state_dict(weights, strict=False)
""",
    ),
    "of an entry": (
        ENTRY,
        """weights = torch.load("before.pt")["state_dict"]
weights = {k: v for k, v in weights.items() if "head" not in k}
model.load_state_dict(weights, strict=False)
""",
    ),
    "taken out": (
        ENTRY,
        """found = torch.load("before.pt")
assert "epoch" in found.keys()
weights = found["state_dict"]
for k in list(weights.keys()):
    if k.startswith("head"):
        del weights[k]
model.load_state_dict(weights, strict=False)
""",
    ),
}


def both(saved: str, read: str) -> list[dict[str, float]]:
    text = HEAD.replace("SAVED", saved).replace("READ", read)
    theirs, ours = rewritten.both(text)
    return [{name: names[name] for name in ("kept", "own", "taken")} for names in (theirs, ours)]


@pytest.mark.parametrize("how", WHOLE)
def test_all_weights_are_taken(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    theirs, ours = both(ALONE, WHOLE[how])
    for found in (theirs, ours):
        assert found["taken"] == found["kept"] != found["own"]


@pytest.mark.parametrize("how", PARTS)
def test_the_head_keeps_its_own(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    theirs, ours = both(*PARTS[how])
    np.testing.assert_allclose(ours["taken"], theirs["taken"], rtol=1e-6)  # float32
    assert len(set(theirs.values())) == 3


def test_of_which_model_they_are_must_be_known(tmp_path: Path) -> None:
    other = "class Other(Net):\n    pass\n\n\nother = Other()\nother(x)\n"
    text = HEAD.replace("SAVED", ALONE).replace("READ", other + WHOLE["those that fit"])
    assert "of which model is not known" in rewritten.conversion(text).report.as_text()


def test_what_was_saved_under_torchs_names_is_read_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    saved = '{k: v for k, v in before.state_dict().items() if "none" not in k}'
    theirs, ours = both(saved, WHOLE["under other names"])
    assert [found["taken"] == found["kept"] for found in (theirs, ours)] == [True, True]


RESUMED = """saved = torch.load("before.pt")
weights = saved["model"]
prefix = "_orig_mod."
for k, v in list(weights.items()):
    if k.startswith(prefix):
        weights[k[len(prefix):]] = weights.pop(k)
model.load_state_dict(weights)
"""


def test_a_buffer_that_is_never_made_is_in_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the mask of a GPT whose torch has an attention of its own, which a resumed training does not look for."""
    monkeypatch.chdir(tmp_path)
    made = HEAD.replace(
        "        self.head = nn.Linear(3, 2)\n",
        "        self.fast = hasattr(torch.nn.functional, 'scaled_dot_product_attention')\n"
        "        if not self.fast:\n            self.register_buffer('mask', torch.ones(2))\n"
        "        self.head = nn.Linear(3, 2)\n",
    )
    source = made.replace("SAVED", '{"model": before.state_dict(), "epoch": 3}').replace("READ", RESUMED)
    theirs, ours = rewritten.both(source)
    assert ours["taken"] == pytest.approx(theirs["kept"], rel=1e-5)  # float32


NORMED = HEAD.replace("nn.Tanh())", "nn.BatchNorm1d(3))").replace("kept = ", "before(2 * x)\nkept = ")
for name, made in {"kept": "before", "own": "model", "taken": "model"}.items():
    NORMED = NORMED.replace(f"{name} = {made}(x)", f"{name} = {made}.eval()(x)")
TOLD = {
    "those of a size, shown": """weights = torch.load("before.pt")
weights = {k: v for k, v in weights.items() if model.state_dict()[k].numel() == v.numel() and "head" not in k}
told = model.load_state_dict(weights, strict=False)
""",
    "none of the statistics": """weights = torch.load("before.pt")
for k in list(weights.keys()):
    if k.startswith("body.1"):
        del weights[k]
missing, unexpected = model.load_state_dict(weights, strict=False)
assert len(missing) > 0 and not unexpected
told = missing, unexpected
""",
    "others beside": """weights = {k: v for k, v in torch.load("before.pt").items() if k in model.state_dict()}
weights["more.weight"] = weights["head.weight"]
told = model.load_state_dict(weights, strict=False)
""",
    "all": 'told = model.load_state_dict(torch.load("before.pt"))\n',
}


@pytest.mark.parametrize("how", TOLD)
def test_what_loading_tells(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a model with batch statistics, whose counters are no weights here, and are told as torch tells them."""
    monkeypatch.chdir(tmp_path)
    theirs, ours = rewritten.both(NORMED.replace("SAVED", ALONE).replace("READ", TOLD[how] + "shown = str(told)\n"))
    assert ours["shown"] == theirs["shown"]
    for name in ("kept", "own", "taken"):
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-5)  # float32
    assert theirs["taken"] != theirs["own"]


def test_what_loading_prints_comes_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    read = """weights = torch.load("before.pt")
weights = {k: v for k, v in weights.items() if k in model.state_dict() and v.shape == model.state_dict()[k].shape}
# shown as torch shows it
print(model.load_state_dict(weights, strict=False))
"""
    made = rewritten.conversion(NORMED.replace("SAVED", ALONE).replace("READ", read))
    assert not made.report.diagnostics
    assert made.text.count("own_weights = state_dict(") == made.text.count("# shown as torch shows it") == 1
    assert made.text.index("# shown as torch shows it") < made.text.index("= with_weights_it_has(")
