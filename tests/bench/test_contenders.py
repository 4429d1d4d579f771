"""Real scripts under the clock: every kind of contender but the slow `torch.compile`."""

import os
from pathlib import Path

import pytest

from migrate.files.source import parse
from migrate.pipeline import convert
from tests.bench.__main__ import ROOT, SAMPLES, Contender

CORE = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0


@pytest.fixture
def contender(tmp_path):
    started = []

    def start(kind: str, script: Path, *arguments: str) -> Contender:
        started.append(Contender("contender", kind, script, arguments, CORE, tmp_path))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.mark.parametrize(
    ("kind", "script"),
    [("torch", ROOT / "samples/mlp/train.py"), ("jax", Path(__file__).with_name("hand_written_cnn.py"))],
)
def test_runs_as_many_steps_as_asked_for(contender, kind, script):
    one = contender(kind, script)
    assert len(one.run(2)) == 2
    steps = one.run(3)
    assert len(steps) == 3
    assert all(seconds > 0 for seconds in steps)


def test_accumulated_gradients_are_one_step(contender, tmp_path):
    script = tmp_path / "accumulate.py"
    script.write_text(
        "import jax\n"
        "@jax.jit\n"
        "def forward_backward(x):\n    return x + 1\n"
        "@jax.jit\n"
        "def optimizer_update(x):\n    return x * 2\n"
        "for _ in range(5):\n"
        "    optimizer_update(forward_backward(forward_backward(1.0)))\n"
    )
    one = contender("jax", script)
    assert len(one.run(5)) == 5
    with pytest.raises(RuntimeError, match="ended before the benchmark had all its steps"):
        one.run(1)


def test_a_script_that_fails_is_reported_with_its_error(contender, tmp_path):
    script = tmp_path / "broken.py"
    script.write_text("raise RuntimeError('no data here')\n")
    with pytest.raises(RuntimeError, match="no data here"):
        contender("torch", script).run(1)


@pytest.mark.parametrize("name", [sample.script for sample in SAMPLES if sample.script])
def test_a_script_of_the_bench_needs_nothing_by_hand(name):
    report = convert(parse(name, Path(__file__).with_name(name).read_text())).report
    assert report.exit_code == 0, report.as_text()
