"""Parts of modules that are given weights where they are made, as the models of torchvision are: whole, with another
head, and taken apart."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.conformance.rewritten import both, conversion

BACKBONE = """import torch
from torch import nn
from torch.hub import load_state_dict_from_url


class Backbone(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 4), nn.Tanh())
        self.norm = nn.BatchNorm1d(4)
        self.blocks = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.fc = nn.Linear(4, classes)

    def forward(self, x):
        x = self.norm(self.features(x))
        for block in self.blocks:
            x = x + block(x)
        return self.fc(x)


def backbone(pretrained=False, **kwargs):
    model = Backbone(**kwargs)
    if pretrained:
        model.load_state_dict(load_state_dict_from_url("https://example.org/backbone.pth"))
    return model


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        INIT
        self.head = nn.Linear(WIDTH, 2)
        nn.init.constant_(self.head.weight, 0.1)
        nn.init.zeros_(self.head.bias)

    def forward(self, x):
        return self.head(FORWARD)


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.linspace(-1, 1, 18).reshape(6, 3)
y = torch.tensor([0, 1, 1, 0, 1, 1])
shown = []
for _ in range(3):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    shown.append(loss.item())
model.eval()
with torch.no_grad():
    shown += model(x).flatten().tolist()
"""
FORMS = {
    "whole": ("self.body = backbone(pretrained=True)", 5, "self.body(x)"),
    "with another head": (
        "made = backbone(pretrained=True)\n        made.fc = nn.Identity()\n        self.body = made",
        4,
        "self.body(x)",
    ),
    "with initial weights of that": (
        "self.body = backbone(pretrained=True)\n        self.body.fc = nn.Linear(4, 3)\n"
        "        nn.init.constant_(self.body.fc.weight, 0.2)\n        self.body.fc.bias.data.zero_()",
        3,
        "self.body(x)",
    ),
    "with another layer in a row": (
        "self.body = backbone(pretrained=True)\n        self.body.features[3] = nn.Linear(4, 4)\n"
        "        nn.init.constant_(self.body.features[3].weight, 0.2)\n"
        "        nn.init.zeros_(self.body.features[3].bias)",
        5,
        "self.body(x)",
    ),
    "loaded in the constructor": (
        "made = Backbone()\n        made.load_state_dict(load_state_dict_from_url('b'))\n        self.body = made\n"
        "        self.body.fc = nn.Linear(4, 3)\n        nn.init.constant_(self.body.fc.weight, 0.2)\n"
        "        nn.init.zeros_(self.body.fc.bias)",
        3,
        "self.body(x)",
    ),
    "a part of it": ("self.body = backbone(pretrained=True).features", 4, "self.body(x)"),
    "some layers": (
        "made = backbone(pretrained=True)\n        self.body = nn.Sequential(*list(made.features)[:3])",
        4,
        "self.body(x)",
    ),
    "frozen before it is kept": (
        "made = backbone(pretrained=True)\n        for p in made.parameters():\n            p.requires_grad = False\n"
        "        self.body = made",
        5,
        "self.body(x)",
    ),
    "some layers, frozen before they are kept": (
        "made = backbone(pretrained=True)\n        row = nn.Sequential(*list(made.features)[:3])\n"
        "        for name, p in row.named_parameters():\n            p.requires_grad = False\n"
        "        self.body = row",
        4,
        "self.body(x)",
    ),
    "layer by layer": (
        "made = backbone(pretrained=True)\n        self.features, self.norm = made.features, made.norm\n"
        "        self.blocks = made.blocks",
        4,
        "self.blocks[1](self.norm(self.features(x)))",
    ),
}


def weights() -> dict[str, torch.Tensor]:
    """A state dict of the backbone."""
    names: dict[str, Any] = {}
    exec(BACKBONE.partition("class Net")[0], names)
    torch.manual_seed(3)
    made = names["Backbone"]().state_dict()
    return {name: value + 0.1 * torch.rand(value.shape) if value.ndim else value for name, value in made.items()}


def written(form: str) -> str:
    init, width, forward = FORMS[form]
    return BACKBONE.replace("INIT", init).replace("WIDTH", str(width)).replace("FORWARD", forward)


@pytest.mark.parametrize("form", FORMS)
def test_they_start_from_these_weights(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", lambda url: weights())
    assert not conversion(written(form)).report.diagnostics
    theirs, ours = both(written(form))
    assert ours["shown"] == pytest.approx(theirs["shown"], rel=2e-4, abs=1e-5)  # float32, over three steps with norms


def test_parts_of_a_model_that_is_given_none_are_plain_copies() -> None:
    made = conversion(written("some layers").replace("pretrained=True", "")).text
    assert "made = backbone(training=self.training).bind({})\n" in made
    assert "with_its_weights" not in made


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    model = Backbone(**kwargs)\n", "    model = Backbone(**kwargs)\n    kept.append(model)\n"),
        ('backbone.pth"))', 'backbone.pth"), strict=False)'),
        (
            "    return model",
            "    other = model\n    other.load_state_dict(load_state_dict_from_url('b'))\n    return model",
        ),
    ],
)
def test_where_something_else_has_the_part_by_then_it_is_refused(old: str, new: str) -> None:
    text = written("whole").replace(old, new).replace("class Backbone", "kept = []\n\n\nclass Backbone")
    assert conversion(text).report.exit_code == 1


IN_EVAL = "made = backbone(pretrained=True)\n        self.body = nn.Sequential(*list(made.features)[:3]).eval()"


LATER = {
    "as it is made": IN_EVAL,
    "behind": IN_EVAL.replace(".eval()", "\n        self.body.eval()"),
    "behind its freezing": IN_EVAL.replace(
        ".eval()",
        "\n        for p in self.body.parameters():\n            p.requires_grad = False\n        self.body.eval()",
    ),
    "a part of what is made": "self.body = backbone(pretrained=True).features.eval()",
    "a part that is kept": "self.body = backbone(pretrained=True).features\n        self.body.eval()",
}
ROWS = "self.features = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 4), nn.Tanh())"
IN_A_LOOP = """layers, width = [], 3
        for wide in (4, 4):
            layers += [nn.Linear(width, wide), nn.BatchNorm1d(wide), nn.ReLU()]
            width = wide
        self.features = nn.Sequential(*layers)"""


@pytest.mark.parametrize("where", LATER)
def test_a_part_that_is_put_into_eval_mode_stays_there(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole is in train mode throughout; its norm goes by the statistics that it starts from, and keeps them."""
    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", lambda url: weights())
    text = written("some layers").replace(FORMS["some layers"][0], LATER[where]).replace("model.eval()\n", "")
    assert "self.body = in_mode(" in conversion(text).text
    theirs, ours = both(text)
    assert ours["shown"] == pytest.approx(theirs["shown"], rel=1e-5)  # float32, over three steps


def test_the_beginning_of_a_row_that_a_loop_has_made_stays_in_eval_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    text = written("some layers").replace(ROWS, IN_A_LOOP).replace("model.eval()\n", "")
    names: dict[str, Any] = {}
    exec(text.partition("class Net")[0], names)
    state = names["Backbone"]().state_dict()
    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", lambda url: state)
    init = "self.body = backbone(pretrained=True).features[:3]\n        self.body.eval()"
    text = text.replace(FORMS["some layers"][0], init)
    assert "for part in backbone_model.features.layers[:3]" in conversion(text).text
    theirs, ours = both(text)
    assert ours["shown"] == pytest.approx(theirs["shown"], rel=1e-5)  # float32, over three steps


def test_some_layers_of_a_row_that_are_known_one_by_one_are_refused() -> None:
    text = written("some layers").replace(
        FORMS["some layers"][0], "self.body = backbone(pretrained=True).features[:3].eval()"
    )
    assert "MIG201" in {found.code for found in conversion(text).report.diagnostics}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("for _ in range(3):\n", "for _ in range(3):\n    model.train()\n"),
        (").eval()\n", ")\n        kept = self.body\n        self.body.eval()\n"),
        (
            ").eval()\n",
            ")\n        self.body.eval()\n\n    def eval(self):\n        pass\n\n    def more(self):\n        pass\n",
        ),
        ("shown = []\n", "shown = []\nmodel.train(len(shown) == 0)\n"),
    ],
)
def test_a_part_that_may_be_told_to_train_is_refused(old: str, new: str) -> None:
    text = written("some layers").replace(FORMS["some layers"][0], IN_EVAL)
    assert "MIG201" in {found.code for found in conversion(text.replace(old, new)).report.diagnostics}
