"""One example in both frameworks: values and gradients."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from tests.conformance.compare import COARSE, Difference, differences
from tests.conformance.examples import Example
from tests.conformance.rewritten import executed

SCALES = (0.7, 6.0)


def torch_run(
    module: Any, values: Mapping[str, np.ndarray], arrays: Sequence[str], wrt: Sequence[str]
) -> tuple[Any, Any]:
    """Output, and gradients of the sum of the output times random cotangents."""
    inputs = {name: value if name in arrays else torch.tensor(value) for name, value in values.items()}
    for name in wrt:
        inputs[name].requires_grad_()
    output = module(*inputs.values())
    return output, torch_gradients(output, [inputs[name] for name in wrt])


def torch_gradients(output: Any, wrt: Sequence[torch.Tensor]) -> list[np.ndarray]:
    """Of the sum of the float outputs times their cotangents."""
    parts = [part for part in tensors(output) if part.requires_grad]
    places = [i for i, part in enumerate(tensors(output)) if part.requires_grad]
    if not parts or not wrt:
        return [np.zeros(t.shape, t.detach().numpy().dtype) for t in wrt]
    total = sum(
        (
            (part * torch.tensor(cotangent(i, part.shape, part.dtype))).sum()
            for i, part in zip(places, parts, strict=True)
        )
    )
    found = torch.autograd.grad(total, wrt, allow_unused=True)  # type: ignore[arg-type]
    return [
        np.zeros(t.shape, t.detach().numpy().dtype) if g is None else g.numpy() for g, t in zip(found, wrt, strict=True)
    ]


def tensors(output: Any) -> list[torch.Tensor]:
    if output is None:  # no leaf in JAX either
        return []
    if isinstance(output, tuple | list):
        return [tensor for part in output for tensor in tensors(part)]
    if isinstance(output, dict):
        return [tensor for key in sorted(output) for tensor in tensors(output[key])]
    if isinstance(output, torch.Tensor) and output.is_complex():
        return [torch.view_as_real(output.resolve_conj())]
    return [output] if isinstance(output, torch.Tensor) else [torch.tensor(0)]


def cotangent(number: int, shape: Sequence[int], dtype: object) -> np.ndarray:
    name = str(dtype).rpartition(".")[2]
    values = np.random.default_rng([7, number]).standard_normal(tuple(shape))
    return values.astype(name if name != "bfloat16" else "float32")


def weighted(output: Any) -> Any:
    """The sum of the float outputs times their cotangents, in JAX."""
    total = jnp.zeros(())
    for number, part in enumerate(jax.tree.leaves(output)):
        if jnp.iscomplexobj(part):
            part = jnp.stack([part.real, part.imag], axis=-1)
        if hasattr(part, "dtype") and jnp.issubdtype(part.dtype, jnp.floating):
            total = total + (part * cotangent(number, part.shape, part.dtype)).sum()
    return total


def jax_function(module: Any, names: Sequence[str], wrt: Sequence[str], variables: Any = None, **apply: Any) -> Any:
    """values -> (output, gradients)."""

    def loss(chosen: dict[str, Any], others: dict[str, Any]) -> tuple[Any, Any]:
        values = {**others, **chosen}
        output = module.apply({} if variables is None else variables, *(values[name] for name in names), **apply)
        return weighted(output), output

    def run(values: dict[str, Any]) -> tuple[Any, Any]:
        chosen = {name: values[name] for name in wrt}
        others = {name: value for name, value in values.items() if name not in wrt}
        (_, output), gradients = jax.value_and_grad(loss, has_aux=True)(chosen, others)
        return output, [gradients[name] for name in wrt]

    return run


def check(example: Example, text: str, dtype: str, eager: bool = True) -> list[Difference]:
    """What differs between the example in torch and `text`, its rewriting, in JAX at both scales.

    eager: the output without jit as well, at the first scale.
    """
    drawn = [example.values(scale, dtype) for scale in SCALES]
    return [
        difference
        for number, values in enumerate(drawn)
        for difference in at(example, text, values, eager and not number)
    ]


@functools.lru_cache(maxsize=4)  # the steps of one example, which is run at several values
def _prepared(example: Example, text: str) -> tuple[Any, Any, Any]:
    written, module = executed(example.source())["M"](), executed(text)["M"]()
    names = [given.name for given in example.inputs]
    return written, module, jax.jit(jax_function(module, names, example.differentiable()))


def at(example: Example, text: str, values: Mapping[str, np.ndarray], eager: bool = False) -> list[Difference]:
    """What differs at certain values."""
    if example.on_host:
        return _on_host(example, text, values)
    written, module, compiled = _prepared(example, text)
    arrays = [given.name for given in example.inputs if given.type == "array"]
    floats = [float(np.max(np.abs(v[np.isfinite(v)]), initial=0)) for v in values.values() if v.dtype.kind == "f"]
    wanted = torch_run(written, values, arrays, example.differentiable())
    arguments = {name: value if name in arrays else jnp.asarray(value) for name, value in values.items()}
    results = dict(zip(("output", "gradient"), zip(wanted, compiled(arguments), strict=True), strict=True))
    if eager:
        results["output without jit"] = (wanted[0], module.apply({}, *arguments.values()))
    factor = COARSE.get(example.rule.partition(".")[2], 1.0)
    return [
        Difference(f"{part} at {values}: {difference.what}", difference.excess)
        for part, (one, other) in results.items()
        for difference in differences(one, other, max([1.0, *floats]), factor)
    ]


def _on_host(example: Example, text: str, values: Mapping[str, np.ndarray]) -> list[Difference]:
    """What differs outside of jit, without gradients."""
    wanted = executed(example.source())["f"](*[torch.tensor(value) for value in values.values()])
    got = executed(text)["f"](*[jnp.asarray(value) for value in values.values()])
    return differences(wanted, got, 1.0)
