"""Reading initialising functions: what one does to a module, worked out without running it."""

from __future__ import annotations

import operator as orders
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import ClassNode, LayerNode
from migrate.known.facts import ClassFacts
from migrate.known.kinds import Items, ModuleClass
from migrate.known.qualified import spelled
from migrate.layers.table import TABLE
from migrate.lowering.expressions.arguments import Arguments
from migrate.lowering.initial.initializers_of_flax import filling, fills, in_order_of, initializer_of
from migrate.lowering.initial.sizes_of_layers import by_shape
from migrate.lowering.weights.selections import names_of_pair
from migrate.rules.rule import signature
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_NO_ATTRIBUTES = {"device", "dtype"}  # arguments of layers that they do not keep
_ROWS = ("_l0", "_l1", "_l0_reverse", "_l1_reverse")  # of the weights of a recurrent network, those that may be
IN_ANY_CLASS = {"nn", "jnp", "jax", "key", "shape", "dtype"}  # what an initialiser may name in any class


def initializers_of(
    scope: Arguments,
    function: cst.FunctionDef,
    layer: str,
    given: Mapping[str, Expr] | None = None,
    single: Single | None = None,
) -> dict[str, Expr]:
    """The initialisers that a function gives a layer of the torch class `layer`: torch weight -> Flax initialiser.
    `given`: what its other parameters are. `single`: which layer it is, where it is one that is told apart.

    Raises Unsupported where the function does something that was not understood to a layer of that class.
    """
    walk = _OfLayer(scope, _module(function), layer, single or Single())
    walk.values |= {name: nodes.parenthesized(value) for name, value in (given or {}).items()}
    return walk.block(suites.suite_of(function.body.body))


def initializers_in(scope: Arguments, function: cst.FunctionDef, facts: ClassFacts) -> dict[str, Expr]:
    """The initialisers that a function gives weights of a user's class by name, as `if isinstance(m, Block):
    nn.init.zeros_(m.norm.weight)` does: path ("self.norm.weight") -> Flax initialiser.

    Raises Unsupported where the function does something that was not understood to a module of that class.
    """
    return _OfClass(scope, _module(function), facts).block(suites.suite_of(function.body.body))


def taken_by(scope: Arguments, body: Sequence[Statement], module: str, node: LayerNode | ClassNode) -> list[Statement]:
    """What is left of a block for one module, which it calls `module`: one side of each branch that asks for it."""
    if isinstance(node, ClassNode):
        return _OfClass(scope, module, scope.script.classes[node.cls]).taken(body)
    return _OfLayer(scope, module, node.torch, Single()).taken(body)


@dataclass(frozen=True)
class Single:
    """A layer that is told apart from others of its class: how a constructor calls it, and what is noted on it."""

    path: str = ""
    marks: Mapping[str, Expr] = field(default_factory=dict)


def told_apart(function: cst.FunctionDef) -> set[str]:
    """How an initialising function calls the modules that it tells apart: `m is final_conv`."""
    module = _module(function)
    tests = [one for one in every(function.body, cst.Comparison) if nodes.dotted(one.left) == module]
    sides = [one.comparisons[0] for one in tests]
    named = [nodes.dotted(side.comparator) for side in sides if isinstance(side.operator, cst.Is | cst.IsNot)]
    return {name for name in named if name is not None} - {"None"}


def _module(function: cst.FunctionDef) -> str:
    """The parameter for the module."""
    params = [p.name.value for p in function.params.params if p.name.value != "self"]
    if not params:
        raise Unsupported("MIG204", f"{function.name.value} takes no module")
    return params[0]


class _Walk:
    """A walk through an initialising function as if it were called on one module.

    module: the parameter that holds it. name: its class as it calls itself. weights: those that it has itself.
    """

    def __init__(self, scope: Arguments, module: str, name: str, weights: Set[str]) -> None:
        self.scope, self.module, self.name, self.weights = scope, module, name, weights
        self.types = {f"type({module})", f"{module}.__class__"}  # what the class of the module is written as
        # what it can be asked for by text: the name of that, in a loop over its weights the names of these
        self.texts = {f"{written}.__name__": name for written in self.types}
        self.values: dict[str, Expr] = {}  # what its variables stand for

    @property
    def concerned(self) -> bool:
        """Whether anything that is done to the module matters."""
        raise NotImplementedError

    def is_a(self, option: Expr, test: Expr) -> bool:
        """Whether the module is of a class, which a test names."""
        raise NotImplementedError

    def is_exactly(self, option: Expr, test: Expr) -> bool:
        """Whether the class of the module is the one that a test names, and none that inherits from it."""
        raise NotImplementedError

    def filled(self, weight: str, call: cst.Call, made: Expr) -> dict[str, Expr]:
        """What giving the weight at a path of the module an initialiser means."""
        raise NotImplementedError

    def block(self, body: Sequence[cst.CSTNode]) -> dict[str, Expr]:
        """What a block gives the module's weights: name -> initialiser."""
        found: dict[str, Expr] = {}
        for statement in body:
            if isinstance(statement, cst.If):
                found |= self.branch(statement)
            elif isinstance(statement, cst.SimpleStatementLine):
                for small in statement.body:
                    found |= self.small(small)
            elif isinstance(statement, cst.For) and _goes_through_weights(statement, self.module):
                found |= self.loop(statement)
            elif isinstance(statement, cst.Try) and _goes_on(statement):
                found |= self.tried(statement)
            elif self.concerned:
                raise Unsupported("MIG204", f"{type(statement).__name__} in a function given to apply")
        return found

    def loop(self, node: cst.For) -> dict[str, Expr]:
        """What `for name, p in m.named_parameters():` gives each weight of the module."""
        told = f"`for {nodes.code(node.target)} in {nodes.code(node.iter)}` in a function given to apply"
        names, listed = names_of_pair(node.target), self.listed_weights()
        if names is None or listed is None:
            if self.concerned:
                raise Unsupported("MIG204", told)
            return {}
        found: dict[str, Expr] = {}
        for weight, texts in listed.items():
            standing = {names[-1]: nodes.expression(f"{self.module}.{weight}")}
            body = [nodes.substituted(one, standing) for one in suites.suite_of(node.body.body)]
            turns = [self.turn(body, names[0], text) for text in texts]
            if any(_written(one) != _written(turns[0]) for one in turns):
                raise Unsupported("MIG204", told)  # which layer or direction it is, it goes by as well
            found |= turns[0]
        return found

    def tried(self, node: cst.Try) -> dict[str, Expr]:
        """What `try:` gives the module's weights; what it prints of those that are missing is not."""
        body = suites.suite_of(node.body.body)
        there = self.until_missing(body)
        said = suites.suite_of(node.handlers[0].body.body)[0]
        if len(there) < len(body) and suites.call_alone(said) is not None:
            self.scope.unit.report(Unsupported("MIG518", nodes.code(said).strip()), said)
        return self.block(there)

    def until_missing(self, body: Sequence[Statement]) -> list[Statement]:
        """The statements ahead of the first one that asks the module for a weight that it does not have, which ends
        them with an AttributeError: `m.bias.data.fill_(0)` of a layer without one."""
        for number, statement in enumerate(body):
            asked = {path.split(".")[1] for path in usage.paths(statement) if path.startswith(f"{self.module}.")}
            if any(not self.has(weight) for weight in asked & {"weight", "bias"}):
                return list(body[:number])
        return list(body)

    def turn(self, body: Sequence[Statement], name: str, text: str) -> dict[str, Expr]:
        """What one turn of such a loop gives, in which a variable is the name of a weight."""
        around, self.texts = self.texts, {**self.texts, name: text}
        found = self.block(body)
        self.texts = around
        return found

    def listed_weights(self) -> dict[str, list[str]] | None:
        """What `named_parameters()` gives of the module: the weights, each with the names that it may have; None where
        that is not known."""
        return None

    def taken(self, body: Sequence[Statement]) -> list[Statement]:
        """The statements of a block that the module comes by, those of branches in their place."""
        made: list[Statement] = []
        for statement in body:
            if isinstance(statement, cst.If):
                made += self.taken(suites.sides(statement)[0 if self.test(statement.test) else 1])
            else:
                made.append(statement)
        return made

    def branch(self, node: cst.If) -> dict[str, Expr]:
        """The branch that the module takes."""
        if self.test(node.test):
            return self.block(suites.suite_of(node.body.body))
        if isinstance(node.orelse, cst.If):
            return self.branch(node.orelse)
        return self.block(suites.suite_of(node.orelse.body.body)) if node.orelse is not None else {}

    def test(self, node: Expr) -> bool:
        """A condition on the module."""
        if isinstance(node, cst.BooleanOperation):
            left = self.test(node.left)  # `hasattr(m, "weight") and m.weight.dim() > 1` asks no more of others
            return self.test(node.right) if left == isinstance(node.operator, cst.And) else left
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            return not self.test(node.expression)
        if isinstance(node, cst.Call):
            name = nodes.dotted(node.func)
            if name == "isinstance":
                classes = node.args[1].value
                options = [e.value for e in classes.elements] if isinstance(classes, cst.Tuple) else [classes]
                return any(self.is_a(option, node) for option in options)
            if name == "hasattr" and nodes.dotted(node.args[0].value) == self.module:
                return self.has_attribute(str(nodes.literal(node.args[1].value)), node)
            text = self.texts.get(nodes.code(node.func.value)) if isinstance(node.func, cst.Attribute) else None
            if text is not None and isinstance(node.func, cst.Attribute) and len(node.args) == 1:
                part, method = nodes.literal(node.args[0].value), node.func.attr.value
                if isinstance(part, str) and method in ("startswith", "endswith"):
                    return text.startswith(part) if method == "startswith" else text.endswith(part)
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            target = node.comparisons[0]
            path = nodes.dotted(node.left) or ""
            own = path.startswith(f"{self.module}.")
            if own and isinstance(target.operator, cst.Is | cst.IsNot) and nodes.is_literal(target.comparator, None):
                return self.has(path.removeprefix(f"{self.module}.")) == isinstance(target.operator, cst.IsNot)
            if isinstance(target.operator, cst.Is | cst.IsNot) and path == self.module:
                return self.is_one(target.comparator, node) == isinstance(target.operator, cst.Is)
            rank = self.rank(_asked_for_axes(node.left, self.module))
            if rank is not None and type(target.operator) in _ORDERS:
                number = nodes.literal(target.comparator)
                if type(number) is int:
                    return bool(_ORDERS[type(target.operator)](rank, number))
            told = self.compared(node.left, target.operator, target.comparator, node)
            if told is not None:
                return told
            if isinstance(target.operator, cst.NotEqual) and isinstance(node.left, cst.Call):
                found = self.find(node.left)
                if found is not None and nodes.is_literal(target.comparator, -1):
                    return found
        if not self.concerned:
            return False
        raise Unsupported("MIG204", f"`{nodes.code(node)}` in a function given to apply")

    def compared(self, left: Expr, operator: cst.BaseCompOp, right: Expr, test: Expr) -> bool | None:
        """`type(m) == nn.Linear`, `name in ("Linear", "Conv2d")`, `"Conv" in name`; None for other comparisons."""
        negative = isinstance(operator, cst.NotEqual | cst.IsNot | cst.NotIn)
        among = isinstance(operator, cst.In | cst.NotIn)
        part = nodes.literal(left)
        if among and isinstance(part, str) and nodes.code(right) in self.texts:
            return (part in self.texts[nodes.code(right)]) != negative
        if not among and not isinstance(operator, cst.Equal | cst.NotEqual | cst.Is | cst.IsNot):
            return None
        options = nodes.elements(right) if among and isinstance(right, cst.Tuple | cst.List) else [right]
        if nodes.code(left) in self.types:
            return any(self.is_exactly(option, test) for option in options) != negative
        texts = [nodes.literal(option) for option in options]
        if nodes.code(left) in self.texts and all(isinstance(text, str) for text in texts):
            return (self.texts[nodes.code(left)] in texts) != negative
        return None

    def has(self, path: str) -> bool:
        """Whether the module has a weight at a path."""
        return path in self.weights

    def rank(self, weight: str) -> int | None:
        """How many axes a weight of the module has; None where that is not known."""
        return None

    def has_attribute(self, name: str, test: Expr) -> bool:
        """Whether the module has an attribute, which a test asks for."""
        raise NotImplementedError

    def is_one(self, other: Expr, test: Expr) -> bool:
        """Whether the module is the one that an expression of the constructor stands for."""
        raise Unsupported("MIG204", f"`{nodes.code(test)}` in a function given to apply")

    def told_value(self, node: Expr) -> Expr:
        """A value as it is of this module."""
        return nodes.substituted(node, self.values)

    def find(self, call: cst.Call) -> bool | None:
        """`classname.find("Conv") != -1`."""
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "find":
            part, text = nodes.literal(call.args[0].value), self.texts.get(nodes.code(call.func.value))
            return part in text if isinstance(part, str) and text is not None else None
        return None

    def small(self, small: cst.BaseSmallStatement) -> dict[str, Expr]:
        """One simple statement: a call of `nn.init` or of a method that fills a weight in place."""
        if isinstance(small, cst.AugAssign) and isinstance(small.target, cst.Name):
            small = cst.Assign([cst.AssignTarget(small.target)], nodes.augmented(small))
        plain = isinstance(small, cst.Assign) and all(isinstance(t.target, cst.Name) for t in small.targets)
        if isinstance(small, cst.Assign) and plain:
            bound = {nodes.code(target.target) for target in small.targets}
            self.types = self.types - bound | (bound if nodes.code(small.value) in self.types else set())
            text = self.texts.get(nodes.code(small.value))
            self.texts = {written: one for written, one in self.texts.items() if written not in bound}
            self.texts |= dict.fromkeys(bound, text) if text is not None else {}
            self.values |= dict.fromkeys(bound, nodes.parenthesized(self.told_value(small.value)))
        if plain or isinstance(small, cst.Pass | cst.Return) or not self.concerned:
            return {}
        if isinstance(small, cst.Expr) and isinstance(small.value, cst.SimpleString):
            return {}
        if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
            found = filling(self.scope, small.value)
            if found is not None:
                return self.initializer(found[0], small.value, found[1])
        raise Unsupported("MIG204", f"`{nodes.code(small)}` in a function given to apply")

    def initializer(self, name: str, call: cst.Call, target: Expr) -> dict[str, Expr]:
        """What one function of `nn.init`, applied to a weight of the module, is in Flax."""
        path = (nodes.dotted(target) or "").removesuffix(".data")
        weight = path.removeprefix(f"{self.module}.")
        if path == weight or not self.has(weight):
            raise Unsupported("MIG204", f"`{nodes.code(call)}` in a function given to apply")
        given = [
            arg if arg.value is target else arg.with_changes(value=self.told_value(arg.value)) for arg in call.args
        ]
        return self.filled(weight, call, initializer_of(self.scope, name, call.with_changes(args=given), target))


_ORDERS = {
    cst.GreaterThan: orders.gt,
    cst.GreaterThanEqual: orders.ge,
    cst.LessThan: orders.lt,
    cst.LessThanEqual: orders.le,
    cst.Equal: orders.eq,
    cst.NotEqual: orders.ne,
}


def _goes_on(node: cst.Try) -> bool:
    """Whether a block only passes modules by that lack a weight: `except AttributeError:` that says so, or nothing."""
    if len(node.handlers) != 1 or node.orelse is not None or node.finalbody is not None:
        return False
    handler = node.handlers[0]
    lines = suites.suite_of(handler.body.body)
    calls = [suites.call_alone(line) for line in lines]
    caught = handler.type is not None and nodes.code(handler.type) == "AttributeError"
    passes = all(isinstance(suites.alone(line), cst.Pass) for line in lines)
    return caught and (passes or all(call is not None and nodes.dotted(call.func) == "print" for call in calls))


def _goes_through_weights(node: cst.For, module: str) -> bool:
    return nodes.code(node.iter) in (f"{module}.named_parameters()", f"{module}.parameters()") and node.orelse is None


def _written(given: Mapping[str, Expr]) -> dict[str, str]:
    return {weight: nodes.code(made) for weight, made in given.items()}


def _asked_for_axes(node: Expr, module: str) -> str:
    """The weight of a module of which an expression is the number of axes, `m.weight.dim()`; "" of others."""
    found = _AXES_OF.fullmatch(nodes.code(node))
    owner, _, weight = (found["weight"] or found["shaped"] if found else "").rpartition(".")
    return weight if owner == module else ""


_AXES_OF = re.compile(
    r"(?P<weight>[\w.]+?)(?:\.data)?\.(?:dim\(\)|ndimension\(\)|ndim)"
    r"|len\((?P<shaped>[\w.]+?)(?:\.data)?\.(?:shape|size\(\))\)"
)


class _OfLayer(_Walk):
    """The walk on a torch layer."""

    def __init__(self, scope: Arguments, module: str, layer: str, single: Single) -> None:
        weights = {weight.asked for weight in TABLE[layer].weights if weight.initializer}
        super().__init__(scope, module, layer.rpartition(".")[2], weights)
        self.layer, self.single = layer, single
        # a layer whose initial weights are fixed by its snippet: whatever is done to them is declined
        self.fixed = not weights and any(weight.collection == "params" for weight in TABLE[layer].weights)

    @property
    def concerned(self) -> bool:
        return bool(self.weights) or self.fixed

    def has_attribute(self, name: str, test: Expr) -> bool:
        entry = TABLE[self.layer]
        own = {parameter.name for parameter in signature(entry.signature)} | {one.asked for one in entry.weights}
        return name in self.weights | self.single.marks.keys() or (
            name in own - {"bias"} and name not in _NO_ATTRIBUTES
        )

    def rank(self, weight: str) -> int | None:
        shape = next((one.shape for one in TABLE[self.layer].weights if one.asked == weight), None)
        if shape is None or ("normalized_shape" in shape and self.normalizes_several()):
            return None
        return len(shape)

    def listed_weights(self) -> dict[str, list[str]] | None:
        learnt = [one for one in TABLE[self.layer].weights if one.collection == "params"]
        if not all(one.initializer and "." not in one.torch for one in learnt):
            return None
        numbered = {one.asked for one in learnt if one.asked != one.torch}
        return {one.asked: [one.asked + row for row in (_ROWS if one.asked in numbered else ("",))] for one in learnt}

    def normalizes_several(self) -> bool:
        """Whether a layer of this sort is made somewhere for more than the last axis, as far as that is written."""
        own = self.layer.rpartition(".")[2]
        units = self.scope.unit.others.values() or [self.scope.unit]
        made = [call for unit in units for call in usage.calls(unit.source.module)]
        named = [call for call in made if (nodes.dotted(call.func) or "").rpartition(".")[2] == own and call.args]
        return any(
            isinstance(call.args[0].value, cst.List | cst.Tuple | cst.Subscript | cst.Call)
            or isinstance(self.scope.kind_of(call.args[0].value), Items)
            for call in named
        )

    def is_one(self, other: Expr, test: Expr) -> bool:
        return bool(self.single.path) and nodes.dotted(other) == self.single.path

    def told_value(self, node: Expr) -> Expr:
        """What is noted on the layer, and the side of a choice that asks for it."""
        if isinstance(node, cst.IfExp) and self.module in usage.loads(node.test):
            return self.told_value(node.body if self.test(node.test) else node.orelse)
        marks = {f"{self.module}.{name}": value for name, value in self.single.marks.items()}
        cast = nodes.dotted(node.func) if isinstance(node, cst.Call) and len(node.args) == 1 else None
        if cast in ("float", "int") and isinstance(node, cst.Call) and nodes.dotted(node.args[0].value) in marks:
            number = nodes.literal(marks[nodes.dotted(node.args[0].value) or ""])
            return nodes.expression(repr(float(str(number)) if cast == "float" else int(str(number))))
        return marks.get(nodes.dotted(node) or "") or super().told_value(node)

    def is_a(self, option: Expr, test: Expr) -> bool:
        kind = self.scope.kind_of(option)
        if isinstance(kind, ModuleClass) and self.scope.script.classes[kind.cls].extends == self.layer:
            raise Unsupported("MIG204", f"`{nodes.code(test)}`: some layers of one sort are initialised")
        return self.scope.torch_name(option) in (self.layer, "torch.nn.Module")

    def is_exactly(self, option: Expr, test: Expr) -> bool:
        named = self.scope.torch_name(option) == self.layer
        if named and any(facts.extends == self.layer for facts in self.scope.script.classes.values()):
            raise Unsupported("MIG204", f"`{nodes.code(test)}`: some layers of one sort are initialised")
        return named or (isinstance(self.scope.kind_of(option), ModuleClass) and self.is_a(option, test))

    def filled(self, weight: str, call: cst.Call, made: Expr) -> dict[str, Expr]:
        if weight == "weight":
            made = by_shape(made, self.layer, self.module)
        if self.module in usage.loads(made):
            raise Unsupported("MIG204", f"`{nodes.code(call)}` in a function given to apply")
        entry = next((one for one in TABLE[self.layer].weights if one.asked == weight), None)
        return {weight: made if entry is None else in_order_of(entry, made)}


class _OfClass(_Walk):
    """The walk on a module of the user's."""

    def __init__(self, scope: Arguments, module: str, facts: ClassFacts) -> None:
        super().__init__(scope, module, spelled(facts.name), set(facts.parameters))
        self.facts = facts

    @property
    def concerned(self) -> bool:
        return True

    def branch(self, node: cst.If) -> dict[str, Expr]:
        return super().branch(node) if fills(self.scope, node) else {}

    def has_attribute(self, name: str, test: Expr) -> bool:
        if name in self.weights | self.facts.certain:
            return True
        known = {*self.facts.attributes, *self.facts.fields, *self.facts.buffers, *self.facts.marked}
        if name in known or self.facts.method(name) is not None or self.facts.bases:
            raise Unsupported("MIG204", f"`{nodes.code(test)}` in a function given to apply")
        return False

    def has(self, path: str) -> bool:
        return path in self.weights or f"self.{path}" in self.facts.askable

    def is_a(self, option: Expr, test: Expr) -> bool:
        kind = self.scope.kind_of(option)
        classes = [self.facts.name]
        while isinstance(kind, ModuleClass) and classes:
            if kind.cls in classes:
                return True
            classes = [base for cls in classes for base in self.scope.script.classes[cls].bases]
        return self.scope.torch_name(option) == "torch.nn.Module"

    def is_exactly(self, option: Expr, test: Expr) -> bool:
        kind = self.scope.kind_of(option)
        return isinstance(kind, ModuleClass) and kind.cls == self.facts.name

    def filled(self, weight: str, call: cst.Call, made: Expr) -> dict[str, Expr]:
        if set(usage.loads(made)) - IN_ANY_CLASS:
            raise Unsupported("MIG204", f"`{nodes.code(call)}` in a function given to apply")
        return {f"self.{weight}": made}
