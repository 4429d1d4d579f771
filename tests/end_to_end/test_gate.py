"""The gate on the samples: as they are, and with one mistake in the rewritten file."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from parity import gate, gate_config, judge
from parity.gate import GateResult

pytestmark = pytest.mark.usefixtures("runs_are_forked")

SAMPLES = Path(__file__).parents[2] / "samples"
CLEAN, BROKEN = "char_gpt", "mnist_cnn"
RIGHT, WRONG = "x = nn.relu(self.fc1(x))", "x = nn.leaky_relu(self.fc1(x))"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> GateResult:
    folder = tmp_path_factory.mktemp("samples")
    for name in (CLEAN, BROKEN):
        shutil.copytree(SAMPLES / name, folder / name)
    shutil.copy(SAMPLES / "parity.toml", folder)
    file = folder / BROKEN / "train_jax.py"
    text = file.read_text()
    assert RIGHT in text
    file.write_text(text.replace(RIGHT, WRONG))
    config = gate_config.read(folder / "parity.toml")
    small = {"steps": 2, "perturbed_runs": 0}
    chosen = [
        replace(subject, options={**subject.options, **small, "fresh": subject.name == CLEAN})
        for subject in config.subjects
        if subject.name in (CLEAN, BROKEN)
    ]
    return gate.run(replace(config, subjects=tuple(chosen)))


def test_a_sample_as_it_is_passes(result: GateResult) -> None:
    clean = next(subject for subject in result.judged if subject.name == CLEAN)
    assert [check.message for check in clean.checks if check.status != "pass"] == []
    assert len(clean.checks) > 100


def test_a_mistake_is_found_between_the_layers_where_it_is(result: GateResult) -> None:
    broken = next(subject for subject in result.judged if subject.name == BROKEN)
    assert result.exit_code == 1 and broken.first is not None
    assert (broken.first.rule, broken.first.tensor) == (judge.SEMANTICS, "output of Net.dropout2")
    assert "the origin lies between Net.fc1 and Net.dropout2" in broken.origin
    assert "torch's relu (train.py:31) has no equal in JAX" in broken.origin
    passed = {check.tensor for check in broken.checks if check.status == "pass"}
    assert {"output of Net.conv1", "output of Net.conv2", "output of Net.fc1"} <= passed


def test_every_sample_is_in_the_gates_file() -> None:
    subjects = gate_config.read(SAMPLES / "parity.toml").subjects
    assert {subject.name for subject in subjects} == {path.parent.name for path in SAMPLES.glob("*/train.py")}
