"""One layer in both frameworks, from the same random weights and buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from migrate.layers.layer import Layer, Sample
from migrate.layers.table import TABLE
from migrate.pipeline import Conversion
from tests.conformance import rewritten
from tests.conformance.compare import Difference, differences
from tests.conformance.run_example import cotangent, weighted
from weight_port import port_state_dict


@dataclass(frozen=True)
class Case:
    """A layer as a sample constructs it."""

    layer: Layer
    sample: Sample

    def __str__(self) -> str:
        return self.sample.constructor


def cases() -> list[Case]:
    return [Case(layer, sample) for layer in TABLE.values() for sample in layer.samples]


def source(constructor: str) -> str:
    """A module that holds one layer (or several, in a Sequential)."""
    return (
        "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\nclass M(nn.Module):\n"
        f"    def __init__(self):\n        super().__init__()\n        self.layer = {constructor}\n\n"
        "    def forward(self, x):\n        return self.layer(x)\n"
    )


def example_input(sample: Sample, dtype: str, scale: float = 1.0) -> np.ndarray:
    random = np.random.default_rng([len(sample.constructor), int(10 * scale)])
    if sample.high:
        return random.integers(0, sample.high, sample.shape)
    return (random.standard_normal(sample.shape) * scale).astype(dtype)


def randomise(module: torch.nn.Module) -> None:
    """Random weights, and random buffers: variances positive, counters as they are."""
    random = np.random.default_rng(11)
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            if tensor.is_floating_point():
                draw = random.standard_normal if "var" not in name else lambda shape: random.uniform(0.5, 2.0, shape)
                tensor.copy_(torch.from_numpy(np.asarray(draw(tuple(tensor.shape)))))


def numpy_state(module: torch.nn.Module) -> dict[str, np.ndarray]:
    return {name: tensor.detach().numpy().copy() for name, tensor in module.state_dict().items()}


def leaves(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The arrays of nested dicts by path."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        found |= leaves(value, f"{prefix}{name}/") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return found


class Pair:
    """The written and the rewritten module, with equal weights."""

    def __init__(self, constructor: str, made: Conversion, dtype: str) -> None:
        torch.manual_seed(3)
        self.made, self.dtype = made, dtype
        self.steps: dict[bool, Any] = {}
        self.written = rewritten.executed(source(constructor))["M"]()
        randomise(self.written)
        self.module = rewritten.executed(made.text)["M"]()
        self.weights = rewritten.model_weights(made)
        self.variables = jax.tree.map(jnp.asarray, port_state_dict(numpy_state(self.written), self.weights))

    def torch_step(self, x: np.ndarray, train: bool) -> dict[str, Any]:
        """Output, gradients, and buffers after the call."""
        module = self.written.train(train)
        before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
        given = torch.tensor(x)
        floats = given.is_floating_point()
        if floats:
            given.requires_grad_()
        output = module(given * 1 if floats else given)  # a copy: a layer may work in place
        parameters = dict(module.named_parameters())
        wrt = [*parameters.values(), *([given] if floats else [])]
        grads: list[torch.Tensor | None] = []
        if wrt and output.requires_grad:
            total = (output * torch.tensor(cotangent(0, output.shape, output.dtype))).sum()
            grads = list(torch.autograd.grad(total, wrt, allow_unused=True))
        found = [torch.zeros_like(t) if g is None else g for g, t in zip(grads, wrt, strict=True)]
        state = numpy_state(module) | {n: g.numpy() for n, g in zip(parameters, found[: len(parameters)], strict=True)}
        after = numpy_state(module)
        module.load_state_dict(before)
        return {
            "output": output,
            "gradients": port_state_dict(state, self.weights).get("params", {}),
            "input gradient": found[-1] if floats and found else 0,
            "state": port_state_dict(after, self.weights).get("batch_stats", {}),
        }

    def jax_apply(self, variables: Any, x: Any, train: bool) -> tuple[Any, Any]:
        """Output, and buffers after the call."""
        module = self.module.clone(training=train) if hasattr(self.module, "training") else self.module
        return module.apply(variables, x, mutable=["batch_stats"], rngs={"dropout": jax.random.key(0)})

    def jax_step(self, x: np.ndarray, train: bool) -> dict[str, Any]:
        """The same of the rewritten module, jitted."""
        floats = x.dtype.kind == "f"
        stats = self.variables.get("batch_stats", {})

        def loss(params: Any, given: Any) -> tuple[Any, Any]:
            variables = {"params": params, **({"batch_stats": stats} if stats else {})}
            output, updated = self.jax_apply(variables, given, train)
            return weighted(output), (output, updated.get("batch_stats", stats))

        if train not in self.steps:
            step = jax.value_and_grad(loss, argnums=(0, 1) if floats else 0, has_aux=True)
            self.steps[train] = jax.jit(step)
        (_, (output, state)), grads = self.steps[train](self.variables.get("params", {}), jnp.asarray(x))
        return {
            "output": output,
            "gradients": grads[0] if floats else grads,
            "input gradient": grads[1] if floats else 0,
            "state": state,
        }

    def differing(self, x: np.ndarray, train: bool) -> list[Difference]:
        wanted, got = self.torch_step(x, train), self.jax_step(x, train)
        largest = float(np.max(np.abs(x)))
        found = []
        for part in wanted:
            one, other = wanted[part], got[part]
            if isinstance(one, dict):
                one, other = leaves(one), leaves(other)
                if sorted(one) != sorted(other):
                    found.append(Difference(f"{part}: {sorted(one)} in torch, {sorted(other)} in JAX"))
                    continue
            factor = self.factor(part)
            found += [Difference(f"{part}: {d.what}", d.excess) for d in differences(one, other, largest, factor)]
        return found

    def factor(self, part: str) -> float:
        """How much wider the limits are where one side is known to use a number of float32 in float64."""
        if self.dtype != "float64":
            return 1.0
        if "hard_sigmoid" in self.made.text and part != "output":  # torch's gradient is by 1/6 in float32
            return 1e6
        if "finfo(jnp.float32)" in self.made.text:  # RMSNorm, stated in its note: 1.2e-7 over the mean square
            return 1e7
        return 1.0

    def tree_problems(self, x: np.ndarray) -> list[str]:
        """Where the manifest, the ported weights and the tree that `init` makes do not agree."""
        key = jax.random.key(0)
        keys = {"params": key, "dropout": key, "sample": key}
        made = leaves(jax.eval_shape(self.module.init, keys, jnp.asarray(x)))
        ported = leaves(self.variables)
        shapes = {path: tuple(leaf.shape) for path, leaf in made.items()}
        found = []
        if shapes != {path: tuple(leaf.shape) for path, leaf in ported.items()}:
            found.append(f"init makes {shapes}, the port {[(p, leaf.shape) for p, leaf in ported.items()]}")
        for leaf in self.weights.leaves:
            if "{0}" in leaf.flax:
                continue
            length = shapes.get(leaf.flax)
            known = leaf.shape
            if (
                length is None
                or (known is not None and len(known) != len(length))
                or (known is not None and any(k is not None and k != n for k, n in zip(known, length, strict=True)))
            ):
                found.append(f"{leaf.flax}: the manifest says {known}, init makes {length}")
        return found
