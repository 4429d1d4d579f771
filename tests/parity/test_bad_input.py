"""Bad input: one clear message, exit code 2, and no process left behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace as Usage

import pytest

from parity import gate, processes
from parity.codes import ParityError
from parity.compare import compare_script
from parity.gate_config import GateConfig, subject

SCRIPTS = Path(__file__).parent / "scripts"
ENDS = {
    "no network": (
        "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:9/data.zip', timeout=5)",
        "PAR201",
        "Connection refused",
    ),
    "a script that ends itself": ("import sys\nsys.exit('no data')", "PAR201", "sys.exit('no data')"),
    "a process that dies": ("import os\nos.kill(os.getpid(), 11)", "PAR210", "ended with status -11"),
    "weights of a run that diverged": (
        "import torch\nmodel = torch.nn.Linear(2, 1)\ntorch.nn.init.constant_(model.bias, float('nan'))\n"
        "model(torch.ones(1, 2)).sum().backward()",
        "PAR216",
        "Linear.bias is NaN in torch before the first step",
    ),
    "a first loss that is NaN": (
        "import torch\n(torch.nn.Linear(2, 1)(torch.ones(1, 2)).sum() * float('nan')).backward()",
        "PAR216",
        "the first loss is NaN in torch",
    ),
    "a full disk": (
        "import errno\nraise OSError(errno.ENOSPC, 'No space left on device', 'cache.bin')",
        "PAR201",
        "No space left on device",
    ),
}


def project(tmp_path: Path, text: str) -> Path:
    folder = tmp_path / "project"
    shutil.copytree(SCRIPTS / "mlp", folder)
    (folder / "train.py").write_text(text)
    return folder


def compared(folder: Path, **options):
    return compare_script(folder / "train.py", folder / "train_jax.py", folder / "weights.json", steps=2, **options)


@pytest.mark.parametrize("case", ENDS)
def test_a_script_that_ends_badly(tmp_path: Path, case: str) -> None:
    text, code, said = ENDS[case]
    result = compared(project(tmp_path, text))
    assert (result.exit_code, result.code) == (2, code)
    assert len(result.errors) == 1 and said in result.errors[0]


def test_a_script_that_never_ends_takes_its_children_with_it(tmp_path: Path) -> None:
    child = tmp_path / "child"
    text = f"""
import subprocess
child = subprocess.Popen(["sleep", "600"])
open({str(child)!r}, "w").write(str(child.pid))
while True:
    pass
"""
    result = compared(project(tmp_path, text), timeout=15)
    assert (result.exit_code, result.code) == (2, "PAR209")
    assert result.errors == ("PAR209: the torch run was ended after 15 s",)
    assert ended(int(child.read_text()))


def ended(process: int) -> bool:
    """Whether a process is gone, or waits for its parent to notice."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_a_cancelled_gate_ends_its_processes(tmp_path: Path) -> None:
    child = tmp_path / "child"
    folder = project(tmp_path, f"import os, time\nopen({str(child)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n")
    (folder / "parity.toml").write_text('[[subject]]\nscript = "train.py"\n')
    command = [sys.executable, "-m", "migrate.cli", "gate"]
    running = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(600):
        if child.is_file() and child.read_text():
            break
        time.sleep(0.1)
    running.terminate()
    assert running.wait(30) == 128 + 15
    assert ended(int(child.read_text()))


def test_a_temporary_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    result = compared(project(tmp_path, ""))
    assert (result.exit_code, result.code) == (2, "PAR213")
    assert "Not a directory" in result.errors[0]


def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a run has to say is lost then too."""
    monkeypatch.setattr(processes.shutil, "disk_usage", lambda _: Usage(free=0))
    child = processes.start("torch", [sys.executable, "-c", "exit(1)"], tmp_path, str(tmp_path), os.environ, 60)
    with pytest.raises(ParityError, match="no space left for the torch run") as raised:
        child.recording()
    assert (raised.value.code, raised.value.exit_code) == ("PAR213", 2)


def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    result = compared(project(tmp_path, ""), torch_python="/none/python")
    assert (result.exit_code, result.code) == (2, "PAR211")
    assert "/none/python" in result.errors[0]


def test_a_recording_of_an_earlier_run_is_not_read(tmp_path: Path) -> None:
    stale = tmp_path / "work" / "torch" / "recording"
    stale.mkdir(parents=True)
    (stale / "recording.json").write_text("{}")
    result = compared(project(tmp_path, "import os\nos.kill(os.getpid(), 9)"), workdir=tmp_path / "work")
    assert (result.exit_code, result.code) == (2, "PAR210")


INITIAL = "model = Net()"


def test_weights_of_nan_decide_nothing(tmp_path: Path) -> None:
    folder = project(tmp_path, (SCRIPTS / "mlp" / "train.py").read_text())
    text = (folder / "train.py").read_text()
    assert INITIAL in text
    text = text.replace(INITIAL, f"{INITIAL}\nmodel.fc2.weight.data[0, 0] = float('nan')")
    (folder / "train.py").write_text(text)
    made = subject({"script": "train.py", "steps": 2, "perturbed_runs": 0}, "", folder)
    judged = gate.run(GateConfig((made,))).judged[0]
    assert judged.status == "undecided"
    assert ["Net.fc2.weight is NaN in torch before the first step" in check.message for check in judged.checks] == [
        True
    ]


def test_separate_interpreters(tmp_path: Path) -> None:
    """Each side in an environment that lacks the other's framework."""
    folder = tmp_path / "project"
    shutil.copytree(SCRIPTS / "vae", folder)
    pythons = {}
    for side, missing in (("torch", ("jax", "flax", "optax")), ("jax", ("torch",))):
        blocked = tmp_path / f"without_{side}"
        blocked.mkdir()
        for name in missing:
            (blocked / f"{name}.py").write_text(f"raise ModuleNotFoundError('no {name} in this environment')\n")
        python = tmp_path / f"python_{side}"
        python.write_text(f'#!/bin/sh\nPYTHONPATH="{blocked}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
        pythons[f"{side}_python"] = str(python)
    result = compared(folder, perturbed_runs=0, float64=False, **pythons)
    assert result.errors == () and result.exit_code == 0, result.first_difference
    assert os.environ.get("PYTHONPATH") is not None or "parity" not in os.listdir(folder)
