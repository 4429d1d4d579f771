"""Notebooks: cells one to one, what IPython reads left as it is, findings at their cells."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from migrate.cli import app
from migrate.files.source import parse
from migrate.pipeline import convert

MODEL = """\
# the model
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 1)

    def forward(self, x):
        return self.fc(x)
"""
STEP = "for step in range(5):\n    optimizer.zero_grad()\n    loss = F.mse_loss(model(x), y)\n    loss.backward()\n"
STEP += "    optimizer.step()"
CELLS = [
    "import torch\nfrom torch import nn\nfrom torch.nn import functional as F",
    MODEL,
    "# only a comment",
    "model = Net()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    "x = torch.ones(8, 3)\ny = torch.ones(8, 1)\nx.shape",
    STEP,
    "print(loss.item())",
]
METADATA = {"kernelspec": {"name": "python3", "language": "python"}, "mine": {"kept": True}}
runner = CliRunner()


def code(source: str) -> dict[str, Any]:
    output = {"output_type": "stream", "name": "stdout", "text": ["old"]}
    lines = source.splitlines(keepends=True)
    return {
        "cell_type": "code",
        "execution_count": 3,
        "metadata": {"tags": ["t"]},
        "outputs": [output],
        "source": lines,
    }


def notebook(*sources: str) -> dict[str, Any]:
    title = {"cell_type": "markdown", "metadata": {}, "source": ["# Überschrift"]}
    return {"cells": [title, *map(code, sources)], "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}


def run(folder: Path, data: dict[str, Any] | str, *options: str) -> tuple[int, str, dict[str, Any] | None]:
    path = folder / "a.ipynb"
    path.write_text(data if isinstance(data, str) else json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    done = runner.invoke(app, ["rewrite", str(path), *options])
    target = folder / "a_jax.ipynb"
    return done.exit_code, done.stderr, json.loads(target.read_text()) if target.exists() else None


def sources(data: dict[str, Any]) -> list[str]:
    return ["".join(cell["source"]) for cell in data["cells"] if cell["cell_type"] == "code"]


def test_cells_stay_one_to_one_and_share_their_state(tmp_path: Path) -> None:
    exit_code, said, made = run(tmp_path, notebook(*CELLS))
    assert exit_code == 0, said
    assert made is not None
    assert [cell["cell_type"] for cell in made["cells"]] == ["markdown"] + ["code"] * len(CELLS)
    assert made["metadata"] == METADATA and made["cells"][0]["source"] == ["# Überschrift"]
    for cell in made["cells"][1:]:
        assert (cell["outputs"], cell["execution_count"], cell["metadata"]) == ([], None, {"tags": ["t"]})
    cells = sources(made)
    assert "import flax.linen as nn" in cells[0] and "class Net(nn.Module):" in cells[1]
    assert cells[2] == "# only a comment" and cells[3].endswith("x.shape")
    assert "def train_step(" in cells[4] and cells[5] == "print(loss.item())"
    script = convert(parse("a.py", "\n".join(CELLS) + "\n")).text
    assert ast.dump(ast.parse("\n".join(cells))) == ast.dump(ast.parse(script))


def test_a_rewritten_notebook_is_left_as_it_is(tmp_path: Path) -> None:
    run(tmp_path, notebook(*CELLS))
    first = (tmp_path / "a_jax.ipynb").read_bytes()
    assert runner.invoke(app, ["rewrite", str(tmp_path / "a_jax.ipynb")]).exit_code == 0
    assert (tmp_path / "a_jax_jax.ipynb").read_bytes() == first


def test_what_python_3_does_anyway_need_not_be_asked_for_in_a_later_cell(tmp_path: Path) -> None:
    exit_code, said, made = run(tmp_path, notebook("import torch", "from __future__ import print_function, division"))
    assert exit_code == 0, said
    assert made is not None and "__future__" not in "".join(sources(made))


def test_what_ipython_reads_is_left_as_it_is(tmp_path: Path) -> None:
    shell = "%matplotlib inline\n!pip install a \\\n    b\nfiles = !ls\nimport torch"
    loop = "%%time\nfor i in range(2):\n    !echo {i}\n    x = torch.ones(2)\nx?"
    exit_code, said, made = run(tmp_path, notebook(shell, "%%bash\nls | wc", loop))
    assert exit_code == 0, said
    assert made is not None
    first, second, third = sources(made)
    assert first.startswith("%matplotlib inline\n!pip install a \\\n    b\n")
    assert "\nfiles = !ls" in first and "import jax.numpy as jnp" in first
    assert second == "%%bash\nls | wc"
    assert third == "%%time\nfor i in range(2):\n    !echo {i}\n    x = jnp.ones(2)\nx?"


def test_code_that_a_magic_runs_is_reported(tmp_path: Path) -> None:
    exit_code, said, made = run(tmp_path, notebook("import torch\nx = torch.ones(2)", "y = 1\n%timeit x.relu()"))
    assert exit_code == 1 and "a.ipynb:cell 3:2:1: MIG206 %timeit" in said
    assert made is not None and sources(made)[1] == "y = 1\n%timeit x.relu()"


def test_files_with_torch_that_cells_write_and_run_are_reported(tmp_path: Path) -> None:
    (tmp_path / "plots.py").write_text("import matplotlib\n", encoding="utf-8")
    (tmp_path / "train.py").write_text("loss.backward()\n", encoding="utf-8")
    writes = "%%writefile data/model.py\nmodel = nn.Linear(1, 1)"
    cells = ("import torch\nx = torch.ones(2)", writes, "%run -i data/model.py", "%run plots.py", "%run -i train.py")
    exit_code, said, made = run(tmp_path, notebook(*cells))
    assert exit_code == 1 and "MIG206 %%writefile data/model.py: the file that cell 3 writes" in said
    assert "a.ipynb:cell 4:1:1: MIG206 %run" in said and "a.ipynb:cell 6:1:1: MIG206 %run" in said
    assert "cell 5" not in said
    assert made is not None and sources(made)[1:] == list(cells[1:])


def test_an_update_over_several_cells_becomes_one_step(tmp_path: Path) -> None:
    parts = [
        "loss = F.mse_loss(model(x), y)",
        "optimizer.zero_grad()\nloss.backward()",
        "optimizer.step()\nprint(loss)",
    ]
    exit_code, said, made = run(tmp_path, notebook(*CELLS[:4], *parts))
    assert exit_code == 0, said
    assert made is not None and len(sources(made)) == 7
    assert "train_step(" in "".join(sources(made)[4:]) and sources(made)[6] == "print(loss)"


def test_findings_are_at_their_cells(tmp_path: Path) -> None:
    bad = notebook("import torch", "x = torch.ones(2, 2)\nprint(torch.lobpcg(x))")
    exit_code, said, _ = run(tmp_path, bad)
    assert exit_code == 1 and "a.ipynb:cell 3:2:1: MIG301 torch.lobpcg" in said
    found = json.loads(run(tmp_path, bad, "--format", "json")[1])["diagnostics"][0]
    assert (found["cell"], found["line"]) == (3, 2)
    assert "region" not in run(tmp_path, bad, "--format", "sarif")[1]
    assert "cell 3, line 2: torch.lobpcg" in run(tmp_path, bad, "--format", "github")[1]


def test_standard_input(tmp_path: Path) -> None:
    done = runner.invoke(app, ["rewrite", "-"], input=json.dumps(notebook(*CELLS)).encode())
    assert done.exit_code == 0 and len(json.loads(done.stdout)["cells"]) == len(CELLS) + 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("{", "MIG002 is not a notebook of format 4"),
        (json.dumps({"nbformat": 3, "worksheets": []}), "MIG002 is not a notebook of format 4"),
        (json.dumps(notebook("x") | {"metadata": {"kernelspec": {"language": "R"}}}), "MIG002 is a notebook in R"),
        (json.dumps(notebook("import torch", "x = 1\nx = = 2")), "a.ipynb:cell 3:2:5: MIG001"),
    ],
)
def test_what_cannot_be_read_is_told_once(tmp_path: Path, data: str, message: str) -> None:
    exit_code, said, made = run(tmp_path, data)
    assert exit_code == 2 and message in said and said.count(": MIG") == 1 and made is None


def test_a_notebook_without_code_is_copied(tmp_path: Path) -> None:
    data = notebook() | {"metadata": {}}
    exit_code, said, made = run(tmp_path, data)
    assert exit_code == 0 and "MIG101" in said and made == data
