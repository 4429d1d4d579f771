"""The `assert_parity` fixture: a port is held to its budgets by the code of `migrate gate`, in a test.

Torch and jax are imported when it is used, not when pytest starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def assert_parity(request: pytest.FixtureRequest) -> AssertParity:
    """Fails where a port is beyond its budget, and where that could not be decided.

    `assert_parity(torch_function, jax_function, *arrays)`, `.script("train.py", …)`, `.model("nets.py:Net", …)`,
    `.tensors(torch, jax, …)`.
    """
    return AssertParity(request.path.parent)


class AssertParity:
    """Paths are relative to the folder of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(
        self,
        torch_function: Callable[..., Any],
        jax_function: Callable[..., Any],
        *arrays: np.ndarray,
        budgets: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Both on the same arrays, in float32 and in float64, which is the oracle.

        Each takes and returns arrays of its framework, or a dictionary of them. Weights are arguments like any other.
        """
        sides = [_ran(run, function, arrays, kind) for kind in ("float32", "float64")
                 for run, function in ((_in_torch, torch_function), (_in_jax, jax_function))]  # fmt: skip
        self.tensors(sides[0], sides[1], oracle=sides[2], jax_float64=sides[3], budgets=budgets)

    def tensors(
        self,
        torch: Any,
        jax: Any,
        *,
        oracle: Any = None,
        jax_float64: Any = None,
        budgets: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Arrays, or dictionaries of them. `oracle` is torch in float64; without it every tensor needs an absolute
        budget, since nothing else says how far is too far."""
        from parity import gate_config, judge

        given = [None if side is None else _named(side) for side in (torch, jax, oracle, jax_float64)]
        assert given[0] is not None and given[1] is not None
        made = [gate_config.budget(dict(one), f"budget {i}") for i, one in enumerate(budgets, start=1)]
        _hold(judge.checks("tensors", judge.Tensors(given[0], given[1], given[2], given[3]), made))

    def script(self, script: str, *, budgets: Sequence[Mapping[str, Any]] = (), **options: Any) -> None:
        """A script and its rewrite; the options are those of a subject in parity.toml."""
        self._subject({"script": script, **options}, budgets)

    def model(self, model: str, *, budgets: Sequence[Mapping[str, Any]] = (), **options: Any) -> None:
        """A torch model ("nets.py:Net") and a Flax model, or its rewrite; the options are those of a subject."""
        self._subject({"model": model, **options}, budgets)

    def _subject(self, options: dict[str, Any], budgets: Sequence[Mapping[str, Any]]) -> None:
        from parity import gate, gate_config

        subject = gate_config.subject(options, "assert_parity", self.folder)
        made = [gate_config.budget(dict(one), f"budget {i}") for i, one in enumerate(budgets, start=1)]
        result = gate.run(gate_config.GateConfig((subject,), tuple(made), path="assert_parity"))
        judged = result.judged[0]
        where = (
            f"\n{judged.jax_place.file}:{judged.jax_place.line}: {judged.jax_place.text}" if judged.jax_place else ""
        )
        _hold(result.checks, result.errors, where)


SHOWN = 10  # findings that a failure lists


def _hold(checks: Sequence[Any], errors: Sequence[str] = (), where: str = "") -> None:
    for status, said in (("fail", "beyond the budget"), ("undecided", "could not be decided")):
        found = [check.message for check in checks if check.status == status]
        found += errors if status == "undecided" else []
        if found:
            more = [f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
            pytest.fail("\n".join([f"{len(found)} {said}:", *found[:SHOWN], *more]) + where, pytrace=False)


def _named(side: Any) -> dict[str, np.ndarray]:
    whole = side if isinstance(side, Mapping) else {"output": side}
    return {str(name): _array(value) for name, value in whole.items()}


def _array(value: Any) -> np.ndarray:
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def _ran(run: Callable[..., Any], function: Callable[..., Any], arrays: Sequence[Any], kind: str) -> Any:
    cast = [np.asarray(array) for array in arrays]
    cast = [array.astype(kind) if np.issubdtype(array.dtype, np.floating) else array for array in cast]
    return _named(run(function, cast, kind))


def _in_torch(function: Callable[..., Any], arrays: Sequence[np.ndarray], kind: str) -> Any:
    import torch

    return function(*(torch.from_numpy(array.copy()) for array in arrays))


def _in_jax(function: Callable[..., Any], arrays: Sequence[np.ndarray], kind: str) -> Any:
    import jax
    import jax.numpy as jnp

    with jax.enable_x64(kind == "float64"):
        return _named(function(*(jnp.asarray(array) for array in arrays)))
