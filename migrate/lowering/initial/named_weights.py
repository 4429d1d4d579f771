"""Initial weights that a constructor gives by name: `for name, p in self.named_parameters(): if name.endswith(...)`.

The loop is followed for each weight that the class is known to have; the layer's own constructor takes the initialiser,
in whichever class that stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import ChoiceNode, ClassNode, LayerNode, ListNode, Node
from migrate.known.kinds import UNKNOWN
from migrate.known.qualified import file_of
from migrate.known.states import PARAMS
from migrate.layers.layer import any_copy, asked_name
from migrate.layers.moves import Move
from migrate.lowering.initial.initializers_handed_down import Way
from migrate.lowering.initial.initializers_of_flax import (
    completed,
    filling,
    initializer_of,
)
from migrate.lowering.initial.initializing_functions import IN_ANY_CLASS
from migrate.lowering.initial.parts_filled import (
    PartsFilled,
    part_filled,
    settled_lengths,
    transposes,
    weight_in_part,
)
from migrate.lowering.weights.selections import Selections, names_of_pair
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.weights import weights_of


@dataclass(frozen=True)
class _Maker:
    """Where a weight is made: the classes on the way to it, its path in the last of them, and that of the module of
    each class in the one before."""

    classes: tuple[str, ...]
    path: str
    held: tuple[str, ...] = ()


@dataclass
class _Asked:
    """An initialiser, in the words of the class at `depth` of those on the way, which is the last one unless that is
    not given what it takes; the call that asks for it, and the ways to where it is asked for."""

    made: Expr
    depth: int
    call: cst.Call
    makers: list[_Maker] = field(default_factory=list)


class NamedWeights(PartsFilled, Selections):
    """Loops of a constructor over its parameters."""

    def parameters_loop(self, node: cst.For, applied: bool = False, of: str = "") -> list[Statement]:
        """`for name, p in self.named_parameters(): ...` with initial weights in it. `applied`: the loop is run for each
        module inside as well, inner ones first, by the names that weights have there. `of`: the part of the module that
        it runs through the parameters of, if not of all."""
        names = names_of_pair(node.target)
        if names is None or self.conditions or node.orelse is not None:
            raise Unsupported("MIG204", f"`for {nodes.code(node.target)} in {nodes.code(node.iter)}` is not followed")
        asked: dict[_Maker, dict[str, _Asked | None]] = {}
        inside = f"{of}." if of else ""
        learnt = [one for one in weights_of(self.script, self.cls) if one.flax.startswith(f"{PARAMS}/")]
        for leaf in (one for one in learnt if one.torch.startswith(inside)):
            name = leaf.torch.removeprefix(inside)
            told = [name.split(".", depth)[-1] for depth in range(name.count(".") if applied else 0, -1, -1)]
            bound: list[dict[str, object]] = [{names[0]: name, names[-1]: leaf} for name in told]
            body = suites.suite_of(node.body.body)
            calls = [call for one in bound for call in self.fills(body, one, names[-1])]
            makers = list(self.makers(self.cls, leaf.torch.split("."), (self.cls,)))
            if calls and not makers:
                raise Unsupported("MIG204", f"`{nodes.code(calls[-1])}`: where {leaf.torch} is made is not known")
            for maker in makers:
                given = asked.setdefault(_Maker(maker.classes[-1:], maker.path), {})
                if not calls:
                    given[""] = None
                    continue
                made, depth = self.translated_each(calls, maker, leaf.moves)
                one = given.setdefault(f"{depth} {nodes.code(made)}", _Asked(made, depth, calls[-1]))
                if one is not None:
                    one.makers.append(maker)
        for maker, given in asked.items():
            (first, *others) = given.values()
            if others:
                where = f"{maker.classes[-1]}: {maker.path.removeprefix('self.')}"
                raise Unsupported("MIG204", f"{where} starts differently in several modules of its class")
            if first is not None:
                self.note_translated(first)
        return []

    def note_translated(self, asked: _Asked) -> None:
        """Where the class that makes a weight knows what its initialiser takes, that says so; else the last class on
        the way that knows hands the initialiser on."""
        for maker in asked.makers:
            owner = self.script.classes[maker.classes[-1]]
            if asked.depth == len(maker.classes) - 1:
                self.note_found(owner, maker.path, asked.made, asked.call)
                continue
            classes = [self.script.classes[name] for name in maker.classes[asked.depth :]]
            knows, fields = classes[0], set(classes[0].fields)
            if set(usage.loads(asked.made)) & knows.rebinds:
                raise Unsupported("MIG204", f"`{nodes.code(asked.call)}`: {knows.name} has other values by these names")
            own = {name: nodes.expression(f"self.{name}") for name in fields}
            given = self.in_own_terms(asked.made) if not asked.depth else nodes.substituted(asked.made, own)
            through = tuple(zip(classes[:-1], maker.held[asked.depth :], strict=True))
            self.hand_on(Way(owner, maker.path, UNKNOWN, through), maker.path, given, asked.call)

    def one_filled(self, torch: str, call: cst.Call) -> None:
        """`nn.init.zeros_(model.head.bias)` of one weight of the class, by its name in torch."""
        makers = {
            leaf.torch: set(self.makers(self.cls, leaf.torch.split("."), (self.cls,)))
            for leaf in weights_of(self.script, self.cls)
        }
        for maker in sorted(makers.get(torch, ()), key=lambda one: one.path):
            where = f"{maker.classes[-1]}: {maker.path.removeprefix('self.')}"
            if any(_same(maker, one) for other, found in makers.items() if other != torch for one in found):
                raise Unsupported("MIG204", f"{where} starts differently in several modules of its class")
            self.note_translated(_Asked(*self.without_own(call, maker), call, [maker]))
        if not makers.get(torch):
            raise Unsupported("MIG204", f"`{nodes.code(call)}`: where this weight is made is not known")

    def without_own(self, call: cst.Call, maker: _Maker) -> tuple[Expr, int]:
        """The initialiser of a weight, where it reads nothing that the function at hand alone knows."""
        made, depth = self.translated(call, maker)
        own = self.facts.own_names if self.facts is not None else set[str]()
        hidden = sorted(set(usage.loads(made)) & own)
        if hidden:
            raise Unsupported("MIG204", f"`{nodes.code(call)}` depends on the variable {hidden[0]}")
        return made, depth

    def fills(
        self, body: Sequence[Statement], bound: Mapping[str, object], name: str, lengths: dict[str, Expr] | None = None
    ) -> Iterator[cst.Call]:
        """The calls of such a loop that fill one weight, or a part of it. `lengths`: variables for its lengths."""
        lengths = {} if lengths is None else lengths
        for statement in body:
            if isinstance(statement, cst.With):
                yield from self.fills(suites.suite_of(statement.body.body), bound, name, lengths)
            elif isinstance(statement, cst.If):
                if self.test_of_weight(statement.test, bound, frozenset()):
                    yield from self.fills(suites.suite_of(statement.body.body), bound, name, lengths)
                elif isinstance(statement.orelse, cst.If):
                    yield from self.fills([statement.orelse], bound, name, lengths)
                elif statement.orelse is not None:
                    yield from self.fills(suites.suite_of(statement.orelse.body.body), bound, name, lengths)
            else:
                small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
                call = part_filled(small) if small is not None else None
                if call is None or self.fills_named(call) != name:
                    told = settled_lengths(usage.bindings(statement), name, lengths)
                    lengths |= told
                    if told or isinstance(small, cst.Pass) or suites.is_docstring(statement):
                        continue
                    raise Unsupported("MIG204", f"`{nodes.code(statement).strip()}` in a loop over parameters")
                values = {one: nodes.parenthesized(value) for one, value in lengths.items()}
                yield nodes.substituted(call, values)

    def fills_named(self, call: cst.Call) -> str:
        """The path of the weight that a call fills, or a part of, "" of other calls."""
        part = self.filled_part(call)
        found = filling(self, call)
        target = weight_in_part(part) if part is not None else None if found is None else found[1]
        return (nodes.dotted(target) or "").removesuffix(".data") if target is not None else ""

    def translated_each(self, calls: Sequence[cst.Call], maker: _Maker, moves: Sequence[Move]) -> tuple[Expr, int]:
        """The same of calls one after another: the last one that fills the whole counts, and what is set in it then."""
        parts = [call for call in calls if self.filled_part(call) is not None]
        whole = next((number for number in range(len(calls) - 1, -1, -1) if calls[number] not in parts), 0)
        made, depth = self.translated(calls[whole], maker, moves)
        for call in calls[whole + 1 :]:
            more, there = self.translated(call, maker, moves)
            made, depth = completed(more, made), min(depth, there)
        return made, depth

    def translated(self, call: cst.Call, maker: _Maker, moves: Sequence[Move] = ()) -> tuple[Expr, int]:
        """The initialiser of a weight, in the words of the class that makes it, or of the last one on the way that is
        given what it takes; and how far on the way that is."""
        found = filling(self, call)
        if self.filled_part(call) is not None:
            made = self.set_in_part(call, transposes(moves, call))
        else:
            made = initializer_of(self, found[0], call, found[1]) if found is not None else self.scaled_by(call)
        if made is None:
            raise Unsupported("MIG204", f"`{nodes.code(call)}`")
        owner = self.script.classes[self.cls]
        for depth, (cls, outer) in enumerate(zip(maker.classes[1:], maker.classes, strict=False)):
            facts, values = self.script.classes[cls], dict[str, Expr]()
            for name in set(usage.loads(made)) - IN_ANY_CLASS:
                local = name in owner.fields or name == "self" or name in self.env.kinds
                if not local and file_of(cls) == file_of(self.cls):
                    continue  # a name of the file
                fields = [field for field, given in facts.given.get(outer, {}).items() if given == {name}]
                init = self.script.classes[outer].method("__init__")
                if not fields or (init is not None and name in usage.stores(init.body)):
                    return made, depth
                values[name] = nodes.name(fields[0])
            made = nodes.substituted(made, values)
            owner = facts
        return made, len(maker.classes) - 1

    def makers(
        self, cls: str, keys: list[str], classes: tuple[str, ...], held: tuple[str, ...] = ()
    ) -> Iterator[_Maker]:
        """The places where a weight is made, by its name in torch."""
        maker = self.script.maker_of(cls, keys[0])
        facts, classes = self.script.classes[maker], classes if maker == cls else (*classes[:-1], maker)
        if "" in facts.children:  # a model without a class of its own
            yield from self.makers_in(facts.children[""], "self", keys, classes, held)
        elif keys[0] in facts.children:
            yield from self.makers_in(facts.children[keys[0]], f"self.{keys[0]}", keys[1:], classes, held)
        elif keys[0] in facts.parameters:
            yield _Maker(classes, f"self.{keys[0]}", held)

    def makers_in(
        self, node: Node, path: str, keys: list[str], classes: tuple[str, ...], held: tuple[str, ...]
    ) -> Iterator[_Maker]:
        if isinstance(node, ClassNode):
            yield from self.makers(node.cls, keys, (*classes, node.cls), (*held, path))
        elif isinstance(node, LayerNode):
            inside = any_copy(".".join([*keys[:-1], asked_name(keys[-1])]))
            yield _Maker(classes, f"{path}.{inside}", held)
        elif isinstance(node, ChoiceNode) or (isinstance(node, ListNode) and node.dynamic):
            inner = keys if isinstance(node, ChoiceNode) else keys[1:]
            for child in node.children:
                yield from self.makers_in(child, path, inner, classes, held)
        elif keys:
            own = node.keys.index(keys[0]) if keys[0] in node.keys else int(keys[0]) if keys[0].isdigit() else -1
            torch = [child for child in node.children if not isinstance(child, LayerNode) or child.torch]
            if 0 <= own < len(torch):
                yield from self.makers_in(torch[own], f"{path}.{keys[0]}", keys[1:], classes, held)


def _same(one: _Maker, other: _Maker) -> bool:
    return (one.classes[-1], one.path) == (other.classes[-1], other.path)
