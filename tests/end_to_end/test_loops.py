"""Training loops as people write them: the golden scripts that train, run by both frameworks from the same weights."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity.compare import compare_script

pytestmark = pytest.mark.usefixtures("runs_are_forked")

GOLDEN = Path(__file__).parents[1] / "golden"
PERTURBED = {"continuous_actions": 1, "modules_that_train": 1}  # they differ by what torch's own do in another rounding
STEPS = {"checkpoints": 4, "members": 3, "beside_the_loss": 3, "updates_for_callers": 14}  # as many as there are


@pytest.mark.parametrize(
    "feature",
    [
        *("accelerate", "devices", "evaluation_loops", "checkpoints", "streams", "makers", "typed_tensors"),
        *("micro_batches", "members", "beside_the_loss", "parts_given", "named_rows", "models_of_several_classes"),
        *("model_chosen_at_run_time", "acting", "acting_in_place", "rollouts", "clipped_policy", "functional_calls"),
        *("replay_buffer", "continuous_actions", "named_lambdas", "handed_models", "own_data_sets", "default_parts"),
        *("parts_replaced", "parts_taken", "queues", "optimizers_of_modules", "modules_that_train"),
        *("updates_for_callers", "dropout_functions", "words_looked_up", "returned_models"),
    ],
)
def test_losses_are_torchs(feature: str) -> None:
    folder = GOLDEN / feature
    result = compare_script(
        folder / "before.py",
        folder / "after.py",
        folder / "weights.json",
        steps=STEPS.get(feature, 5),
        perturbed_runs=PERTURBED.get(feature, 0),
    )
    assert result.exit_code == 0, (result.first_difference, result.errors)
    assert len(result.steps) == STEPS.get(feature, 5)


@pytest.mark.parametrize("feature", ["kept_weights", "weight_averages", "averaged_states"])
def test_what_is_printed_is_torchs(feature: str, tmp_path: Path) -> None:
    """Of scripts that run to their end, in float64: what they evaluate without a gradient is no step of parity's."""
    folder, prelude, runs = GOLDEN / feature, tmp_path / "prelude.py", tmp_path / "runs"
    prelude.write_text('import sys\n\nsys.stdout = open("printed.txt", "w", buffering=1)\n', encoding="utf-8")
    files = folder / "before.py", folder / "after.py", folder / "weights.json"
    result = compare_script(*files, steps=1000, perturbed_runs=1, prelude=prelude, workdir=runs)
    assert result.exit_code == 0, (result.first_difference, result.errors)
    theirs, ours = (
        [float(number) for number in re.findall(r"-?\d+\.\d+(?:e-?\d+)?", (runs / side).read_text(encoding="utf-8"))]
        for side in ("torch-float64/run/printed.txt", "jax-float64/run/printed.txt")
    )
    assert theirs
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def definitions(feature: str, name: str) -> dict[str, Any]:
    """The classes and functions of a golden script, without its training."""
    tree = ast.parse((GOLDEN / feature / name).read_text(encoding="utf-8"))
    kept = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef)
    tree.body = [node for node in tree.body if isinstance(node, kept) and "optimizer" not in ast.unparse(node)]
    names: dict[str, Any] = {"__name__": __name__}  # dataclasses look their module up
    exec(compile(tree, name, "exec"), names)
    return names


def test_mixed_precision_computes_in_bfloat16() -> None:
    """Both round operands to bfloat16, whose spacing is 2**-8; sums of at most 16 products round once more."""
    theirs = definitions("mixed_precision", "before.py")["Net"](16)
    ours = definitions("mixed_precision", "after.py")["Net"](16)
    weights = {name: value.detach().numpy() for name, value in theirs.state_dict().items()}
    layers = ("hidden", "head")
    params = {name: {"kernel": weights[f"{name}.weight"].T, "bias": weights[f"{name}.bias"]} for name in layers}
    x = np.random.default_rng(0).normal(size=(32, 8)).astype(np.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        expected = theirs(torch.from_numpy(x))
    made = ours.clone(dtype=jnp.bfloat16).apply({"params": params}, x)
    exact = ours.apply({"params": params}, x)
    assert expected.dtype is torch.bfloat16
    assert made.dtype == jnp.bfloat16
    assert exact.dtype == jnp.float32
    scale = float(np.abs(exact).max())
    np.testing.assert_allclose(np.float32(made), expected.float().numpy(), rtol=0, atol=2 * 2**-8 * scale)
    assert np.abs(np.float32(made) - exact).max() > 2**-12 * scale  # it is not float32
    made = ours.clone(dtype=jnp.bfloat16).init(jax.random.key(0), x)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(made))
