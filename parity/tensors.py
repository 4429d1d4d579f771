"""The tensors of two recordings under one name each, in the order of execution: what the gate judges."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from parity import names
from parity.judge import Tensors
from parity.ladder import Sides, models, ported_gradients
from parity.measures import relative
from parity.packed import layouts
from parity.record import tensors_of


def tensors(sides: Sides, wide: Sides | None) -> Tensors:
    """Outputs of layers and models, the losses, the gradients of the first step; with their twins in float64."""
    theirs, ours, skipped = _split(sides)
    if wide is None:
        return Tensors(theirs, ours, skipped=skipped)
    return Tensors(theirs, ours, *_split(wide)[:2], skipped=skipped)


def _split(sides: Sides) -> tuple[Arrays, Arrays, tuple[str, ...]]:
    """What torch has, what JAX has, and the layers of torch that nothing in JAX answers to."""
    theirs: Arrays = {}
    ours: Arrays = {}
    skipped: list[str] = []
    for name, (torch_side, jax_side) in _pairs(sides):
        if jax_side is None and name.startswith("output of ") and not name.startswith("output of the model"):
            skipped.append(name)
            continue
        theirs[name] = torch_side
        if jax_side is not None:
            ours[name] = jax_side
    return theirs, ours, tuple(skipped)


Arrays = dict[str, np.ndarray]
Pair = tuple[np.ndarray, np.ndarray | None]


def _pairs(sides: Sides) -> Iterator[tuple[str, Pair]]:
    for class_name, model in models(sides, sides.jax.outputs):
        yield from _outputs(sides, class_name, model)
    for step, losses in enumerate(zip(sides.torch.losses, sides.jax.losses, strict=False), start=1):
        yield f"loss {step}", (np.array(losses[0]), np.array(losses[1]))
    gradients = sides.jax.gradients.get(1, {})
    for class_name, model in models(sides, gradients):
        weights = names.model_weights(sides.manifest, class_name)
        recorded = tensors_of(sides.torch.gradients.get(1, {}), model)
        reference = ported_gradients(sides, weights, model, recorded)
        ours = tensors_of(gradients, class_name)
        for path, value in reference.items():
            if path in ours or np.any(value):  # what torch does not train, JAX need not differentiate
                yield f"gradient of {model}.{names.torch_name(weights, path)}", (value, ours.get(path))


def _outputs(sides: Sides, class_name: str, model: str) -> Iterator[tuple[str, Pair]]:
    theirs, ours = tensors_of(sides.torch.outputs, model), tensors_of(sides.jax.outputs, class_name)
    weights = names.model_weights(sides.manifest, class_name)
    flax_paths = dict.fromkeys(key.rsplit("|", 2)[0] for key in ours)
    torch_paths = dict.fromkeys(key.rsplit("|", 2)[0] for key in theirs)
    mapping = names.module_names(weights, (p for p in flax_paths if p), torch_paths) | {"": ""}
    flax_of = {torch_path: flax_path for flax_path, torch_path in mapping.items()}
    for key, value in theirs.items():
        path, occurrence, index = key.rsplit("|", 2)
        other = ours.get(f"{flax_of.get(path)}|{occurrence}|{index}") if path in flax_of else None
        shown = f"output of {model}.{path}" if path else f"output of the model {model}"
        shown += "".join(f" {what} {n}" for what, n in (("call", occurrence), ("part", index)) if n != "0")
        fitting = [layout for layout in layouts(other) if layout.shape == value.shape] if other is not None else []
        if fitting:
            yield shown, (value, min(fitting, key=lambda x, y=value: relative(y, x)))
        else:  # a layer of another shape is another layer; a model of another shape is a finding
            yield shown, (value, None if path else other)
