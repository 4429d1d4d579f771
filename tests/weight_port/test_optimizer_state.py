"""A training run that changes frameworks halfway, in both directions, and states that cannot be carried over."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flax.linen as flax_nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from torch import nn

from migrate import manifest as manifests
from migrate.layers.moves import Permute
from migrate.manifest import Leaf, Manifest, ModelWeights
from weight_port import PortError, port_state_dict, unport_tree
from weight_port.optimizer_state import read_optimizer_state
from weight_port.optimizer_to_optax import to_optax
from weight_port.optimizer_to_torch import as_tensors, to_torch

STEPS = 50
WEIGHTS = ModelWeights(
    "Net",
    (
        Leaf("params/first/kernel", "first.weight", (Permute((1, 0)),)),
        Leaf("params/first/bias", "first.bias"),
        Leaf("params/second/kernel", "second.weight", (Permute((1, 0)),)),
        Leaf("params/second/bias", "second.bias"),
    ),
)
INPUTS = np.random.default_rng(0).normal(size=(2 * STEPS, 16, 6)).astype(np.float32)
TARGETS = np.tanh(INPUTS.sum(-1, keepdims=True))
# Float32 and two orders of summation: after a hundred steps the frameworks differ by some 1e-6 of a loss near 0.1
# whether or not the run changed hands; a lost moment or count changes it by more than 1e-3.
RELATIVE = 1e-4


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.second = nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(x)))


class FlaxNet(flax_nn.Module):
    @flax_nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = jnp.tanh(flax_nn.Dense(8, name="first")(x))
        return flax_nn.Dense(1, name="second")(x)


class Torch:
    """A run in torch."""

    def __init__(self, make: Callable[..., torch.optim.Optimizer]) -> None:
        torch.manual_seed(0)
        self.model = Net()
        self.optimizer = make(self.model.parameters())

    def run(self, start: int, stop: int) -> list[float]:
        losses = []
        for x, y in zip(INPUTS[start:stop], TARGETS[start:stop], strict=True):
            loss = ((self.model(torch.from_numpy(x)) - torch.from_numpy(y)) ** 2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return losses

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.model.named_parameters()]

    def weights(self) -> dict[str, np.ndarray]:
        return {name: tensor.numpy() for name, tensor in self.model.state_dict().items()}


class Optax:
    """A run in optax."""

    def __init__(self, chain: optax.GradientTransformation, variables: Any) -> None:
        self.chain, self.variables = chain, variables
        self.state = chain.init(variables["params"])

        @jax.jit
        def step(params: Any, state: Any, x: jax.Array, y: jax.Array) -> Any:
            def loss_fn(params: Any) -> jax.Array:
                return ((FlaxNet().apply({"params": params}, x) - y) ** 2).mean()

            loss, gradients = jax.value_and_grad(loss_fn)(params)
            updates, state = chain.update(gradients, state, params)
            return optax.apply_updates(params, updates), state, loss

        self.step = step

    def run(self, start: int, stop: int) -> list[float]:
        losses = []
        params = self.variables["params"]
        for x, y in zip(INPUTS[start:stop], TARGETS[start:stop], strict=True):
            params, self.state, loss = self.step(params, self.state, x, y)
            losses.append(float(loss))
        self.variables = {"params": params}
        return losses


PAIRS: dict[str, tuple[Callable[..., torch.optim.Optimizer], optax.GradientTransformation]] = {
    "Adam": (lambda p: torch.optim.Adam(p, lr=1e-2), optax.adam(1e-2)),
    "AdamW": (lambda p: torch.optim.AdamW(p, lr=1e-2, weight_decay=0.1), optax.adamw(1e-2, weight_decay=0.1)),
    "SGD": (lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9), optax.sgd(1e-2, momentum=0.9)),
    "RMSprop": (
        lambda p: torch.optim.RMSprop(p, lr=1e-3, momentum=0.9, centered=True),
        optax.rmsprop(1e-3, decay=0.99, eps_in_sqrt=False, momentum=0.9, centered=True),
    ),
    "Adagrad": (lambda p: torch.optim.Adagrad(p, lr=1e-1), optax.adagrad(1e-1, 0.0, eps=1e-20)),
    "Adadelta": (lambda p: torch.optim.Adadelta(p, lr=1.0), optax.adadelta(1.0, rho=0.9, eps=1e-6)),
    "Adamax": (lambda p: torch.optim.Adamax(p, lr=1e-2), optax.adamax(1e-2)),
    "Adam in a chain": (
        lambda p: torch.optim.Adam(p, lr=1e-2),
        optax.chain(optax.clip_by_global_norm(1e6), optax.inject_hyperparams(optax.adam)(learning_rate=1e-2)),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_from_torch_to_optax(name: str) -> None:
    make, chain = PAIRS[name]
    expected = Torch(make).run(0, 2 * STEPS)
    before = Torch(make)
    losses = before.run(0, STEPS)
    after = Optax(chain, port_state_dict(before.weights(), WEIGHTS))
    state = as_arrays(before.optimizer.state_dict())
    after.state = to_optax(state, WEIGHTS, after.state, names=before.names).state
    np.testing.assert_allclose([*losses, *after.run(STEPS, 2 * STEPS)], expected, rtol=RELATIVE)


@pytest.mark.parametrize("name", PAIRS)
def test_from_optax_to_torch(name: str) -> None:
    make, chain = PAIRS[name]
    expected = Torch(make).run(0, 2 * STEPS)
    after = Torch(make)
    before = Optax(chain, port_state_dict(after.weights(), WEIGHTS))
    losses = before.run(0, STEPS)
    weights = unport_tree(jax.device_get(before.variables), WEIGHTS)
    after.model.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    state = to_torch(before.state, WEIGHTS, after.optimizer.state_dict(), names=after.names, step=STEPS)
    after.optimizer.load_state_dict(as_tensors(state))
    np.testing.assert_allclose([*losses, *after.run(STEPS, 2 * STEPS)], expected, rtol=RELATIVE)


@pytest.mark.parametrize("name", ["Adam", "SGD"])
def test_a_fresh_state_would_be_noticed(name: str) -> None:
    make, chain = PAIRS[name]
    expected = Torch(make).run(0, 2 * STEPS)
    before = Torch(make)
    losses = before.run(0, STEPS)
    after = Optax(chain, port_state_dict(before.weights(), WEIGHTS))
    with pytest.raises(AssertionError):
        np.testing.assert_allclose([*losses, *after.run(STEPS, 2 * STEPS)], expected, rtol=10 * RELATIVE)


def test_groups_with_frozen_parameters() -> None:
    """Two groups of different kinds of treatment: a state dict keyed by index, an optax state partitioned by label."""
    run = Torch(lambda p: torch.optim.SGD(p, lr=1e-2))
    first, second = list(run.model.first.parameters()), list(run.model.second.parameters())
    run.optimizer = torch.optim.Adam([{"params": second, "lr": 1e-2}, {"params": first, "lr": 1e-3}])
    run.run(0, 3)
    labels = {"first": {"kernel": "slow", "bias": "slow"}, "second": {"kernel": "fast", "bias": "fast"}}
    chain = optax.multi_transform({"fast": optax.adam(1e-2), "slow": optax.adam(1e-3)}, labels)
    after = Optax(chain, port_state_dict(run.weights(), WEIGHTS))
    names = [["second.weight", "second.bias"], ["first.weight", "first.bias"]]
    state = as_arrays(run.optimizer.state_dict())
    after.state = to_optax(state, WEIGHTS, after.state, names=names).state
    expected = run.run(3, 10)
    np.testing.assert_allclose(after.run(3, 10), expected, rtol=RELATIVE)


def test_read_from_a_checkpoint(tmp_path: Path) -> None:
    run = Torch(lambda p: torch.optim.Adam(p, lr=1e-2))
    run.run(0, 2)
    path = tmp_path / "last.pt"
    torch.save({"model": run.model.state_dict(), "optimizer": run.optimizer.state_dict(), "epoch": 3}, path)
    state = read_optimizer_state(path)
    assert state["param_groups"][0]["lr"] == 1e-2
    np.testing.assert_array_equal(
        state["state"][0]["exp_avg"], run.optimizer.state_dict()["state"][0]["exp_avg"].numpy()
    )
    assert float(state["state"][0]["step"]) == 2


def test_several_optimizers_in_a_checkpoint(tmp_path: Path) -> None:
    run = Torch(lambda p: torch.optim.Adam(p, lr=1e-2))
    torch.save({"d": run.optimizer.state_dict(), "g": run.optimizer.state_dict()}, tmp_path / "gan.pt")
    with pytest.raises(PortError, match="'d', 'g'") as caught:
        read_optimizer_state(tmp_path / "gan.pt")
    assert caught.value.code == "WPT004"
    assert read_optimizer_state(tmp_path / "gan.pt", "g")["param_groups"]


REFUSALS: dict[str, tuple[Callable[..., torch.optim.Optimizer], optax.GradientTransformation, dict[str, Any], str]] = {
    "no names": (lambda p: torch.optim.Adam(p), optax.adam(1e-3), {"names": None}, "WPT120"),
    "too few names": (lambda p: torch.optim.Adam(p), optax.adam(1e-3), {"names": ["first.weight"]}, "WPT120"),
    "a name twice": (lambda p: torch.optim.Adam(p), optax.adam(1e-3), {"names": ["first.weight"] * 4}, "WPT120"),
    "amsgrad": (lambda p: torch.optim.Adam(p, amsgrad=True), optax.adam(1e-3), {}, "WPT121"),
    "amsgrad in optax": (lambda p: torch.optim.Adam(p, amsgrad=True), optax.amsgrad(1e-3), {}, "WPT121"),
    "NAdam": (lambda p: torch.optim.NAdam(p), optax.nadam(1e-3), {}, "WPT121"),
    "momentum lost": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), optax.sgd(0.1), {}, "WPT121"),
    "another optimizer": (lambda p: torch.optim.Adam(p), optax.sgd(0.1, momentum=0.9), {}, "WPT121"),
    "a schedule without a count": (
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        optax.sgd(optax.constant_schedule(0.1), momentum=0.9),
        {},
        "WPT120",
    ),
    "names of another order": (
        lambda p: torch.optim.Adam(p),
        optax.adam(1e-3),
        {"names": ["first.bias", "first.weight", "second.weight", "second.bias"]},
        "WPT103",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refused(case: str) -> None:
    make, chain, arguments, code = REFUSALS[case]
    run = Torch(make)
    run.run(0, 2)
    template = chain.init(port_state_dict(run.weights(), WEIGHTS)["params"])
    state = as_arrays(run.optimizer.state_dict())
    with pytest.raises(PortError) as caught:
        to_optax(state, WEIGHTS, template, **{"names": run.names, **arguments})
    assert caught.value.code == code


def as_arrays(state: Any) -> Any:
    if isinstance(state, torch.Tensor):
        return state.numpy().copy()
    if isinstance(state, dict):
        return {name: as_arrays(child) for name, child in state.items()}
    return state


def test_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = Torch(lambda p: torch.optim.Adam(p, lr=1e-2))
    run.run(0, 2)
    torch.save({"model": run.model.state_dict(), "optimizer": run.optimizer.state_dict()}, "last.pt")
    manifests.write(Manifest("train.py", "linen", (WEIGHTS,)), Path("weights.json"))
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "optimizer-state.md").read_text()
    scope: dict[str, Any] = {"Net": Net}
    blocks = re.findall(r"^```python\n(.*?)^```$", guide, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    for block in blocks:
        exec(block, scope)
    back = scope["torch_optimizer"].state_dict()["state"]
    for index, entry in run.optimizer.state_dict()["state"].items():
        for key, value in entry.items():
            torch.testing.assert_close(back[index][key], value, rtol=0, atol=0)
