"""The four samples, all the way: rewritten fresh, stable, free of this toolkit, and equal to torch over 200 losses."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from migrate import manifest as manifests
from migrate.diagnostics import ExitCode
from migrate.files.source import load, parse
from migrate.pipeline import Conversion, convert
from parity.compare import compare_script

pytestmark = pytest.mark.usefixtures("runs_compile_as_users_do")

SAMPLES = Path(__file__).parents[2] / "samples"
NAMES = ("mlp", "mnist_cnn", "introyt", "char_gpt")
LOSSES = 200
# Smaller batches than the samples' own, all of one size: steps of another size are another program to compile.
ARGUMENTS = {"mnist_cnn": ("--batch-size", "20"), "char_gpt": ("--batch-size", "4")}
UPDATE = "migrate rewrite samples/{0}/train.py -o samples/{0}/train_jax.py"


@pytest.fixture(params=NAMES)
def sample(request: pytest.FixtureRequest) -> Path:
    return SAMPLES / request.param


def rewritten(sample: Path) -> Conversion:
    return convert(load(sample / "train.py"))


def test_nothing_needs_a_person(sample: Path) -> None:
    conversion = rewritten(sample)
    assert conversion.report.exit_code is ExitCode.DONE, conversion.report.as_text()


def test_committed_output_is_fresh(sample: Path) -> None:
    conversion = rewritten(sample)
    how = UPDATE.format(sample.name)
    assert (sample / "train_jax.py").read_text(encoding="utf-8") == conversion.text, f"run: {how}"
    assert (sample / "weights.json").read_text(encoding="utf-8") == manifests.dumps(conversion.manifest), f"run: {how}"


def test_rewriting_again_changes_nothing(sample: Path) -> None:
    once = (sample / "train_jax.py").read_text(encoding="utf-8")
    again = convert(parse("train_jax.py", once))
    assert again.text == once
    assert again.report.exit_code is ExitCode.DONE


def test_output_does_not_import_the_toolkit(sample: Path) -> None:
    tree = ast.parse((sample / "train_jax.py").read_text(encoding="utf-8"))
    roots = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            roots |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            roots.add((node.module or "").split(".")[0])
    assert not roots & {"migrate", "weight_port", "parity"}
    assert {"flax", "jax", "optax"} <= roots


def test_200_losses_are_torchs(sample: Path) -> None:
    """The tolerance is that of `parity.tolerance`: ten times what torch differs from itself in other roundings."""
    files = sample / "train.py", sample / "train_jax.py", sample / "weights.json"
    result = compare_script(*files, steps=LOSSES, perturbed_runs=1, argv=ARGUMENTS.get(sample.name, ()))
    assert result.exit_code == 0, (result.first_difference, result.errors)
    assert result.passed
    assert len(result.steps) == LOSSES
