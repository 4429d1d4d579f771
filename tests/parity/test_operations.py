"""Single operations against the oracle."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from migrate.cli import app
from parity.codes import ParityError
from parity.operations.study import OperationResult, accuracy, run
from parity.operations.table import OPERATIONS


@pytest.fixture(scope="module")
def results() -> dict[str, OperationResult]:
    names = ["gelu", "log", "softmax", "cross_entropy", "layer_norm", "sum", "conv2d"]
    return {result.name: result for result in run(names, samples=300, oracle="flint")}


def test_ordinary_operations_are_as_accurate_as_torchs(results):
    """Within a few roundings of float32 on both sides: no definition is wrong, no tensor is exchanged."""
    for result in results.values():
        for tensor in result.tensors:
            assert tensor.torch.relative < 2e-6 and tensor.jax.relative < 2e-6, (result.name, tensor)
        assert not result.finding
        assert result.agreement == 0.0


def test_torch_has_no_digit_left_in_the_tail_of_gelu(results):
    """The product x * (1 + erf(...)) cancels there; JAX uses erfc."""
    value = results["gelu"].tensors[0]
    assert value.torch.max_ulp > 1e6 > 1e3 > value.jax.max_ulp


def test_what_is_flushed_to_zero_is_said(results):
    torch, jax = results["log"].special["denormal"]
    assert torch == pytest.approx(-92.1, abs=0.1) and jax == -np.inf


def test_an_error_is_counted_in_units_in_the_last_place():
    exact = np.array([1.0, 2.0, 4.0, 0.0, 1e39])
    eps = 2.0**-23
    found = accuracy(exact, np.array([1 + 3 * eps, 2.0, 4 - 4 * eps, np.nan, 1.0]), "float32")
    assert found.max_ulp == 3.0 and found.not_finite == 1
    assert found.histogram == (1, 1, 0, 1, 0, 0, 0)


def test_the_command(tmp_path):
    report = tmp_path / "ops.json"
    done = CliRunner().invoke(app, ["parity", "--op", "mse_loss", "--report", str(report)])
    assert done.exit_code == 0, done.output
    assert "entries by error" in done.output and "no operation is much less accurate" in done.output
    (found,) = json.loads(report.read_text())["operations"]
    assert found["name"] == "mse_loss" and len(found["tensors"]) == 3


def test_a_name_that_is_not_known_gets_its_neighbours():
    with pytest.raises(ParityError, match="did you mean softmax"):
        run(["sofmax"])
    assert len(OPERATIONS) > 40
