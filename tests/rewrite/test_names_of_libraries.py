"""Files that read their own names through the module that they are, and that name torch's functions at their end."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrate.files.project import read_project
from migrate.files.source import parse
from migrate.lowering.plainer.names_first import with_names_first
from migrate.lowering.plainer.own_module import with_own_names
from migrate.lowering.plainer.project_classes import classes_of, is_module
from migrate.lowering.rounds import Input
from migrate.pipeline import convert
from tests.conformance import rewritten
from tests.rewrite.test_projects import converted, texts, write

LIBRARY = """import sys

import torch
import torch.nn as nn

lib = sys.modules[__name__]
Base = nn.Module


def scale():
    return 2.0


class Block(lib.Base):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return lib.product(lib.flat(self.fc(x)), x) * lib.scale()


product = torch.matmul
flat = lambda x, *args, **kwargs: x.t(*args, **kwargs)
"""
USE = "\n\nnet = Block(3)\nprint(net(torch.ones(3, 3)))\n"


def test_a_module_that_names_itself_is_its_names() -> None:
    made = convert(parse("x.py", LIBRARY + USE))
    assert made.report.diagnostics == (), made.report.as_text()
    plain = LIBRARY.replace("lib = sys.modules[__name__]\n", "").replace("lib.", "")
    names = "product = torch.matmul\nflat = lambda x, *args, **kwargs: x.t(*args, **kwargs)\n"
    plain = plain.replace(names, "").replace("def scale", names + "\n\ndef scale")
    assert made.text.split() == convert(parse("x.py", plain + USE)).text.split()
    assert "return (self.fc(x).T @ x) * scale()" in made.text


HIDDEN = """import sys

lib = sys.modules[__name__]


def count():
    return 3


def some(count):
    return [min(count, lib.count()) for _ in range(2)]


def other():
    return lib.missing
"""


def test_a_name_that_something_nearer_has_is_asked_of_the_module() -> None:
    (made,) = with_own_names([Input(parse("x.py", HIDDEN))])
    assert made.source.module.code == HIDDEN


def test_a_module_that_has_another_name_later_is_left() -> None:
    text = LIBRARY + "\nlib = None\n"
    (made,) = with_own_names([Input(parse("x.py", text))])
    assert made.source.module.code == text


LEFT = {
    "given twice": ("flat = ", "product = torch.add\nflat = "),
    "a builtin's, too": ("product", "abs"),
    "of what is no import": ("product = torch.matmul", "product = lib.other"),
    "read by no function": ("lib.product", "lib.scale"),
}


@pytest.mark.parametrize("why", LEFT)
def test_a_name_stays_where_its_place_matters(why: str) -> None:
    text = LIBRARY.replace(*LEFT[why])
    (made,) = with_names_first(with_own_names([Input(parse("x.py", text))]))
    name = "abs" if "builtin" in why else "product"
    assert made.source.module.code.rindex(f"\n{name} = ") > made.source.module.code.index("class Block")


FILES = {
    "lib/__init__.py": "from .parts import Base\nfrom . import parts\n",
    "lib/parts.py": "import torch.nn as nn\n\n\nclass Base(nn.Module):\n    pass\n\n\nclass Net(Base):\n    pass\n",
    "train.py": """import torch
import lib
import lib.parts
from lib import Base, parts as p
from lib.parts import *


class Net(p.Base):
    pass


class Other(lib.Base):
    pass


class Whole(lib.parts.Net):
    pass


class Plain(Base):
    pass
""",
}


def test_classes_are_told_apart_by_their_files(tmp_path: Path) -> None:
    folder = write(tmp_path, FILES)
    classes = classes_of(read_project([folder / "train.py"]).inputs)
    bases = {name: one.bases for name, one in classes.items() if not name.startswith("lib")}
    own, whole = "lib/parts:Base", "lib/parts:Net"
    assert bases == {"Net": [own], "Other": [own], "Whole": [whole], "Plain": [own]}
    assert all(is_module(name, classes) for name in classes)


SETTINGS = {
    "base.py": """import torch.nn as nn


class Base(nn.Module):
    def __init__(self, every=2):
        super().__init__()
        self.every = every


class Net(Base):
    def __init__(self, width):
        Base.__init__(self)
        self.fc = nn.Linear(3, width)

    def forward(self, x):
        return self.fc(x) * self.every
""",
    "train.py": """import torch
import torch.nn as nn
import base


class Net(base.Base):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(3, width)

    def forward(self, x):
        return self.fc(x) + self.every


net, other = Net(4), base.Net(2)
print(net(torch.ones(1, 3)).shape, other(torch.ones(1, 3)).shape)
""",
}


def test_settings_that_no_class_of_either_file_gives(tmp_path: Path) -> None:
    """Both files have a `Net` that inherits them."""
    made = converted(write(tmp_path, SETTINGS), "train.py")
    assert made.report.diagnostics == (), made.report.as_text()
    assert "    every = 2\n" in texts(made)["base.py"]
    assert "class Net(base.Base):\n    width: int\n" in texts(made)["train.py"]


LOADED = """import torch
from torch.utils.data import DataLoader, TensorDataset


def collate(rows):
    return [reshaped(stacked(part), (1, -1)) for part in zip(*rows)]


class Data:
    def __init__(self, n):
        self.x = full((n, 3), 2.0)
        self.y = product(reshaped(self.x, (n, 3)), ones(3, 1))

    def loader(self):
        return DataLoader(TensorDataset(self.x, self.y), batch_size=2, collate_fn=collate)


full = torch.full
stacked = torch.stack
reshaped = lambda x, *args, **kwargs: x.reshape(*args, **kwargs)
product = torch.matmul
ones = torch.ones
"""


def test_data_that_stay_torch_are_made_by_its_own_names() -> None:
    theirs, ours = rewritten.both(LOADED)
    assert [y.tolist() for _, y in ours["Data"](3).loader()] == [y.tolist() for _, y in theirs["Data"](3).loader()]
