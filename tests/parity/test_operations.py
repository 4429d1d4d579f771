"""Single operations against the oracle."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from migrate.cli import app
from parity.codes import ParityError
from parity.operations.definitions import DEFINITIONS
from parity.operations.programs import in_torch, returned
from parity.operations.study import OperationResult, Point, accuracy, rewritten, run
from parity.operations.table import OPERATIONS


@pytest.fixture(scope="module")
def results() -> dict[str, OperationResult]:
    names = ["gelu", "log", "relu6", "fmax", "softmax", "max", "cross_entropy", "huber_loss", "GroupNorm", "conv2d"]
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


def point(result: OperationResult, at: str, of: str) -> Point:
    return next(point for point in result.points if (point.at, point.of) == (at, of))


def test_what_is_flushed_to_zero_is_said(results):
    found = point(results["log"], "denormal", "value")
    assert found.torch == (pytest.approx(-92.1, abs=0.1),) and found.jax == (-np.inf,)
    assert found.exact == ((pytest.approx(-92.1, abs=0.1),) * 2,) and found.differs


def test_where_a_function_bends_the_oracle_gives_the_slopes_on_either_side(results):
    for at, ends in (("0", (0.0, 1.0)), ("6", (1.0, 0.0)), ("1", (1.0, 1.0))):
        found = point(results["relu6"], at, "slope by x")
        assert found.exact == (ends,) and found.torch == found.jax == (min(ends),)
    tie = point(results["fmax"], "1, 1", "slope by x")
    assert tie.exact == ((0.0, 1.0),) and (tie.torch, tie.jax) == ((1.0,), (0.0,)) and tie.differs
    first = point(results["max"], "ties", "slope by x")
    assert first.torch == first.jax == (1.0, 0.0, 0.0) and not first.differs
    assert not point(results["huber_loss"], "at delta", "slope by x").differs


def test_a_class_that_is_masked_out_costs_nothing(results):
    assert point(results["cross_entropy"], "masked", "value").jax == (0.0,)
    assert not any(found.differs for found in results["cross_entropy"].points if found.of != "value")


def test_what_the_definition_does_not_give_is_not_made_up(results):
    assert np.isnan(point(results["gelu"], "nan", "value").exact).all()
    assert np.isnan(point(results["gelu"], "nan", "slope by x").exact).all()


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
    assert "torch  F.mse_loss(x, y)" in done.output and "JAX    jnp.square(x - y).mean()" in done.output
    assert "entries by error" in done.output and "no operation is much less accurate" in done.output
    (found,) = json.loads(report.read_text())["operations"]
    assert found["name"] == "mse_loss" and len(found["tensors"]) == 3


def test_a_name_that_is_not_known_gets_its_neighbours():
    with pytest.raises(ParityError, match="did you mean softmax"):
        run(["sofmax"])


def test_every_operation_is_rewritten():
    """And named once; `migrate parity --all-ops` runs each, within some minutes."""
    text = rewritten(in_torch(OPERATIONS))
    assert len(OPERATIONS) > 130 and all(returned(text, name) for name in OPERATIONS)
    assert set(DEFINITIONS) <= set(OPERATIONS)
