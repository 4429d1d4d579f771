"""How torchvision's models are put together: settings that keep classes, keywords that nobody gives, checkpoints that
ask for gradients, builders that name parts, weights that a function loads. Both frameworks compute the same."""

from __future__ import annotations

import numpy as np
import pytest

from migrate.layers.layer import Sample
from tests.conformance import rewritten
from tests.conformance.run_layer import assert_same

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"
SETTINGS = """import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Callable, Optional, Union


@dataclass
class _Settings:
    width: int
    out: int
    count: int
    block: Callable[..., nn.Module]


class PlainSettings(_Settings):
    def __init__(self, width, out, count, scale=1, block: Optional[Callable[..., nn.Module]] = None):
        if block is None:
            block = Plain
        super().__init__(width, scale * out, count, block)


class WideSettings(_Settings):
    def __init__(self, width, out, count, block=None):
        if block is None:
            block = Wide
        super().__init__(width, out, count, block)


class Plain(nn.Module):
    def __init__(self, settings: PlainSettings, share: float, norm_layer):
        super().__init__()
        self.fc = nn.Linear(settings.width, settings.out)
        self.norm = norm_layer(settings.out)
        self.share = share

    def forward(self, x):
        return self.norm(self.fc(x)) * (1 - self.share)


class Wide(nn.Module):
    def __init__(self, settings: WideSettings, share: float, norm_layer):
        super().__init__()
        self.a = nn.Linear(settings.width, 2 * settings.out)
        self.b = nn.Linear(2 * settings.out, settings.out)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


class Net(nn.Module):
    def __init__(self, rows: Sequence[Union[PlainSettings, WideSettings]], norm_layer=None):
        super().__init__()
        if norm_layer is None:
            norm_layer = nn.LayerNorm
        layers = [nn.Linear(4, rows[0].width)]
        whole, done = sum(one.count for one in rows), 0
        for one in rows:
            stage: list[nn.Module] = []
            for _ in range(one.count):
                own = copy.copy(one)
                if stage:
                    own.width = own.out
                stage.append(own.block(own, 0.5 * done / whole, norm_layer))
                done += 1
            layers.append(nn.Sequential(*stage))
        self.features = nn.Sequential(*layers)

    def forward(self, x):
        return self.features(x)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        twice = partial(PlainSettings, scale=2)
        self.net = Net([twice(5, 4, 2), WideSettings(8, 6, 2), PlainSettings(6, 3, 1)])

    def forward(self, x):
        return self.net(x)
"""
KEYWORDS = """class Net(nn.Module):
    def __init__(self, width, norm_layer=None, act=nn.ReLU):
        super().__init__()
        self.fc = nn.Linear(4, width)
        self.norm = norm_layer(width)
        self.act = act()

    def forward(self, x):
        return self.act(self.norm(self.fc(x)))


def made(width, **kwargs):
    norm_layer = kwargs.pop("norm_layer", nn.LayerNorm)
    return Net(width, norm_layer=norm_layer, **kwargs)


def small(**kwargs):
    return made(5, **kwargs)


def large(**kwargs):
    return made(50, **kwargs)


net = small()
nn.init.constant_(net.fc.weight, 0.5)
nn.init.constant_(net.fc.bias, 1.0)
out = net(torch.tensor([[1.0, 2.0, 3.0, 4.0], [2.0, -2.0, 1.0, 0.0]]))
"""
CHECKPOINTS = """import torch.utils.checkpoint as cp


class Layer(nn.Module):
    def __init__(self, width, growth, efficient=True):
        super().__init__()
        self.fc = nn.Linear(width, growth)
        self.efficient = efficient

    def joined(self, inputs):
        return torch.relu(self.fc(torch.cat(inputs, 1)))

    def any_requires_grad(self, inputs):
        for one in inputs:
            if one.requires_grad:
                return True
        return False

    def again(self, inputs):
        def closure(*inputs):
            return self.joined(inputs)

        return cp.checkpoint(closure, *inputs, use_reentrant=False)

    def forward(self, inputs):
        if self.efficient and self.any_requires_grad(inputs):
            return self.again(inputs)
        else:
            return self.joined(inputs)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = Layer(4, 3)
        self.third = Layer(7, 2)

    def forward(self, x):
        x = self.first(x)
        if any(one.requires_grad for one in [x]) and torch.is_grad_enabled():
            y = cp.checkpoint(self.second, [x], use_reentrant=False)
        else:
            y = self.second([x])
        return self.third([x, y])
"""
FORMS = {
    "settings that keep the class of a block": (SETTINGS, Sample("M()", (3, 4))),
    "checkpoints that ask for gradients": (CHECKPOINTS, Sample("M()", (3, 4))),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_same_from_the_same_weights(name: str, float64: None) -> None:
    text, sample = FORMS[name]
    assert_same(HEAD + text, sample)


def test_nothing_asks_for_gradients_in_the_output() -> None:
    made = rewritten.clean(HEAD + CHECKPOINTS)
    assert "requires_grad" not in made.text
    assert made.text.count("jax.checkpoint(") == made.text.count("nn.remat(") == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("rows: Sequence[Union[PlainSettings, WideSettings]]", "rows"),  # nothing says what they are
        ("WideSettings(8, 6, 2)", "WideSettings(8, 6, 2, Plain)"),  # another class than the one that it keeps
        ("WideSettings(8, 6, 2)", "WideSettings(8, 6, 2, block=Plain)"),
        ("            block = Wide\n", "            block = Wide if count else Plain\n"),
        ("partial(PlainSettings, scale=2)", "partial(PlainSettings, 5, 4, 2, 2, Wide)"),
        ("                if stage:\n", "                own.block = Wide\n                if stage:\n"),
    ],
)
def test_classes_that_are_not_told_are_refused(before: str, after: str) -> None:
    assert before in SETTINGS
    found = rewritten.conversion(HEAD + SETTINGS.replace(before, after)).report.diagnostics
    assert any(one.code == "MIG201" and "not known to hold modules" in one.message for one in found), found


@pytest.mark.parametrize("given", ["", "norm_layer=nn.BatchNorm1d", "norm_layer=nn.BatchNorm1d, act=nn.Tanh"])
def test_keywords_that_some_call_gives_or_none(given: str) -> None:
    theirs, ours = rewritten.both(HEAD + KEYWORDS.replace("= small()", f"= small({given})"))
    np.testing.assert_allclose(ours["out"], theirs["out"].detach().numpy(), rtol=1e-5, atol=1e-6)  # sums of 5 numbers


@pytest.mark.parametrize(
    "change", ['kwargs["norm_layer"] = nn.Identity', "kwargs.update(norm_layer=nn.Identity)", "fill(kwargs)"]
)
def test_keywords_that_a_function_sets_are_not_told(change: str) -> None:
    """A layer that is known has the mode of the module around it."""
    text = HEAD + "def fill(given):\n    given.update(norm_layer=nn.Identity)\n\n\n"
    text += KEYWORDS.replace('"norm_layer", nn.LayerNorm', '"norm_layer", nn.BatchNorm1d')
    assert "self.norm_layer(self.width, training=self.training)" in rewritten.conversion(text).text
    made = rewritten.conversion(text.replace("    norm_layer = kwargs", f"    {change}\n    norm_layer = kwargs"))
    assert "training=self.training" not in made.text


BUILT = """class Block(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.fc = nn.Linear(a, b)

    def forward(self, x):
        return torch.relu(self.fc(x))


def stack(a, b, count):
    first = Block(a, b)
    others = []
    for _ in range(1, count):
        others.append(Block(b, b))
    return nn.Sequential(first, *others)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(stack(4, 5, 3), stack(5, 6, 1))
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.constant_(m.weight, 0.5)
                nn.init.constant_(m.bias, 2.0)

    def forward(self, x):
        return self.layers(x)


model = M()
out = model(torch.ones(2, 4))
"""


def test_initial_weights_of_parts_that_a_builder_names() -> None:
    theirs, ours = rewritten.both(HEAD + BUILT)
    np.testing.assert_allclose(ours["out"], theirs["out"].detach().numpy(), rtol=1e-6)  # sums of some numbers


LOADED = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return self.fc(x)


def saved():
    return {"old.weight": torch.linspace(-1, 1, 6).reshape(2, 3), "old.bias": torch.ones(2)}


def fill(model, renamed):
    state = saved()
    for key in list(state.keys()):
        state[key.replace("old", renamed)] = state[key]
        del state[key]
    model.load_state_dict(state)


def make(pretrained):
    model = Net()
    if pretrained:
        fill(model=model, renamed="fc")
    return model


net = make(True)
out = net(torch.ones(4, 3))
"""


def test_weights_that_a_function_loads_before_an_example_is_at_hand() -> None:
    theirs, ours = rewritten.both(HEAD + LOADED)
    np.testing.assert_allclose(ours["out"], theirs["out"].detach().numpy(), rtol=1e-6)  # sums of three numbers


TOLD = """import sys


class Frequencies(nn.Module):
    def __init__(self, width, fixed=False):
        super().__init__()
        self.weights = nn.Parameter(torch.ones(width), requires_grad=not fixed)

    def forward(self, x):
        return torch.cat([(x * self.weights).sin(), x], 1)


class M(nn.Module):
    def __init__(self, fixed=False):
        super().__init__()
        self.frequencies = Frequencies(4, fixed)
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("betas", torch.linspace(0, 1, 5))
        self.steps = 5

    def forward(self, x):
        return self.frequencies(x) * self.betas[1] * self.scale

    @torch.no_grad()
    def sample(self, shape):
        count, device, steps = shape[0], self.betas.device, self.steps
        return self(torch.ones(count, shape[1], device=device)) * steps


model = M({given})
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
x = torch.full((2, 4), 0.5)
for _ in range(2):
    loss = model(x).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
out = model.sample((3, 4))
"""


@pytest.mark.parametrize("given", ["", "False"])
def test_an_argument_that_says_whether_a_weight_is_trained(given: str) -> None:
    theirs, ours = rewritten.both(HEAD + TOLD.replace("{given}", given))
    np.testing.assert_allclose(ours["out"], theirs["out"].numpy(), rtol=1e-5)  # float32, two steps
    assert not np.any(theirs["model"].frequencies.weights.detach().numpy() == 1)


@pytest.mark.parametrize("given", ["bool(sys.argv[1:])", "True"])
def test_an_argument_that_is_one_or_the_other_is_refused(given: str) -> None:
    found = rewritten.conversion(HEAD + TOLD.replace("{given}", given)).report.diagnostics
    assert any(one.code == "MIG204" and "is told while it runs" in one.message for one in found), found
