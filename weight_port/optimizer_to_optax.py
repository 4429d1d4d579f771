"""Fill the state of an optax chain with what a torch optimizer kept: see `weight_port.optimizer_state`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import numpy as np

from migrate.manifest import ModelWeights
from weight_port.apply import Read, infos, run_step
from weight_port.errors import fail
from weight_port.optimizer_state import (
    COUNTS,
    DECISIVE,
    FIELDS,
    REFUSED,
    Entries,
    Group,
    Names,
    after_rate,
    each_optional,
    is_scalar,
    is_tensor,
    kind_of,
    leaf_path,
    members,
    named,
    parameters_of,
)
from weight_port.plan import Step
from weight_port.planning import plan_port
from weight_port.regions import TensorInfo

Made: TypeAlias = Callable[[Step, Read, Any], Any]


# What schedules change, as torch calls it.
_IN_TORCH: dict[str, tuple[Any, ...]] = {
    "learning_rate": ("lr",), "momentum": ("momentum",), "b1": ("betas", 0), "weight_decay": ("weight_decay",),
}  # fmt: skip


@dataclass(frozen=True)
class Resumed:
    """What filling a state found: the new state, how many trees were filled, and notes in words."""

    state: Any
    filled: int
    notes: tuple[str, ...]


def to_optax(
    torch_state: Mapping[str, Any],
    model: ModelWeights,
    template: Any,
    *,
    names: Names | None = None,
    schedule_step: int | None = None,
) -> Resumed:
    """Fills `template`, the `init(params)` of the matching chain, with torch's optimizer state.

    torch_state: `optimizer.state_dict()` with arrays (see `read_optimizer_state`). names: the names of the parameters
    in the order in which torch was given them, by group where there are several; not needed where the state dict has
    `param_names`. schedule_step: how often the schedule was stepped, where that is not once a step.

    Raises PortError: WPT120 where names are missing or do not fit, WPT121 where the chain cannot hold what torch kept,
    WPT1xx where a tensor does not fit its weight.
    """

    def made(step: Step, read: Read, old: Any) -> Any:
        return _as(old, np.array(run_step(step, read), order="C"))

    return fill(torch_state, model, template, made, names=names, schedule_step=schedule_step)


def fill(
    torch_state: Mapping[str, Any],
    model: ModelWeights,
    template: Any,
    made: Made,
    *,
    names: Names | None = None,
    schedule_step: int | None = None,
) -> Resumed:
    """`to_optax`, in which ``made`` says what stands for a tensor: it is given the step that makes it, what the step
    reads from, and the template's leaf."""
    groups = named(torch_state, names)
    entries = {
        name: torch_state["state"].get(index, {}) for group in groups for index, name in group.names
    }  # parameters that never had a gradient have no entry
    filler = _Filler(entries, groups, model, made, schedule_step)
    state = filler.fill(template)
    kept = {key for entry in entries.values() for key, value in entry.items() if is_tensor(value) or key in DECISIVE}
    lost = kept - filler.used
    for key in sorted(lost & DECISIVE.keys()):
        fail("WPT121", f"the optax state has no place for {key}: {DECISIVE[key]}", "Build the chain that matches.")
    if not filler.filled and any(entries.values()):
        fail("WPT121", "the optax state holds none of what torch kept", "Build the chain that matches.")
    notes = [f"{key} is not carried over" for key in sorted(lost)]
    idle = [name for name, entry in entries.items() if not entry]
    if idle:
        notes.append(f"no state yet, left as it is: {', '.join(idle[:5])}{' ...' if len(idle) > 5 else ''}")
    return Resumed(state, filler.filled, tuple(notes))


class _Filler:
    """Walks an optax state and fills what it knows."""

    def __init__(
        self, entries: Entries, groups: list[Group], model: ModelWeights, made: Made, schedule_step: int | None
    ) -> None:
        self.entries, self.groups, self.made, self.schedule_step = entries, groups, made, schedule_step
        self.model = each_optional(parameters_of(model))
        self.used: set[str] = set()
        self.filled = 0

    def fill(self, node: Any, scaled: bool = False) -> Any:
        """The node with torch's state in it. `scaled`: whether its momentum is taken of updates times -lr."""
        kind = kind_of(node)
        if kind in REFUSED:
            fail("WPT121", f"{kind} cannot be filled: {REFUSED[kind]}")
        if kind == "ScaleByScheduleState":
            return node._replace(count=self._like(node.count, self._schedule_step()))
        if (fields := members(node)) is not None:
            filled = {field: self._field(kind, field, value, scaled) for field, value in fields.items()}
            return type(node)(**filled) if hasattr(node, "_fields") else filled
        if isinstance(node, tuple):
            return tuple(self.fill(child, after_rate(node[:i])) for i, child in enumerate(node))
        if isinstance(node, Mapping):
            return cast(Any, type(node))({name: self.fill(child) for name, child in node.items()})
        return node

    def _field(self, kind: str, field: str, value: Any, scaled: bool) -> Any:
        own = (field,) if any(field in entry and is_tensor(entry[field]) for entry in self.entries.values()) else ()
        wanted = FIELDS.get(kind, {}).get(field, own)
        if wanted:
            return self._tree(value, wanted, scaled=scaled and kind == "TraceState")
        if field in COUNTS and is_scalar(value):
            return self._like(value, self._step())
        if field == "hyperparams":
            return self._hyperparameters(value)
        if (kind, field) == ("scale_by_nadam", "product"):
            self.used.add("mu_product")
            return self._like(value, self._one("mu_product", 1.0))
        if (kind, field) == ("dampened_momentum", "first"):
            return self._like(value, not any("momentum_buffer" in entry for entry in self.entries.values()))
        return self.fill(value)

    def _tree(self, tree: Any, wanted: tuple[str, ...], *, scaled: bool) -> Any:
        """A tree of the shape of the parameters with torch's tensors of one kind in the place of its own."""
        import jax

        kind = next((key for key in wanted if any(key in entry for entry in self.entries.values())), None)
        if kind is None:
            return tree
        tensors = {name: np.asarray(entry[kind]) for name, entry in self.entries.items() if entry.get(kind) is not None}
        steps = {step.target: step for step in plan_port(self.model, infos(tensors)).steps}
        self.used.add(kind)
        self.filled += 1

        def leaf(path: Any, old: Any) -> Any:
            step = steps.get(leaf_path(path)) or steps.get(f"params/{leaf_path(path)}")
            if step is None:
                return old
            if step.after.shape != tuple(old.shape):
                fail(
                    "WPT103",
                    f"{kind} of {leaf_path(path)} has the shape {step.after.shape}; the optax state has {old.shape}",
                )
            if scaled:
                rates = {self._scale(source.key) for source in step.sources if source.key is not None}
                if len(rates) > 1:
                    fail("WPT121", f"{leaf_path(path)} is put together of weights with different rates")
                step = replace(step, affine=(rates.pop(), 0.0))
            return self.made(self._titled(step, kind, old), tensors.__getitem__, old)

        return jax.tree_util.tree_map_with_path(leaf, tree)

    @staticmethod
    def _titled(step: Step, kind: str, old: Any) -> Step:
        """The step with the type of the optax state, and its row in a report."""
        leaf = replace(step.leaf, torch=f"{kind} of {step.leaf.torch}")
        return replace(step, after=TensorInfo(step.after.shape, np.dtype(old.dtype)), leaf=leaf)

    def _scale(self, name: str) -> float:
        """optax's rmsprop keeps the momentum of updates that are multiplied by -lr already; torch multiplies later."""
        group = next(group for group in self.groups if name in (own for _, own in group.names))
        rate = float(group.settings["lr"])
        if float(group.settings.get("initial_lr", rate)) != rate:
            fail("WPT121", "RMSprop's momentum under a schedule: torch scales it by today's rate, optax by each day's")
        return -rate

    def _step(self) -> int:
        return int(self._one("step", self.schedule_step or 0))

    def _one(self, kind: str, default: float) -> float:
        """What torch keeps for each parameter and optax once."""
        found = {float(entry[kind]) for entry in self.entries.values() if kind in entry}
        if len(found) > 1:
            fail(
                "WPT121", f"the parameters have {kind}s from {min(found):g} to {max(found):g}; optax keeps one for all"
            )
        return found.pop() if found else default

    def _schedule_step(self) -> int:
        if self.schedule_step is None and not any("step" in entry for entry in self.entries.values()):
            fail("WPT120", "the optimizer keeps no step count, but the chain has a schedule", "State schedule_step=.")
        return self._step() if self.schedule_step is None else self.schedule_step

    def _hyperparameters(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """`inject_hyperparams`: the rate as torch has it now, where it is one, and what a schedule changes with it."""
        filled = dict(values)
        for name in filled:
            found = {number for group in self.groups for number in _set_to(group, name)}
            if len(found) > 1:
                fail("WPT121", f"the groups have {name}s of {sorted(found)}; the chain has one {name}")
            if found:
                filled[name] = self._like(filled[name], found.pop())
        return filled

    @staticmethod
    def _like(old: Any, value: float) -> Any:
        return _as(old, np.asarray(value, dtype=getattr(old, "dtype", None)))


def _set_to(group: Group, name: str) -> Iterator[float]:
    """A hyperparameter of optax's, as a group of torch's has it."""
    key, *index = _IN_TORCH.get(name, ("",))
    value = group.settings.get(key)
    if index and isinstance(value, list | tuple) and len(value) > index[0]:
        value = value[index[0]]
    if isinstance(value, int | float):
        yield float(value)


def _as(old: Any, new: np.ndarray) -> Any:
    """The new values as the old's kind of array, in its type."""
    import jax
    import jax.numpy as jnp

    if isinstance(old, jax.Array):
        return jnp.asarray(new, old.dtype)
    return np.asarray(new, getattr(old, "dtype", None))
