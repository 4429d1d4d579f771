"""Names of weights that a script sorts into sets: `for mn, m in self.named_modules(): ... decay.add(name)`, and weights
that it sorts into lists: `for name, p in model.named_parameters(): ... decay.append(p)`.

Which names come into which set depends on the names, the axes and the layers of the weights alone. The statements are
followed here; the sets then stand for parameters, and what only filled or compared them is gone.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import ChoiceNode, ClassNode, LayerNode, ListNode, Node
from migrate.known.kinds import UNKNOWN, Model, ModuleClass, Place
from migrate.known.script import Script
from migrate.known.weight_kinds import Names, Selection
from migrate.lowering.weights.leaves import leaves_of
from migrate.lowering.weights.selections import Selections, asks_for_gradients, names_of_pair
from migrate.manifest import Leaf
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement


@dataclass(frozen=True)
class PartOfModel:
    """A module inside a model: its name in torch, and its class there."""

    path: str
    cls: str


_FROZEN = "what is frozen"  # among what is bound to names, with the model under ""


class SortedNames(Selections):
    """Loops and statements about sets of names."""

    def sorting_loop(self, node: cst.For) -> list[Statement] | None:
        """`for mn, m in model.named_modules(): ...` that fills sets; None for other loops."""
        model = self.walked_model(node.iter, ("named_modules", "named_parameters"))
        filled = {
            call.func.value.value
            for call in usage.calls(node.body)
            if isinstance(call.func, cst.Attribute)
            and call.func.attr.value in ("add", "append")
            and isinstance(call.func.value, cst.Name)
        }
        if model is None or not filled or any(name not in self.env.definitions for name in filled):
            return None
        sets: dict[str, set[object]] = {name: self.sorted_into(name) for name in filled}
        sorting, shown = _apart(node)
        frozen = functools.cache(lambda: self.frozen(self.root(model)))
        self.follow([sorting], {"": model, _FROZEN: frozen}, sets)
        unless = asks_for_gradients(node.body) and bool(self.perhaps_frozen(self.root(model)))
        self.script.frozen.switching |= {self.root(model)} if unless else set()
        weights = any(isinstance(one, Leaf) for found in sets.values() for one in found)
        for name, found in sets.items():
            self.env.kinds[name] = self.selected(model, found, unless) if weights else _names(model, found)
            self.script.followed.add((self.scope, name))
        for name in usage.loads(node.body):
            if self.classes_named(self.env.definitions.get(name)):
                self.script.followed.add((self.scope, name))
        if shown is None:
            return []
        (shown,) = self.unit.unrolled.setdefault((node, ("shown",)), [shown])
        self.unit.stands_for(shown, node)
        return self.statement(shown)

    def sorted_into(self, name: str) -> set[object]:
        """What a set, or a list of weights, holds before such a loop."""
        kind = self.kind_of_name(name)
        if isinstance(kind, Selection):
            found = [(leaf, paths) for place, paths in kind.leaves for leaf in leaves_of(self.script, self.root(place))]
            return {leaf for leaf, paths in found if leaf.flax in paths}
        return set(kind.names) if isinstance(kind, Names) else set()

    def selected(self, model: Place, found: Collection[object], unless_frozen: bool) -> Selection:
        """A list of weights of a model."""
        paths = sorted(one.flax for one in found if isinstance(one, Leaf))
        if len(paths) < len(found):
            raise Unsupported("MIG302", "a list of weights and names of weights")
        whole = len(paths) == len(leaves_of(self.script, self.root(model)))
        return Selection(((self.root(model), tuple(paths)),), unless_frozen=unless_frozen, whole=whole)

    def walked_model(self, node: Expr, methods: Sequence[str]) -> Place | None:
        """The model whose parts or weights an expression runs through."""
        func = node.func if isinstance(node, cst.Call) else None
        if not isinstance(func, cst.Attribute) or func.attr.value not in methods:
            return None
        kind = self.kind_of(func.value)
        return kind.place if isinstance(kind, Model) else None

    # -- following ----------------------------------------------------------------------------------------------------

    def follow(self, body: Sequence[Statement], bound: dict[str, object], sets: Mapping[str, set[object]]) -> bool:
        """Runs statements for what they put into sets. Returns whether they have ended the turn of the loop."""
        for statement in body:
            ended = False
            if isinstance(statement, cst.For):
                self.follow_loop(statement, bound, sets)
            elif isinstance(statement, cst.If):
                if self.told(statement.test, bound):
                    ended = self.follow(suites.suite_of(statement.body.body), bound, sets)
                elif isinstance(statement.orelse, cst.If):
                    ended = self.follow([statement.orelse], bound, sets)
                elif statement.orelse is not None:
                    ended = self.follow(suites.suite_of(statement.orelse.body.body), bound, sets)
            elif isinstance(statement, cst.SimpleStatementLine):
                for small in statement.body:
                    if isinstance(small, cst.Continue):
                        return True
                    self.follow_small(small, bound, sets)
            else:
                raise Unsupported("MIG302", "which names of weights a loop sorts")
            if ended:
                return True
        return False

    def told(self, node: Expr, bound: Mapping[str, object]) -> object:
        """What an expression is in one turn of such a loop."""
        frozen: Any = bound[_FROZEN]
        return self.test_of_weight(node, bound, frozen())

    def follow_loop(self, node: cst.For, bound: dict[str, object], sets: Mapping[str, set[object]]) -> None:
        names = names_of_pair(node.target)
        func = node.iter.func if isinstance(node.iter, cst.Call) else None
        if names is None or len(names) != 2 or not isinstance(func, cst.Attribute):
            raise Unsupported("MIG302", f"which names `{nodes.code(node.iter)}` gives")
        model = bound[""]
        assert isinstance(model, Place)
        owner = bound.get(nodes.dotted(func.value) or "")
        prefix = f"{owner.path}." if isinstance(owner, PartOfModel) and owner.path else ""
        if func.attr.value == "named_modules" and not isinstance(owner, PartOfModel):
            found: list[tuple[str, object]] = [(part.path, part) for part in self.parts_of(model)]
        else:
            leaves = leaves_of(self.script, self.root(model))
            found = [(leaf.torch.removeprefix(prefix), leaf) for leaf in leaves if leaf.torch.startswith(prefix)]
        for name, value in found:
            self.follow(suites.suite_of(node.body.body), {**bound, names[0]: name, names[1]: value}, sets)

    def follow_small(
        self, small: cst.BaseSmallStatement, bound: dict[str, object], sets: Mapping[str, set[object]]
    ) -> None:
        if isinstance(small, cst.Pass):
            return
        if isinstance(small, cst.Assign) and isinstance(small.targets[0].target, cst.Name):
            bound[small.targets[0].target.value] = self.told(small.value, bound)
            return
        call = small.value if isinstance(small, cst.Expr) else None
        if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and len(call.args) == 1:
            added = self.told(call.args[0].value, bound)
            if call.func.attr.value in ("add", "append") and isinstance(added, str | Leaf):
                sets[nodes.code(call.func.value)].add(added)
                return
        raise Unsupported("MIG302", f"`{nodes.code(small)}` in a loop that sorts names of weights")

    def parts_of(self, model: Place) -> Iterator[PartOfModel]:
        """The modules of a model, itself first."""
        root = self.root(model)
        cls = self.script.places.get(root) or self.script.selves.get(root)
        if cls is None:
            raise Unsupported("MIG302", f"the modules of {model.name}, whose class is not known here")
        yield from _parts(self.script, ClassNode(cls), "", 0)

    # -- sets that are known ------------------------------------------------------------------------------------------

    def named_sets(self, node: Expr) -> object:
        """The value of an expression about such sets; `...` where it is about something else, or not known."""
        if not any(isinstance(self.kind_of_name(name), Names) for name in usage.loads(node)):
            return ...
        try:
            return self.test_of_weight(node, {}, frozenset())
        except Unsupported:
            return ...

    def one_of_sets(self, node: cst.ListComp | cst.GeneratorExp) -> Selection | None:
        """`[named[name] for name in sorted(decay)]`; None for other lists."""
        target, element = node.for_in.target, node.elt
        if not isinstance(target, cst.Name) or not isinstance(element, cst.Subscript) or node.for_in.ifs:
            return None
        owner = self.kind_of(element.value)
        names = self.named_sets(node.for_in.iter)
        if not isinstance(owner, Selection) or not owner.named or not isinstance(names, set):
            return None
        if nodes.code(element.slice[0].slice) != target.value or len(owner.leaves) != 1:
            return None
        ((place, leaves),) = owner.leaves
        chosen = [leaf for leaf in leaves_of(self.script, self.root(place)) if leaf.torch in names]
        return Selection(((place, tuple(sorted(leaf.flax for leaf in chosen if leaf.flax in leaves))),))

    def is_instance(self, value: object, classes: Expr) -> bool:
        """Whether a module is of one of some classes."""
        known = self.classes_named(classes)
        if not isinstance(value, PartOfModel) or not known:
            raise Unsupported("MIG302", f"whether a module is one of `{nodes.code(classes)}`")
        return value.cls in known

    def sorted_assignment(self, small: cst.Assign) -> list[Statement] | None:
        """A set that such a loop fills, or one made of those that it has filled; None for other assignments."""
        target = small.targets[0].target
        if self.all_followed(target, small.value):
            return []
        if len(small.targets) > 1 or not isinstance(target, cst.Name):
            return None
        empty = _is_empty(small.value)
        if (self.scope, target.value) in self.script.followed and (empty or self.classes_named(small.value)):
            self.env.kinds[target.value] = UNKNOWN
            self.env.definitions[target.value] = small.value
            return []
        found = self.named_sets(small.value)
        models = [kind.place for name in usage.loads(small.value) if isinstance(kind := self.kind_of_name(name), Names)]
        if not isinstance(found, set) or not models:
            return None
        self.env.kinds[target.value] = Names(models[0], tuple(sorted(found)))
        return []

    def all_followed(self, target: cst.BaseAssignTargetExpression, value: Expr) -> bool:
        """Whether a statement is `decay, others = [], []` of such sets or lists alone, which are known then."""
        if not isinstance(target, cst.Tuple) or not isinstance(value, cst.Tuple):
            return False
        names = [one.value if isinstance(one, cst.Name) else "" for one in nodes.elements(target)]
        made = nodes.elements(value)
        if len(names) != len(made) or not all(map(_is_empty, made)):
            return False
        if not all((self.scope, name) in self.script.followed for name in names):
            return False
        self.env.kinds |= dict.fromkeys(names, UNKNOWN)
        self.env.definitions |= dict(zip(names, made, strict=True))
        return True

    def classes_named(self, node: Expr | None) -> list[str]:
        """The classes in a tuple of them, by their names; empty where something else is in it."""
        if node is None:
            return []
        if isinstance(node, cst.Name) and node.value in self.env.definitions:
            return self.classes_named(self.env.definitions[node.value])
        parts = nodes.elements(node) if isinstance(node, cst.Tuple | cst.List) else [node]
        found: list[str] = []
        for part in parts:
            kind = self.kind_of(part)
            found.append(kind.cls if isinstance(kind, ModuleClass) else self.torch_name(part) or "")
        return found if all(found) else []


class _Without(cst.CSTTransformer):
    """A loop without those of its lines that print, or without the others that do one thing."""

    def __init__(self, printing: bool) -> None:
        self.printing = printing

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        call = suites.alone(original_node)
        value = call.value if isinstance(call, cst.Expr) else None
        name = nodes.dotted(value.func) if isinstance(value, cst.Call) else None
        goes = name == "print" if self.printing else name is not None and name.rpartition(".")[2] in ("add", "append")
        return cst.RemoveFromParent() if goes else updated_node


def _apart(node: cst.For) -> tuple[cst.For, cst.For | None]:
    """A loop that sorts, and the same one for what it prints as well; None where it prints nothing."""
    if all(nodes.dotted(call.func) != "print" for call in usage.calls(node.body)):
        return node, None
    sorting, shown = (cst.ensure_type(node.visit(_Without(printing)), cst.For) for printing in (True, False))
    return sorting, shown


def _is_empty(node: Expr) -> bool:
    return nodes.code(node) in ("set()", "[]", "list()")


def _names(model: Place, found: Iterable[object]) -> Names:
    return Names(model, tuple(sorted(one for one in found if isinstance(one, str))))


def _parts(script: Script, node: Node, path: str, depth: int) -> Iterator[PartOfModel]:
    if isinstance(node, LayerNode):
        yield PartOfModel(path, node.torch)
    elif isinstance(node, ChoiceNode):
        for child in node.children:
            yield from _parts(script, child, path, depth)
    elif isinstance(node, ListNode):
        yield PartOfModel(path, "torch.nn.ModuleList")
        for number, child in enumerate(node.children):
            numbered = node.dynamic and not node.keys
            key = f"{{{depth}}}" if numbered else node.keys[number] if node.keys else str(number)
            yield from _parts(script, child, f"{path}.{key}".lstrip("."), depth + numbered)
    elif node.cls in script.classes:
        yield PartOfModel(path, node.cls)
        for name, child in script.classes[node.cls].children.items():
            yield from _parts(script, child, f"{path}.{name}".lstrip("."), depth)
