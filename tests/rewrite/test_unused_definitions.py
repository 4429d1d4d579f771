"""Definitions of other files that a script has no use for: stubs and notes where they cannot be converted."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrate.diagnostics import Severity
from migrate.files import unused_definitions
from migrate.files.project import read_project
from migrate.pipeline import ProjectConversion, convert_project

UTILS = """\
import torch
import torch.nn as nn

REGISTRY = {}


def scaled(x):
    return torch.relu(x) * 2


def split(x, dim=0):
    return torch.jit.wait(x)[dim]


class Meter:
    def __init__(self):
        self.total = 0.0

    def add(self, x):
        self.total += x

    def median(self, xs):
        return torch.jit.wait(xs)


class Strange(nn.Module):
    def forward(self, x):
        return torch.jit.wait(x)


if __name__ == "__main__":
    torch.jit.wait(split(None))
"""
SCRIPT = "import torch\nIMPORT\n\nx = torch.ones(3)\nUSE\n"


def converted(folder: Path, use: str, imported: str = "import utils", utils: str = UTILS) -> ProjectConversion:
    (folder / "utils.py").write_text(utils)
    (folder / "train.py").write_text(SCRIPT.replace("IMPORT", imported).replace("USE", use))
    return convert_project(read_project([folder / "train.py"]))


def utils_of(conversion: ProjectConversion) -> str:
    return next(output.data.decode() for output in conversion.outputs if output.member.place == "utils.py")


def errors(conversion: ProjectConversion) -> list[str]:
    return [str(found) for found in conversion.report.diagnostics if found.severity is not Severity.NOTE]


def stubbed(conversion: ProjectConversion) -> list[str]:
    notes = [found for found in conversion.report.diagnostics if found.code == "MIG511"]
    return [note.message.partition(":")[0] for note in notes]


def test_what_the_script_does_not_use_is_a_stub_and_one_note(tmp_path: Path) -> None:
    conversion = converted(tmp_path, "meter = utils.Meter()\nmeter.add(utils.scaled(x).sum().item())")
    assert errors(conversion) == []
    assert {"split", "Meter.median", "Strange"} <= set(stubbed(conversion))
    text = utils_of(conversion)
    assert 'def split(x, dim=0):\n    raise NotImplementedError("MIG511: the program did not use this")\n' in text
    assert "    def median(self, xs):\n        raise NotImplementedError" in text
    assert "    return nn.relu(x) * 2\n" in text
    first = next(note for note in conversion.report.diagnostics if note.message.startswith("split"))
    assert (first.line, "line 12: MIG301" in first.message) == (11, True)


def test_a_stub_says_so_when_it_is_called_after_all(tmp_path: Path) -> None:
    names: dict[str, object] = {"__name__": "utils"}
    exec(utils_of(converted(tmp_path, "print(utils.scaled(x))")), names)
    for used in ("split", "Strange"):
        with pytest.raises(NotImplementedError, match="MIG511"):
            names[used](1)  # pyright: ignore[reportCallIssue]


USES = {
    "called": ("import utils", "print(utils.split(load()))"),
    "named": ("from utils import split", "table = {'a': split}"),
    "by another name": ("from utils import split as s", "f = s"),
    "by a constant": ("import utils", "f = getattr(utils, 'split')"),
    "by a name that is told as it runs": ("import utils, sys", "f = getattr(utils, sys.argv[1])"),
    "through its module's dict": ("import utils, sys", "f = utils.__dict__[sys.argv[1]]"),
    "through the file's names": ("from utils import split\nimport sys", "f = globals()[sys.argv[1]]"),
    "through all of the file's names": ("from utils import *\nimport sys", "f = globals()[sys.argv[1]]"),
    "as a part of what has another name": ("import utils", "m = utils\nf = m.split"),
    "by whoever is given its module": ("import utils", "def call(m):\n    return m.split(x)\n\n\ncall(utils)"),
    "by what it finds": ("import importlib", "f = importlib.import_module('utils').split"),
}


def test_a_method_that_is_told_as_the_program_runs_is_used(tmp_path: Path) -> None:
    conversion = converted(tmp_path, "import sys\nf = getattr(Meter(), sys.argv[1])", "from utils import Meter")
    assert not {"Meter", "Meter.median"} & set(stubbed(conversion))
    assert any("MIG301" in found for found in errors(conversion))


@pytest.mark.parametrize("kind", USES)
def test_what_is_used_is_looked_at_all_the_same(kind: str, tmp_path: Path) -> None:
    imported, use = USES[kind]
    conversion = converted(tmp_path, use, f"{imported}\nimport utils")
    assert "split" not in stubbed(conversion)
    assert any("MIG301" in found for found in errors(conversion))


def test_what_is_used_by_what_is_used_is_followed(tmp_path: Path) -> None:
    utils = UTILS + "\n\ndef outer(path):\n    return split(torch.load(path)['x'])\n"
    conversion = converted(tmp_path, "print(utils.outer('a.pt'))", utils=utils)
    assert "split" not in stubbed(conversion) and errors(conversion)


@pytest.mark.parametrize(
    "bound",
    ["for split in range(3):\n    pass", "def f(split):\n    return split\n\n\nf(1)", "x.split = 1", "dict(split=1)"],
)
def test_names_of_a_script_s_own_use_nothing(bound: str, tmp_path: Path) -> None:
    conversion = converted(tmp_path, f"def g():\n    {bound.replace(chr(10), chr(10) + '    ')}\n\n\nprint(g())")
    assert "split" in stubbed(conversion)


@pytest.mark.parametrize("bound", ["def split(x):\n    return x", "split = utils.scaled"])
def test_what_a_script_defines_itself_is_no_use_of_the_other(bound: str, tmp_path: Path) -> None:
    assert "split" in stubbed(converted(tmp_path, f"{bound}\n\n\nprint(utils.scaled(split(x)))"))


def test_names_that_a_script_binds_and_has_from_elsewhere_as_well_are_used(tmp_path: Path) -> None:
    use = "print(split(x))\n\n\ndef split(x):\n    return x"
    for imported in ("from utils import *", "from utils import split"):
        assert "split" not in stubbed(converted(tmp_path, use, imported))


def test_a_registered_function_is_used(tmp_path: Path) -> None:
    utils = UTILS.replace("def split", "@REGISTRY.setdefault\ndef split")
    assert "split" not in stubbed(converted(tmp_path, "print(utils.REGISTRY)", utils=utils))


def test_files_that_are_named_are_converted_whole(tmp_path: Path) -> None:
    converted(tmp_path, "print(utils.scaled(x))")
    conversion = convert_project(read_project([tmp_path / "train.py", tmp_path / "utils.py"]))
    assert stubbed(conversion) == [] and errors(conversion)


def test_what_is_very_long_is_not_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what names torch, nor what names such a definition; what has nothing to do with it stays."""
    more = "def doubled(x):\n    return scaled(scaled(x))\n\n\ndef read(path):\n    return open(path).read()\n"
    utils = f"{UTILS}\n\n{more}"
    monkeypatch.setattr(unused_definitions, "LONG", 13)
    conversion = converted(tmp_path, "print(utils.Meter())", utils=utils)
    note = next(one for one in conversion.report.diagnostics if one.path.endswith("utils.py"))
    assert (note.line, note.code) == (7, "MIG511")
    assert note.message.startswith("scaled and 5 more, 13 lines in all, were not tried: name this file as well")
    text = utils_of(conversion)
    assert "def doubled(x):\n    raise NotImplementedError" in text
    assert "def read(path):\n    return open(path).read()\n" in text
    monkeypatch.setattr(unused_definitions, "LONG", 14)
    assert "return scaled(scaled(x))" in utils_of(converted(tmp_path, "print(utils.Meter())", utils=utils))


def test_methods_that_another_package_may_call_stay(tmp_path: Path) -> None:
    utils = UTILS.replace("class Meter:", "class Meter(__import__('collections').UserDict):")
    utils = utils.replace("__import__('collections').UserDict", "UserDict")
    utils = "from collections import UserDict\n" + utils
    assert "Meter.median" not in stubbed(converted(tmp_path, "print(utils.Meter())", utils=utils))


WRAPPER = """

class Shown:
    def __init__(self):
        self.client = visdom.Visdom()

    def image(self, x):
        self.client.image(torch.jit.wait(x))

    def __getattr__(self, name):
        return getattr(self.client, name)
"""


@pytest.mark.parametrize(
    ("made", "used"),
    [("visdom.Visdom()", False), ("Meter()", True), ("visdom.Visdom() or Meter()", True), ("other", True)],
)
def test_what_is_asked_of_an_object_of_another_package_uses_no_method_here(
    made: str, used: bool, tmp_path: Path
) -> None:
    wrapper = WRAPPER.replace("visdom.Visdom()", made).replace("(self)", "(self, other=None)", 1)
    conversion = converted(tmp_path, "print(utils.Shown())", utils=f"import visdom\n{UTILS}{wrapper}")
    assert ("Shown.image" in stubbed(conversion)) is not used
