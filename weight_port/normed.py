"""Flax's WeightNorm around a layer. It keeps a direction and a scale of a kernel, as torch's weight_norm does.

Flax divides by ``sqrt(sum(v**2) + epsilon)``, torch by the norm alone: with Flax's epsilon of 1e-12 the two are equal
but for roundings, with a greater one they are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flax import linen, nnx

from weight_port.errors import fail
from weight_port.names import joined

EPSILON = 1e-12
_STEPS = (
    "It takes a step of the power iteration in every call, also outside of training, where torch takes none: from the "
    "same u the two divide by another number until u has converged; and it has no place for torch's v.{} Use the plain "
    "layer: the weight is folded into it exactly; or the SpectralNorm that `migrate rewrite` writes, which trains as "
    "torch's."
)


@dataclass(frozen=True)
class Scale:
    """The scale of a layer's leaf: its path in the tree, the layer's path, the leaf, the axes that have a norm each."""

    path: str
    layer: str
    leaf: str
    axes: tuple[int, ...]


def linen_scales(module: Any) -> Iterator[Scale]:
    """Of a bound module that may be WeightNorm. Raises PortError WPT111 where the mathematics is not torch's."""
    if not _is_torchs(module, "/".join(module.path)):
        return
    outer = module.layer_instance.path[:-1]  # what it holds lies beside it in the tree
    for name in module.variables.get("params", {}):
        if not name.endswith("/scale"):  # what it holds, where it is the model itself
            continue
        *layer, leaf, _ = name.split("/")
        yield Scale(joined(("params", *module.path, name)), joined((*outer, *layer)), leaf, _axes(module))


def nnx_scales(module: Any) -> dict[str, tuple[Any, Any, Scale]]:
    """Every scale in a model by its path, with the WeightNorm that has it and its key there.

    Raises PortError WPT111 where the mathematics is not torch's.
    """
    found: dict[str, tuple[Any, Any, Scale]] = {}
    nodes: list[tuple[Any, Any]] = list(nnx.iter_graph(module))
    for path, holder in nodes:
        if not _is_torchs(holder, "/".join(map(str, path))):
            continue
        for key in holder.scales:
            *layer, leaf = key
            name = joined(("params", *path, "scales", *key))
            found[name] = (holder, key, Scale(name, joined((*path, "layer_instance", *layer)), leaf, _axes(holder)))
    return found


def _is_torchs(module: Any, path: str) -> bool:
    """Whether it is a WeightNorm, which then computes what torch's does. Raises PortError WPT111 where it does not."""
    which = f"{'nnx' if isinstance(module, nnx.Module) else 'linen'}.{type(module).__name__} {path}".rstrip()
    if isinstance(module, linen.SpectralNorm | nnx.SpectralNorm):
        lost = " nnx's also overwrites the kernel in every call." if isinstance(module, nnx.SpectralNorm) else ""
        fail("WPT111", f"{which} is not torch's spectral_norm", _STEPS.format(lost))
    if not isinstance(module, linen.WeightNorm | nnx.WeightNorm):
        return False
    if not module.use_scale:
        fail("WPT111", f"{which} has no scale", "Torch's weight_norm has one: use_scale=True.")
    if module.epsilon > EPSILON:
        fail("WPT111", f"{which} adds epsilon={module.epsilon:g} to the squared norms, torch's weight_norm nothing",
             f"Leave Flax's own {EPSILON:g}.")  # fmt: skip
    return True


def _axes(module: Any) -> tuple[int, ...]:
    axes = module.feature_axes
    return () if axes is None else (axes,) if isinstance(axes, int) else tuple(axes)


def only_kernels(scales: Mapping[str, Scale]) -> dict[str, tuple[int, ...]]:
    """The axes that have a norm each, by layer. Raises PortError WPT111 where anything but a kernel has norms."""
    for scale in scales.values():
        if scale.leaf != "kernel":
            fail("WPT111", f"WeightNorm normalises {scale.layer}/{scale.leaf}, torch's weight_norm a layer's weight "
                 "alone", "Let its variable_filter choose the kernel.")  # fmt: skip
    return {scale.layer: scale.axes for scale in scales.values()}
