"""The command line of `migrate rewrite` and its companions: useless inputs, exit codes, where things are written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from migrate.cli import app

SCRIPT = """\
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return torch.relu(self.fc(x))
"""
UNKNOWN = SCRIPT.replace("torch.relu(", "torch.lobpcg(")
runner = CliRunner()


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


def run(*arguments: object, input: bytes | None = None) -> tuple[int, str, str]:
    result = runner.invoke(app, [str(argument) for argument in arguments], input=input)
    return result.exit_code, result.stdout, result.stderr


def test_output_and_manifest_are_written_beside_the_input(script: Path) -> None:
    code, _, err = run("rewrite", script)
    assert code == 0, err
    assert "import flax.linen as nn" in (script.parent / "train_jax.py").read_text(encoding="utf-8")
    manifest = json.loads((script.parent / "weights.json").read_text(encoding="utf-8"))
    assert [leaf["flax"] for leaf in manifest["models"][0]["leaves"]] == ["params/fc/kernel", "params/fc/bias"]
    assert script.read_text(encoding="utf-8") == SCRIPT


def test_the_report_claims_no_more_than_was_done(script: Path) -> None:
    _, _, err = run("rewrite", script)
    assert "not verified" in err
    _, _, err = run("rewrite", script, "--format", "json")
    assert json.loads(err)["stages"]["numeric"] == "not verified"


def test_standard_input_goes_to_standard_output() -> None:
    code, out, _ = run("rewrite", "-", input=SCRIPT.encode())
    assert code == 0
    assert "class Net(nn.Module):" in out and "torch" not in out.replace("torch_init", "").replace("torch's", "")


def test_diff_and_check_write_nothing(script: Path) -> None:
    code, out, _ = run("rewrite", script, "--diff")
    assert code == 0
    assert "+import flax.linen as nn" in out
    assert run("rewrite", script, "--check")[0] == 0
    assert sorted(path.name for path in script.parent.iterdir()) == ["train.py"]


def test_places_that_need_a_person_are_exit_code_1_and_raise_in_the_output(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(UNKNOWN, encoding="utf-8")
    code, _, err = run("rewrite", path)
    assert code == 1
    assert f"{path}:11:9: MIG301 torch.lobpcg" in err and "return torch.lobpcg(self.fc(x))" in err
    text = (tmp_path / "train_jax.py").read_text(encoding="utf-8")
    assert '# return torch.lobpcg(self.fc(x))\n        raise NotImplementedError("MIG301: torch.lobpcg")' in text


@pytest.mark.parametrize(
    ("name", "content", "code", "message"),
    [
        ("syntax.py", b"x = 1\ny = = 2\n", 2, "syntax.py:2:"),
        ("binary.py", b"\x7fELF\x00\x01", 2, "MIG002"),
        ("latin.py", b"x = '\xe9'\n", 2, "MIG002"),
        ("empty.py", b"", 0, "MIG101"),
        ("plain.py", b"import numpy as np\nx = np.zeros(3)\n", 0, "MIG101"),
    ],
)
def test_unusable_input_gets_one_clear_message(
    tmp_path: Path, name: str, content: bytes, code: int, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    found, _, err = run("rewrite", path, "-o", tmp_path / "out.py")
    assert found == code
    assert err.count(": MIG") == 1 and message in err and "Traceback" not in err
    assert (tmp_path / "out.py").exists() == (code == 0)


def test_missing_files_and_directories(tmp_path: Path) -> None:
    code, _, err = run("rewrite", tmp_path / "none.py")
    assert code == 2 and "does not exist" in err and "MIG003" in err
    code, _, err = run("rewrite", tmp_path)
    assert code == 2 and "holds no Python file" in err
    code, _, err = run("rewrite", "")  # a variable of the shell that is not set names the folder at hand else
    assert code == 2 and "a PATH is empty" in err


def test_the_input_is_never_overwritten(script: Path) -> None:
    code, _, err = run("rewrite", script, "-o", script)
    assert code == 2 and "never overwritten" in err
    assert script.read_text(encoding="utf-8") == SCRIPT


def test_explain_rules_and_layers() -> None:
    assert "MIG301" in run("explain", "mig301")[1]
    assert "WPT101" in run("explain", "WPT101")[1]
    assert run("explain", "MIG999")[0] == 2
    assert "standard_deviation(x, axis=1, ddof=1)" in run("rules", "torch.std")[1]
    assert "torch.std" in run("rules")[1]
    assert run("rules", "torch.nothing")[0] == 1
    assert "kernel" in run("layers", "nn.Conv2d")[1]
    assert run("layers", "torch.nn.Nothing")[0] == 1


def test_port_weights_asks_for_an_output(tmp_path: Path) -> None:
    code, _, err = run("port-weights", tmp_path / "a.pt", "--manifest", tmp_path / "weights.json")
    assert code == 2 and "-o FILE" in err


def test_parity_asks_for_a_script(tmp_path: Path) -> None:
    assert run("parity")[0] == 2
    code, _, err = run("parity", tmp_path / "none.py")
    assert code == 2 and "no such file" in err


def test_module_and_version() -> None:
    done = subprocess.run([sys.executable, "-m", "migrate", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("migrate ")


def test_standard_output_has_the_encoding_that_the_file_names() -> None:
    source = "# -*- coding: latin-1 -*-\nimport torch\n# café\nprint(torch.ones(2).sum())\n".encode("latin-1")
    done = runner.invoke(app, ["rewrite", "-"], input=source)
    assert done.exit_code == 0 and "# café\n".encode("latin-1") in done.stdout_bytes
