"""Modules that other packages make, inside a module of the user's: they would still be torch when the output runs."""

from __future__ import annotations

import pytest

from migrate.files.source import parse
from migrate.pipeline import Conversion, convert


@pytest.mark.parametrize(
    ("imported", "made"),
    [
        ("from timm.layers import PatchEmbed", "PatchEmbed(8, 2)"),
        ("import timm", 'timm.create_model("resnet18")'),
        ("from torchvision import models", "models.resnet18()"),
    ],
)
@pytest.mark.parametrize("call", ["self.part(x)", "self.part.forward_features(x)"])
def test_refused_where_it_is_called(imported: str, made: str, call: str) -> None:
    source = f"""import torch.nn as nn
{imported}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = {made}

    def forward(self, x):
        return {call}
"""
    diagnostics = convert(parse("x.py", source)).report.diagnostics
    assert [(found.code, found.line) for found in diagnostics] == [("MIG202", 11)]


def test_refused_in_a_loss() -> None:
    """A network that is trained elsewhere, which tells how alike two images are."""
    source = """import torch
import torch.nn as nn
from torchvision import models

features = models.vgg19().features
model = nn.Sequential(nn.Conv2d(3, 3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.ones(2, 3, 8, 8)
for step in range(2):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(features(model(x)), features(x))
    loss.backward()
    optimizer.step()
"""
    assert "MIG202 features, which another package makes" in convert(parse("x.py", source)).report.as_text()


def test_what_no_forward_pass_calls_stays() -> None:
    source = """import math

import torch.nn as nn
from settings import Settings


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.settings = Settings(width)
        self.scale = math.sqrt(width)

    def forward(self, x):
        return x * self.scale * self.settings.factor
"""
    assert convert(parse("x.py", source)).report.diagnostics == ()


@pytest.mark.parametrize(
    "base",
    [
        "from fairseq.models import BaseFairseqModel as Base",
        "from torchvision.models import ResNet as Base",
        "import pytorch_lightning as pl\nBase = pl.LightningModule",
    ],
)
def test_a_module_of_a_foreign_class_is_refused_as_a_whole(base: str) -> None:
    source = f"""import torch.nn as nn
{base}


class Net(Base):
    def __init__(self, config):
        super().__init__(config)
        self.fc = nn.Linear(2, 2)

    def forward(self, x):
        return self.fc(x)
"""
    made = convert(parse("x.py", source))
    assert [found.code for found in made.report.diagnostics] == ["MIG201"]
    assert "class Net:\n    def __init__(self, *args, **kwargs):\n        raise NotImplementedError(" in made.text


CONFIGURED = """import torch
import torch.nn as nn
from diffusers import ConfigMixin, ModelMixin
from diffusers.configuration_utils import register_to_config
from huggingface_hub import PyTorchModelHubMixin, hf_hub_download


class Net(ModelMixin, ConfigMixin):
    @register_to_config
    def __init__(self, width: int = 8, sizes: tuple[int, ...] = (4, 2), scale: float = 0.5):
        super().__init__()
        scale = scale * 2
        self.fc = nn.Linear(self.config.sizes[0], self.config.width)
        self.scale_twice = scale

    def forward(self, x):
        return self.fc(x) * self.config.scale{rest}


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x)


class Published(Plain, PyTorchModelHubMixin, license="mit"):
    def forward(self, x):
        return self.fc(x) * 2
"""


def _converted(rest: str, after: str = "") -> Conversion:
    return convert(parse("x.py", CONFIGURED.replace("{rest}", rest) + after))


def test_bases_that_load_and_save_go() -> None:
    made = _converted("", "\n\nmodel = Net()\nprint(model.config.width, hf_hub_download)\n")
    assert not made.report.as_text().count("MIG201")
    assert "class Net(nn.Module):\n    width: int = 8\n    sizes: tuple[int, ...] = (4, 2)\n" in made.text
    assert "nn.Dense(self.width, **torch_init(fan_in=self.sizes[0]))" in made.text
    assert "print(model.width, hf_hub_download)" in made.text
    assert "class Published(Plain):\n" in made.text
    assert "diffusers" not in made.text and "from huggingface_hub import hf_hub_download\n" in made.text


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        (" + len(self.config)", "self.config may be what ModelMixin adds"),
        (" * self.loaded_scale", "self.loaded_scale may be what ModelMixin adds"),
        ("\n\n\nnet = Net()\nprint(net.device_map)", ".device_map may be what ModelMixin adds"),
        ("\n\n\nNet.from_pretrained('x')", ".from_pretrained may be what ModelMixin adds"),
        ("\n\n    def set(self):\n        self.scale = 2", "Net has self.scale beside self.config.scale"),
    ],
)
def test_what_such_a_base_may_add_is_said(rest: str, said: str) -> None:
    report = _converted(rest).report.as_text()
    assert f"MIG201 {said}" in report, report


def test_a_schedule_keeps_what_a_module_does_without() -> None:
    steps = """

class Steps(ConfigMixin):
    @register_to_config
    def __init__(self, count=8):
        self.count = count
"""
    text = _converted("", steps).text
    assert "\nfrom diffusers import ConfigMixin\nfrom diffusers.configuration_utils import register_to_config\n" in text
    assert "class Net(nn.Module):\n" in text and "class Steps(ConfigMixin):\n    @register_to_config\n" in text


def test_a_partial_of_a_module_of_torchvision_is_refused() -> None:
    text = "import torch\nfrom functools import partial\nfrom torchvision.ops.misc import SqueezeExcitation\n\n"
    text += "scaled = partial(SqueezeExcitation, activation=torch.nn.SiLU)\n"
    (found,) = convert(parse("net.py", text)).report.diagnostics
    assert (found.code, found.message) == ("MIG304", "torchvision.ops.misc.SqueezeExcitation is used as a value")


@pytest.mark.parametrize(
    ("imported", "made", "codes"),
    [
        (
            "from torch_ema import ExponentialMovingAverage",
            "ExponentialMovingAverage(net.parameters())",
            ["MIG301"],
        ),
        ("import bitsandbytes as bnb", "bnb.optim.Adam8bit(net.parameters())", ["MIG301"]),
        ("from collections import OrderedDict", "OrderedDict(net.named_parameters())", []),
    ],
)
def test_classes_that_are_given_parameters(imported: str, made: str, codes: list[str]) -> None:
    """They would change or keep them as torch's, and were left as they are."""
    made_there = f"{imported}\nnet = nn.Linear(2, 3)\nkept = {made}\nprint(net(torch.ones(4, 2)))\n"
    source = f"import torch\nfrom torch import nn\n{made_there}"
    assert [found.code for found in convert(parse("x.py", source)).report.diagnostics] == codes


ONLY_LAYERS = """from abc import ABC

from elsewhere import Mixin
from torch import nn


class Net({}):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
"""


@pytest.mark.parametrize(
    ("bases", "codes"), [("ABC, nn.Module", []), ("nn.Module, Mixin", []), ("Mixin, nn.Module", ["MIG201"])]
)
def test_a_base_that_may_bring_the_forward_pass(bases: str, codes: list[str]) -> None:
    """Of the standard library none does, nor one that stands behind the module class."""
    assert [one.code for one in convert(parse("x.py", ONLY_LAYERS.format(bases))).report.diagnostics] == codes
