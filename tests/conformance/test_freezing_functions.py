"""Functions and methods that do nothing but freeze weights are written out where they are called."""

from __future__ import annotations

import pytest

from tests.conformance import rewritten

PART = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
        self.head = nn.Linear(3, 1)
        nn.init.constant_(self.backbone[0].weight, 0.2)
        nn.init.constant_(self.backbone[0].bias, 0.1)
        nn.init.constant_(self.head.weight, 0.2)
        nn.init.constant_(self.head.bias, 0.1)

    def forward(self, x):
        return self.head(self.backbone(x))

    def freeze(self):
        \"\"\"Trains the head alone.\"\"\"
        for p in self.backbone.parameters():
            p.requires_grad = False

    def set_trainable(self, flag, bias=True):
        if bias:
            self.head.bias.requires_grad = flag
        self.backbone.requires_grad_(flag)


model = Net()
FREEZE
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
x = torch.linspace(-1, 1, 12).reshape(3, 4)
losses = []
for _ in range(4):
    loss = ((model(x) - x[:, :1]) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
FUNCTION = """def set_requires_grad(part, flag):
    for p in part.parameters():
        p.requires_grad = flag


"""
TRAINED = PART.replace("FREEZE", "")


@pytest.mark.parametrize(
    "freeze",
    [
        "model.freeze()",
        FUNCTION + "set_requires_grad(model.backbone, False)",
        FUNCTION + "set_requires_grad(model, False)\nset_requires_grad(model.head, True)",
        "model.set_trainable(False)",
        "model.set_trainable(flag=False, bias=False)",
    ],
)
def test_a_part_is_frozen(freeze: str) -> None:
    theirs, ours = rewritten.both(PART.replace("FREEZE", freeze))
    assert ours["losses"] == pytest.approx(theirs["losses"], rel=1e-5)  # float32
    assert theirs["losses"] != pytest.approx(rewritten.executed(TRAINED)["losses"], rel=1e-3)  # it makes a difference


@pytest.mark.parametrize(
    "call",
    [
        "if len(losses) == 2:\n        model.freeze()",
        "if len(losses) == 2:\n        set_requires_grad(model.backbone, False)",
    ],
)
def test_in_the_middle_of_training(call: str) -> None:
    told = f"    losses.append(loss.item())\n    {call}\n"
    text = TRAINED.replace("    losses.append(loss.item())\n", told)
    text = text.replace("model = Net()\n", (FUNCTION if "set_" in call else "") + "model = Net()\n")
    theirs, ours = rewritten.both(text)
    assert ours["losses"] == pytest.approx(theirs["losses"], rel=1e-5)  # float32
    assert theirs["losses"] != pytest.approx(rewritten.executed(TRAINED)["losses"], rel=1e-3)


LAYER = """import torch
import torch.nn as nn


class Layer(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.fc = nn.Linear(2, outputs)
        nn.init.constant_(self.fc.weight, 0.3)
        nn.init.constant_(self.fc.bias, 0.1)

    def forward(self, x):
        return self.fc(x)


"""
TWO = (
    LAYER
    + """def set_requires_grad(nets, requires_grad=False):
    if not isinstance(nets, list):
        nets = [nets]
    for net in nets:
        if net is not None:
            for param in net.parameters():
                param.requires_grad = requires_grad


made = Layer(2)
judge, other = Layer(1), Layer(1)
making = torch.optim.SGD(made.parameters(), lr=0.1)
judging = torch.optim.SGD(list(judge.parameters()) + list(other.parameters()), lr=0.1)
x = torch.linspace(-1, 1, 6).reshape(3, 2)
losses = []
for _ in range(3):
    OFF
    making.zero_grad()
    fake = made(x)
    loss = -(judge(fake) ** 2).mean() - other(fake).mean()
    loss.backward()
    making.step()
    ON
    judging.zero_grad()
    judged = (judge(fake.detach()) ** 2).mean() + (other(x) ** 2).mean()
    judged.backward()
    judging.step()
    losses += [loss.item(), judged.item()]
"""
)


@pytest.mark.parametrize("nets", ["[judge, other]", "judge"])
def test_models_are_switched_off_and_on(nets: str) -> None:
    text = TWO.replace("OFF", f"set_requires_grad({nets})").replace("ON", f"set_requires_grad({nets}, True)")
    theirs, ours = rewritten.both(text)
    assert ours["losses"] == pytest.approx(theirs["losses"], rel=1e-5)  # float32
    assert "set_requires_grad" not in rewritten.clean(text).text


def test_whether_something_else_is_there_decides_which_weights_are_frozen() -> None:
    off = "if x is not None:\n        for p in judge.parameters():\n            p.requires_grad = False"
    on = "for p in judge.parameters():\n        p.requires_grad = True"
    before, _, rest = TWO.replace("OFF", off).replace("ON", on).partition("def set_requires_grad")
    theirs, ours = rewritten.both(before + rest[rest.index("made = Layer") :])
    assert ours["losses"] == pytest.approx(theirs["losses"], rel=1e-5)  # float32


TRAINER = (
    LAYER
    + """class Base:
    def set_requires_grad(self, nets, requires_grad=False):
        if not isinstance(nets, list):
            nets = [nets]
        for net in nets:
            if net is not None:
                for param in net.parameters():
                    param.requires_grad = requires_grad


class Trainer(Base):
    def __init__(self):
        self.made, self.judge = Layer(2), Layer(1)
        self.making = torch.optim.SGD(self.made.parameters(), lr=0.1)
        self.judging = torch.optim.SGD(self.judge.parameters(), lr=0.1)

    def step(self, x):
        self.set_requires_grad([self.judge], False)
        self.making.zero_grad()
        fake = self.made(x)
        loss = -(self.judge(fake) ** 2).mean()
        loss.backward()
        self.making.step()
        self.set_requires_grad(self.judge, True)
        self.judging.zero_grad()
        judged = (self.judge(fake.detach()) ** 2).mean()
        judged.backward()
        self.judging.step()
        return [loss.item(), judged.item()]


trainer = Trainer()
x = torch.linspace(-1, 1, 6).reshape(3, 2)
losses = [one for _ in range(3) for one in trainer.step(x)]
"""
)


def test_models_of_an_object_are_switched_off_and_on() -> None:
    theirs, ours = rewritten.both(TRAINER)
    assert ours["losses"] == pytest.approx(theirs["losses"], rel=1e-5)  # float32
