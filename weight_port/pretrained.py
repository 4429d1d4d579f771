"""Torch weights straight into a Flax model in memory, whatever it calls its layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen

from migrate.manifest import Manifest, ModelWeights
from weight_port import store
from weight_port.apply import check_ties, nest, run_step
from weight_port.checkpoint import Checkpoint, open_checkpoint
from weight_port.errors import Problem, fail, raise_all
from weight_port.live import fill_nnx, is_nnx, linen_slots, nnx_slots
from weight_port.matching import match
from weight_port.planning import plan_port
from weight_port.views import same_bits

Layers = Mapping[str, str] | Any  # names of torch classes by pattern, or the torch module itself
_LIKE = {"EmbeddingBag": "Embedding"}  # its weight is one
_MATRICES = ("Linear", "Conv1D", "Embedding", *_LIKE)


def from_pretrained(
    module: Any,
    path: str | Path,
    *,
    from_pt: bool = True,
    dtype: Any = None,
    example_inputs: Sequence[Any] | None = None,
    key: str | None = None,
    names: Mapping[str, str] | None = None,
    layers: Layers = None,
    unused: Sequence[str] = (),
) -> Any:
    """The weights of a torch checkpoint for a Flax model: variables for a linen module, the module itself for nnx.

    module: a linen module, or an nnx module (filled in place). example_inputs: what it is called with, arrays or
    jax.ShapeDtypeStruct; linen needs them. dtype: the type that floating-point weights get, such as jnp.bfloat16.
    names, layers, unused: what names and shapes do not tell, see `match_module`. from_pt=False reads Flax weights.
    Strict both ways: raises PortError where a key is not used, a leaf not filled, or anything is ambiguous.
    """
    wanted = None if dtype is None else np.dtype(dtype)
    if not from_pt:
        return _filled(module, _flax_values(module, Path(path), example_inputs, wanted))
    checkpoint, model = _match(module, path, example_inputs, key, names, layers, unused)
    plan = plan_port(model, checkpoint, opaque=checkpoint.opaque, dtype=wanted)
    check_ties(plan, checkpoint.read)
    values: dict[str, jax.Array] = {}
    for step in plan.steps:
        values[step.target] = _on_device(step.target, run_step(step, checkpoint.read))
        for source in step.sources:
            if source.key is not None:
                checkpoint.release(source.key)
    return _filled(module, values)


def match_module(
    module: Any,
    path: str | Path,
    *,
    example_inputs: Sequence[Any] | None = None,
    key: str | None = None,
    names: Mapping[str, str] | None = None,
    layers: Layers = None,
    unused: Sequence[str] = (),
) -> Manifest:
    """The manifest by which `from_pretrained` fills the module: to look at, and for ``migrate port-weights``.

    names: layers of the model with the torch modules that fill them, ``{"blocks_{0}/query": "h.{0}.attn.q"}``.
    layers: classes of torch modules by pattern, ``{"*": "Linear"}``, where a square matrix could be either that or
    transformers' "Conv1D", or "FlattenLinear" behind a flattened image; or the torch module, which knows them.
    unused: patterns of keys that are not needed. Raises PortError (WPT101, WPT102, WPT109).
    """
    _, model = _match(module, path, example_inputs, key, names, layers, unused)
    return Manifest(Path(path).name, "nnx" if is_nnx(module) else "linen", (model,))


def _match(
    module: Any, path: str | Path, inputs: Sequence[Any] | None, key: str | None, names: Mapping[str, str] | None,
    layers: Layers, unused: Sequence[str],
) -> tuple[Checkpoint, ModelWeights]:  # fmt: skip
    slots, _ = _described(module, inputs)
    checkpoint = open_checkpoint(path, key=key, fold=True)

    def same(one: str, other: str) -> bool:
        return checkpoint[one] == checkpoint[other] and same_bits(checkpoint.read(one), checkpoint.read(other))

    model = match(
        type(module).__name__,
        slots,
        checkpoint,
        names=names,
        layers=_classes(layers),
        unused=unused,
        same=same,
        parts=checkpoint.parts(),
    )
    return checkpoint.unfolded(leaf.torch for leaf in model.leaves), model


def _described(module: Any, inputs: Sequence[Any] | None) -> tuple[list[Any], dict[str, Any]]:
    if is_nnx(module):
        return nnx_slots(module, inputs)
    if not isinstance(module, linen.Module):
        what = f"the class {module.__name__}" if isinstance(module, type) else f"a {type(module).__name__}"
        fail("WPT009", f"{what} is not a linen or nnx module", "Give an instance: MyModel(...).")
    if inputs is None:
        fail("WPT009", "a linen module has no weights before it is called", "Give example_inputs=(x,).")
    return linen_slots(module, inputs)


def _classes(layers: Layers) -> Mapping[str, str]:
    """Class names by pattern; of a torch module those of its own modules."""
    if layers is None or isinstance(layers, Mapping):
        return layers or {}
    found: dict[str, str] = {}
    for prefix, module in layers.named_modules():
        bases = [base.__name__ for base in type(module).__mro__]
        found[prefix] = next((_LIKE.get(name, name) for name in bases if name in _MATRICES), bases[0])
    return found


def _on_device(name: str, array: np.ndarray) -> jax.Array:
    """The array in jax; refused where jax would narrow it without a word."""
    made = jnp.asarray(array)
    if made.dtype != array.dtype and not (array.dtype.kind in "iu" and np.array_equal(np.asarray(made), array)):
        fail("WPT106", f"{name} is {array.dtype}, which jax holds only where jax_enable_x64 is set",
             "Give dtype=jnp.float32, or set it.")  # fmt: skip
    return made


def _filled(module: Any, values: Mapping[str, jax.Array]) -> Any:
    if not is_nnx(module):
        return nest(values)
    fill_nnx(module, values)
    return module


def _flax_values(module: Any, path: Path, inputs: Sequence[Any] | None, dtype: np.dtype | None) -> dict[str, jax.Array]:
    """Weights that were ported before, checked against the model."""
    _, leaves = _described(module, inputs)
    found, read = store.read(path)
    problems = [Problem("WPT102", f"nothing fills {name}") for name in leaves if name not in found]
    problems += [Problem("WPT101", f"nothing uses {name}") for name in found if name not in leaves]
    problems += [
        Problem("WPT103", f"{name} has the shape {info.shape}, the model's {tuple(leaves[name].shape)}")
        for name, info in found.items()
        if name in leaves and info.shape != tuple(leaves[name].shape)
    ]
    raise_all(problems, f"{path} does not fit {type(module).__name__}")
    values = {name: _on_device(name, read(name)) for name in leaves}
    floats = {name: jnp.issubdtype(value.dtype, jnp.floating) for name, value in values.items()}
    return {
        name: value.astype(dtype) if dtype is not None and floats[name] else value for name, value in values.items()
    }


__all__ = ["from_pretrained", "match_module"]
