"""Layers with weights that linen and nnx both have: there and back in float64, output and gradients equal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from torch import nn as tnn

from weight_port import PortError, from_pretrained, match_module, unport_tree
from weight_port.apply import nest

# Float64: some hundred roundings of 1.1e-16 each. A wrong transpose or an exchanged weight is off by the output's size.
CLOSE = 1e-12


@dataclass(frozen=True)
class Case:
    """`channels`: the axis of the channels in torch's input goes last in Flax; `exact` tells what shapes leave open."""

    torch: Callable[[], tnn.Module]
    linen: Callable[[], nn.Module]
    nnx: Callable[[nnx.Rngs], nnx.Module]
    shape: tuple[int, ...]
    channels: bool = False
    integers: int = 0  # the input is drawn below this


def convolution(n: int, **options: Any) -> dict[str, Any]:
    kernel, strides = (3, 2, 3)[:n], (2,) * n
    padding = [(1, 1)] * n
    return {"kernel_size": kernel, "strides": strides, "padding": padding, "dtype": jnp.float64} | options


def convolutions() -> dict[str, Case]:
    cases = {}
    for n in (1, 2, 3):
        size, kind = (7, 6, 5)[:n], (tnn.Conv1d, tnn.Conv2d, tnn.Conv3d)[n - 1]
        cases[f"Conv{n}d"] = Case(
            lambda n=n, kind=kind: kind(3, 5, (3, 2, 3)[:n], stride=2, padding=1),
            lambda n=n: nn.Conv(5, **convolution(n)),
            lambda rngs, n=n: nnx.Conv(3, 5, rngs=rngs, **convolution(n)),
            (2, 3, *size), channels=True,
        )  # fmt: skip
    cases["Conv2d, groups"] = Case(
        lambda: tnn.Conv2d(4, 6, (3, 2), stride=2, padding=1, groups=2, bias=False),
        lambda: nn.Conv(6, feature_group_count=2, use_bias=False, **convolution(2)),
        lambda rngs: nnx.Conv(4, 6, feature_group_count=2, use_bias=False, rngs=rngs, **convolution(2)),
        (2, 4, 7, 6), channels=True,
    )  # fmt: skip
    return cases


def transposed(transpose_kernel: bool) -> Case:
    options: dict[str, Any] = {
        "kernel_size": (3, 2), "strides": (2, 2), "padding": "VALID", "transpose_kernel": transpose_kernel,
        "dtype": jnp.float64,
    }  # fmt: skip
    return Case(
        lambda: tnn.ConvTranspose2d(3, 5, (3, 2), stride=2),
        lambda: nn.ConvTranspose(5, **options),
        lambda rngs: nnx.ConvTranspose(3, 5, rngs=rngs, **options),
        (2, 3, 4, 5), channels=True,
    )  # fmt: skip


F64: dict[str, Any] = {"dtype": jnp.float64}
CASES: dict[str, Case] = convolutions() | {
    "Linear": Case(
        lambda: tnn.Linear(4, 6), lambda: nn.Dense(6, **F64), lambda rngs: nnx.Linear(4, 6, rngs=rngs, **F64), (3, 4),
    ),
    "Embedding": Case(
        lambda: tnn.Embedding(7, 4), lambda: nn.Embed(7, 4, **F64), lambda rngs: nnx.Embed(7, 4, rngs=rngs, **F64),
        (3, 5), integers=7,
    ),
    "ConvTranspose2d": transposed(False),
    "ConvTranspose2d, kernel of the gradient": transposed(True),
    "LayerNorm": Case(
        lambda: tnn.LayerNorm(6), lambda: nn.LayerNorm(epsilon=1e-5, **F64),
        lambda rngs: nnx.LayerNorm(6, epsilon=1e-5, rngs=rngs, **F64), (3, 6),
    ),
    "RMSNorm": Case(
        lambda: tnn.RMSNorm(6, eps=1e-6), lambda: nn.RMSNorm(epsilon=1e-6, **F64),
        lambda rngs: nnx.RMSNorm(6, epsilon=1e-6, rngs=rngs, **F64), (3, 6),
    ),
    "GroupNorm": Case(
        lambda: tnn.GroupNorm(2, 6), lambda: nn.GroupNorm(2, epsilon=1e-5, **F64),
        lambda rngs: nnx.GroupNorm(6, 2, epsilon=1e-5, rngs=rngs, **F64), (3, 6, 5), channels=True,
    ),
    "BatchNorm2d": Case(
        lambda: tnn.BatchNorm2d(6), lambda: nn.BatchNorm(use_running_average=True, epsilon=1e-5, **F64),
        lambda rngs: nnx.BatchNorm(6, use_running_average=True, epsilon=1e-5, rngs=rngs, **F64),
        (3, 6, 4, 5), channels=True,
    ),
    "PReLU": Case(
        lambda: tnn.PReLU(), lambda: nn.PReLU(param_dtype=jnp.float64),
        lambda rngs: nnx.PReLU(param_dtype=jnp.float64), (3, 6),
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def drawn(module: tnn.Module) -> tnn.Module:
    """Float64, every weight and statistic drawn: ones and zeros would hide where they go."""
    torch.manual_seed(0)
    module = module.double().eval()
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor.is_floating_point():
                tensor.uniform_(0.5, 1.5)
    return module


@pytest.mark.parametrize("target", ["linen", "nnx"])
@pytest.mark.parametrize("name", CASES)
def test_output_and_gradients_are_torchs_and_the_weights_come_back(name, target, tmp_path):
    case = CASES[name]
    module = drawn(case.torch())
    torch.save(module.state_dict(), tmp_path / "m.pt")
    random = np.random.default_rng(0)
    x = random.integers(0, case.integers, case.shape) if case.integers else random.normal(size=case.shape)
    ours = np.moveaxis(x, 1, -1) if case.channels else x
    flax: Any = case.linen() if target == "linen" else case.nnx(nnx.Rngs(0))
    inputs = (jnp.asarray(ours),)
    manifest = match_module(flax, tmp_path / "m.pt", example_inputs=inputs, layers=module).models[0]
    variables, apply = applied(flax, tmp_path / "m.pt", inputs, module)

    expected = module(torch.from_numpy(x))
    found = np.asarray(apply(variables, inputs[0]))
    there = expected.detach().numpy()
    same(np.moveaxis(found, -1, 1) if case.channels else found, there)

    weights = random.normal(size=there.shape)
    (expected * torch.from_numpy(weights)).sum().backward()
    moved = jnp.asarray(np.moveaxis(weights, 1, -1) if case.channels else weights)
    gradients = jax.grad(lambda v: (apply(v, inputs[0]) * moved).sum(), allow_int=True)(variables)
    back = unport_tree({collection: nest_of(tree) for collection, tree in gradients.items()}, manifest)
    for key, parameter in module.named_parameters():
        assert parameter.grad is not None
        same(back[key], parameter.grad.numpy())
    returned = unport_tree({collection: nest_of(tree) for collection, tree in variables.items()}, manifest)
    for key, tensor in module.state_dict().items():
        if key in returned:
            assert np.array_equal(returned[key], tensor.numpy()), key
    assert set(module.state_dict()) - set(returned) <= {"num_batches_tracked"}


def applied(flax: Any, path: Any, inputs: tuple[Any, ...], module: tnn.Module) -> tuple[Any, Callable[..., Any]]:
    """Variables by collection as nested dicts, and the function of them and the input."""
    if isinstance(flax, nn.Module):
        return from_pretrained(flax, path, example_inputs=inputs, layers=module), flax.apply
    flax = from_pretrained(flax, path, example_inputs=inputs, layers=module)
    graph, params, statistics, rest = nnx.split(flax, nnx.Param, nnx.BatchStat, ...)
    variables = {"params": nnx.to_pure_dict(params), "batch_stats": nnx.to_pure_dict(statistics)}

    def apply(variables: Any, x: Any) -> Any:
        for state, values in ((params, variables["params"]), (statistics, variables["batch_stats"])):
            nnx.replace_by_pure_dict(state, values)
        return nnx.merge(graph, params, statistics, rest, copy=True)(x)  # which may count draws

    return {name: tree for name, tree in variables.items() if tree}, lambda v, x: apply({"batch_stats": {}} | v, x)


def nest_of(tree: Any) -> Any:
    return nest({"/".join(map(str, path)): leaf for path, leaf in nnx.traversals.flatten_mapping(tree).items()})


def same(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= CLOSE * max(np.abs(expected).max(), 1.0)


class First(tnn.Module):
    """The sequence that a recurrent network gives, without its last state."""

    def __init__(self, network: tnn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.network(x)[0]


WIDE: dict[str, Any] = {"dtype": jnp.float64, "param_dtype": jnp.float64}
CELLS = {
    "LSTMCell": (tnn.LSTM, nn.LSTMCell, nnx.LSTMCell),
    "OptimizedLSTMCell": (tnn.LSTM, nn.OptimizedLSTMCell, nnx.OptimizedLSTMCell),
    "GRUCell": (tnn.GRU, nn.GRUCell, None),
    "SimpleCell": (tnn.RNN, nn.SimpleCell, nnx.SimpleCell),
}


@pytest.mark.parametrize("target", ["linen", "nnx"])
@pytest.mark.parametrize("name", CELLS)
def test_a_recurrent_network_goes_there_and_back(name, target, tmp_path):
    theirs, linen, other = CELLS[name]
    module = drawn(First(theirs(3, 4, batch_first=True)))
    torch.save(module.state_dict(), tmp_path / "m.pt")
    x = np.random.default_rng(0).normal(size=(2, 5, 3))
    if target == "nnx" and other is None:
        cell = nnx.RNN(nnx.GRUCell(3, 4, rngs=nnx.Rngs(0), **WIDE), rngs=nnx.Rngs(0))
        with pytest.raises(PortError, match=r"nnx.GRUCell has no bias inside the product with the reset gate"):
            match_module(cell, tmp_path / "m.pt", example_inputs=(x,))
        return
    rngs = nnx.Rngs(0)
    flax: Any = nn.RNN(linen(4, **WIDE)) if target == "linen" else nnx.RNN(other(3, 4, rngs=rngs, **WIDE), rngs=rngs)
    inputs = (jnp.asarray(x),)
    manifest = match_module(flax, tmp_path / "m.pt", example_inputs=inputs).models[0]
    variables, apply = applied(flax, tmp_path / "m.pt", inputs, module)
    expected = module(torch.from_numpy(x))
    same(np.asarray(apply(variables, inputs[0])), expected.detach().numpy())

    expected.sum().backward()
    gradients = jax.grad(lambda v: apply(v, inputs[0]).sum())(variables)
    back = unport_tree({collection: nest_of(tree) for collection, tree in gradients.items()}, manifest)
    for key, parameter in module.named_parameters():
        if "weight" in key:  # Flax has the sum of two biases
            assert parameter.grad is not None
            same(back[key], parameter.grad.numpy())
    returned = unport_tree({collection: nest_of(tree) for collection, tree in variables.items()}, manifest)
    module.load_state_dict({key: torch.from_numpy(np.array(value)) for key, value in returned.items()})
    same(module(torch.from_numpy(x)).detach().numpy(), expected.detach().numpy())
