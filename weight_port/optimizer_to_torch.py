"""Torch's optimizer state dict from the state of an optax chain: see `weight_port.optimizer_state`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from migrate.manifest import ModelWeights
from weight_port.apply import nest, unport_tree
from weight_port.errors import fail
from weight_port.optimizer_state import (
    COUNTS,
    FIELDS,
    REFUSED,
    Group,
    Names,
    after_rate,
    each_optional,
    is_scalar,
    kind_of,
    leaf_path,
    members,
    named,
    parameters_of,
)


def to_torch(
    state: Any,
    model: ModelWeights,
    torch_template: Mapping[str, Any],
    *,
    names: Names | None = None,
    step: int | None = None,
) -> dict[str, Any]:
    """The inverse of `to_optax`: torch's optimizer state dict, its tensors as arrays, for `load_state_dict`.

    torch_template: the `state_dict()` of the new torch optimizer, whose groups say which parameters there are and
    which kind it is (by its hyperparameters). step: how many steps were taken, where the optax state does not count
    them (RMSprop, Adagrad, Adadelta) but torch does. `as_tensors` turns the arrays into tensors.
    """
    groups = named(torch_template, names)
    found = _Collector(groups, parameters_of(model))
    found.collect(state)
    entries: dict[Any, dict[str, Any]] = {}
    step = found.count if step is None else step
    for group in groups:
        counted = {} if _is_sgd(group.settings) else {"step": np.asarray(step or 0, np.float32)}
        for index, name in group.names:
            entry = {kind: tensors[name] for kind, tensors in found.tensors.items() if name in tensors}
            if entry and counted and step is None:
                fail("WPT120", "torch counts steps, and the optax state has no count of them", "State step=.")
            if entry:
                entries[index] = counted | found.scalars | entry
    if not entries:
        fail("WPT121", "the optax state holds nothing that torch keeps")
    return {"state": entries, "param_groups": [dict(group) for group in torch_template["param_groups"]]}


def as_tensors(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict with torch tensors in the place of arrays. Needs torch."""
    import torch

    def tensor(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return torch.from_numpy(np.array(value))
        if isinstance(value, Mapping):
            return {name: tensor(child) for name, child in value.items()}
        return value

    return tensor(state)


def _is_sgd(settings: Mapping[str, Any]) -> bool:
    return "dampening" in settings


def _is_adamax(settings: Mapping[str, Any]) -> bool:
    """Adamax is told from Adam by what it lacks."""
    return "betas" in settings and "amsgrad" not in settings and "momentum_decay" not in settings


class _Collector:
    """Walks an optax state and gathers, by torch's entry and parameter, the tensors that it holds."""

    def __init__(self, groups: list[Group], model: ModelWeights) -> None:
        self.groups, self.model = groups, model
        self.settings = {name: group.settings for group in groups for _, name in group.names}
        self.tensors: dict[str, dict[str, np.ndarray]] = {}
        self.scalars: dict[str, np.ndarray] = {}  # what torch keeps for each parameter, and optax once
        self.count: int | None = None

    def collect(self, node: Any, scaled: bool = False) -> None:
        kind = kind_of(node)
        if kind in REFUSED:
            fail("WPT121", f"{kind} cannot be carried over: {REFUSED[kind]}")
        if (fields := members(node)) is not None:
            for field, value in fields.items():
                if field in FIELDS.get(kind, {}):
                    self._gather(FIELDS[kind][field], value, scaled=scaled and kind == "TraceState")
                elif field in COUNTS and is_scalar(value) and kind != "ScaleByScheduleState":
                    self.count = int(value)
                elif (kind, field) == ("scale_by_nadam", "product"):
                    self.scalars["mu_product"] = np.asarray(value, np.float32)
                else:
                    self.collect(value)
        elif isinstance(node, tuple):
            for i, child in enumerate(node):
                self.collect(child, after_rate(node[:i]))
        elif isinstance(node, Mapping):
            for child in node.values():
                self.collect(child)

    def _gather(self, kinds: tuple[str, ...], tree: Any, *, scaled: bool) -> None:
        import jax

        leaves: Any = jax.tree_util.tree_flatten_with_path(tree)[0]
        flat = {leaf_path(path): np.asarray(leaf) for path, leaf in leaves}
        flat = {name if name.startswith("params/") else f"params/{name}": array for name, array in flat.items()}
        state = unport_tree(nest(flat), each_optional(self.model))
        for name, array in state.items():
            settings = self.settings.get(name)
            if settings is None:  # a tied name, or a weight that this optimizer does not have
                continue
            kind = kinds[-1 if _is_adamax(settings) else 0]
            factor = -1 / float(settings["lr"]) if scaled else 1
            self.tensors.setdefault(kind, {})[name] = np.asarray(array * factor, array.dtype)
