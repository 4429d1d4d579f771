"""Torch optimizer state <-> the optax state of the matching chain: a training run goes on in the other framework.

Torch keys its state by the index of a parameter in the order of its groups; optax keeps, for each transformation of a
chain, a tree of the shape of the parameters. What ties them is the parameter's name: torch's own `param_names` where
the optimizer was given names, else the names that the caller states group by group. The order is never guessed.

The tensors of a state have the layout of their weights and so take the weights' moves. Torch is not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from migrate.manifest import ModelWeights
from weight_port.dcp_files import is_dcp, read_dcp
from weight_port.dtypes import DTYPES
from weight_port.errors import fail
from weight_port.pickles import TensorRef
from weight_port.regions import TensorInfo
from weight_port.torch_files import locate, read_torch

Names = Sequence[str] | Sequence[Sequence[str]]
Entries = dict[str, dict[str, Any]]  # parameter name -> what torch keeps for it

# optax's state -> field -> the entries of torch that it may be. The first that a checkpoint has is taken.
FIELDS: dict[str, dict[str, tuple[str, ...]]] = {
    "ScaleByAdamState": {"mu": ("exp_avg",), "nu": ("exp_avg_sq", "exp_inf")},  # exp_inf: Adamax
    "TraceState": {"trace": ("momentum_buffer",)},
    "ScaleByRmsState": {"nu": ("square_avg",)},
    "ScaleByRStdDevState": {"mu": ("grad_avg",), "nu": ("square_avg",)},
    "ScaleByRssState": {"sum_of_squares": ("sum",)},
    "ScaleByAdaDeltaState": {"e_g": ("square_avg",), "e_x": ("acc_delta",)},
    # the transformations that a rewritten script brings along, because optax computes something else or nothing
    "scale_by_amsgrad": {"mu": ("exp_avg",), "nu": ("exp_avg_sq",), "nu_max": ("max_exp_avg_sq",)},
    "scale_by_nadam": {"mu": ("exp_avg",), "nu": ("exp_avg_sq",)},
    "scale_by_radam": {"mu": ("exp_avg",), "nu": ("exp_avg_sq",)},
    "rprop": {"previous": ("prev",), "sizes": ("step_size",)},
    "scale_by_adagrad": {"sums": ("sum",)},
    "dampened_momentum": {"trace": ("momentum_buffer",)},
}
# Their states are dicts: what tells one from another. All but these keys are trees of the parameters.
_OWN: dict[frozenset[str], str] = {
    frozenset({"count", *FIELDS["scale_by_amsgrad"]}): "scale_by_amsgrad",
    frozenset({"count", "product", *FIELDS["scale_by_nadam"]}): "scale_by_nadam",
    frozenset({"count", *FIELDS["scale_by_radam"]}): "scale_by_radam",
    frozenset(FIELDS["rprop"]): "rprop",
    frozenset({"count", *FIELDS["scale_by_adagrad"]}): "scale_by_adagrad",
    frozenset({"first", *FIELDS["dampened_momentum"]}): "dampened_momentum",
}
COUNTS = ("count", "step", "gradient_step")

# Where the mathematics differ, a state cannot be carried over: what torch keeps, and why optax's is another.
REFUSED = {
    "ScaleByAmsgradState": "torch takes the maximum of the raw second moment, optax of the bias-corrected one",
}
# An entry that the target must have a place for: without it the run would go on as another optimizer.
DECISIVE = {
    "max_exp_avg_sq": "amsgrad: torch takes the maximum of the raw second moment, which no chain of optax does; the "
    "scale_by_amsgrad that a rewritten script has does",
    "mu_product": "NAdam: torch's momentum schedule is not optax's; the scale_by_nadam of a rewritten script has it",
    "prev": "Rprop: optax keeps its step sizes otherwise; the rprop of a rewritten script keeps torch's",
    "ax": "ASGD: optax has no averaged SGD",
    "momentum_buffer": "the momentum would be lost",
    "exp_avg": "the first moment would be lost",
    "exp_avg_sq": "the second moment would be lost",
}


def read_optimizer_state(path: str | Path, key: str | None = None) -> dict[str, Any]:
    """The optimizer's state dict in a torch checkpoint, its tensors as views of the file; no pickled code is run.

    key: where it is ("optimizer"), where the file holds several. Raises PortError WPT001 to WPT006.
    """
    path = Path(path)
    saved, read = opened(path)
    found = dict(_optimizers(saved))
    if key is None and len(found) == 1:
        key = next(iter(found))
    if key is None or key not in found:
        listed = ", ".join(map(repr, found)) or "none"
        fail("WPT004", f"{path} holds {len(found)} optimizer states: {listed}", "Choose one by key= (--optimizer-key).")

    def arrays(node: Any, where: str) -> Any:
        if isinstance(node, TensorRef):
            return read(where, node)
        if isinstance(node, Mapping):
            return {name: arrays(child, f"{where}.{name}") for name, child in node.items()}
        if isinstance(node, (list, tuple)):
            return type(node)([arrays(child, f"{where}.{i}") for i, child in enumerate(node)])
        return node

    return arrays(found[key], key)


def list_optimizers(path: Path) -> dict[str, tuple[dict[str, TensorInfo], tuple[str, ...]]]:
    """The optimizers' states in a torch checkpoint by where they are: their tensors, unread, and their groups in words.

    Raises PortError WPT001 to WPT003.
    """
    saved, _ = opened(path)
    return {key: (dict(_tensors(state["state"])), tuple(_groups(state))) for key, state in _optimizers(saved)}


def _tensors(node: Any, path: str = "") -> Iterator[tuple[str, TensorInfo]]:
    if isinstance(node, TensorRef):
        yield path, TensorInfo(node.shape, DTYPES[node.dtype])
    elif isinstance(node, Mapping) and path.count(".") < 2:  # parameter, entry
        for name, child in node.items():
            yield from _tensors(child, f"{path}.{name}" if path else str(name))


def _groups(state: Mapping[str, Any]) -> Iterator[str]:
    groups: Any = state["param_groups"]
    for number, group in enumerate(groups if isinstance(groups, list) else []):
        if isinstance(group, Mapping):
            plain = {name: value for name, value in group.items() if isinstance(value, int | float | str | tuple)}
            count = len(group["params"]) if isinstance(group.get("params"), list) else 0
            yield f"group {number}: {count} parameters, {', '.join(f'{name}={plain[name]}' for name in plain)}"


def opened(path: Path) -> tuple[Any, Callable[[str, TensorRef], np.ndarray]]:
    """What was saved, and a function that reads one of its tensors. Raises PortError WPT001 to WPT003."""
    if path.is_dir() and is_dcp(path):
        saved, pieced = read_dcp(path)
        return saved, lambda where, tensor: pieced[tensor.storage.key].read()
    try:
        saved, regions, _ = read_torch(path)
    except OSError as error:
        fail("WPT001", f"cannot open {path}: {error.strerror or error}")
    return saved, lambda where, tensor: locate(where, tensor, regions).read()


def _optimizers(
    node: Any, path: str = "", depth: int = 0, seen: set[int] | None = None
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each object is looked at once: there may be exponentially many ways to it."""
    seen = set() if seen is None else seen
    if not isinstance(node, (Mapping, list, tuple)) or depth > 5 or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, Mapping) and {"state", "param_groups"} <= node.keys():
        yield path, node
        return
    children = node.items() if isinstance(node, Mapping) else enumerate(node)
    for name, child in children:
        yield from _optimizers(child, f"{path}.{name}" if path else str(name), depth + 1, seen)


@dataclass(frozen=True)
class Group:
    """One parameter group: (index, name) pairs in torch's order, and its hyperparameters."""

    names: tuple[tuple[Any, str], ...]
    settings: Mapping[str, Any]


def named(state: Mapping[str, Any], names: Names | None) -> list[Group]:
    """Every group with its parameters' names. Raises PortError WPT120."""
    if not {"state", "param_groups"} <= set(state):
        fail("WPT120", "not an optimizer's state dict: it has no state and param_groups")
    stated = None if names is None else _by_group(names, [len(group["params"]) for group in state["param_groups"]])
    groups = []
    for number, group in enumerate(state["param_groups"]):
        own = group.get("param_names") or (stated[number] if stated else None)
        if own is None and all(isinstance(index, str) for index in group["params"]):
            own = group["params"]  # as torch.distributed keeps it
        if own is None:
            fail(
                "WPT120",
                f"group {number} of the optimizer has {len(group['params'])} parameters and no names",
                "State them as names=[...] (--param-names FILE.json), a list for each group where there are several: "
                "[name for name, _ in model.named_parameters()] where torch was given model.parameters(), for which "
                "--param-names 'model.parameters()' stands, too.",
            )
        if len(own) != len(group["params"]):
            fail("WPT120", f"group {number} has {len(group['params'])} parameters, but {len(own)} names")
        groups.append(Group(tuple(zip(group["params"], own, strict=True)), group))
    given = [name for group in groups for _, name in group.names]
    twice = sorted({name for name in given if given.count(name) > 1})
    if twice:
        fail("WPT120", f"names that stand twice: {', '.join(twice)}")
    return groups


def _by_group(names: Names, counts: list[int]) -> list[list[str]]:
    nested = [[entry] if isinstance(entry, str) else list(entry) for entry in names]
    if len(counts) == len(names) and not any(isinstance(entry, str) for entry in names):
        return nested
    flat = [name for entry in nested for name in entry]
    if len(flat) != sum(counts):
        fail("WPT120", f"the optimizer has {sum(counts)} parameters, but {len(flat)} names were given")
    starts = np.cumsum([0, *counts])
    return [flat[start:end] for start, end in pairwise(starts)]


def kind_of(node: Any) -> str:
    """What a part of an optax state is: its class, or the name of a transformation of our own."""
    if isinstance(node, Mapping):
        kind = _OWN.get(frozenset(map(str, node)), "")
        scalars = (key for key in node if kind and key not in FIELDS[kind])
        return kind if all(is_scalar(node[key]) for key in scalars) else ""
    return type(node).__name__


def members(node: Any) -> dict[str, Any] | None:
    """The fields of a state, None where it is a container of others."""
    if hasattr(node, "_fields"):
        return dict(zip(node._fields, node, strict=True))
    return dict(node) if isinstance(node, Mapping) and kind_of(node) else None


def is_tensor(value: Any) -> bool:
    """Whether an entry is per weight; step counts are scalars."""
    return getattr(value, "ndim", 0) > 0


def after_rate(before: tuple[Any, ...]) -> bool:
    """Whether a chain has scaled by the root of squares and then by the rate, before the next state: optax.rmsprop."""
    kinds = [type(node).__name__ for node in before]
    scaled = [i for i, kind in enumerate(kinds) if kind in ("ScaleByRmsState", "ScaleByRStdDevState")]
    return bool(scaled) and any(kind in ("EmptyState", "ScaleByScheduleState") for kind in kinds[scaled[0] + 1 :])


def is_scalar(value: Any) -> bool:
    return getattr(value, "ndim", None) == 0 or isinstance(value, int)


def leaf_path(path: Sequence[Any]) -> str:
    """A key path of `jax.tree_util` as the manifest writes it.

    An nnx state ends its paths with the attribute that holds the array.
    """
    parts = [str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))) for key in path]
    return "/".join(part for part in parts if part != "value")


def parameters_of(model: ModelWeights) -> ModelWeights:
    """The model without its buffers: an optimizer knows none."""
    leaves = tuple(replace(leaf, dtype=None) for leaf in model.leaves if leaf.flax.startswith("params/"))
    return replace(model, leaves=leaves)


def each_optional(model: ModelWeights) -> ModelWeights:
    """Every leaf may be absent: a parameter that had no gradient has no state."""
    return replace(model, leaves=tuple(replace(leaf, optional=True) for leaf in model.leaves))
