"""Flax's WeightNorm filled by torch's weight_norm, in parts on both sides; what is not the same is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
import torch
from flax import nnx, serialization
from torch import nn as tnn

from tests.weight_port.test_both_targets import F64, drawn, nest_of, same
from weight_port import PortError, from_pretrained, match_module, port_weights, unport_tree

weight_norm = tnn.utils.parametrizations.weight_norm
NONE: Any = None  # torch takes it, its annotation does not say so


@dataclass(frozen=True)
class Case:
    """Channels are last in Flax wherever there are more than two axes."""

    torch: Callable[[], tnn.Module]
    linen: Callable[[], nn.Module]
    nnx: Callable[[nnx.Rngs], nnx.Module]
    shape: tuple[int, ...]
    norms: Any = -1


CASES = {
    "Linear": Case(
        lambda: weight_norm(tnn.Linear(4, 4)), lambda: nn.Dense(4, **F64),
        lambda rngs: nnx.Linear(4, 4, rngs=rngs, **F64), (3, 4),
    ),
    "Linear, one norm": Case(
        lambda: weight_norm(tnn.Linear(4, 6), dim=NONE), lambda: nn.Dense(6, **F64),
        lambda rngs: nnx.Linear(4, 6, rngs=rngs, **F64), (3, 4), norms=None,
    ),
    "Conv1d, torch's former names": Case(
        lambda: tnn.utils.weight_norm(tnn.Conv1d(3, 5, 3)), lambda: nn.Conv(5, (3,), padding="VALID", **F64),
        lambda rngs: nnx.Conv(3, 5, (3,), padding="VALID", rngs=rngs, **F64), (2, 3, 7),
    ),
    "ConvTranspose1d, a norm for each input": Case(
        lambda: weight_norm(tnn.ConvTranspose1d(3, 5, 2, 2)), lambda: nn.ConvTranspose(5, (2,), (2,), "VALID", **F64),
        lambda rngs: nnx.ConvTranspose(3, 5, (2,), (2,), padding="VALID", rngs=rngs, **F64), (2, 3, 4), norms=-2,
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")  # checkpoints are in both forms
@pytest.mark.parametrize("target", ["linen", "nnx"])
@pytest.mark.parametrize("name", CASES)
def test_direction_and_length_have_torchs_gradients_and_come_back(name, target, tmp_path):
    case, rngs = CASES[name], nnx.Rngs(0)
    module = drawn(case.torch())
    torch.save(module.state_dict(), tmp_path / "m.pt")
    x = np.random.default_rng(0).normal(size=case.shape)
    ours = jnp.asarray(np.moveaxis(x, 1, -1))
    given: dict[str, Any] = {"example_inputs": (ours,)}
    if target == "linen":
        flax: Any = nn.WeightNorm(case.linen(), feature_axes=case.norms, param_dtype=jnp.float64)
    else:
        flax = nnx.WeightNorm(case.nnx(rngs), feature_axes=case.norms, param_dtype=jnp.float64, rngs=rngs)
    manifest = match_module(flax, tmp_path / "m.pt", **given).models[0]
    filled = from_pretrained(flax, tmp_path / "m.pt", **given)
    if target == "linen":
        variables, apply = filled, flax.apply
    else:
        graph, state, rest = nnx.split(filled, lambda path, _: path[0] in ("layer_instance", "scales"), ...)
        # nnx holds its scales as arrays under names that are tuples, and no optimizer of nnx sees them
        variables = {"params": nnx.to_pure_dict(state)}

        def apply(variables: Any, x: Any) -> Any:
            nnx.replace_by_pure_dict(state, variables["params"])
            return nnx.merge(graph, state, rest, copy=True)(x)

    expected = module(torch.from_numpy(x))
    random = np.random.default_rng(1).normal(size=tuple(expected.shape))
    (expected * torch.from_numpy(random)).sum().backward()
    found, pulled = jax.vjp(lambda v: apply(v, ours), variables)
    same(np.moveaxis(found, -1, 1), expected.detach().numpy())
    (gradients,) = pulled(jnp.asarray(np.moveaxis(random, 1, -1)))
    back = unport_tree(named(gradients), manifest)
    for key, parameter in module.named_parameters():
        assert parameter.grad is not None
        same(back[key], parameter.grad.numpy())
    returned = unport_tree(named(variables), manifest)
    assert returned.keys() == module.state_dict().keys()
    assert all(np.array_equal(returned[key], tensor.numpy()) for key, tensor in module.state_dict().items())


def named(variables: Any) -> Any:
    """The scales of nnx under their names without tuples."""
    params = dict(variables["params"])
    if "scales" in params:
        params["scales"] = {"/".join(name): value for name, value in params["scales"].items()}
    return {"params": nest_of(params) if "scales" in params else params}


class Two(nn.Module):
    """One layer that keeps its parts, one that is to have the folded weight."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.WeightNorm(nn.Dense(6, name="up", **F64), param_dtype=jnp.float64)(x)
        return nn.Dense(2, name="down", **F64)(jnp.tanh(x))


@pytest.mark.parametrize("name", ["o.msgpack", "o"])
def test_files_hold_the_names_that_flax_gives_scales(name, tmp_path):
    """A slash is in them: no level of the tree."""
    up, down = weight_norm(tnn.Linear(4, 6)), weight_norm(tnn.Linear(6, 2))
    module = drawn(tnn.ModuleDict({"up": up, "down": down}))
    torch.save(module.state_dict(), tmp_path / "m.pt")
    x = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4)))
    manifest = match_module(Two(), tmp_path / "m.pt", example_inputs=(x,))
    port_weights(tmp_path / "m.pt", manifest, tmp_path / name, verify=True)
    if name == "o":
        variables: Any = ocp.StandardCheckpointer().restore((tmp_path / name).absolute())
    else:
        variables = serialization.msgpack_restore((tmp_path / name).read_bytes())
    wanted = down(torch.tanh(up(torch.from_numpy(np.array(x)))))
    same(np.asarray(Two().apply(variables, x)), wanted.detach().numpy())
    again = from_pretrained(Two(), tmp_path / name, from_pt=False, example_inputs=(x,))
    assert jax.tree.all(jax.tree.map(lambda one, other: bool((one == other).all()), variables, again))


class Spectral(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.SpectralNorm(nn.Dense(4))(x, update_stats=False)


def refused(flax: Any, path: Any, *words: str) -> None:
    with pytest.raises(PortError) as caught:
        match_module(flax, path, example_inputs=(jnp.ones((2, 4)),))
    assert all(word in str(caught.value) for word in words), caught.value


def test_what_flax_computes_otherwise_is_refused(tmp_path):
    torch.save(weight_norm(tnn.Linear(4, 6)).state_dict(), tmp_path / "m.pt")
    rngs, path = nnx.Rngs(0), tmp_path / "m.pt"
    refused(nn.WeightNorm(nn.Dense(6), epsilon=1e-3), path, "WPT111", "epsilon=0.001", "torch's weight_norm nothing")
    refused(nn.WeightNorm(nn.Dense(6), use_scale=False), path, "WPT111", "use_scale=True")
    refused(nn.WeightNorm(nn.Dense(6), variable_filter=None), path, "WPT111", "layer_instance/bias")
    refused(
        nn.WeightNorm(nn.Dense(6), feature_axes=0), path, "WPT102", "a weight_g of (1, 4) or (4, 1) beside a weight_v"
    )
    torch.save(tnn.Linear(4, 6).state_dict(), tmp_path / "m.pt")
    refused(nnx.WeightNorm(nnx.Linear(4, 6, rngs=rngs), rngs=rngs), path, "WPT102", "a weight_g of (6, 1)")
    refused(Spectral(), path, "WPT111", "linen.SpectralNorm SpectralNorm_0", "outside of training")
    spectral = nnx.SpectralNorm(nnx.Linear(4, 6, rngs=rngs), rngs=rngs)
    refused(spectral, path, "WPT111", "overwrites the kernel", "folded into it exactly")


def test_a_step_in_every_call_is_what_tells_flaxs_spectral_norm_from_torchs():
    """From one u: torch outside of training takes none, and divides by another number."""
    torch.manual_seed(0)
    module: Any = tnn.utils.parametrizations.spectral_norm(tnn.Linear(4, 4, bias=False)).double().eval()
    with torch.no_grad():  # as after a step: torch's first u has converged already
        module.parametrizations.weight.original.uniform_(-1, 1)
    state = {key: tensor.numpy() for key, tensor in module.state_dict().items()}
    stats = {"Dense_0/kernel/u": state["parametrizations.weight.0._u"][None], "Dense_0/kernel/sigma": np.ones(())}
    variables = {
        "params": {"Dense_0": {"kernel": state["parametrizations.weight.original"].T, "bias": np.zeros(4)}},
        "batch_stats": {"SpectralNorm_0": stats},
    }
    x = np.random.default_rng(0).normal(size=(3, 4))
    there = module(torch.from_numpy(x)).detach().numpy()
    assert np.abs(np.asarray(Spectral().apply(variables, x)) - there).max() > 1e-3 * np.abs(there).max()
