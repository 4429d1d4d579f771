"""Parameter groups: optimizers that treat some parameters differently, or leave some as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.frozen import Leaves
from migrate.known.kinds import Function, Items, Place
from migrate.known.weight_kinds import Group
from migrate.lowering.models.foreign_models import note_trained
from migrate.lowering.optimizers.labels import FROZEN, labels_of, mask_of
from migrate.lowering.weights.made_without_gradient import frozen_as_made, still_of
from migrate.lowering.weights.selections import Selections
from migrate.manifest import Leaf as WeightLeaf
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every


@dataclass(frozen=True)
class Grouped:
    """The groups of one optimizer: the models, and unless all of their parameters are one group, what groups there are
    by label, and the labels of the parameters. `trained`: the weights."""

    models: tuple[Place, ...]
    options: Mapping[str, Mapping[str, Expr]]
    labels: Expr | None = None
    masks: Mapping[str, Expr] = field(default_factory=dict)  # of two groups of one model: which parameters are one's
    trained: tuple[WeightLeaf, ...] = ()
    all: tuple[str, ...] = ("",)  # the labels of the groups in torch's order, those of frozen weights among them
    # labels of parts that are frozen while it trains -> that of their group, and the name of the part
    switched: Mapping[str, tuple[str, str]] = field(default_factory=dict)


class ParameterGroups(Selections):
    """What an optimizer is given to train."""

    def grouped(self, torch: str, node: Expr, decays: bool) -> Grouped:
        """What the first argument of an optimizer means. decays: it changes weights whose gradient is zero, too."""
        leaves = self.tensors_in(node)
        if leaves:
            return Grouped(tuple(leaf.place for leaf in leaves), {"": {}})
        groups = self.written_groups(node)
        if groups is None:
            whole = self.with_tensors(node)
            if whole is None:
                self.note_groups_of_callers(node)
                note_trained(self, node)
                raise Unsupported("MIG302", f"{torch}: {nodes.code(node)} is not known to be parameters of models")
            groups = [Group(whole)]
        if all(not found for group in groups for _, found in group.selection.leaves):
            known = [place for group in groups for place, _ in group.selection.leaves]
            if any(self.weights_at(place) for place in known):
                raise Unsupported("MIG302", f"{torch}: no parameters are left to train")
        models = tuple(dict.fromkeys(place for group in groups for place, _ in group.selection.leaves))
        if any(group.selection.unless_frozen for group in groups):
            self.script.frozen.filtered |= {self.root(place) for place in models}
            self.script.frozen.filtered_by_now |= {self.root(place) for place in models}
        self.script.frozen.outdated.discard((self.scope, self.root(self.pending_place)))
        decays = decays or any(key == "weight_decay" for group in groups for key, _ in group.options)
        return self.labelled(torch, models, groups, decays)

    def note_groups_of_callers(self, node: Expr) -> None:
        """Notes a function that sorts parameters into groups for its callers, `add_weight_decay(model, 0.05)`: it is
        taken as if its body stood where it is called."""
        made = self.env.definitions.get(node.value, node) if isinstance(node, cst.Name) else node
        kind = self.expr(made.func).kind if isinstance(made, cst.Call) and nodes.dotted(made.func) else None
        facts = self.script.functions.get(kind.name) if isinstance(kind, Function) else None
        items = every(facts.node.body, cst.DictElement) if facts is not None else ()
        if facts is not None and any(nodes.is_literal(one.key, "params") for one in items):
            self.script.going_on.add(facts.qualname)
            self.expr(made)  # a call that is an argument is known from now on

    def labelled(self, torch: str, models: tuple[Place, ...], groups: Sequence[Group], decays: bool) -> Grouped:
        """The groups with a label for each parameter."""
        names = _names(groups)
        options: dict[str, Mapping[str, Expr]] = {
            name: {key: cst.parse_expression(text) for key, text in group.options}
            for name, group in zip(names, groups, strict=True)
        }
        label: dict[tuple[Place, str], str] = {}
        for name, group in zip(names, groups, strict=True):
            for place, found in group.selection.leaves:
                for leaf in found:
                    if label.setdefault((self.root(place), leaf), name) != name:
                        raise Unsupported("MIG302", f"{torch}: {leaf} in two parameter groups")
        trees = []
        switched: dict[str, tuple[str, str]] = {}
        for place in models:
            root = self.root(place)
            leaves = self.weights_at(place)
            if root in self.script.leaves:
                trees.append((leaves, {"": label[root, ""]}))
                continue
            frozen = self.frozen_to_optimizer(root) | frozen_as_made(self.script, root)
            frozen |= still_of(self.script, root) if decays else frozenset()
            own = {leaf.flax: label.get((root, leaf.flax), FROZEN) for leaf in leaves}
            left = frozenset(leaf for leaf, name in own.items() if name == FROZEN and leaf not in frozen)
            self.script.frozen.found_left[self.root(self.pending_place), root] = left
            own = {leaf: FROZEN if leaf in frozen else name for leaf, name in own.items()}
            trees.append((leaves, self.switched_apart(root, own, options, switched)))
            if self.script.frozen.switched.get(root) == {False} and root in self.trained_roots():
                raise Unsupported("MIG401", f"{place.name} is frozen in the course of the script, and trained")
        used = {name for _, labels in trees for name in labels.values()}
        trained = tuple(leaf for leaves, labels in trees for leaf in leaves if labels[leaf.flax] != FROZEN)
        if len(groups) == 1 and used <= set(names):
            return Grouped(models, {"": options[names[0]]}, trained=trained)
        if len(groups) == 1 and len(used) == 1 and used <= set(switched):
            ((_, part),) = (switched[name] for name in used)
            return Grouped(models, {"": options[names[0]]}, trained=trained, switched={"": ("", part)})
        every_one = tuple(names)
        if FROZEN in used:
            options[FROZEN] = {}
        kept = {name: found for name, found in options.items() if name in used}
        by_rank = any(group.selection.by_rank for group in groups)
        masks: dict[str, Expr] = {}
        if len(trees) == 1 and len(kept) == 2 and FROZEN not in kept and not switched:
            ((leaves, labels),) = trees
            masks = {name: mask_of(leaves, {leaf: labels[leaf] == name for leaf in labels}, by_rank) for name in kept}
        return Grouped(models, kept, labels_of(trees, by_rank), masks, trained, every_one, switched)

    def frozen_to_optimizer(self, root: Place) -> Leaves:
        """What an optimizer that is made here leaves as it is for good: what is frozen by the end of this phase of the
        training. What changes while it trains is told to its steps."""
        known = self.script.frozen
        if root in known.switching:
            return frozenset()
        if self.perhaps_frozen(root):
            known.switching.add(root)
        inside = self.frozen_inside(root)
        if inside is not None:
            return inside
        phases = known.phases.get(root, (frozenset[str](),))
        number = max(len(known.found_phases.get(root, ())), 1)  # of the phase that this one is in
        return phases[:number][-1]

    def switched_apart(
        self,
        root: Place,
        labels: Mapping[str, str],
        options: dict[str, Mapping[str, Expr]],
        switched: dict[str, tuple[str, str]],
    ) -> dict[str, str]:
        """The labels of a model with others for the parts that are frozen while it trains: `switched` gets the label
        that these had before, and the part."""
        found = dict(labels)
        if root not in self.script.frozen.switching:
            return found
        for part, leaves in self.script.frozen.parts(root).items():
            before = sorted({labels[leaf] for leaf in leaves if labels.get(leaf, FROZEN) != FROZEN})
            for label in before:
                whole = label == part and {leaf for leaf, name in labels.items() if name == label} <= leaves
                made = part if whole or (len(before) == 1 and part not in options) else f"{label}_{part}"
                switched[made], options[made] = (label, part), options[label]
                found |= {leaf: made for leaf in leaves if labels.get(leaf) == label}
        return found

    def written_groups(self, node: Expr) -> list[Group] | None:
        """A list of dicts, in place or under a name; None where it is something else."""
        if isinstance(node, cst.Name):
            kind = self.kind_of(node)
            items = kind.items if isinstance(kind, Items) else None
            return [item for item in items if isinstance(item, Group)] or None if items else None
        if not isinstance(node, cst.List | cst.Tuple) or not node.elements:
            return None
        found = [self.written_group(element.value) for element in node.elements]
        known = [group for group in found if group is not None]
        return known if len(known) == len(found) else None

    def written_group(self, node: Expr) -> Group | None:
        """One parameter group: `{"params": ..., "lr": ...}`."""
        if isinstance(node, cst.Name):
            kind = self.kind_of(node)
            return kind if isinstance(kind, Group) else None
        items: dict[object, Expr] = {}
        if isinstance(node, cst.Dict):
            items = {nodes.literal(e.key): e.value for e in node.elements if isinstance(e, cst.DictElement)}
        elif isinstance(node, cst.Call) and nodes.dotted(node.func) == "dict":
            items = {arg.keyword.value: arg.value for arg in node.args if arg.keyword is not None}
        if "params" not in items:
            return None
        source = items.pop("params")
        selection = self.with_tensors(source) or self.one_of_them(source)
        if selection is None:
            return None
        label = source.value if isinstance(source, cst.Name) else selection.label
        selection = replace(selection, label=label, named=False)
        return Group(selection, tuple((str(key), nodes.code(value)) for key, value in items.items()))


def _names(groups: Sequence[Group]) -> list[str]:
    """A label for each group: what its parameters are called where that is known and their own."""
    known = [group.selection.label.rpartition(".")[2] for group in groups]
    plain = all(known.count(name) == 1 and name.isidentifier() and name != FROZEN for name in known)
    if plain or len(groups) == 1:
        return [name if name.isidentifier() and name != FROZEN else "trained" for name in known]
    return [f"group_{number}" for number in range(len(groups))]
