"""Parts that a script puts in the place of those of a model: `model.fc = nn.Linear(512, 2)`.

A Flax module makes its parts itself, from its fields. The class gets one for each part that is replaced somewhere,
`new_fc`; a copy of the model that has it makes that in the place of the usual one, under its name. The weights of the
others stay, those of the new part are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import ChoiceNode, ClassNode, LayerNode, ListNode, Node
from migrate.known.facts import ClassFacts, merge
from migrate.known.kinds import Device, Kind, Model, Module, Number, Optimizer, Place
from migrate.known.script import layers_in
from migrate.known.states import BATCH_STATS, PARAMS, State
from migrate.known.weight_kinds import Selection
from migrate.layers.moves import Move, Permute
from migrate.layers.table import TABLE
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.expressions.elements import only_option
from migrate.lowering.models.parts_left_out import PartsLeftOut
from migrate.lowering.plainer.new_parts import NewPart, field_of, usual_parts, with_new_parts, written_path
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.lowering.weights.frozen_weights import FrozenWeights
from migrate.lowering.weights.leaves import leaves_of
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every
from migrate.targets import linen
from migrate.weights import weights_of

# What a layer says of its sizes: the axis of its weight in torch; None where no weight of that name has it. A
# convolution of groups has fewer inputs there.
_OF_NETWORK = {"input_size": None, "hidden_size": None, "num_layers": None}
_SIZES: dict[str, dict[str, int | None]] = {
    "torch.nn.Linear": {"in_features": 1, "out_features": 0},
    "torch.nn.Embedding": {"num_embeddings": 0, "embedding_dim": 1},
    "torch.nn.Conv1d": {"out_channels": 0},
    "torch.nn.Conv2d": {"out_channels": 0},
    "torch.nn.Conv3d": {"out_channels": 0},
    "torch.nn.RNN": {**_OF_NETWORK},
    "torch.nn.LSTM": {**_OF_NETWORK},
    "torch.nn.GRU": {**_OF_NETWORK},
}
_SIZE_NAMES = frozenset(size for sizes in _SIZES.values() for size in sizes)


@dataclass(frozen=True)
class _Part:
    """A part at a path of a module of a class: of a model at a place, or of what a constructor or builder has made."""

    owner: Expr
    cls: str
    path: tuple[str, ...]
    place: Place | None


class ReplacedParts(PartsLeftOut, FrozenWeights):
    """Assignments of modules to parts of a model."""

    def replaced_part(self, target: Expr, value: Expr) -> list[Statement] | None:
        """`model.fc = nn.Linear(512, 2)`, `self.backbone.classifier[6] = ...`; None for other assignments."""
        found = self._part_at(target)
        value = value if found is None else self._unplaced(value)
        meant = self.env.definitions.get(value.value) if isinstance(value, cst.Name) else value
        if meant is not value and (meant is None or not self.becomes_part(nodes.code(value), meant)):
            return None
        value = value if meant is None else meant
        if found is None or not isinstance(value, cst.Call) or not self.makes_part(value):
            return None
        facts, field = self.script.classes[found.cls], field_of(found.path)
        if _takes_in(value, target):
            raise Unsupported("MIG204", f"{nodes.code(target)} becomes a module that holds what was there before")
        if found.place is not None:
            self._refuse_elsewhere(target, found.owner, found.place)
        tied = [key for pair in facts.ties.items() for key in pair if key.startswith(".".join(found.path) + ".")]
        if tied:
            raise Unsupported("MIG204", f"{nodes.code(target)} takes {tied[0]} away, which is tied to another weight")
        if field not in facts.fields:
            if facts.node is None or with_new_parts(facts.node, [found.path], {}) is facts.node:
                raise Unsupported("MIG204", f"{nodes.code(target)} is changed after its module was made")
            facts.replaced.add(found.path)  # the class has a field for it in the next round
            if found.place is None:
                self._made_here(target, value)
            return []
        part = self._made_anew(value, found.cls) if found.place is not None else self._made_here(target, value)
        if not isinstance(part.kind, Module) or len(part.kind.options) != 1:
            raise Unsupported("MIG204", f"{nodes.code(target)} becomes one of several modules")
        facts.given.setdefault(self.cls, {}).setdefault(field, set()).add(nodes.code(value))
        merge(facts.field_kinds, field, self.handed_kind(value, part.kind))
        owner = self.expr(found.owner).node
        text = f"{{x}} = {{x}}.clone({field}={{part}})"
        made: list[Statement] = [nodes.statement(text, x=owner, part=self._as_module(part))]
        if found.place is None:
            return made
        made += self._unfreeze(found.place, found.path, target)
        self.replaced.add((found.place, found.path))
        new = NewPart(_in_flax(facts, found.path), self._collections(part.kind.options[0]))
        return [*made, *self._weights_of(found.place, new)]

    def _unplaced(self, value: Expr) -> Expr:
        """`nn.Linear(512, 2)` of `nn.Linear(512, 2).to(device)`: JAX places arrays itself."""
        while isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
            owner, method, given = value.func.value, value.func.attr.value, [arg.value for arg in value.args]
            moved = method == "to" and len(given) == 1 and isinstance(self.expr(given[0]).kind, Device)
            if not isinstance(owner, cst.Call) or not (moved or method in ("cuda", "cpu")):
                break
            value = owner
        return value

    def _made_here(self, target: Expr, value: Expr) -> Value:
        """A part that a constructor makes for another one: what is asked for its weights is found by its path there."""
        before, self.making = self.making, written_path(target)
        part = self.expr(value)
        self.making = before
        if self.context == "setup" and self.cls:
            self.script.classes[self.cls].replacing[written_path(target)] = part.kind
        return part

    def becomes_part(self, name: str, value: Expr) -> bool:
        """Whether a name stands for a module that one statement puts into a model, and nothing else reads: it is
        written out there."""
        if self.cls or self.building or self.context not in HOST_CONTEXTS or self.loops or self.conditions:
            return False
        if not isinstance(value, cst.Call) or not self.makes_part(value):
            return False
        scope = self.own_body
        read, bound = usage.loads(scope), usage.stores(scope)
        taking = [one for one in every(scope, cst.Assign) if nodes.dotted(one.value) == name]
        once = read.count(name) == len(taking) == bound.count(name) == 1
        settled = once and all(bound.count(one) < 2 for one in usage.loads(value))
        target = taking[0].targets[0].target if settled else None
        return isinstance(target, cst.Attribute | cst.Subscript) and self._part_at(target) is not None

    def _as_module(self, part: Value) -> Expr:
        """A part as a module that can be copied: Flax has functions in the place of layers without weights."""
        made = self.field_value(part)
        option = part.kind.options[0] if isinstance(part.kind, Module) else None
        plain = isinstance(option, LayerNode) and not option.weights
        return nodes.expression("nn.Sequential([{x}])", x=nodes.bare(made)) if plain else made

    def _made_anew(self, value: cst.Call, cls: str) -> Value:
        """A part for a model of a class."""
        self.replacing = True
        try:
            return self.given(value, cls)
        finally:
            self.replacing = False

    def size_of_part(self, node: cst.Attribute) -> Value | None:
        """`model.fc.in_features`: what the constructor has for it, in terms of its arguments, else a length of the
        weight; None of other attributes."""
        if node.attr.value not in _SIZE_NAMES:
            return None
        found = self._part_at(node.value)
        if found is None:
            return None
        if (found.place, found.path) not in self.replaced:
            written = self._written_size(found, node.attr.value)
            if written is not None:
                return Value(written, Number())
        return None if found.place is None else self._length_of_weight(found, found.place, node.attr.value)

    def _length_of_weight(self, found: _Part, place: Place, size: str) -> Value | None:
        facts = self.script.classes[found.cls]
        leaf = self.one_leaf(Model(found.cls, place), (*found.path, "weight"))
        axes = {_SIZES.get(layer.torch, {}).get(size) for layer in self._layers_at(facts, found.path)} - {None}
        axis = _axis(axes.pop() or 0, leaf.moves) if leaf is not None and len(axes) == 1 else None
        weight = self.weight_at(place, leaf, moved=True) if leaf is not None and axis is not None else None
        if weight is None:
            return None
        return Value(nodes.expression(f"{{x}}.shape[{axis}]", x=weight.node), Number())

    def _written_size(self, found: _Part, size: str) -> Expr | None:
        """What the constructor of a class gives a layer for one of its sizes, `512 * model.block.expansion`; None where
        more than its arguments decide it."""
        facts, path = self.script.classes[found.cls], found.path
        init = facts.method("__init__")
        made = usual_parts(init, path) if init is not None else []
        call = made[0] if len(made) == 1 else None
        name = self.in_file_of(facts.name).torch_name(call.func) if isinstance(call, cst.Call) else None
        if not isinstance(call, cst.Call) or name is None or size not in _SIZES.get(name, {}):
            return None
        parameters = linen.layer_signature(TABLE[name])
        names = argument_names(call.args, [parameter.name for parameter in parameters])
        default = next((parameter.default for parameter in parameters if parameter.name == size), None)
        written = next((arg.value for arg, one in zip(call.args, names, strict=True) if one == size), default)
        fields = set(facts.fields) - facts.rebinds - facts.other_names.keys()
        if written is None or not set(usage.loads(written)) <= fields:
            return None
        owner = self.expr(found.owner).node
        return nodes.substituted(written, {one: cst.Attribute(owner, cst.Name(one)) for one in fields})

    # -- where it is --------------------------------------------------------------------------------------------------

    def _part_at(self, node: Expr) -> _Part | None:
        """The part at an expression: `model.fc`, `model.classifier[6]`, `self.backbone.fc` in a constructor."""
        path: list[str] = []
        while not self._owns_parts(kind := self._kind_here(node), node):
            if isinstance(node, cst.Attribute):
                path.insert(0, node.attr.value)
            elif isinstance(node, cst.Subscript) and len(node.slice) == 1:
                key = nodes.looked_up(node)
                if isinstance(key, bool) or not isinstance(key, int):
                    return None
                path.insert(0, str(key))
            else:
                return None
            node = node.value
        option, place = only_option(kind), kind.place if isinstance(kind, Model) else None
        cls = kind.cls if isinstance(kind, Model) else option.cls if isinstance(option, ClassNode) else ""
        facts = self.script.classes.get(cls)
        if not path or facts is None or (isinstance(kind, Model) and place is None):
            return None
        return _Part(node, cls, _counted(facts, tuple(path)), place)

    def _kind_here(self, node: Expr) -> Kind:
        """The kind of an expression, an attribute that a constructor keeps in a variable yet among them."""
        if self.context == "setup" and isinstance(node, cst.Attribute) and self.is_held(node):
            return self.script.classes[self.cls].seen[node.attr.value]
        return self.kind_of(node)

    def _owns_parts(self, kind: Kind, node: Expr) -> bool:
        """Whether an expression is a model, or a module that a constructor or a builder has made and not kept yet."""
        if not isinstance(only_option(kind), ClassNode):
            return isinstance(kind, Model)
        held = self.context == "setup" and self.is_held(node)
        taken = isinstance(node, cst.Name) and node.value in self.taken_apart_here()
        return held or taken or (self.building and isinstance(node, cst.Name))

    def _refuse_elsewhere(self, target: Expr, owner: Expr, place: Place) -> None:
        """Declines to change a model that others have as well."""
        told = f"{nodes.code(target)} is changed after its module was made"
        here = self.scope == (f"{place.scope}.__init__" if place.of_self else place.scope)
        if self.passed_in(place) or not here:
            raise Unsupported("MIG204", f"{told}, in another function than that which made it")
        for name, kind in self.env.kinds.items():
            if isinstance(kind, Model) and kind.place == place and name != nodes.dotted(owner):
                raise Unsupported("MIG204", f"{told}, which {name} is as well")
            made = not (place.of_self and name.startswith("self.")) or name in self.bound_attributes
            if isinstance(kind, Optimizer) and place in kind.models and made:
                raise Unsupported("MIG204", f"{told}, and after its optimizer {name}, which keeps the part that goes")

    def _layers_at(self, facts: ClassFacts, path: Sequence[str]) -> list[LayerNode]:
        """The layers that may be at the path of a part."""
        start = facts.children.get(path[0])
        found = [start] if start is not None else []
        for key in path[1:]:
            inside = [one for node in found for one in _options(node)]
            rows = [one.children for one in inside if isinstance(one, ListNode) and not one.dynamic]
            found = [row[int(key)] for row in rows if key.isdecimal() and int(key) < len(row)]
        return [one for node in found for one in _options(node) if isinstance(one, LayerNode)]

    # -- weights ------------------------------------------------------------------------------------------------------

    def _collections(self, node: Node) -> frozenset[str]:
        """The collections that a part has weights in."""
        if isinstance(node, ClassNode):
            return frozenset(leaf.flax.partition("/")[0] for leaf in weights_of(self.script, node.cls))
        return frozenset(weight.collection for layer in layers_in(node) for weight in layer.weights)

    def _unfreeze(self, place: Place, path: Sequence[str], node: cst.CSTNode) -> list[Statement]:
        """A new part learns, whatever was frozen before."""
        root = self.root(place)
        inside = {leaf.flax for leaf in leaves_of(self.script, root) if leaf.torch.startswith(".".join(path) + ".")}
        if not inside & (self.frozen_by_script(root) | self.perhaps_frozen(root)):
            return []
        return self.freeze(Selection(((place, tuple(sorted(inside))),)), True, node)

    def gets_parts_first(self, place: Place) -> bool:
        """Whether the statements that follow put parts into a model before they need its weights: these are made once,
        with those of the new parts."""
        block = self.blocks[-1] if self.blocks else None
        if block is None or place in self.script.perhaps_loaded:
            return False
        for statement in block.statements[block.index + 1 :]:
            small = suites.alone(statement)
            target = small.targets[0].target if isinstance(small, cst.Assign) and len(small.targets) == 1 else None
            if isinstance(target, cst.Attribute | cst.Subscript) and isinstance(small, cst.Assign):
                found = self._part_at(target)
                if found is not None and found.place == place and isinstance(self.kind_of(target), Module):
                    return not isinstance(small.value, cst.Call) or self.makes_part(small.value)
            if place.name in usage.paths(statement) and not self._is_before_weights(statement):
                return False
        return False

    def _is_before_weights(self, statement: Statement) -> bool:
        """Whether a statement about a model does no more than to freeze it, to move it, or to ask for a size that its
        constructor tells."""
        if isinstance(statement, cst.For):
            return all("requires_grad" in nodes.code(one) for one in suites.suite_of(statement.body.body))
        small = suites.alone(statement)
        if not isinstance(small, cst.Assign):
            return False
        sizes = [one for one in every(small.value, cst.Attribute) if self._told_size(one)]
        return bool(sizes) and not any(True for _ in every(small.value, cst.Call))

    def _told_size(self, node: cst.Attribute) -> bool:
        found = self._part_at(node.value) if node.attr.value in _SIZE_NAMES else None
        return found is not None and self._written_size(found, node.attr.value) is not None

    def _weights_of(self, place: Place, part: NewPart) -> list[Statement]:
        """What becomes of the weights of a model that has its own by then: those of the part that goes are dropped, and
        those of the new one made once an example is there."""
        waits = ("model", place) in [entry[:2] for entry in self.pending]
        if place in self.script.handed_classes or (waits and place not in self.script.perhaps_loaded):
            return []
        if self.conditions and place not in self.ready:
            raise Unsupported(
                "MIG401", f"which parts {place.name} has is told while it runs, before its weights are there"
            )
        if not part.collections and not waits:
            return self._dropped(place, part)
        self.new_parts.setdefault(place, []).append(part)
        if ("part", place) not in [entry[:2] for entry in self.pending]:
            self.pending.append(("part", place, cst.Pass()))
        return []

    def _dropped(self, place: Place, part: NewPart) -> list[Statement]:
        """The statements that take the weights of the part that goes from those of a model."""
        made: list[Statement] = []
        collections = [PARAMS, BATCH_STATS] if self.script.has_stats(self.script.places[place]) else [PARAMS]
        keys = "".join(f'["{key}"]' for key in part.path[:-1])
        for what in collections:
            if what not in part.collections and self._had(place, part, what):
                text = f'{{own}}{keys}.pop("{part.path[-1]}", None)'
                made.append(nodes.statement(text, own=self._own(what, place)))
        return made

    def init_parts(self, place: Place) -> list[Statement] | None:
        """`params["fc"] = model.init(key, x)["params"]["fc"]`, or None where there is no example yet."""
        self.making_parts = True
        try:
            return self.init_model(place)
        finally:
            self.making_parts = False

    def weights_of_parts(self, place: Place, call: Expr) -> list[Statement]:
        """The statements that give a model the weights of its new parts out of a call of `init`."""
        made: list[Statement] = []
        parts = self.new_parts.pop(place, [])
        taken = [(part, what) for part in parts for what in sorted(part.collections, reverse=True)]
        variables = call
        if len(taken) > 1:
            variables = nodes.name("variables")
            made.append(nodes.statement("variables = {call}", call=call))
        for part, what in taken:
            keys = "".join(f'["{key}"]' for key in part.path)
            given = nodes.expression(f'{{v}}["{what}"]{keys}', v=variables)
            made.append(nodes.statement(f"{{own}}{keys} = {{given}}", own=self._own(what, place), given=given))
        return [*made, *(one for part in parts for one in self._dropped(place, part))]

    def _own(self, what: str, place: Place) -> Expr:
        self.read(State(what, place))
        return self.write(State(what, place))

    def _had(self, place: Place, part: NewPart, what: str) -> bool:
        """Whether the part that goes may have weights in a collection."""
        start = "/".join((what, *part.path)) + "/"
        return any(leaf.flax.startswith(start) for leaf in weights_of(self.script, self.script.places[place]))


def _takes_in(value: cst.Call, target: Expr) -> bool:
    """Whether a module is made of the one whose place it takes, or of a part of that:
    `net.fc = nn.Sequential(nn.ReLU(), net.fc)`. What only asks that for a size, `net.fc.in_features`, does not."""
    path = nodes.code(target)
    reads = [one for one in every(value, (cst.Attribute, cst.Subscript)) if nodes.code(one) == path]
    asking = [one for one in every(value, cst.Attribute) if one.attr.value in {*_SIZE_NAMES, "weight", "bias"}]
    return len(reads) > len([one for one in asking if nodes.code(one.value) == path])


def _axis(axis: int, moves: Sequence[Move]) -> int | None:
    """Where an axis of a weight in torch is in Flax; None where more than their order is another."""
    for move in moves:
        if not isinstance(move, Permute):
            return None
        axis = move.axes.index(axis)
    return axis


def _counted(facts: ClassFacts, path: tuple[str, ...]) -> tuple[str, ...]:
    """A path with numbers of modules in a row from its beginning, `classifier[-1]` as "classifier", "6"."""
    init = facts.method("__init__")
    if len(path) != 2 or not path[1].startswith("-") or init is None:
        return path
    rows = usual_parts(init, path[:1])
    lengths = {len(row.args) for row in rows if isinstance(row, cst.Call)}
    return (path[0], str(lengths.pop() + int(path[1]))) if len(lengths) == len(rows) == 1 else path


def _in_flax(facts: ClassFacts, path: Sequence[str]) -> tuple[str, ...]:
    first = facts.renamed.get(path[0], path[0])
    return (first, *(f"layers_{key}" for key in path[1:]))


def _options(node: Node) -> tuple[Node, ...]:
    return node.children if isinstance(node, ChoiceNode) else (node,)
