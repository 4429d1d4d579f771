"""Parts of installed packages: what a project names, and all that it needs, is cut out and rewritten along."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrate.files import extracted, project
from migrate.pipeline import ProjectConversion, convert_project

PACKAGE = {
    "__init__.py": "from .layers import *\nfrom .layers import to_pair as pair\n",
    "layers/__init__.py": "from .mlp import Mlp\nfrom .sizes import to_pair\nfrom .odd import Odd\n",
    "layers/sizes.py": "def to_pair(x):\n    return tuple(x) if isinstance(x, (list, tuple)) else (x, x)\n",
    "layers/odd.py": "import torch\nfrom ..compiled import fused\n\n\nclass Odd(torch.nn.Linear):\n    scale = fused\n",
    "layers/mlp.py": """from functools import partial

import torch
from torch import nn as nn

from .sizes import to_pair

_FACTOR = 2


def unused(x):
    return x


class Base(nn.Module):
    def shift(self, x):
        return x + _FACTOR


class Mlp(Base):
    def __init__(self, width: int, hidden=None):
        super().__init__()
        first, second = to_pair(hidden or width)
        self.fc1 = nn.Linear(width, first)
        self.fc2 = nn.Linear(second, width)

    # For those who train without it.
    def reset(self):
        self.fc2 = None

    def forward(self, x):
        return self.fc2(torch.relu(self.shift(self.fc1(x))))
""",
}
SCRIPT = """import torch
from torch import nn
IMPORT


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = Mlp(4)

    def forward(self, x):
        return self.mlp(x)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package of layers."""
    folder = tmp_path / "site" / "blocks"
    for name, text in PACKAGE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.setattr(project, "installed", lambda name: [str(folder)] if name == "blocks" else [])
    return folder


def converted(folder: Path, imports: str) -> ProjectConversion:
    (folder / "net").mkdir()
    script = folder / "net" / "model.py"
    script.write_text(SCRIPT.replace("IMPORT", imports))
    return convert_project(project.read_project([script]))


@pytest.mark.parametrize("module", ["blocks", "blocks.layers", "blocks.layers.mlp"])
def test_what_is_named_is_cut_out_with_what_it_needs(module: str, package: Path, tmp_path: Path) -> None:
    conversion = converted(tmp_path, f"from {module} import Mlp")
    texts = {output.member.place: output.data.decode() for output in conversion.outputs}
    assert [found.message for found in conversion.report.diagnostics] == ["parts of blocks as blocks_modules.py"]
    assert "\nfrom blocks_modules import Mlp\n" in texts["model.py"]
    parts = texts["blocks_modules.py"]
    assert parts.startswith("# Parts of blocks")
    assert parts.index("_FACTOR = 2") < parts.index("class Base") < parts.index("class Mlp(Base)")
    assert "def to_pair" in parts and "unused" not in parts and "reset" not in parts and "partial" not in parts
    (model,) = conversion.manifest.models
    assert [leaf.torch for leaf in model.leaves if "fc1" in leaf.torch] == ["mlp.fc1.weight", "mlp.fc1.bias"]


def test_names_that_cannot_be_cut_out_stay_imports(package: Path, tmp_path: Path) -> None:
    conversion = converted(tmp_path, "from blocks import Mlp, Odd")
    text = next(output.data.decode() for output in conversion.outputs if output.member.place == "model.py")
    assert "from blocks import Odd\n" in text and "from blocks_modules import Mlp\n" in text


def test_methods_that_are_named_come_along(package: Path) -> None:
    assert "# For those" not in cut_out(package, set()) and "def reset" in cut_out(package, {"reset"})


def test_too_much_is_left_where_it_is(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extracted, "MOST_LINES", 20)
    assert extracted.extracted("blocks", package, [("blocks", "Mlp")], (), set()) is None


def test_two_things_under_one_name_are_left_where_they_are(package: Path) -> None:
    (package / "layers" / "sizes.py").write_text("_FACTOR = 3\n\n\ndef to_pair(x):\n    return (x, _FACTOR)\n")
    assert extracted.extracted("blocks", package, [("blocks", "Mlp")], (), set()) is None


def test_what_has_nothing_to_do_with_torch_is_left_where_it_is(package: Path) -> None:
    assert extracted.extracted("blocks", package, [("blocks", "to_pair")], (), set()) is None


def cut_out(package: Path, named: set[str]) -> str:
    made = extracted.extracted("blocks", package, [("blocks", "Mlp")], (), named)
    assert made is not None
    return made.text


ASKED = """import torch
from torch import nn
import blocks.layers.mlp as parts
import blocks.optim.groups


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = parts.Mlp(4)

    def forward(self, x):
        return self.mlp(x)


net = Net()
optimizer = torch.optim.AdamW(blocks.optim.groups.decayed(net, 0.1), lr=0.1)
loss = net(torch.ones(2, 4)).pow(2).mean()
optimizer.zero_grad()
loss.backward()
optimizer.step()
"""
GROUPS = """import torch


def decayed(model, rate):
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() < 2]
    return [{"params": decay, "weight_decay": rate}, {"params": rest, "weight_decay": 0.0}]
"""


def test_what_is_asked_of_whole_modules_is_cut_out(package: Path, tmp_path: Path) -> None:
    for name, text in {"optim/__init__.py": "", "optim/groups.py": GROUPS}.items():
        (package / name).parent.mkdir(exist_ok=True)
        (package / name).write_text(text)
    script = tmp_path / "train.py"
    script.write_text(ASKED)
    conversion = convert_project(project.read_project([script]))
    assert conversion.report.exit_code == 0, conversion.report.as_text()
    text = next(output.data.decode() for output in conversion.outputs if output.member.place == "train.py")
    assert "self.mlp = blocks_modules.Mlp(4)\n" in text and "import blocks_modules\n" in text
    assert "import blocks.layers" not in text and "optax.adamw(" in text and "decayed" not in text


def test_modules_that_have_nothing_to_do_with_torch_are_not_searched(package: Path) -> None:
    pair = ("blocks.layers.sizes", "to_pair")
    wanted = [("blocks", "Mlp"), pair]
    for asked, found in (((), {*wanted}), ({pair}, {("blocks", "Mlp")})):
        parts = extracted.extracted("blocks", package, wanted, asked, set())
        assert parts is not None and parts.names == found
