"""Selections of parameters: those of several models, of parts of a model, or those that a test holds for.

A selection is the set of Flax leaves that it means, told from the weights that the module classes are known to have. It
is thus the same whether a script names a submodule, filters by the number of axes or by words in the names of weights.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import ListNode
from migrate.known.kinds import Items, Kind, Model, Place
from migrate.known.kinds import Leaf as OwnLeaf
from migrate.known.numbered_parts import from_the_beginning, part_at
from migrate.known.script import Script, followed
from migrate.known.states import PARAMS, State
from migrate.known.weight_kinds import Names, Parameters, Selection
from migrate.layers.moves import Permute
from migrate.lowering.initial.initializers_of_flax import without_data
from migrate.lowering.optimizers.labels import listing_of
from migrate.lowering.weights.frozen_so_far import FrozenSoFar
from migrate.lowering.weights.frozen_tests import ALWAYS, trained_list
from migrate.lowering.weights.leaves import by_number, leaves_of
from migrate.manifest import Leaf
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every
from migrate.weights import weights_of

_NUMBER = re.compile(r"\{\d+\}")  # of a module in a list whose length is not known
_LISTING = ("list", "tuple", "iter", "chain", "itertools.chain", "filter")


class Selections(FrozenSoFar):
    """What of its models an expression means."""

    def selection(self, node: Expr) -> Selection | None:
        """The parameters that an expression stands for; None where it stands for something else."""
        if isinstance(node, cst.Name):
            found = selection_of(self.kind_of_name(node.value), self.script)
            return None if found is not None and found.has_tensors else found
        if isinstance(node, cst.List | cst.Tuple) and node.elements:
            parts = [
                self.selection(e.value) if isinstance(e, cst.StarredElement) else self.one_weight(e.value)
                for e in node.elements
            ]
            return _joined(parts)
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
            return _joined([self.selection(node.left), self.selection(node.right)])
        if isinstance(node, cst.ListComp | cst.GeneratorExp | cst.DictComp):
            sorted_out = None if isinstance(node, cst.DictComp) else self.one_of_sets(node)
            return sorted_out or self.filtered_parameters(node)
        if isinstance(node, cst.Call):
            return self.called_selection(node)
        return None

    def called_selection(self, node: cst.Call) -> Selection | None:
        """`model.parameters()`, `model.head.parameters()`, `itertools.chain(...)`, `filter(...)`."""
        if nodes.dotted(node.func) in _LISTING and node.args:
            values = [arg.value for arg in node.args]
            if nodes.dotted(node.func) != "filter":
                return _joined([self.selection(value) for value in values])
            test = values[0]
            if not isinstance(test, cst.Lambda) or len(values) != 2 or len(test.params.params) != 1:
                return None
            whole = self.selection(values[1])
            return whole and self.those(whole, test.body, [test.params.params[0].name.value])
        if not isinstance(node.func, cst.Attribute):
            return None
        if node.func.attr.value in ("items", "values") and isinstance(node.func.value, cst.Name):
            kind = self.kind_of(node.func.value)
            return kind if isinstance(kind, Selection) and kind.named else None
        if node.func.attr.value not in ("parameters", "named_parameters"):
            return None
        return self.part_of_model(node.func.value)

    def with_tensors(self, node: Expr) -> Selection | None:
        """The parameters that a list stands for, tensors made with requires_grad=True among them; None where it stands
        for something else."""
        kind = self.kind_of(node)
        if isinstance(kind, Selection) and kind.has_tensors:
            return kind
        leaves = self.tensors_in(node)
        if leaves:
            return _of_tensors(leaves)
        match node:
            case cst.List() | cst.Tuple():
                each = [
                    self.with_tensors(one.value) if isinstance(one, cst.StarredElement) else self.one_of_them(one.value)
                    for one in node.elements
                ]
                return _joined(each) if each else None
            case cst.BinaryOperation(operator=cst.Add()):
                return _joined([self.with_tensors(node.left), self.with_tensors(node.right)])
            case cst.Call(func=func) if nodes.dotted(func) in _LISTING and node.args and not _filters(node):
                return _joined([self.with_tensors(arg.value) for arg in node.args])
        return self.selection(node)

    def one_of_them(self, node: Expr) -> Selection | None:
        """One weight of a model, or one tensor made with requires_grad=True."""
        kind = self.kind_of(node)
        return _of_tensors([kind]) if isinstance(kind, OwnLeaf) else self.one_weight(node)

    def weights_at(self, place: Place) -> list[Leaf]:
        """The parameters of a model; of a tensor itself."""
        root = self.root(place)
        return [Leaf("", "")] if root in self.script.leaves else leaves_of(self.script, root)

    def tensors_in(self, node: Expr) -> list[OwnLeaf]:
        """The tensors made with requires_grad=True in a list; empty where it holds something else."""
        kind = self.kind_of(node)
        if isinstance(node, cst.List | cst.Tuple):
            kind = Items(tuple(self.kind_of(element.value) for element in node.elements))
        items = kind.items or () if isinstance(kind, Items) else ()
        found = [item for item in items if isinstance(item, OwnLeaf)]
        return found if len(found) == len(items) else []

    def whole_models(self, selection: Selection | None) -> tuple[Place, ...] | None:
        """The models of a selection that leaves out nothing of them."""
        if selection is None:
            return None
        for place, leaves in selection.leaves:
            if len(leaves) != len(leaves_of(self.script, self.root(place))):
                return None
        return tuple(place for place, _ in selection.leaves)

    def part_of_model(self, node: Expr) -> Selection | None:
        """The weights of a model, or of a part of one."""
        found = self.model_and_keys(node)
        if found is None:
            return None
        model, kind, keys = found
        if kind.place is None:
            return None
        keys = self.told_apart_by_number(kind, [key for key in keys if key != "module"])
        counted = from_the_beginning(self.script, kind.cls, keys)
        if counted is None:
            return None
        keys, leaves = counted, leaves_of(self.script, self.root(kind.place))
        path = ".".join(keys)
        chosen = _sorted(leaf.flax for leaf in leaves if not path or leaf.torch.startswith(f"{path}."))
        if path and not chosen:
            raise Unsupported("MIG302", f"{nodes.code(model)}.{path} is not known to have weights")
        return Selection(((kind.place, chosen),), ".".join(keys) or kind.place.short)

    def told_apart_by_number(self, kind: Model, keys: list[str]) -> list[str]:
        """The way to a part of a model, with a layer of a list whose length the script tells by its number there. From
        the next round on its weights are known as leaves of their own."""
        place = self.root(kind.place) if kind.place is not None else None
        number = next((i for i, key in enumerate(keys) if key.lstrip("-").isdigit()), 0)
        row = ".".join(keys[:number])
        if place is None or not number or not _is_told(self.script, kind.cls, keys[:number]):
            return keys
        apart = self.script.found_apart.get(place, frozenset())
        if any(one == row and (other < 0) != keys[number].startswith("-") for one, other in apart):
            raise Unsupported("MIG302", f"layers of {row} by their numbers from its beginning and from its end")
        self.script.found_apart[place] = apart | {(row, int(keys[number]))}
        return [*by_number(row, int(keys[number])).rstrip(".").split("."), *keys[number + 1 :]]

    def is_row_of_any_length(self, node: Expr) -> bool:
        """Whether an expression is a list of layers, alike and with weights, whose length a setting tells."""
        found = self.model_and_keys(node)
        return found is not None and bool(found[2]) and _is_told(self.script, found[1].cls, found[2])

    def model_and_keys(self, node: Expr) -> tuple[Expr, Model, list[str]] | None:
        """The model that `model.blocks[0].head` starts with, what it is, and the names and literal indices that follow
        it; None where it starts with none."""
        keys: list[str] = []
        while True:
            kind = self.kind_of(node)
            if isinstance(kind, Model):
                return node, kind, keys
            if isinstance(node, cst.Attribute):
                keys.insert(0, node.attr.value)
            elif isinstance(node, cst.Subscript) and len(node.slice) == 1:
                key = nodes.looked_up(node)
                if not isinstance(key, int | str):
                    return None
                keys.insert(0, str(key))
            else:
                return None
            node = node.value

    def one_weight(self, node: Expr) -> Selection | None:
        """One weight of a model: `model.head.weight`."""
        if not isinstance(node, cst.Attribute) or isinstance(self.kind_of(node), Model):
            return None
        held = self.model_and_keys(node.value)
        known = leaves_of(self.script, self.root(held[1].place)) if held is not None and held[1].place else ()
        names = {leaf.torch.rpartition(".")[2] for leaf in known}
        owner = self.part_of_model(node.value) if node.attr.value in names else None
        if owner is None:
            return None
        (place, found) = owner.leaves[0]
        leaves = leaves_of(self.script, self.root(place))
        chosen = {
            leaf.flax for leaf in leaves if leaf.flax in found and f".{leaf.torch}".endswith(f".{node.attr.value}")
        }
        depth = min((leaf.count("/") for leaf in chosen), default=0)
        chosen = {leaf for leaf in chosen if leaf.count("/") == depth}
        return Selection(((place, _sorted(chosen)),), node.attr.value) if len(chosen) == 1 else None

    def leaf_of(self, node: Expr) -> tuple[Place, Leaf] | None:
        """The model, and the one parameter of it that `model.head.weight` is, or its `.data`; None of anything else."""
        chosen = self.one_weight(without_data(node))
        if chosen is None:
            return None
        ((place, paths),) = chosen.leaves
        leaves = [leaf for leaf in leaves_of(self.script, self.root(place)) if leaf.flax in paths]
        return (place, leaves[0]) if len(leaves) == 1 else None

    def filtered_parameters(self, node: cst.ListComp | cst.GeneratorExp | cst.DictComp) -> Selection | None:
        """`[p for n, p in model.named_parameters() if p.dim() >= 2]`, `{n: p for n, p in model.named_parameters()}`."""
        each = node.for_in
        names = names_of_pair(each.target)
        whole = self.selection(each.iter) if each.inner_for_in is None and names is not None else None
        kept = [node.key, node.value] if isinstance(node, cst.DictComp) else [node.elt]
        if whole is None or names is None or [nodes.dotted(part) for part in kept] != names[-len(kept) :]:
            return None
        for condition in each.ifs:
            whole = self.those(whole, condition.test, names)
        return replace(whole, named=isinstance(node, cst.DictComp))

    def those(self, whole: Selection, test: Expr, names: list[str]) -> Selection:
        """The parameters of a selection for which a test holds. `names`: what it calls a parameter, or the name of
        one and the parameter."""
        found: list[tuple[Place, tuple[str, ...]]] = []
        unless = whole.unless_frozen
        for place, chosen in whole.leaves:
            root = self.root(place)
            frozen, perhaps = self.frozen(root), self.perhaps_frozen(root) & set(chosen)
            if perhaps and asks_for_gradients(test):
                self.script.frozen.switching.add(root)
                unless = True
            kept = set[str]()
            for leaf in leaves_of(self.script, root):
                bound: dict[str, object] = {names[0]: leaf.torch, names[-1]: leaf}
                if leaf.flax in chosen and self.test_of_weight(test, bound, frozen):
                    kept.add(leaf.flax)
            found.append((place, _sorted(kept)))
        by_rank = whole.by_rank or any(word in nodes.code(test) for word in ("dim", "shape", "size"))
        return Selection(tuple(found), "", by_rank, unless_frozen=unless)

    # -- as values ----------------------------------------------------------------------------------------------------

    def listed(self, chosen: Selection) -> Value:
        """Some of the weights of a model as a list."""
        if chosen.named or len(chosen.leaves) != 1:
            raise Unsupported("MIG302", "parameters of several models, or a dict of them, as a value")
        ((place, found),) = chosen.leaves
        leaves = leaves_of(self.script, self.root(place))
        params = nodes.code(self.read(State(PARAMS, place)))
        if chosen.unless_frozen:
            when = {leaf: condition for leaf, condition in self.frozen_here(place).items() if leaf in found}
            when |= {leaf.flax: ALWAYS for leaf in leaves if leaf.flax not in found}
            return Value(cst.parse_expression(trained_list(leaves, when, params)), chosen)
        return Value(cst.parse_expression(listing_of(leaves, set(found), chosen.by_rank, params)), chosen)

    def named_list(
        self, line: cst.SimpleStatementLine, small: cst.Assign, target: cst.Name, chosen: Selection
    ) -> list[Statement]:
        """`decayed = [p for p in ... if p.dim() >= 2]`: a list where the script does more with it than train it."""
        if (self.scope, target.value) not in self.script.listed:
            return []
        return [line.with_changes(body=[small.with_changes(value=self.listed(chosen).node)])]

    # -- tests --------------------------------------------------------------------------------------------------------

    def test_of_weight(self, node: Expr, bound: Mapping[str, object], frozen: frozenset[str]) -> object:
        """The value of a test of one weight and of its name in torch; raises Unsupported."""

        def value(part: Expr) -> object:
            return self.test_of_weight(part, bound, frozen)

        if isinstance(node, cst.Name) and node.value in bound:
            return bound[node.value]
        if isinstance(node, cst.Name) and isinstance(self.kind_of(node), Names | Selection):
            return self.names_of(self.kind_of(node))
        if isinstance(node, cst.Name) and node.value in self.env.definitions:
            return value(self.env.definitions[node.value])
        known = nodes.literal(node)
        if known is not ...:
            return known
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            return not value(node.expression)
        if isinstance(node, cst.BooleanOperation):
            left = value(node.left)
            return (left and value(node.right)) if isinstance(node.operator, cst.And) else left or value(node.right)
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            compare = _COMPARISONS.get(type(node.comparisons[0].operator))
            if compare is not None:
                sides = value(node.left), value(node.comparisons[0].comparator)
                self.refuse_numbers(node, sides)
                return compare(*sides)
        if isinstance(node, cst.IfExp):
            return value(node.body) if value(node.test) else value(node.orelse)
        if isinstance(node, cst.Tuple):
            return tuple(value(part) for part in nodes.elements(node))
        if isinstance(node, cst.BinaryOperation):
            operate = _OPERATIONS.get(type(node.operator))
            sides = (value(node.left), value(node.right))
            if operate is not None and all(isinstance(side, str | tuple | set) for side in sides):
                return operate(*sides)
        if isinstance(node, cst.Subscript) and isinstance(node.slice[0].slice, cst.Index) and len(node.slice) == 1:
            owner, index = value(node.value), value(node.slice[0].slice.value)
            words = owner if isinstance(owner, list) else []  # of a name; of a shape the rank alone is told
            if isinstance(index, int) and -len(words) <= index < len(words):
                return words[index]
        if isinstance(node, cst.Attribute):
            owner = value(node.value)
            if isinstance(owner, Leaf) and node.attr.value == "requires_grad":
                return owner.flax not in frozen
            if isinstance(owner, Leaf) and node.attr.value in ("ndim", "shape"):
                return _rank(owner) if node.attr.value == "ndim" else (0,) * _rank(owner)
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            owner, method = value(node.func.value), node.func.attr.value
            if isinstance(owner, Leaf) and method in ("dim", "size", "ndimension") and not node.args:
                return _rank(owner) if method != "size" else (0,) * _rank(owner)
            if isinstance(owner, str) and method in ("startswith", "endswith", "split") and len(node.args) == 1:
                argument = value(node.args[0].value)
                self.refuse_numbers(node, (owner, argument))
                return getattr(owner, method)(argument)
            if isinstance(owner, set) and method == "keys":
                return owner
        if isinstance(node, cst.Call) and nodes.dotted(node.func) == "isinstance" and len(node.args) == 2:
            return self.is_instance(value(node.args[0].value), node.args[1].value)
        if isinstance(node, cst.Call) and nodes.dotted(node.func) in ("set", "list", "sorted") and len(node.args) == 1:
            found = value(node.args[0].value)
            return found if isinstance(found, set) else self.undecided(node)
        if isinstance(node, cst.Call) and nodes.dotted(node.func) in ("any", "all", "len") and len(node.args) == 1:
            argument = node.args[0].value
            if nodes.dotted(node.func) == "len":
                found = value(argument)
                return len(found) if isinstance(found, tuple | list | str | set) else self.undecided(node)
            if isinstance(argument, cst.GeneratorExp | cst.ListComp) and isinstance(argument.for_in.target, cst.Name):
                words, name = value(argument.for_in.iter), argument.for_in.target.value
                if isinstance(words, list | tuple) and not argument.for_in.ifs and not argument.for_in.inner_for_in:
                    each = [self.test_of_weight(argument.elt, {**bound, name: word}, frozen) for word in words]
                    return any(each) if nodes.dotted(node.func) == "any" else all(each)
        return self.undecided(node)

    def names_of(self, kind: Kind) -> set[str]:
        """The names of weights in a set of them, or in a dict by name."""
        if isinstance(kind, Names):
            return set(kind.names)
        leaves = kind.leaves if isinstance(kind, Selection) and kind.named else ()
        known = [(leaf, found) for place, found in leaves for leaf in leaves_of(self.script, self.root(place))]
        return {leaf.torch for leaf, found in known if leaf.flax in found}

    def refuse_numbers(self, node: Expr, sides: Sequence[object]) -> None:
        """Declines a test that holds for some modules of a list alone, where their number is not known."""
        texts = [text for side in sides for text in (side if isinstance(side, tuple | list | set) else [side])]
        strings = [text for text in texts if isinstance(text, str)]
        for name in filter(_NUMBER.search, strings):
            for text in (text for text in strings if not _NUMBER.search(text)):
                numbers = {"0", "1", *re.findall(r"\d+", text)}
                samples = [_NUMBER.sub(number, name) for number in sorted(numbers)]
                if len({text in sample or sample in text for sample in samples}) > 1:
                    self.undecided(node)

    @staticmethod
    def undecided(node: Expr) -> object:
        """A test that cannot be decided here."""
        raise Unsupported("MIG302", f"which parameters `{nodes.code(node)}` holds for")


_OPERATIONS = {
    cst.Modulo: lambda a, b: a % b,
    cst.Add: lambda a, b: a + b,
    cst.BitAnd: lambda a, b: a & b,
    cst.BitOr: lambda a, b: a | b,
    cst.Subtract: lambda a, b: a - b,
}
_COMPARISONS = {
    cst.In: lambda a, b: a in b,
    cst.NotIn: lambda a, b: a not in b,
    cst.Equal: lambda a, b: a == b,
    cst.NotEqual: lambda a, b: a != b,
    cst.GreaterThan: lambda a, b: a > b,
    cst.GreaterThanEqual: lambda a, b: a >= b,
    cst.LessThan: lambda a, b: a < b,
    cst.LessThanEqual: lambda a, b: a <= b,
}


def filled_on(statement: cst.CSTNode) -> Unsupported:
    """What is raised where a list of parameters is filled further than is followed: in a branch, or in a loop."""
    return Unsupported("MIG302", f"{nodes.code(statement)}: a list of parameters that is filled bit by bit")


def asks_for_gradients(test: cst.CSTNode) -> bool:
    """Whether something goes by whether weights are frozen."""
    return any(one.attr.value == "requires_grad" for one in every(test, cst.Attribute))


def _of_tensors(leaves: Sequence[OwnLeaf]) -> Selection:
    return Selection(tuple((leaf.place, ("",)) for leaf in leaves), leaves[0].place.short)


def _filters(call: cst.Call) -> bool:
    return nodes.dotted(call.func) == "filter"


def names_of_pair(target: cst.CSTNode) -> list[str] | None:
    """The names of a target that takes a parameter, or its name and a parameter; None for others."""
    found = [e.value for e in target.elements] if isinstance(target, cst.Tuple) else [target]
    names = [name.value for name in found if isinstance(name, cst.Name)]
    return names if len(names) == len(found) <= 2 else None


def without(whole: Selection, some: Selection) -> Selection:
    """The parameters of a selection that are not in another one."""
    gone = dict(some.leaves)
    left = ((place, _sorted(set(leaves) - set(gone.get(place, ())))) for place, leaves in whole.leaves)
    return Selection(tuple(left), "", whole.by_rank)


def selection_of(kind: object, script: Script) -> Selection | None:
    """A kind as a selection."""
    if isinstance(kind, Selection):
        return kind
    if isinstance(kind, Parameters):
        found = []
        for place in kind.models:
            leaves = leaves_of(script, followed(script.parameters_of, place))
            found.append((place, _sorted(leaf.flax for leaf in leaves)))
        return Selection(tuple(found))
    return None


def _joined(parts: list[Selection | None]) -> Selection | None:
    """Several selections as one; None where one of them is none."""
    found: dict[Place, tuple[str, ...]] = {}
    for part in parts:
        if part is None:
            return None
        for place, leaves in part.leaves:
            found[place] = _sorted({*found.get(place, ()), *leaves})
    return Selection(tuple(found.items()))


def _sorted(leaves: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(leaves))


def _rank(leaf: Leaf) -> int:
    """The number of axes that a weight has in torch."""
    if leaf.torch_shape is not None:
        return len(leaf.torch_shape)
    if leaf.shape is None or not all(isinstance(move, Permute) for move in leaf.moves):
        raise Unsupported("MIG302", f"the number of axes of {leaf.torch} is not known")
    return len(leaf.shape)


def _is_told(script: Script, cls: str, path: Sequence[str]) -> bool:
    """Whether a path leads to a list of layers, alike and with weights, whose length a setting tells."""
    row = part_at(script, cls, path)
    alike = isinstance(row, ListNode) and row.dynamic and not row.named and not row.keys and len({*row.children}) == 1
    return alike and any(leaf.torch.startswith(f"{'.'.join(path)}.{{0}}.") for leaf in weights_of(script, cls))
