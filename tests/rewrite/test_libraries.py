"""Files of installed libraries: they import the rest of the library, as any script would, and are rewritten alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrate.files.project import read_project
from migrate.pipeline import convert_project

NET = """import torch
from torch import nn

from . import sizes
from .blocks import Block
from ..tools import (
    logged,  # says what it does
    scaled,
)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(sizes.WIDTH, 2)

    def forward(self, x):
        return self.fc(x)


def tiny(**options):
    return made(Net, **options)


def made(cls, weights=None):
    net = Net()
    if weights is not None:
        net.load_state_dict(weights)
    return net
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    files = {"shapes/nets/net.py": NET, "shapes/nets/blocks.py": "import torch\n\nBlock = torch.nn.ReLU\n"}
    files |= {
        "shapes/nets/sizes.py": "WIDTH = 3\n",
        "shapes/tools.py": "import torch\n\nlogged = scaled = torch.relu\n",
    }
    files |= {"shapes/__init__.py": "from .nets import net\n", "shapes/nets/__init__.py": ""}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_file_of_an_installed_library_is_rewritten_alone(library: Path) -> None:
    (library / "Shapes-1.2.dist-info").mkdir()
    (output,) = convert_project(read_project([library / "shapes/nets/net.py"])).outputs
    text = output.text or ""
    assert "\nfrom shapes.nets import sizes\nfrom shapes.nets.blocks import Block\nfrom shapes.tools import (\n" in text
    assert "nn.Dense(2, **torch_init(fan_in=sizes.WIDTH))" in text
    assert not output.diagnostics
    assert "    return params, net\n" in text and "return made(Net, **options)" in text


def test_a_package_of_the_users_own_is_rewritten_as_a_whole(library: Path) -> None:
    outputs = convert_project(read_project([library / "shapes/nets/net.py"])).outputs
    assert {output.member.place for output in outputs} >= {
        f"shapes/{place}" for place in ("nets/net.py", "nets/blocks.py", "tools.py")
    }


LAYERS = """import torch
import torch.fx

from ..tools import logged, _log_api_usage_once


class Scaled(torch.nn.Module):
    def __init__(self, factor):
        super().__init__()
        _log_api_usage_once(self)
        self.factor = factor

    def forward(self, x):
        return x * self.factor


torch.fx.wrap("logged")


class Shifted(torch.nn.Module):
    def forward(self, x):
        return x + 1
"""
SCALED = """from torch import nn

from ..ops.scaled import Scaled
from torchvision.ops import Shifted
from ..tools import logged


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)
        self.scaled = Scaled(2.0)
        self.shifted = Shifted()

    def forward(self, x):
        return self.shifted(self.scaled(self.fc(x)))
"""


def test_the_layers_of_torchvision_are_cut_out_of_it_for_its_models(tmp_path: Path) -> None:
    log = "def _log_api_usage_once(obj):\n    pass\n\n\nlogged = print\n"
    files = {"ops/scaled.py": LAYERS.replace("..tools import logged,", "..utils import"), "models/net.py": SCALED}
    files |= {"utils.py": log, "tools.py": log} | {f"{folder}__init__.py": "" for folder in ("", "ops/", "models/")}
    for name, text in files.items():
        (tmp_path / "torchvision" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "torchvision" / name).write_text(text)
    (tmp_path / "torchvision/ops/__init__.py").write_text("from .scaled import Shifted\n")
    (tmp_path / "torchvision-1.2.dist-info").mkdir()
    layers, net = convert_project(read_project([tmp_path / "torchvision/models/net.py"])).outputs
    assert layers.member.place == "torchvision_modules.py"
    assert "class Scaled(nn.Module):" in (layers.text or "") and "_log_api" not in (layers.text or "")
    text = net.text or ""
    assert (
        "from torchvision_modules import Scaled\nfrom torchvision_modules import Shifted\n" in text
        and "from torchvision.tools import logged\n" in text
    )
    assert [found.code for output in (layers, net) for found in output.diagnostics] == ["MIG103"]
