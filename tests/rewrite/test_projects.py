"""Projects: which files an import reaches, what is converted together, what is copied, where it is written."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from migrate.cli import app
from migrate.files.project import read_project
from migrate.pipeline import ProjectConversion, convert_project
from tests.conformance.run_layer import numpy_state
from weight_port import port_state_dict

MODEL = """\
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return torch.relu(self.fc(x))
"""
USE = "import torch\n\nmodel = NET()\nprint(model(torch.ones(4, 3)))\n"
runner = CliRunner()


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def converted(folder: Path, *scripts: str) -> ProjectConversion:
    return convert_project(read_project([folder / script for script in scripts]))


def texts(conversion: ProjectConversion) -> dict[str, str]:
    return {output.member.place: output.data.decode() for output in conversion.outputs}


HERE = "os.path.dirname(os.path.abspath(__file__))"
# how a script takes a model from another file: the import, the name, where the model is
IMPORTS = {
    "from a module": ("from model import Net", "Net", "model.py"),
    "a module under another name": ("import model as m", "m.Net", "model.py"),
    "a class under another name": ("from model import Net as N", "N", "model.py"),
    "everything": ("from model import *", "Net", "model.py"),
    "a module of a package": ("import nets.model", "nets.model.Net", "nets/model.py"),
    "a module from a package": ("from nets import model", "model.Net", "nets/model.py"),
    "a folder without __init__.py": ("from nets.model import Net", "Net", "nets/model.py"),
    "a folder that holds folders only": ("from nets.deep.model import Net", "Net", "nets/deep/model.py"),
    "a folder on the search path": (
        "import sys\nsys.path.append('../lib')\nimport model",
        "model.Net",
        "../lib/model.py",
    ),
    "a folder found from __file__": (
        f"import os, sys\nsys.path.insert(0, os.path.join({HERE}, '..', 'lib'))\nfrom model import Net",
        "Net",
        "../lib/model.py",
    ),
    "a folder found with pathlib": (
        "import sys\nfrom pathlib import Path\nROOT = Path(__file__).resolve().parent.parent / 'lib'\n"
        "sys.path += []\nsys.path.append(str(ROOT))\nfrom model import Net",
        "Net",
        "../lib/model.py",
    ),
}


@pytest.mark.parametrize("kind", IMPORTS)
def test_a_model_is_known_however_it_is_imported(kind: str, tmp_path: Path) -> None:
    imported, name, place = IMPORTS[kind]
    folder = write(tmp_path / "top", {"train.py": f"{imported}\n{USE.replace('NET', name)}", place: MODEL})
    conversion = converted(folder, "train.py")
    assert conversion.report.diagnostics == ()
    made = {path.rsplit("/", 1)[-1]: text for path, text in texts(conversion).items()}
    assert "model.apply({" in made["train.py"] or "eval_step(" in made["train.py"]
    assert "nn.Dense(2" in made["model.py"]
    assert [leaf.flax for leaf in conversion.manifest.models[0].leaves] == ["params/fc/kernel", "params/fc/bias"]


def test_names_that_a_package_passes_on_and_relative_imports(tmp_path: Path) -> None:
    files = {
        "nets/__init__.py": "from .impl import Net, unused\n__all__ = ['Net']\n",
        "nets/impl.py": "from . import base\nfrom .base import Net\n\nunused = 1\n",
        "nets/base.py": MODEL,
        "train.py": f"from nets import Net\n{USE.replace('NET', 'Net')}",
    }
    conversion = converted(write(tmp_path, files), "train.py")
    assert conversion.report.diagnostics == ()
    assert "nn.Dense(2" in texts(conversion)["nets/base.py"]
    assert texts(conversion)["nets/__init__.py"] == files["nets/__init__.py"]


PACKAGE = {
    "train.py": USE.replace("model =", "from nets.model import Net\n\nmodel =").replace("NET", "Net"),
    "nets/__init__.py": "from .other import (\n    Other,\n    also,\n)\nfrom .model import Net\nfrom . import odd\n"
    "\n__all__ = ['Net', 'Other']\n",
    "nets/model.py": MODEL,
    "nets/other.py": MODEL.replace("Net", "Other") + "\n\ndef also(x: torch.Tensor, *, by=2):\n    return x.fail()\n",
    "nets/odd.py": "import torch\n\nSIZES = (1, 2)\n",
}


def test_what_a_package_takes_from_itself_in_a_circle(tmp_path: Path) -> None:
    base = MODEL.replace("Net", "Base")
    own = "import torch.nn as nn\nfrom nets import Base\n\n\nclass Net(Base):\n    pass\n"
    passed_on = {"nets/__init__.py": "from .base import *\nfrom .own import *\n"}
    use = "from nets import *\n" + USE.replace("NET", "Net")
    write(tmp_path, {"nets/base.py": base, "nets/own.py": own, **passed_on, "train.py": use})
    conversion = converted(tmp_path, "train.py")
    assert not conversion.report.diagnostics
    assert "class Net(Base):" in texts(conversion)["nets/own.py"]
    assert "model.init(" in texts(conversion)["train.py"]


def test_what_a_file_makes_as_a_script_is_not_imported(tmp_path: Path) -> None:
    tried = '\n\nif __name__ == "__main__":\n    model = Net()\n    print(model(torch.ones(1, 3)))\n'
    use = "from model import *\n" + USE.replace("NET", "Net")
    conversion = converted(write(tmp_path, {"model.py": MODEL + tried, "train.py": use}), "train.py")
    assert conversion.report.diagnostics == ()


def test_what_a_package_on_the_way_imports_for_nobody_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, PACKAGE)
    made = converted(tmp_path, "train.py")
    said = [(found.code, found.line, found.message) for found in made.report.diagnostics]
    assert said == [("MIG102", 1, "odd.py, other.py")]
    assert texts(made)["nets/__init__.py"] == "from .model import Net\n\n__all__ = ['Net']\n"
    assert set(texts(made)) == {"train.py", "nets/__init__.py", "nets/model.py"}


USING = {  # what makes a file one that the program uses
    "the script takes a name of it from the package": {"train.py": "from nets import Other\n" + PACKAGE["train.py"]},
    "the script has the package": {"train.py": "import nets\n" + PACKAGE["train.py"]},
    "everything is taken": {"train.py": "from nets import *\n" + PACKAGE["train.py"]},
    "the package uses it": {"nets/__init__.py": PACKAGE["nets/__init__.py"] + "Other.name = 'other'\n"},
    "importing it does something": {"nets/other.py": PACKAGE["nets/other.py"] + "torch.manual_seed(1)\n"},
    "it enters its class in a list": {
        "nets/other.py": "from .model import Net\n" + PACKAGE["nets/other.py"].replace("class", "@Net.also\nclass")
    },
    "modules are imported by their names": {"train.py": "import importlib\n" + PACKAGE["train.py"]},
}


@pytest.mark.parametrize("why", USING)
def test_what_the_program_uses_stays(why: str, tmp_path: Path) -> None:
    write(tmp_path, PACKAGE | USING[why])
    assert "nets/other.py" in texts(converted(tmp_path, "train.py"))


def test_a_whole_package_is_converted_whole(tmp_path: Path) -> None:
    write(tmp_path, PACKAGE)
    assert set(texts(converted(tmp_path, *PACKAGE))) == set(PACKAGE)


def test_files_that_have_nothing_to_do_with_torch_are_copied(tmp_path: Path) -> None:
    files = {
        "train.py": f"import config\nfrom model import Net\n{USE.replace('NET', 'Net')}",
        "model.py": MODEL,
        "config.py": "SIZE  =  3   # odd   spacing\r\n",
    }
    write(tmp_path, files)
    (tmp_path / "config.py").write_bytes(files["config.py"].encode())
    outputs = {o.member.place: o for o in converted(tmp_path, "train.py").outputs}
    assert not outputs["config.py"].changed and outputs["config.py"].data == files["config.py"].encode()
    assert outputs["model.py"].changed and outputs["train.py"].changed


def test_a_file_that_cannot_be_parsed_costs_what_comes_from_it(tmp_path: Path) -> None:
    write(
        tmp_path, {"train.py": f"from model import Net\n{USE.replace('NET', 'Net')}", "model.py": MODEL + "x = = 1\n"}
    )
    found = {one.code for one in converted(tmp_path, "train.py").report.diagnostics}
    assert {"MIG001", "MIG205"} <= found


def test_a_bug_of_our_own_costs_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from migrate import pipeline

    write(tmp_path, {"a.py": MODEL, "b.py": MODEL})
    emit = pipeline.emit
    monkeypatch.setattr(
        pipeline, "emit", lambda source, lowered: 1 / 0 if "a.py" in source.path else emit(source, lowered)
    )
    conversion = converted(tmp_path, "a.py", "b.py")
    (found,) = conversion.report.diagnostics
    assert found.code == "MIG900" and "ZeroDivisionError" in found.message and found.path.endswith("a.py")
    assert {output.member.place: output.changed for output in conversion.outputs} == {"a.py": False, "b.py": True}


def test_a_project_is_written_into_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"train.py": f"from model import Net\n{USE.replace('NET', 'Net')}", "model.py": MODEL})
    done = runner.invoke(app, ["rewrite", "train.py"])
    assert done.exit_code == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "train_jax").iterdir()) == ["model.py", "train.py", "weights.json"]
    refused = runner.invoke(app, ["rewrite", "train.py", "-o", "one.py"])
    assert refused.exit_code == 2 and "converted together with model.py: name a folder" in refused.stderr
    inside = runner.invoke(app, ["rewrite", "train.py", "-o", "."])
    assert inside.exit_code == 2 and "never overwritten" in inside.stderr
    assert "torch" in (tmp_path / "train.py").read_text()


def test_standard_input_says_what_it_cannot_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write(tmp_path, {"model.py": MODEL}))
    done = runner.invoke(app, ["rewrite", "-"], input=f"from model import Net\n{USE.replace('NET', 'Net')}")
    assert done.exit_code == 1 and "MIG205 model: uses torch" in done.stderr


DEEP = {
    "a sum of many terms": "x = " + " + ".join(["1"] * 1500),
    "a chain of attributes": "y = x" + ".T" * 800,
    "many branches": "n = 1\nif n == 0:\n    pass\n" + "".join(f"elif n == {i}:\n    pass\n" for i in range(1, 250)),
    "loops in loops": "".join("    " * i + f"for i{i} in range(2):\n" for i in range(15)) + "    " * 15 + "x = x + 1",
}


@pytest.mark.parametrize("kind", DEEP)
def test_deep_nesting(kind: str, tmp_path: Path) -> None:
    write(tmp_path, {"a.py": f"import torch\n\nx = torch.ones(2, 2)\n{DEEP[kind]}\nprint(torch.relu(x))\n"})
    conversion = converted(tmp_path, "a.py")
    assert not [found for found in conversion.report.diagnostics if found.severity == "fatal"]
    assert "nn.relu(x)" in texts(conversion)["a.py"]


ODD = {
    "Windows line ends": b"import torch\r\n\r\nif True:\r\n    x = torch.ones(2)\r\n",
    "tabs": b"import torch\n\nif True:\n\tx = torch.ones(2)\n",
    "form feeds": b"import torch\n\x0c\nif True:\n    x = torch.ones(2)\n",
    "a byte order mark": b"\xef\xbb\xbfimport torch\n\nif True:\n    x = torch.ones(2)\n",
    "another encoding": b"# -*- coding: latin-1 -*-\nimport torch\n\nif True:\n    x = torch.ones(2)  # \xe9\n",
    "no line end": b"import torch\n\nif True:\n    x = torch.ones(2)",
}


@pytest.mark.parametrize("kind", ODD)
def test_the_bytes_of_a_file_keep_their_ways(kind: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(ODD[kind])
    (output,) = converted(tmp_path, "a.py").outputs
    compile(output.data, "a.py", "exec")
    old, new = b"torch.ones(2)", b"jnp.ones(2)"
    head, tail = ODD[kind].split(b"\n", 1) if b"coding" not in ODD[kind] else ODD[kind].split(b"import torch", 1)
    assert output.data.endswith(tail.replace(old, new)) or output.data.endswith(tail.replace(old, new).lstrip(b"\n"))
    assert (output.data.count(b"\r\n") > 0) == (b"\r\n" in ODD[kind])
    assert output.data.startswith(head.split(b"import")[0])


def test_a_package_keeps_its_name_and_its_functions_their_seed(tmp_path: Path) -> None:
    """Files import one another by the name of the package, which is run by it, too. A function that seeds torch makes
    its own key, whoever calls it, and takes the weights of what another one makes, whatever is done with that."""
    write(
        tmp_path / "src" / "net",
        {
            "__init__.py": "",
            "__main__.py": "from net.train import main\n\nmain()\n",
            "model.py": f"{MODEL}\n\ndef build():\n    model = Net()\n    return model\n",
            "seeds.py": "import torch\n\n\ndef seed_all(seed=7):\n    torch.manual_seed(seed)\n",
            "train.py": "import torch\nfrom .model import build\nfrom .seeds import seed_all\n\n\ndef main():\n"
            "    seed_all()\n    model = build().to('cuda' if torch.cuda.is_available() else 'cpu')\n"
            "    print(model(torch.ones(4, 3)))\n\n\nif __name__ == '__main__':\n    main()\n",
        },
    )
    for files in (["src/net/train.py"], [f"src/net/{name}.py" for name in ("__main__", "train")]):
        conversion = converted(tmp_path, *files)
        assert not conversion.report.diagnostics
        made = texts(conversion)["net/train.py"]
        assert "def main():\n    seed_all()\n    key = jax.random.key(7)\n" in made
        assert "model = build()\n" in made
        assert "params = model.init(" in made


NORMS = """\
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, norm_layer=nn.BatchNorm2d):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, bias=norm_layer == nn.InstanceNorm2d)
        self.norm = norm_layer(4)

    def forward(self, x):
        return self.norm(self.conv(x))
"""


def test_layers_that_two_files_make_are_not_compared(tmp_path: Path) -> None:
    use = "import torch\nimport torch.nn as nn\nfrom norms import Net\n\nmodel = Net(nn.LAYER)\n"
    use += "print(model(torch.ones(2, 3, 8, 8)))\n"
    found = {}
    for layer in ("BatchNorm2d", "InstanceNorm2d"):
        write(tmp_path, {"norms.py": NORMS, "main.py": use.replace("LAYER", layer)})
        found[layer] = [one.code for one in converted(tmp_path, "main.py").report.diagnostics]
    assert found == {"BatchNorm2d": [], "InstanceNorm2d": ["MIG304"]}


OPTIMIZER = """import torch


class Sign(torch.optim.Optimizer):
    def __init__(self, params, lr=0.1):
        super().__init__(params, dict(lr=lr))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.sub_(p.grad.sign(), alpha=group["lr"])
"""


@pytest.mark.parametrize(
    ("imported", "called"),
    [("import own", "own.Sign"), ("from own import Sign", "Sign"), ("from own import Sign as Other", "Other")],
)
def test_an_optimizer_class_of_another_file(imported: str, called: str, tmp_path: Path) -> None:
    train = f"""import torch
{imported}

model = torch.nn.Linear(2, 1)
optimizer = {called}(model.parameters(), lr=0.3)
model(torch.ones(4, 2)).sum().backward()
optimizer.step()
"""
    made = texts(converted(write(tmp_path, {"own.py": OPTIMIZER, "train.py": train}), "train.py"))
    assert f"optimizer = {called}(0.3)" in made["train.py"]
    assert "optax.GradientTransformation(init, update)" in made["own.py"]


PARTS = """import math
import torch
import torch.nn as nn

FACTOR = 2


def scaled(n):
    return FACTOR * n


class ConvNorm(nn.Sequential):
    def __init__(self, n, m, kernel=3, norm=nn.BatchNorm2d, act=nn.ReLU):
        layers = [nn.Conv2d(n, m, kernel, padding=kernel // 2, bias=norm is None)]
        if norm is not None:
            layers.append(norm(m))
        if act is not None:
            layers.append(act())
        super().__init__(*layers)


class Mlp(torch.nn.Sequential):
    def __init__(self, n, hidden, act=nn.ReLU):
        layers = []
        size = n
        for width in hidden[:-1]:
            layers += [nn.Linear(size, scaled(width)), act()]
            size = scaled(width)
        super().__init__(*layers, nn.Linear(size, hidden[-1]))


class Head(nn.Module):
    def __init__(self, n, m, scale=math.pi):
        super().__init__()
        width = n + m
        self.fc = nn.Sequential(nn.Linear(n, width), nn.Linear(width, m))
        self.scale = scale

    def forward(self, x):
        return self.fc(x) * self.scale + scaled(1)
"""
BUILT = """import torch
from torch import nn
from parts import ConvNorm, Head, Mlp


class Stem(ConvNorm):
    def __init__(self, m, n, norm, act):
        super().__init__(n, m, kernel=5, norm=norm, act=act)


class Block(Mlp):
    def __init__(self, n, hidden):
        super().__init__(n, [hidden, n], act=nn.GELU)


class Classes(Head):
    def __init__(self, n, width):
        super().__init__(n, 3)
        self.norm = nn.LayerNorm(n)
        self.more = nn.Linear(3, width)

    def forward(self, x):
        return self.more(super().forward(self.norm(x)))


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = Stem(8, 3, nn.BatchNorm2d, nn.ReLU)
        self.row = nn.Sequential(Block(8, 5), Classes(8, 2))

    def forward(self, x):
        return self.row(self.stem(x).mean((2, 3)))
"""


def test_bases_of_another_file_that_are_given_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = converted(write(tmp_path / "torch", {"parts.py": PARTS, "main.py": BUILT}), "main.py")
    assert made.report.exit_code == 0, made.report.as_text()
    write(tmp_path / "jax", texts(made))

    def model(folder: str) -> Any:
        for name in ("parts", "main"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        with monkeypatch.context() as within:
            within.syspath_prepend(tmp_path / folder)
            return importlib.import_module("main").M()

    theirs, ours = model("torch").eval(), model("jax")
    x = torch.randn(4, 3, 6, 6)
    weights = next(one for one in made.manifest.models if one.name == "M")
    variables = port_state_dict(numpy_state(theirs), weights)
    np.testing.assert_allclose(ours.apply(variables, x.numpy()), theirs(x).detach().numpy(), rtol=1e-4, atol=1e-5)
    theirs(x).square().sum().backward()
    grads = jax.grad(lambda v: (ours.apply(v, x.numpy()) ** 2).sum())(variables)["params"]
    expected = theirs.row[1].fc[0].weight.grad.numpy()
    np.testing.assert_allclose(grads["row"]["layers_1"]["fc"]["layers_0"]["kernel"].T, expected, rtol=1e-3, atol=1e-5)


def test_a_local_name_that_hides_what_a_base_reads_is_refused(tmp_path: Path) -> None:
    hiding = BUILT.replace("def __init__(self, n, hidden):", "def __init__(self, n, hidden, scaled=1):")
    made = converted(write(tmp_path, {"parts.py": PARTS, "main.py": hiding}), "main.py")
    assert "MIG201" in [found.code for found in made.report.diagnostics]


def test_the_examples_of_a_known_package_use_it_as_others_do(tmp_path: Path) -> None:
    """Its own files, beside them in its repository, are no part of their project."""
    example = "from accelerate import Accelerator\n" + MODEL + USE.replace("NET", "Accelerator().prepare(Net)")
    files = {"setup.py": "", "src/accelerate/__init__.py": "import torch\n\nAccelerator = torch.compile\n"}
    write(tmp_path, {**files, "examples/first.py": example})
    project = read_project([tmp_path / "examples/first.py"])
    assert [member.place for member in project.members] == ["first.py"]


@pytest.mark.parametrize(("marker", "found"), [("setup.py", True), ("notes.txt", False)])
def test_a_project_reaches_up_to_its_top_folder(marker: str, found: bool, tmp_path: Path) -> None:
    """As deep as that is below; where nothing marks it, two folders up."""
    script = "import lib.algos.core as core\n\nmodel = core.Net()\n"
    files = {f"top/{marker}": "", "top/lib/__init__.py": "", "top/lib/algos/core.py": MODEL}
    write(tmp_path, {**files, "top/lib/algos/deep/er/train.py": script})
    project = read_project([tmp_path / "top/lib/algos/deep/er/train.py"])
    assert ("lib/algos/core.py" in [member.place for member in project.members]) is found


def test_a_package_that_an_import_with_a_name_leads_through_is_not_used(tmp_path: Path) -> None:
    packed = "from lib.other import Other\n"
    other = "import torch\n\n\ndef make(settings=dict()):\n    return torch.jit.script(settings)\n\n\nOther = make\n"
    files = {"lib/__init__.py": packed, "lib/other.py": other, "lib/core.py": MODEL}
    script = "import lib.core as core\n" + USE.replace("NET", "core.Net")
    project = read_project([write(tmp_path, {**files, "train.py": script}) / "train.py"])
    assert sorted(member.place for member in project.members) == ["lib/__init__.py", "lib/core.py", "train.py"]


def test_models_of_one_name_are_told_apart_by_their_files(tmp_path: Path) -> None:
    """The script's own keep their names in the manifest, whatever it imports first."""
    own = MODEL.replace("nn.Linear(3, 2)", "nn.Linear(3, 4)")
    script = f"from nets.model import Net as Other\n{own}\n\nx = torch.ones(4, 3)\nprint(Other()(x), Net()(x))\n"
    conversion = converted(write(tmp_path, {"train.py": script, "nets/model.py": MODEL}), "train.py")
    shapes = {model.name: model.leaves[0].shape for model in conversion.manifest.models}
    assert shapes == {"Net": (3, 4), "nets.model.Net": (3, 2)}


def test_a_bug_before_anything_is_lowered_costs_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from migrate import pipeline

    write(tmp_path, {"a.py": MODEL, "b.py": MODEL})
    taken = pipeline.taken_first
    monkeypatch.setattr(
        pipeline,
        "taken_first",
        lambda inputs, options: 1 / 0 if "a.py" in inputs[0].source.path else taken(inputs, options),
    )
    conversion = converted(tmp_path, "a.py", "b.py")
    (found,) = conversion.report.diagnostics
    assert found.code == "MIG900" and "ZeroDivisionError" in found.message and found.path.endswith("a.py")
    assert {output.member.place: output.changed for output in conversion.outputs} == {"a.py": False, "b.py": True}
