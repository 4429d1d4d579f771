"""Layers with weights that linen and nnx both have: there and back in float64, output and gradients equal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from torch import nn as tnn

from migrate.snippets.Bilinear import Bilinear
from migrate.snippets.PReLU import PReLU
from weight_port import PortError, from_pretrained, match_module, port_weights, unport_tree
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


F64: dict[str, Any] = {"dtype": jnp.float64}
KERNEL = (3, 2, 3)
SIZES = (7, 6, 5)
# of torch's convolutions; the same of Flax's, whose padding has to be written out
STRIDES: dict[str, Any] = {"stride": 2, "padding": 1}
GROUPS: dict[str, Any] = {"padding": 2, "dilation": 2, "groups": 2}
DEPTHWISE: dict[str, Any] = {"groups": 4, "bias": False}
VARIANTS: dict[int, dict[str, dict[str, Any]]] = {
    1: {"dilated, groups": GROUPS},
    2: {"strides": STRIDES, "dilated, groups": GROUPS, "depthwise, no bias": DEPTHWISE},
    3: {"strides": STRIDES},
}


def convolutions() -> dict[str, Case]:
    cases = {}
    for n in (1, 2, 3):
        kind = (tnn.Conv1d, tnn.Conv2d, tnn.Conv3d)[n - 1]
        for variant, options in VARIANTS[n].items():
            flax: dict[str, Any] = {
                "kernel_size": KERNEL[:n], "strides": (options.get("stride", 1),) * n,
                "padding": [(options.get("padding", 0),) * 2] * n, "kernel_dilation": (options.get("dilation", 1),) * n,
                "feature_group_count": options.get("groups", 1), "use_bias": options.get("bias", True), **F64,
            }  # fmt: skip
            cases[f"Conv{n}d, {variant}"] = Case(
                lambda n=n, kind=kind, options=options: kind(4, 8, KERNEL[:n], **options),
                lambda flax=flax: nn.Conv(8, **flax),
                lambda rngs, flax=flax: nnx.Conv(4, 8, rngs=rngs, **flax),
                (2, 4, *SIZES[:n]), channels=True,
            )  # fmt: skip
    for mode in ("circular", "reflect"):
        flax = {"kernel_size": (3, 3), "padding": mode.upper(), **F64}
        cases[f"Conv2d, {mode}"] = Case(
            lambda mode=mode: tnn.Conv2d(3, 5, 3, padding=1, padding_mode=mode),
            lambda flax=flax: nn.Conv(5, **flax),
            lambda rngs, flax=flax: nnx.Conv(3, 5, rngs=rngs, **flax),
            (2, 3, 5, 6), channels=True,
        )  # fmt: skip
    return cases


def transposed() -> dict[str, Case]:
    """Strides of 3, padding of 1, one more at the end, dilation of 2: Flax has the padding of the other direction."""
    cases = {}
    for n in (1, 2, 3):
        kind = (tnn.ConvTranspose1d, tnn.ConvTranspose2d, tnn.ConvTranspose3d)[n - 1]
        padding = [(2 * (k - 1) - 1, 2 * (k - 1) - 1 + 1) for k in KERNEL[:n]]
        flax: dict[str, Any] = {
            "kernel_size": KERNEL[:n], "strides": (3,) * n, "padding": padding, "kernel_dilation": (2,) * n, **F64,
        }  # fmt: skip
        options: dict[str, Any] = {"stride": 3, "padding": 1, "output_padding": 1, "dilation": 2}
        for turned in (False, True) if n == 2 else (n == 3,):
            cases[f"ConvTranspose{n}d" + ", kernel of the gradient" * turned] = Case(
                lambda n=n, kind=kind, options=options: kind(4, 6, KERNEL[:n], **options),
                lambda flax=flax, turned=turned: nn.ConvTranspose(6, transpose_kernel=turned, **flax),
                lambda rngs, flax=flax, turned=turned: nnx.ConvTranspose(
                    4, 6, rngs=rngs, transpose_kernel=turned, **flax
                ),
                (2, 4, *(4, 3, 3)[:n]), channels=True,
            )  # fmt: skip
    # Flax's own has no groups: a convolution of the input with holes has
    flax = {
        "kernel_size": (3, 2), "padding": [(1, 2), (0, 1)], "input_dilation": (2, 2), "feature_group_count": 2, **F64,
    }  # fmt: skip
    cases["ConvTranspose2d, groups"] = Case(
        lambda: tnn.ConvTranspose2d(4, 6, (3, 2), stride=2, padding=1, output_padding=1, groups=2),
        lambda: nn.Conv(6, **flax),
        lambda rngs: nnx.Conv(4, 6, rngs=rngs, **flax),
        (2, 4, 4, 3), channels=True,
    )  # fmt: skip
    return cases


class Conv1D(tnn.Module):
    """As transformers has it, in GPT-2 and its like."""

    def __init__(self, outputs: int, inputs: int) -> None:
        super().__init__()
        self.weight, self.bias = tnn.Parameter(torch.empty(inputs, outputs)), tnn.Parameter(torch.empty(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight + self.bias


class Attended(tnn.Module):
    """Self-attention, without the weights that torch returns beside it."""

    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.attention = tnn.MultiheadAttention(8, 2, bias=bias, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attention(x, x, x, need_weights=False)[0]


def wide_attention(*args: Any, is_causal: bool = False, **options: Any) -> Any:
    return nn.dot_product_attention(*args, **options)  # nnx's own computes the softmax in float32


def attention(bias: bool) -> Case:
    options: dict[str, Any] = {"num_heads": 2, "use_bias": bias, "attention_fn": wide_attention, **F64}
    return Case(
        lambda: Attended(bias),
        lambda: nn.MultiHeadDotProductAttention(**options),
        lambda rngs: nnx.MultiHeadAttention(in_features=8, decode=False, rngs=rngs, **options),
        (3, 5, 8),
    )


class Mixed(tnn.Module):
    """Attention to something of another width: the first half asks, the second is asked."""

    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.attention = tnn.MultiheadAttention(8, 2, kdim=12, vdim=12, bias=bias, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attention(x[..., :8], x[..., 8:], x[..., 8:], need_weights=False)[0]


class MixedLinen(nn.Module):
    bias: bool

    @nn.compact
    def __call__(self, x: Any) -> Any:
        attention = nn.MultiHeadDotProductAttention(2, use_bias=self.bias, name="attention", **F64)
        return attention(x[..., :8], x[..., 8:])


class MixedNnx(nnx.Module):
    def __init__(self, bias: bool, rngs: nnx.Rngs) -> None:
        self.attention = nnx.MultiHeadAttention(
            2, 8, in_kv_features=12, use_bias=bias, decode=False, rngs=rngs, attention_fn=wide_attention, **F64
        )

    def __call__(self, x: Any) -> Any:
        return self.attention(x[..., :8], x[..., 8:])


class Pair(tnn.Module):
    """A layer of two inputs, given side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.bilinear = tnn.Bilinear(3, 4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.bilinear(x[..., :3], x[..., 3:])


class PairLinen(nn.Module):
    """By what `migrate rewrite` writes."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        return Bilinear(5, name="bilinear")(x[..., :3], x[..., 3:])


class PairNnx(nnx.Module):
    def __init__(self) -> None:
        self.bilinear = nnx.Module()
        self.bilinear.weight, self.bilinear.bias = nnx.Param(jnp.zeros((5, 3, 4))), nnx.Param(jnp.zeros(5))

    def __call__(self, x: Any) -> Any:
        weight, bias = self.bilinear.weight[...], self.bilinear.bias[...]
        return jnp.einsum("...i,oij,...j->...o", x[..., :3], weight, x[..., 3:]) + bias


class SlopesNnx(nnx.Module):
    """A slope for each channel, the last axis; Flax's own PReLU has one for all."""

    def __init__(self, channels: int) -> None:
        self.negative_slope = nnx.Param(jnp.zeros(channels))

    def __call__(self, x: Any) -> Any:
        return jnp.where(x >= 0, x, self.negative_slope[...] * x)


class ImagesNnx(nnx.Module):
    """The mean and the variance over all axes but the first; Flax's own has one axis of features."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.scale, self.bias = nnx.Param(jnp.zeros(shape)), nnx.Param(jnp.zeros(shape))

    def __call__(self, x: Any) -> Any:
        return jax.nn.standardize(x, axis=(1, 2), epsilon=1e-5) * self.scale[...] + self.bias[...]


class Three(tnn.Module):
    """Attention whose keys and values have widths of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = tnn.MultiheadAttention(8, 2, kdim=12, vdim=6, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attention(x[..., :8], x[..., 8:20], x[..., 20:], need_weights=False)[0]


class ThreeLinen(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        attention = nn.MultiHeadDotProductAttention(2, out_features=8, qkv_features=8, name="attention", **F64)
        return attention(x[..., :8], x[..., 8:20], x[..., 20:])


class ThreeNnx(nnx.Module):
    """Flax's own has one width for keys and values."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.attention = nnx.Module()
        for name, width in (("query", 8), ("key", 12), ("value", 6)):
            setattr(self.attention, name, nnx.LinearGeneral(width, (2, 4), rngs=rngs, **F64))
        self.attention.out = nnx.LinearGeneral((2, 4), 8, axis=(-2, -1), rngs=rngs, **F64)

    def __call__(self, x: Any) -> Any:
        inputs = zip(("query", "key", "value"), (x[..., :8], x[..., 8:20], x[..., 20:]), strict=True)
        heads = [getattr(self.attention, name)(given) for name, given in inputs]
        return self.attention.out(nn.dot_product_attention(*heads))


def normalizations() -> dict[str, Case]:
    cases = {}
    for n, kind in enumerate((tnn.BatchNorm1d, tnn.BatchNorm2d, tnn.BatchNorm3d), 1):
        options: dict[str, Any] = {"use_running_average": True, "epsilon": 1e-5, **F64}
        options |= {"use_bias": n != 2, "use_scale": n != 2}
        cases[f"BatchNorm{n}d"] = Case(
            lambda n=n, kind=kind: kind(6, affine=n != 2),
            lambda options=options: nn.BatchNorm(**options),
            lambda rngs, options=options: nnx.BatchNorm(6, rngs=rngs, **options),
            (3, 6, *(4, 5, 2)[:n]), channels=True,
        )  # fmt: skip
    return cases


def bag(mode: str) -> Case:
    """Flax's own layer has no bags: its embeddings are reduced."""

    def reduce(x: Any) -> Any:
        return getattr(x, mode)(1)

    return Case(
        lambda: tnn.EmbeddingBag(7, 4, mode=mode), lambda: nn.Sequential([nn.Embed(7, 4, **F64), reduce]),
        lambda rngs: nnx.Sequential(nnx.Embed(7, 4, rngs=rngs, **F64), reduce), (3, 5), integers=7,
    )  # fmt: skip


CASES: dict[str, Case] = convolutions() | transposed() | normalizations() | {
    "Linear": Case(
        lambda: tnn.Linear(4, 6), lambda: nn.Dense(6, **F64), lambda rngs: nnx.Linear(4, 6, rngs=rngs, **F64), (3, 4),
    ),
    "Embedding": Case(
        lambda: tnn.Embedding(7, 4), lambda: nn.Embed(7, 4, **F64), lambda rngs: nnx.Embed(7, 4, rngs=rngs, **F64),
        (3, 5), integers=7,
    ),
    "Linear, no bias": Case(
        lambda: tnn.Linear(4, 4, bias=False), lambda: nn.Dense(4, use_bias=False, **F64),
        lambda rngs: nnx.Linear(4, 4, use_bias=False, rngs=rngs, **F64), (3, 4),
    ),
    "Conv1D": Case(
        lambda: Conv1D(4, 4), lambda: nn.Dense(4, **F64), lambda rngs: nnx.Linear(4, 4, rngs=rngs, **F64), (3, 4),
    ),
    "MultiheadAttention": attention(True),
    "MultiheadAttention, no bias": attention(False),
    "MultiheadAttention, other widths": Case(
        lambda: Mixed(True), lambda: MixedLinen(True), lambda rngs: MixedNnx(True, rngs), (3, 5, 20),
    ),
    "MultiheadAttention, other widths, no bias": Case(
        lambda: Mixed(False), lambda: MixedLinen(False), lambda rngs: MixedNnx(False, rngs), (3, 5, 20),
    ),
    "MultiheadAttention, three widths": Case(Three, ThreeLinen, ThreeNnx, (3, 5, 26)),
    **{f"EmbeddingBag, {mode}": bag(mode) for mode in ("mean", "sum", "max")},
    "Bilinear": Case(Pair, PairLinen, lambda rngs: PairNnx(), (3, 7)),
    "PReLU, one for each channel": Case(
        lambda: tnn.PReLU(6), lambda: PReLU(num_parameters=6), lambda rngs: SlopesNnx(6), (3, 6),
    ),
    "LayerNorm, two axes": Case(
        lambda: tnn.LayerNorm((5, 6)),
        lambda: nn.LayerNorm(epsilon=1e-5, reduction_axes=(-2, -1), feature_axes=(-2, -1), **F64),
        lambda rngs: ImagesNnx((5, 6)), (3, 5, 6),
    ),
    "InstanceNorm2d, running statistics": Case(  # outside of training it is a batch norm
        lambda: tnn.InstanceNorm2d(6, affine=True, track_running_stats=True),
        lambda: nn.BatchNorm(use_running_average=True, epsilon=1e-5, **F64),
        lambda rngs: nnx.BatchNorm(6, use_running_average=True, epsilon=1e-5, rngs=rngs, **F64),
        (3, 6, 4, 5), channels=True,
    ),
    "LayerNorm": Case(
        lambda: tnn.LayerNorm(6), lambda: nn.LayerNorm(epsilon=1e-5, **F64),
        lambda rngs: nnx.LayerNorm(6, epsilon=1e-5, rngs=rngs, **F64), (3, 6),
    ),
    "LayerNorm, no bias": Case(
        lambda: tnn.LayerNorm(6, bias=False), lambda: nn.LayerNorm(epsilon=1e-5, use_bias=False, **F64),
        lambda rngs: nnx.LayerNorm(6, epsilon=1e-5, use_bias=False, rngs=rngs, **F64), (3, 6),
    ),
    "RMSNorm": Case(
        lambda: tnn.RMSNorm(6, eps=1e-6), lambda: nn.RMSNorm(epsilon=1e-6, **F64),
        lambda rngs: nnx.RMSNorm(6, epsilon=1e-6, rngs=rngs, **F64), (3, 6),
    ),
    "GroupNorm": Case(
        lambda: tnn.GroupNorm(2, 6), lambda: nn.GroupNorm(2, epsilon=1e-5, **F64),
        lambda rngs: nnx.GroupNorm(6, 2, epsilon=1e-5, rngs=rngs, **F64), (3, 6, 5), channels=True,
    ),
    "InstanceNorm2d": Case(
        lambda: tnn.InstanceNorm2d(6, affine=True), lambda: nn.InstanceNorm(epsilon=1e-5, **F64),
        lambda rngs: nnx.InstanceNorm(6, epsilon=1e-5, rngs=rngs, **F64), (3, 6, 4, 5), channels=True,
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

    given = torch.from_numpy(x).requires_grad_(not case.integers)
    expected = module(given)
    there = expected.detach().numpy()
    weights = random.normal(size=there.shape)
    (expected * torch.from_numpy(weights)).sum().backward()
    moved = jnp.asarray(np.moveaxis(weights, 1, -1) if case.channels else weights)
    found, pulled = jax.vjp(jax.jit(apply), variables, inputs[0])
    same(np.moveaxis(found, -1, 1) if case.channels else np.asarray(found), there)
    gradients, of_input = pulled(moved)
    if given.grad is not None:
        same(np.moveaxis(of_input, -1, 1) if case.channels else np.asarray(of_input), given.grad.numpy())
    back = unport_tree({collection: nest_of(tree) for collection, tree in gradients.items()}, manifest)
    for key, parameter in module.named_parameters():
        assert parameter.grad is not None
        same(back[key], parameter.grad.numpy())
    returned = unport_tree({collection: nest_of(tree) for collection, tree in variables.items()}, manifest)
    for key, tensor in module.state_dict().items():
        if key in returned:
            assert np.array_equal(returned[key], tensor.numpy()), key
    assert set(module.state_dict()) - set(returned) <= {"num_batches_tracked"}


def applied(
    flax: Any, path: Path, inputs: tuple[Any, ...], module: tnn.Module, names: dict[str, str] | None = None
) -> tuple[Any, Callable[..., Any]]:
    """Variables by collection as nested dicts, and the function of them and the input."""
    if isinstance(flax, nn.Module):
        return from_pretrained(flax, path, example_inputs=inputs, layers=module, names=names), flax.apply
    flax = from_pretrained(flax, path, example_inputs=inputs, layers=module, names=names)
    graph, params, statistics, rest = nnx.split(flax, nnx.Param, nnx.BatchStat, ...)
    variables = {"params": nnx.to_pure_dict(params), "batch_stats": nnx.to_pure_dict(statistics)}

    def apply(variables: Any, x: Any) -> Any:
        for state, values in ((params, variables["params"]), (statistics, variables["batch_stats"])):
            nnx.replace_by_pure_dict(state, values)
        return nnx.merge(graph, params, statistics, rest, copy=True)(x)  # which may count draws

    return {name: tree for name, tree in variables.items() if tree}, lambda v, x: apply(
        {"params": {}, "batch_stats": {}} | v, x
    )


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
CELLS: dict[str, tuple[Any, Any, Any]] = {
    "LSTMCell": (tnn.LSTM, nn.LSTMCell, nnx.LSTMCell),
    "OptimizedLSTMCell": (tnn.LSTM, nn.OptimizedLSTMCell, nnx.OptimizedLSTMCell),
    "GRUCell": (tnn.GRU, nn.GRUCell, lambda *sizes, **options: with_both_biases(nnx.GRUCell(*sizes, **options))),
    "SimpleCell": (tnn.RNN, nn.SimpleCell, nnx.SimpleCell),
    "SimpleCell, relu": (
        partial(tnn.RNN, nonlinearity="relu"),
        partial(nn.SimpleCell, activation_fn=nn.relu),
        partial(nnx.SimpleCell, activation_fn=nn.relu),
    ),
}


def with_both_biases(cell: nnx.GRUCell) -> nnx.GRUCell:
    """nnx has none inside the product with the reset gate; torch has."""
    cell.dense_h = nnx.Linear(cell.hidden_features, 3 * cell.hidden_features, rngs=nnx.Rngs(0), **WIDE)
    return cell


def test_a_cell_without_a_place_for_a_bias_is_refused(tmp_path):
    torch.save(tnn.GRU(3, 4).double().state_dict(), tmp_path / "m.pt")
    network = nnx.RNN(nnx.GRUCell(3, 4, rngs=nnx.Rngs(0), **WIDE), rngs=nnx.Rngs(0))
    with pytest.raises(PortError, match=r"nnx.GRUCell has no bias inside the product with the reset gate"):
        match_module(network, tmp_path / "m.pt", example_inputs=(np.zeros((2, 5, 3)),))


@pytest.mark.parametrize("target", ["linen", "nnx"])
@pytest.mark.parametrize("name", CELLS)
def test_a_recurrent_network_goes_there_and_back(name, target, tmp_path):
    theirs, linen, other = CELLS[name]
    rngs = nnx.Rngs(0)
    flax: Any = nn.RNN(linen(4, **WIDE)) if target == "linen" else nnx.RNN(other(3, 4, rngs=rngs, **WIDE), rngs=rngs)
    there_and_back(flax, First(theirs(3, 4, batch_first=True)), {}, tmp_path)


@pytest.mark.parametrize("target", ["linen", "nnx"])
def test_a_network_in_both_directions(target, tmp_path):
    rngs = nnx.Rngs(0)
    if target == "linen":
        flax: Any = nn.Bidirectional(*(nn.RNN(nn.OptimizedLSTMCell(4, **WIDE)) for _ in range(2)))
    else:
        rnns = [nnx.RNN(nnx.OptimizedLSTMCell(3, 4, rngs=rngs, **WIDE), rngs=rngs) for _ in range(2)]
        flax = nnx.Bidirectional(*rnns, rngs=rngs)
    names = {"forward_rnn/cell": "network.l0", "backward_rnn/cell": "network.l0_reverse"}
    there_and_back(flax, First(tnn.LSTM(3, 4, batch_first=True, bidirectional=True)), names, tmp_path)


def there_and_back(flax: Any, module: tnn.Module, names: dict[str, str], folder: Path) -> None:
    """Flax has the sum of two biases: of these the gradients are each the sum's, and torch's output is the same."""
    module = drawn(module)
    torch.save(module.state_dict(), folder / "m.pt")
    x = np.random.default_rng(0).normal(size=(2, 5, 3))
    inputs = (jnp.asarray(x),)
    manifest = match_module(flax, folder / "m.pt", example_inputs=inputs, names=names).models[0]
    variables, apply = applied(flax, folder / "m.pt", inputs, module, names)
    expected = module(torch.from_numpy(x))
    expected.sum().backward()
    found, pulled = jax.vjp(jax.jit(lambda v: apply(v, inputs[0])), variables)
    same(np.asarray(found), expected.detach().numpy())
    (gradients,) = pulled(jnp.ones_like(found))
    back = unport_tree({collection: nest_of(tree) for collection, tree in gradients.items()}, manifest)
    for key, parameter in module.named_parameters():
        if "weight" in key:
            assert parameter.grad is not None
            same(back[key], parameter.grad.numpy())
    returned = unport_tree({collection: nest_of(tree) for collection, tree in variables.items()}, manifest)
    module.load_state_dict({key: torch.from_numpy(np.array(value)) for key, value in returned.items()})
    same(module(torch.from_numpy(x)).detach().numpy(), expected.detach().numpy())


weight_norm, spectral_norm = tnn.utils.parametrizations.weight_norm, tnn.utils.parametrizations.spectral_norm
FOLDED: dict[str, tuple[Callable[[], tnn.Module], nn.Module, tuple[int, ...]]] = {
    "weight_norm": (lambda: weight_norm(tnn.Linear(4, 6)), nn.Dense(6, **F64), (3, 4)),
    "weight_norm, before": (
        lambda: tnn.utils.weight_norm(tnn.Conv1d(3, 5, 3)), nn.Conv(5, (3,), padding="VALID", **F64), (2, 3, 7),
    ),
    "weight_norm, transposed": (
        lambda: weight_norm(tnn.ConvTranspose1d(3, 5, 2, 2)),
        nn.ConvTranspose(5, (2,), (2,), "VALID", transpose_kernel=True, **F64), (2, 3, 4),
    ),
    "spectral_norm": (lambda: spectral_norm(tnn.Linear(4, 4)), nn.Dense(4, **F64), (3, 4)),
    "spectral_norm, before": (
        lambda: tnn.utils.spectral_norm(tnn.Conv2d(3, 5, 2)), nn.Conv(5, (2, 2), padding="VALID", **F64), (2, 3, 4, 5),
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")  # checkpoints are in both forms
@pytest.mark.parametrize("name", FOLDED)
def test_a_weight_that_torch_keeps_in_parts_is_folded(name, tmp_path):
    theirs, flax, shape = FOLDED[name]
    module = drawn(theirs())
    torch.save(module.state_dict(), tmp_path / "m.pt")
    x = np.random.default_rng(0).normal(size=shape)
    ours = jnp.asarray(np.moveaxis(x, 1, -1) if len(shape) > 2 else x)
    arguments: dict[str, Any] = {"example_inputs": (ours,), "layers": {"*": "Linear"}}
    found = np.asarray(flax.apply(from_pretrained(flax, tmp_path / "m.pt", **arguments), ours))
    same(np.moveaxis(found, -1, 1) if len(shape) > 2 else found, module(torch.from_numpy(x)).detach().numpy())
    # and by a manifest, which asks for the plain weight
    manifest = match_module(flax, tmp_path / "m.pt", **arguments)
    report = port_weights(tmp_path / "m.pt", manifest, tmp_path / "o.safetensors")
    assert any(note.startswith("weight is folded from ") for note in report.notes)
