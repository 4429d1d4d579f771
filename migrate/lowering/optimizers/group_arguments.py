"""The arguments of an optimizer for each of its parameter groups, and those of them that change while it trains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import ParameterGroup
from migrate.known.kinds import Number
from migrate.lowering.optimizers.group_settings import FOLLOWED
from migrate.lowering.optimizers.labels import FROZEN
from migrate.lowering.optimizers.parameter_groups import Grouped, ParameterGroups
from migrate.lowering.optimizers.schedules import Schedules
from migrate.optimizers import OptimizerEntry
from migrate.rules.rule import Call, Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


@dataclass(frozen=True)
class Injected:
    """Hyperparameters that change while an optimizer trains: what they are at first by their names in optax, and
    torch's names of them."""

    first: Mapping[str, Expr]
    changing: frozenset[str] = frozenset()


class GroupArguments(Schedules, ParameterGroups):
    """What each group of an optimizer is made with."""

    def of_one_group(self, entry: OptimizerEntry, call: Call, grouped: Grouped) -> tuple[Call, Grouped]:
        """A call with what its only parameter group says, `[{"params": model.parameters(), "lr": 0.1}]`."""
        if len(grouped.all) > 1 or set(grouped.options) <= {FROZEN}:
            return call, grouped
        label = next(name for name in grouped.options if name != FROZEN)
        alone = {name: {} for name in grouped.options}
        return self.of_group(entry, call, grouped.options[label], label, None), replace(grouped, options=alone)

    def known_to_torch(self, entry: OptimizerEntry, call: Call, grouped: Grouped) -> Grouped:
        """The groups without items that say nothing to torch, `"lr_scale": 0.1`; scripts read them."""
        if entry.options:
            return grouped
        kept = {
            label: {key: value for key, value in found.items() if not _only_read(key, value, call)}
            for label, found in grouped.options.items()
        }
        return replace(grouped, options=kept)

    def note_groups(self, call: Call, grouped: Grouped, written: Grouped) -> None:
        """Remembers the parameter groups of an optimizer, and which of their hyperparameters are their own."""
        place, rate = self.pending_place, call.node("lr")
        common = {key: nodes.code(call.node(key)) for key in ("lr", *call.defaults)}
        made: list[ParameterGroup] = []
        for label in grouped.all:
            own = {key: nodes.code(value) for key, value in grouped.options.get(label, {}).items()}
            read = {key: nodes.code(value) for key, value in written.options.get(label, {}).items()}
            made.append(ParameterGroup(label, tuple((common | read | own).items()), _multiple(own.get("lr"), rate)))
        self.script.groups[place] = tuple(made)
        if any(group.multiple for group in made) and not self.script.proportional.get(place, True):
            if self.script.stepped.get(place):
                raise Unsupported("MIG302", f"{call.api}: rates of groups that do not change in proportion")
            self.script.separate.add((place, "lr"))
        for root, key in self.script.changing:
            if root == place and any(dict(group.options).get(key) != common.get(key) for group in made):
                self.script.separate.add((place, key))

    def injected(self, call: Call, grouped: Grouped) -> Injected:
        """The hyperparameters that change while it trains; the call then has names in their places."""
        found: dict[str, Expr] = {}
        place, bound = self.pending_place, dict(call.bound)
        scheduled = place in self.script.scheduled
        keys = [key for key in FOLLOWED if (key == "lr" and scheduled) or (place, key) in self.script.changing]
        for key in keys:
            if key not in call.bound and key not in call.defaults:
                raise Unsupported("MIG302", f"{call.api} has no {key}, which is set while it trains")
            if key == "momentum" and not call.has(key):
                raise Unsupported("MIG302", f"{call.api} gets a momentum while it trains")
            if (place, key) in self.script.separate:
                present = {grouped.switched.get(name, (name, ""))[0]: each for name, each in grouped.options.items()}
                for label in (name for name in grouped.all if name in present):
                    own = present[label].get(key, call.node(key))
                    found[f"{label}_{FOLLOWED[key]}"] = _float(self.expr(own).node)
                continue
            found[FOLLOWED[key]] = call.node(key) if key == "lr" else _float(call.node(key))
            bound[key] = Value(nodes.name(FOLLOWED[key]), Number())
        call.bound = bound
        if scheduled:
            found |= self.cycling(call)
        return Injected(found, frozenset(keys) | ({"betas"} if "b1" in found else {"momentum"} & found.keys()))

    def cycling(self, call: Call) -> dict[str, Expr]:
        """The hyperparameter that a scheduler changes beside the rate."""
        cycled = self.script.cycled.get(self.pending_place)
        if cycled == "momentum" and nodes.dotted(call.node("momentum")) != "momentum":
            first = call.node("momentum")
            call.bound = {**call.bound, "momentum": Value(nodes.name("momentum"), Number())}
            return {"momentum": first}
        if cycled == "b1":
            betas = call.node("betas")
            if not isinstance(betas, cst.Tuple) or len(betas.elements) != 2:
                raise Unsupported("MIG302", f"{call.api}: betas={nodes.code(betas)} with a cycle of the momentum")
            both = nodes.tuple_of([nodes.name("b1"), betas.elements[1].value])
            call.bound = {**call.bound, "betas": Value(both, call.kind("betas"))}
            return {"b1": betas.elements[0].value}
        return {}

    def of_group(
        self, entry: OptimizerEntry, call: Call, options: Mapping[str, Expr], label: str, rate: Expr | None
    ) -> Call:
        """The arguments of an optimizer for one of its groups. `rate`: that of the whole, where it changes."""
        bound, place = dict(call.bound), self.pending_place
        for key, written in options.items():
            if (key not in call.defaults and key != "lr") or (entry.options and key not in entry.options):
                raise Unsupported("MIG302", f"{entry.torch}: {key} of a parameter group")
            value = self.expr(written)
            if key == "lr" and rate is not None:
                if nodes.code(value.node) == nodes.code(rate):
                    continue
                text = "learning_rate * ({own} / {rate})"
                value = Value(nodes.expression(text, own=value.node, rate=rate), Number())
            bound[key] = value
        for key, name in FOLLOWED.items():
            if (place, key) in self.script.separate and label:
                bound[key] = Value(nodes.name(f"{label}_{name}"), Number())
        return replace(call, bound=bound)


def _only_read(key: str, value: Expr, call: Call) -> bool:
    """Whether an item of a parameter group is the script's own, and written out."""
    return key not in ("lr", *call.defaults) and nodes.literal(value) is not ...


def _float(node: Expr) -> Expr:
    """A number that may become another one, as a float."""
    value = nodes.literal(node)
    return cst.Float(f"{value}.0") if type(value) is int and value >= 0 else node


def _multiple(own: str | None, rate: Expr) -> str:
    """What the rate of a group is of that of its optimizer."""
    if own is None or own == nodes.code(rate):
        return ""
    plain = isinstance(nodes.literal(nodes.expression(own)), int | float)
    return f"{own} / {nodes.code(rate)}" if plain and isinstance(nodes.literal(rate), int | float) else "?"
