"""Models that a script takes from an installed package: the file that defines them is rewritten along."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrate.files import borrowed
from migrate.files.project import read_project
from migrate.pipeline import ProjectConversion, convert_project

NETS = """import torch
import torch.nn as nn

from ._api import register


class Net(nn.Module):
    def __init__(self, width: int, classes: int = 3) -> None:
        super().__init__()
        self.fc = nn.Linear(4, width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.fc(x)))


@register()
def small(*, classes: int = 3) -> Net:
    return Net(4, classes)


@register()
def large(*, classes: int = 3) -> Net:
    return Net(64, classes)
"""
SCRIPT = """import argparse

import torch
import torch.nn as nn
IMPORT

parser = argparse.ArgumentParser()
parser.add_argument("-a", "--net-name", default="small")
args = parser.parse_args()
x, y = torch.ones(8, 4), torch.zeros(8, dtype=torch.long)
model = MADE
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""
ASKED = {
    "models.small()": ("from torchvision import models", "import torchvision_nets", "torchvision_nets.small()"),
    "models.small().cuda()": ("from torchvision import models", "import torchvision_nets", "torchvision_nets.small()"),
    "models.small(classes=3).to(x.device)": (
        "from torchvision import models",
        "import torchvision_nets",
        "torchvision_nets.small(classes=3)",
    ),
    "torchvision.models.large(classes=2)": ("import torchvision", "import torchvision_nets", "torchvision_nets.large("),
    "tiny()": ("from torchvision.models import small as tiny", "from torchvision_nets import small as tiny", "tiny()"),
    "models.__dict__[args.net_name]()": (
        "import torchvision.models as models",
        "import torchvision_nets",
        "getattr(torchvision_nets, args.net_name)()",
    ),
    "getattr(models, args.net_name)(classes=2)": (
        "from torchvision import models",
        "import torchvision_nets",
        "getattr(torchvision_nets, args.net_name)(classes=2)",
    ),
}


def converted(folder: Path, monkeypatch: pytest.MonkeyPatch, imported: str, made: str, nets: str) -> ProjectConversion:
    """A script beside an environment in which `torchvision.models` is one file."""
    package = folder / "site" / "torchvision"
    (package / "models").mkdir(parents=True)
    (package / "models" / "nets.py").write_text(nets)
    monkeypatch.setattr(borrowed, "installed", lambda name: [str(package)] if name == "torchvision" else [])
    script = folder / "project" / "train.py"
    script.parent.mkdir()
    script.write_text(SCRIPT.replace("IMPORT", imported).replace("MADE", made))
    return convert_project(read_project([script]))


@pytest.mark.parametrize("made", ASKED)
def test_the_file_is_rewritten_beside_the_script(made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imported, imports, call = ASKED[made]
    conversion = converted(tmp_path, monkeypatch, imported, made, NETS)
    texts = {output.member.place: output.data.decode() for output in conversion.outputs}
    assert [(found.code, found.message) for found in conversion.report.diagnostics] == [
        ("MIG103", "torchvision/models/nets.py as torchvision_nets.py")
    ]
    assert f"\n{imports}\n" in texts["train.py"] and f"model = {call}" in texts["train.py"]
    assert "from torchvision.models._api import register\n" in texts["torchvision_nets.py"]
    assert "class Net(nn.Module):\n    width: int\n" in texts["torchvision_nets.py"]
    assert [model.name for model in conversion.manifest.models] == ["Net"]


OPS = """import torch
import torch.nn as nn

from ..utils import _log


class Unused(nn.Module):
    def forward(self, x):
        return torch.jit.wait(x)


class Gated(nn.Module):
    def __init__(self, width):
        super().__init__()
        _log(self)
        self.gate = nn.Linear(width, width)

    def forward(self, x):
        return x * torch.sigmoid(self.gate(x))
"""


def test_layers_that_its_package_makes_are_cut_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ops = tmp_path / "site" / "torchvision" / "ops"
    ops.mkdir(parents=True)
    (ops / "misc.py").write_text(OPS.replace("from ..utils import _log", "def _log(module):\n    pass"))
    nets = NETS.replace("import register\n", "import register\nfrom ..ops.misc import Gated\n")
    nets = nets.replace("self.head = ", "self.gated = Gated(width)\n        self.head = ")
    nets = nets.replace("self.head(torch.relu(self.fc(x)))", "self.head(self.gated(self.fc(x)))")
    conversion = converted(tmp_path, monkeypatch, "from torchvision import models", "models.small()", nets)
    assert {found.code for found in conversion.report.diagnostics} == {"MIG103"}
    texts = {output.member.place: output.data.decode() for output in conversion.outputs}
    assert "from torchvision_modules import Gated\n" in texts["torchvision_nets.py"]
    assert "class Gated(nn.Module):" in texts["torchvision_modules.py"]
    assert "Unused" not in texts["torchvision_modules.py"]
    (model,) = [one for one in conversion.manifest.models if one.name == "Net"]
    assert "gated.gate.weight" in {leaf.torch for leaf in model.leaves}


@pytest.mark.parametrize(
    ("made", "nets"),
    [
        ("models.small()", NETS.replace("._api", "..data.misc")),  # it takes modules from the rest of its package
        ("models.huge()", NETS),
        ("models.__dict__[input()]()", NETS),
        (  # it may be a model of either class
            "models.__dict__[args.net_name]()",
            NETS + "\n\nclass Other(Net):\n    pass\n\n\ndef other():\n    return Other(4)\n",
        ),
    ],
)
def test_what_cannot_be_borrowed_needs_a_person(
    made: str, nets: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversion = converted(tmp_path, monkeypatch, "from torchvision import models", made, nets)
    assert "MIG202" in {found.code for found in conversion.report.diagnostics}
