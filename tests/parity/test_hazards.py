"""Known hazards: shown here, and found in a source."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from migrate.cli import app
from parity.hazards.lint import looked_at
from parity.hazards.probes import PROBES
from parity.hazards.report import ADVICE, found

PROGRAM = """
import jax, optax
import jax.numpy as jnp
from flax import linen as nn

class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Conv(8, (3, 3), strides=(2, 2))(x)
        x = nn.Conv(8, (3, 3), strides=(2, 2), padding=((1, 1), (1, 1)))(x)
        x = nn.LayerNorm()(x)
        x = nn.LayerNorm(epsilon=1e-5)(x)
        return nn.gelu(x) + nn.gelu(x, approximate=False)

def sample(logits):
    best = jax.lax.approx_max_k(logits.astype(jnp.bfloat16), 5)
    return jnp.where(logits > 0, jnp.sqrt(logits), 0.0)

tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(optax.cosine_decay_schedule(1e-3, 10)))
"""


@pytest.fixture(scope="module")
def hazards():
    return {hazard.name: hazard for hazard in found()[0]}


def test_every_probe_has_advice_and_ran(hazards):
    assert set(PROBES) == set(ADVICE) == set(hazards)


def test_the_most_probable_token_is_dropped_on_a_cpu(hazards):
    hazard = hazards["dropped token"]
    assert hazard.present and "0 without, 0 eager" in hazard.seen


def test_what_differs_between_the_frameworks_shows(hazards):
    shown = (
        "excess precision",
        "gradients at ties",
        "GELU's default",
        "default epsilons",
        "fast variance",
        "SAME padding",
    )
    assert all(hazards[name].present for name in (*shown, "schedules in float32", "gradient clipping", "denormals"))
    assert not hazards["approximate top-k"].present  # exact on the CPU


def test_a_source_is_looked_at():
    lines = {name: [number for number, _ in places] for name, places in looked_at(PROGRAM).items()}
    assert lines == {
        "dropped token": [16],
        "approximate top-k": [16],
        "gradients at ties": [],
        "gradient of an unused branch": [17],
        "GELU's default": [13],
        "default epsilons": [11],
        "fast variance": [11, 12],
        "SAME padding": [9],
        "schedules in float32": [19],
        "gradient clipping": [19],
    }


def test_the_command(tmp_path):
    program, report = tmp_path / "net.py", tmp_path / "hazards.json"
    program.write_text(PROGRAM)
    done = CliRunner().invoke(app, ["parity", str(program), "--hazards", "--report", str(report)])
    assert done.exit_code == 1, done.output
    assert len(json.loads(report.read_text())["hazards"]) == len(PROBES)
    program.write_text("def f(:\n  import jax")
    done = CliRunner().invoke(app, ["parity", str(program), "--hazards"])
    assert done.exit_code == 2


def metric(tmp_path, first, second):
    for name, values in (("a.json", first), ("b.json", second)):
        (tmp_path / name).write_text(json.dumps(values))
    return CliRunner().invoke(app, ["parity", "--metric", str(tmp_path / "a.json"), str(tmp_path / "b.json")])


def test_a_metric_over_seeds(tmp_path):
    done = metric(tmp_path, [2.21], [2.27])
    assert done.exit_code == 2 and "NO VERDICT" in done.output
    done = metric(tmp_path, [2.21, 2.25, 2.19, 2.24], [2.27, 2.22, 2.20, 2.26])
    assert done.exit_code == 0 and "NOT DIFFERENT" in done.output
    done = metric(tmp_path, {"0": 2.21, "1": 2.22, "2": 2.20}, [2.31, 2.32, 2.30])
    assert done.exit_code == 1 and "DIFFERENT: by more" in done.output
    assert metric(tmp_path, [1.0, 1.0], [1.0, 1.0]).exit_code == 0
    for bad in ([], "2.2", [float("nan"), 1.0], ["a"], [True, False]):
        assert metric(tmp_path, bad, [1.0, 2.0]).exit_code == 2
