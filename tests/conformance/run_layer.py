"""One layer in both frameworks, from the same random weights and buffers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from migrate.layers.layer import Layer, Sample
from migrate.layers.table import TABLE
from migrate.manifest import WILDCARD
from migrate.pipeline import Conversion
from tests.conformance import rewritten
from tests.conformance.compare import Difference, differences
from tests.conformance.examples import Input, parse_input
from tests.conformance.run_example import torch_gradients, weighted
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


def source(constructor: str, call: str = "x", inputs: str = "") -> str:
    """A module that holds one layer (or several, in a Sequential)."""
    graphs = "import torch_geometric.nn as gnn\n" if "gnn." in constructor else ""
    names = ", ".join(["x", *(given.name for given in more_inputs(inputs))])
    return (
        f"import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n{graphs}\n\nclass M(nn.Module):\n"
        f"    def __init__(self):\n        super().__init__()\n        self.layer = {constructor}\n\n"
        f"    def forward(self, {names}):\n        return self.layer({call})\n"
    )


def sample_source(sample: Sample) -> str:
    return source(sample.constructor, sample.call, sample.inputs)


def more_inputs(text: str) -> list[Input]:
    """The inputs of a sample besides `x`."""
    return [parse_input(part) for part in text.split(";")] if text else []


Inputs = Mapping[str, np.ndarray]


def example_inputs(sample: Sample, dtype: str, scale: float = 1.0) -> Inputs:
    random = np.random.default_rng([len(sample.constructor), int(10 * scale)])
    if sample.high:
        x = random.integers(0, sample.high, sample.shape)
    else:
        x = (random.standard_normal(sample.shape) * scale).astype(dtype)
    return {"x": x} | {given.name: given.draw(random, scale, dtype) for given in more_inputs(sample.inputs)}


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
    """The written and the rewritten module, with equal weights. `written`: the source of the one in torch; `first`:
    what it is called with before anything else, where its weights wait for that."""

    def __init__(self, written: str, made: Conversion, dtype: str, first: Inputs | None = None) -> None:
        torch.manual_seed(3)
        self.made, self.dtype = made, dtype
        self.steps: dict[bool, Any] = {}
        self.written = rewritten.executed(written)["M"]()
        if first is not None:
            self.written(*map(torch.tensor, first.values()))
        randomise(self.written)
        self.module = rewritten.executed(made.text)["M"]()
        self.weights = rewritten.model_weights(made)
        self.variables = jax.tree.map(jnp.asarray, port_state_dict(numpy_state(self.written), self.weights))

    @property
    def trains(self) -> bool:
        """Whether the mode makes a difference."""
        return hasattr(self.module, "training")

    def torch_step(self, inputs: Inputs, train: bool) -> dict[str, Any]:
        """Output, gradients, and buffers after the call."""
        module = self.written.train(train)
        before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
        given = {name: torch.tensor(value) for name, value in inputs.items()}
        floats = {name: value.requires_grad_() for name, value in given.items() if value.is_floating_point()}
        # copies: a layer may work in place
        output = module(*(value * 1 if name in floats else value for name, value in given.items()))
        parameters = dict(module.named_parameters(remove_duplicate=False))
        grads = torch_gradients(output, [*parameters.values(), *floats.values()])
        count = len(parameters)
        state = numpy_state(module) | dict(zip(parameters, grads[:count], strict=True))
        after = numpy_state(module)
        module.load_state_dict(before)
        return {
            "output": output,
            "gradients": port_state_dict(state, self.weights).get("params", {}),
            "input gradients": grads[count:],
            "state": port_state_dict(after, self.weights).get("batch_stats", {}),
        }

    def jax_apply(self, variables: Any, inputs: Inputs, train: bool) -> tuple[Any, Any]:
        """Output, and buffers after the call."""
        module = self.module.clone(training=train) if self.trains else self.module
        rngs = dict.fromkeys(("dropout", "sample"), jax.random.key(0))
        return module.apply(variables, *inputs.values(), mutable=["batch_stats"], rngs=rngs)

    def jax_step(self, inputs: Inputs, train: bool) -> dict[str, Any]:
        """The same of the rewritten module, jitted."""
        stats = self.variables.get("batch_stats", {})

        def loss(params: Any, floats: Any, others: Any) -> tuple[Any, Any]:
            variables = {"params": params, **({"batch_stats": stats} if stats else {})}
            given = {name: (floats | others)[name] for name in inputs}
            output, updated = self.jax_apply(variables, given, train)
            return weighted(output), (output, updated.get("batch_stats", stats))

        if train not in self.steps:
            self.steps[train] = jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))
        floats = {name: value for name, value in inputs.items() if value.dtype.kind == "f"}
        others = {name: value for name, value in inputs.items() if name not in floats}
        (_, (output, state)), grads = self.steps[train](self.variables.get("params", {}), floats, others)
        return {
            "output": output,
            "gradients": grads[0],
            "input gradients": [grads[1][name] for name in floats],
            "state": state,
        }

    def differing(self, inputs: Inputs, train: bool) -> list[Difference]:
        wanted, got = self.torch_step(inputs, train), self.jax_step(inputs, train)
        largest = max(float(np.max(np.abs(x))) for x in inputs.values() if x.dtype.kind != "b")
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
        """How much wider the limits are where rounding adds up, or one side uses a number of float32 in float64."""
        if self.dtype != "float64":
            # the rounding of each step of time, and of each sub-layer, passes through all the later ones
            return 4.0 if re.search("jax.lax.scan|class Transformer", self.made.text) else 1.0
        if "hard_sigmoid" in self.made.text and "gradient" in part:  # torch's gradient is by 1/6 in float32
            return 1e6
        if "finfo(jnp.float32)" in self.made.text:  # RMSNorm, stated in its note: 1.2e-7 over the mean square
            return 1e7
        return 1.0

    def tree_problems(self, inputs: Inputs) -> list[str]:
        """Where the manifest, the ported weights and the tree that `init` makes do not agree."""
        key = jax.random.key(0)
        keys = {"params": key, "dropout": key, "sample": key}
        made = leaves(jax.eval_shape(self.module.init, keys, *inputs.values()))
        ported = leaves(self.variables)
        shapes = {path: tuple(leaf.shape) for path, leaf in made.items()}
        found = []
        if shapes != {path: tuple(leaf.shape) for path, leaf in ported.items()}:
            found.append(f"init makes {shapes}, the port {[(p, leaf.shape) for p, leaf in ported.items()]}")
        for leaf in self.weights.leaves:
            if WILDCARD.search(leaf.flax):
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


def assert_same(written: str, sample: Sample) -> None:
    """A module of a script's does what its rewrite does from the same weights, in both modes."""
    pair = Pair(written, rewritten.clean(written), "float64")
    inputs = example_inputs(sample, "float64")
    found = pair.tree_problems(inputs)
    for train in (False, True) if pair.trains else (False,):
        found += [f"train={train}: {difference.what}" for difference in pair.differing(inputs, train)]
    assert not found, "\n".join(found)
