"""Models by themselves: equal, broken, badly asked for. Semantics is decided in float64."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from parity import inputs
from parity.codes import ParityError
from parity.compare import compare_script
from parity.ladder import Verdict
from parity.subject import compare_model

pytestmark = pytest.mark.usefixtures("runs_are_forked")

MODELS = Path(__file__).parent / "models"
SCRIPTS = Path(__file__).parent / "scripts"
NET = {"arguments": "3, classes=7", "inputs": "float32[4, 3, 8, 8]", "perturbed_runs": 1}


def test_a_model_and_its_rewrite_agree_in_float64() -> None:
    result = compare_model(f"{MODELS / 'net.py'}:Net", **NET)
    assert (result.errors, result.first_difference, result.exit_code) == ((), None, 0)
    assert [answer.verdict for answer in result.verdicts] == [Verdict.EQUAL] * 3
    assert result.float64 is not None and max(step.drift for step in result.float64.steps) < 1e-14


@pytest.mark.parametrize(
    ("model", "arguments", "fed"),
    [("inheritance/before.py:Model", "8", "float32[2, 5, 8]"), ("builders/before.py:Net", "4", "float32[2, 3, 8, 8]")],
)
def test_modules_of_many_kinds_agree(model: str, arguments: str, fed: str) -> None:
    golden = Path(__file__).parents[1] / "golden"
    result = compare_model(f"{golden / model}", arguments=arguments, inputs=fed, perturbed_runs=1)
    assert (result.errors, result.first_difference, result.exit_code) == ((), None, 0)


def test_an_epsilon_that_float32_hides_shows_in_float64(tmp_path: Path) -> None:
    text = (MODELS / "net_jax.py").read_text()
    norm = "BatchNorm(use_running_average=not self.training"
    assert norm in text
    (tmp_path / "net_jax.py").write_text(text.replace(norm, f"{norm}, epsilon=1.005e-5"))
    ours = f"{tmp_path / 'net_jax.py'}:Net"
    result = compare_model(f"{MODELS / 'net.py'}:Net", ours, manifest=MODELS / "net_weights.json", **NET)
    semantics, precision, _ = result.verdicts
    assert (semantics.verdict, precision.verdict, result.exit_code) == (Verdict.DIFFERS, Verdict.EQUAL, 1)
    assert "output of Net.norm" in semantics.detail


def test_a_checkpoint_is_loaded_and_must_fit(tmp_path: Path) -> None:
    import torch

    torch.save({"conv.weight": torch.zeros(1)}, tmp_path / "short.pt")
    result = compare_model(f"{MODELS / 'net.py'}:Net", weights=tmp_path / "short.pt", **NET)
    assert result.exit_code == 2 and "Missing key" in result.errors[0]


@pytest.mark.parametrize(
    ("model", "options", "said"),
    [
        ("net.py", {}, "name a file and a class"),
        ("absent.py:Net", {}, "no such file"),
        ("net.py:Net", {"inputs": ""}, "say what the model is fed"),
        ("net.py:Net", {"inputs": "float32[2"}, "cannot read"),
        ("net.py:Net", {"recipe": Path("absent.py")}, "no such recipe"),
    ],
)
def test_bad_requests(model: str, options: dict[str, object], said: str) -> None:
    result = compare_model(str(MODELS / model), **NET | options)
    assert result.exit_code == 2 and said in result.errors[0]


def test_what_cannot_run_in_float64_decides_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "mlp"
    shutil.copytree(SCRIPTS / "mlp", folder)
    text = (folder / "train.py").read_text()
    (folder / "train.py").write_text(
        text.replace("import torch\n", "import torch\nassert torch.zeros(1).element_size() == 4\n", 1)
    )
    result = compare_script(
        folder / "train.py", folder / "train_jax.py", folder / "weights.json", steps=3, perturbed_runs=1
    )
    assert result.exit_code == 0
    assert result.verdicts[0].verdict is Verdict.NOT_COMPARED and "AssertionError" in result.verdicts[0].detail


def test_inputs_are_read_from_a_line() -> None:
    args, kwargs = inputs.arrays(inputs.parse("f32[2, 3], ids=int64[4] < 3; mask=bool[2]"), seed=0)
    assert [(a.dtype, a.shape) for a in args] == [(np.dtype("float32"), (2, 3))]
    assert kwargs["ids"].shape == (4,) and kwargs["ids"].max() < 3 and kwargs["mask"].dtype == bool
    with pytest.raises(ParityError):
        inputs.parse("complex64[2]")
