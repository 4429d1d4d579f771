"""The layers of a Flax model in memory, linen or nnx: their kinds and the shapes of their leaves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from flax import linen, nnx
from flax.core import meta

from weight_port.errors import Misfit, fail
from weight_port.forms import ALONE, FLAX_LEAVES, SCALE, Kind, Slot
from weight_port.names import joined
from weight_port.normed import Scale, linen_scales, nnx_scales, only_kernels
from weight_port.recurrent import CELLS
from weight_port.stacks import taken_apart

_NOT_WEIGHTS = ("cache", "intermediates")


def is_nnx(module: object) -> bool:
    return isinstance(module, nnx.Module)


def linen_slots(module: linen.Module, inputs: Sequence[Any]) -> tuple[list[Slot], dict[str, Any]]:
    """The layers of a linen module, and its variables as shapes by path ("params/fc/kernel"). Nothing is computed."""
    kinds: dict[str, Kind] = {}
    inside: dict[str, tuple[int, ...]] = {}  # shapes as a layer sees them that a scan stacks
    roots: set[str] = set()  # what is lifted: its scope has no other around it
    scales: dict[str, Scale] = {}

    def look(call: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
        path = "/".join(context.module.path)
        # the first: what a scan lifts is seen once more, as if it were the model itself
        kinds.setdefault(path, _kind(context.module))
        result = call(*args, **kwargs)
        for scale in linen_scales(context.module):
            scales.setdefault(scale.path, scale)
        if path and context.module.scope.parent is None:
            roots.add(path)
        for collection, tree in meta.unbox(context.module.variables).items():
            for name, leaf in tree.items():
                if not isinstance(leaf, Mapping):
                    inside.setdefault(joined((collection, *context.module.path, name)), tuple(leaf.shape))
        return result

    def initial(*args: Any) -> Any:
        streams = {name: jax.random.key(0) for name in ("params", "dropout", "default")}
        return module.init(streams, *args)

    with linen.intercept_methods(look):
        try:
            closed, variables = jax.make_jaxpr(initial, return_shape=True)(*inputs)
        except TypeError as error:
            fail("WPT009", f"{type(module).__name__} cannot be called with these example_inputs: {error}",
                 "Give what the model is called with, example_inputs=(x,).")  # fmt: skip
    flat: dict[str, Any] = {}
    for collection, tree in meta.unbox(variables).items():
        if collection not in _NOT_WEIGHTS:
            flat |= {joined((collection, *path)): leaf for path, leaf in _leaves(tree)}
    return _apart(_slots(flat, kinds, closed.jaxpr, scales), inside, roots), flat


def nnx_slots(module: nnx.Module, inputs: Sequence[Any] | None) -> tuple[list[Slot], dict[str, Any]]:
    """The layers of an nnx module, and its variables by path."""
    scales = nnx_scales(module)
    graph, state = nnx.split(module)
    kinds = {
        "/".join(map(str, path)): _kind(node) for path, node in nnx.iter_graph(module) if isinstance(node, nnx.Module)
    }
    flat: dict[str, Any] = {name: holder.scales[key] for name, (holder, key, _) in scales.items()}
    for path, variable in nnx.to_flat_state(state):
        if isinstance(variable, nnx.Param | nnx.BatchStat):
            flat["/".join((_collection(variable), *map(str, path)))] = variable
    jaxpr = None
    if inputs is not None:
        jaxpr = jax.make_jaxpr(lambda state, *args: nnx.merge(graph, state)(*args))(state, *inputs).jaxpr
    elif any(kind.name == "Conv" for kind in kinds.values()):
        fail("WPT009", "a model with convolutions needs example_inputs",
             "Whether a layer follows a flattened image, which torch orders otherwise, shows in a call.")  # fmt: skip
    slots = _slots(flat, kinds, jaxpr, {name: scale for name, (_, _, scale) in scales.items()})
    inside, roots = _nnx_stacks(module, slots)
    return _apart(slots, inside, roots), flat


def _apart(slots: list[Slot], inside: Mapping[str, tuple[int, ...]], roots: Collection[str]) -> list[Slot]:
    """The slots, stacks of layers taken apart. Raises PortError WPT109."""
    made: list[Slot] = []
    for slot in slots:
        shapes = {leaf: inside[slot.name(leaf)] for leaf in slot.leaves if slot.name(leaf) in inside}
        try:
            made += taken_apart(slot, shapes, roots)
        except Misfit as misfit:
            fail(misfit.code, str(misfit), "Write a manifest for it.")
    return made


def _nnx_stacks(module: nnx.Module, slots: Sequence[Slot]) -> tuple[dict[str, tuple[int, ...]], set[str]]:
    """The shapes of stacked leaves as one layer has them, and the paths of what was stacked, along the first axis.

    nnx.vmap and nnx.scan leave the sizes of a layer in its attributes, beside arrays of one more axis.
    """
    modules = {"/".join(map(str, path)): node for path, node in nnx.iter_graph(module) if isinstance(node, nnx.Module)}
    stacked = {s.path: next(iter(s.leaves.values()))[0] for s in slots if _is_stacked(modules.get(s.path), s)}
    roots: set[str] = set()
    for path in modules:
        below = [slot for slot in slots if f"{slot.path}/".startswith(f"{path}/" if path else "")]
        lengths = {stacked[slot.path] for slot in below if slot.path in stacked}
        first = {shape[:1] for slot in below for shape in slot.leaves.values()}
        if len(lengths) == 1 and first == {(next(iter(lengths)),)} and not any(_is_below(path, root) for root in roots):
            roots = {root for root in roots if not _is_below(root, path)} | {path}
    inner = [slot for slot in slots if any(_is_below(slot.path, root) for root in roots)]
    return {slot.name(leaf): shape[1:] for slot in inner for leaf, shape in slot.leaves.items()}, roots


def _is_stacked(module: Any, slot: Slot) -> bool:
    """Whether a layer's matrix has one axis more than the layer is made for."""
    made_for = {
        "Dense": ("kernel", "in_features", "out_features"),
        "Embed": ("embedding", "num_embeddings", "features"),
    }
    if slot.kind.name not in made_for:
        return False
    leaf, *sizes = made_for[slot.kind.name]
    return slot.leaves[leaf][1:] == tuple(getattr(module, size, None) for size in sizes)


def _is_below(path: str, root: str) -> bool:
    return not root or f"{path}/".startswith(f"{root}/")


def fill_nnx(module: nnx.Module, values: Mapping[str, Any]) -> None:
    """Put values by path into the module's variables."""
    _, state = nnx.split(module)
    for path, variable in nnx.to_flat_state(state):
        if isinstance(variable, nnx.Param | nnx.BatchStat):
            # not variable[...] = value, which would keep the variable's own type
            variable.set_value(values["/".join((_collection(variable), *map(str, path)))])
    nnx.update(module, state)
    for name, (holder, key, _) in nnx_scales(module).items():
        holder.scales[key] = values[name]


def _collection(variable: Any) -> str:
    return "batch_stats" if isinstance(variable, nnx.BatchStat) else "params"


def _leaves(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(tree, Mapping):
        for name, child in tree.items():
            yield from _leaves(child, (*path, str(name)))
    else:
        yield path, tree


def _kind(module: Any) -> Kind:
    """What a module is to the porter; a kind without a name where only its own parameters count."""
    known = {
        "Dense": (linen.Dense, nnx.Linear),
        "DenseGeneral": (linen.DenseGeneral, nnx.LinearGeneral),
        "Conv": (linen.Conv, nnx.Conv),
        "ConvTranspose": (linen.ConvTranspose, nnx.ConvTranspose),
        "Embed": (linen.Embed, nnx.Embed),
        "BatchNorm": (linen.BatchNorm, nnx.BatchNorm),
        "LayerNorm": (linen.LayerNorm, nnx.LayerNorm),
        "GroupNorm": (linen.GroupNorm, nnx.GroupNorm),
        "RMSNorm": (linen.RMSNorm, nnx.RMSNorm),
        "InstanceNorm": (linen.InstanceNorm, nnx.InstanceNorm),
        "PReLU": (linen.PReLU, nnx.PReLU),
        **CELLS,
    }
    name = next((name for name, classes in known.items() if isinstance(module, classes)), "")
    if name == "DenseGeneral":
        axis = module.axis
        return Kind(name, inputs=len(axis) if isinstance(axis, Sequence) else 1)
    if name == "ConvTranspose":
        return Kind(name, transposed=bool(module.transpose_kernel))
    if name == "Conv" and module.input_dilation not in (None, 1) and set(np.ravel(module.input_dilation)) != {1}:
        return Kind(name, spread=module.feature_group_count)
    return Kind(name)


def _slots(flat: Mapping[str, Any], kinds: Mapping[str, Kind], jaxpr: Any, scales: Mapping[str, Scale]) -> list[Slot]:
    normed = only_kernels(scales)
    kinds = {**kinds, **{path: replace(kinds.get(path, Kind()), norms=axes) for path, axes in normed.items()}}
    groups: dict[str, dict[str, tuple[str, tuple[int, ...]]]] = {}
    for name, leaf in flat.items():
        collection, _, rest = name.partition("/")
        path, _, last = rest.rpartition("/")
        outer, _, inner = path.rpartition("/")
        if name in scales:  # the layer's own, wherever it lies
            path, last = scales[name].layer, SCALE
        elif kinds.get(outer, Kind()).name in CELLS:  # one layer, whatever it is made of
            path, last = outer, f"{inner}/{last}"
        elif not kinds.get(path, Kind()).name and last not in FLAX_LEAVES:
            path, last = rest, ALONE
        groups.setdefault(path, {})[last] = (collection, tuple(leaf.shape))
    channels = set(_channels(groups, kinds))
    images = {} if jaxpr is None else flattenings(jaxpr, channels)
    elsewhere = {scale.layer: {SCALE: name} for name, scale in scales.items()}
    made: list[Slot] = []
    for path, leaves in groups.items():
        kind = kinds.get(path, Kind())
        shapes = {leaf: shape for leaf, (_, shape) in leaves.items()}
        image = images.get(shapes["kernel"][0], ()) if kind.name == "Dense" else ()
        collections = {leaf: where for leaf, (where, _) in leaves.items()}
        made.append(Slot(path, kind, shapes, collections, image, elsewhere=elsewhere.get(path, {})))
    return made


def _channels(
    groups: Mapping[str, Mapping[str, tuple[str, tuple[int, ...]]]], kinds: Mapping[str, Kind]
) -> Iterator[int]:
    """How many channels the images behind convolutions have."""
    for path, leaves in groups.items():
        kind = kinds.get(path, Kind())
        if kind.name in ("Conv", "ConvTranspose") and "kernel" in leaves:
            yield leaves["kernel"][1][-2 if kind.transposed else -1]


def flattenings(jaxpr: Any, channels: set[int]) -> dict[int, tuple[int, ...]]:
    """Lengths that come of flattening images whose last axis is the channels, with the images' shapes.

    Torch flattens with the channels first: the rows of the next layer's matrix lie in another order there.
    """
    found: dict[int, tuple[int, ...]] = {}
    for equation in jaxpr.eqns:
        for inner in _inner(equation.params.values()):
            found |= flattenings(inner, channels)
        if equation.primitive.name != "reshape":
            continue
        before, after = equation.invars[0].aval.shape, equation.outvars[0].aval.shape
        image = before[1:]
        flattened = len(after) == 2 and len(image) > 1 and before[0] == after[0]
        if flattened and image[-1] in channels and after[1] > image[-1]:
            found[after[1]] = tuple(image)
    return found


def _inner(values: Iterable[Any]) -> Iterator[Any]:
    """The programs inside of an instruction: bodies of jit, scan, cond."""
    for value in values:
        if isinstance(value, tuple | list):
            yield from _inner(value)
        elif hasattr(value, "eqns"):
            yield value
        elif hasattr(value, "jaxpr"):
            yield value.jaxpr
