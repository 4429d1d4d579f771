"""Module classes as if they were written plainer.

A static method that draws is a method: Flax gives keys to modules. What a constructor registers by a shorthand,
`register_buffer = lambda name, val: self.register_buffer(name, val.float())`, it registers where it uses that; a
parameter that it freezes right away is made without a gradient; a loop over the indices of a list of layers goes over
the list. A list whose elements a loop registers is an nn.ModuleList. A method decorated with autocast has its body in
it. Dropout as a function of the mode is a layer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from migrate.known.facts import ClassFacts
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.plainer.arguments_as_dict import arguments_as_dict
from migrate.lowering.plainer.attributes_filled import attributes_filled
from migrate.lowering.plainer.copied_input import Exchanging
from migrate.lowering.plainer.dropout_as_layers import dropout_as_layers
from migrate.lowering.plainer.frozen_as_made import frozen_parameters, without_gradient
from migrate.lowering.plainer.loops_by_index import over_elements
from migrate.lowering.plainer.loops_written_out import NAMING
from migrate.lowering.plainer.new_parts import with_new_parts
from migrate.lowering.plainer.parts_of_others import PartsOfOthers
from migrate.lowering.plainer.registered_lists import registered_lists
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


class PlainerClasses(PartsOfOthers):
    """Classes in plain terms."""

    def plainer(self, facts: ClassFacts, node: cst.ClassDef) -> cst.ClassDef:
        """A module class in such terms; itself where it is in them."""
        drawing = {name for name in facts.draws_statically if not self._asked_of_class(node, name)}
        lists, facts.registered = registered_lists(node)
        key = (node, "plainer", *sorted(drawing), *sorted(facts.replaced))
        if key not in facts.spelled_out:
            written = node
            node = nodes.visited(node, Exchanging(lists, self.unit.source.positions)) if lists else node
            node = with_new_parts(node, facts.replaced, self.unit.source.positions)
            node = self._with_dropout_as_layers(node)
            methods = {one.name.value for one in suites.suite_of(node.body.body) if isinstance(one, cst.FunctionDef)}
            body = [self._with_attributes_filled(one, methods) for one in suites.suite_of(node.body.body)]
            body = [self._plainer_method(one, node.name.value, drawing) for one in body]
            changed = any(made is not one for made, one in zip(body, suites.suite_of(node.body.body), strict=True))
            facts.spelled_out[key] = node.with_changes(body=suites.block_of(node.body, body)) if changed else node
            self.unit.stands_for(facts.spelled_out[key], written)
        return self._with_parts_of_others(facts, facts.spelled_out[key])

    def _with_dropout_as_layers(self, node: cst.ClassDef) -> cst.ClassDef:
        """A class that has layers in the place of functions that drop in train mode; itself where it has none, or where
        classes inherit, whose constructors may not run or use the same names."""
        base = nodes.dotted(node.bases[0].value) if len(node.bases) == 1 else None
        alone = base is not None and self.torch_name(node.bases[0].value) == "torch.nn.Module"
        if base is None or not alone or "." not in base:
            return node
        made = dropout_as_layers(node, self.torch_name, base.rpartition(".")[0], self.script.attributes_changed)
        if not made.instead or self._is_inherited(node.name.value):
            return node
        body: list[Statement] = []
        for one in suites.suite_of(node.body.body):
            if isinstance(one, cst.FunctionDef):
                ending = made.statements if _is_init(one) else []
                whole = suites.block_of(one.body, [*suites.suite_of(one.body.body), *ending])
                one = self._exchanged(one.with_changes(body=whole), made.instead)
            body.append(one)
        return node.with_changes(body=suites.block_of(node.body, body))

    def _is_inherited(self, cls: str) -> bool:
        classes = [one for unit in self.unit.others.values() for one in every(unit.source.module, cst.ClassDef)]
        bases = [nodes.dotted(arg.value) or "" for one in classes for arg in one.bases]
        return any(base.rpartition(".")[2] == cls for base in bases)

    def _with_parts_of_others(self, facts: ClassFacts, node: cst.ClassDef) -> cst.ClassDef:
        """A class whose constructor names each part that it takes of another model."""
        init = next((one for one in suites.suite_of(node.body.body) if _is_init(one)), None)
        written = self.with_parts_of_others(facts, init) if isinstance(init, cst.FunctionDef) else None
        if written is None or written is init:
            return node
        key = (node, "parts", nodes.code(written))
        if key not in facts.spelled_out:
            body = [written if one is init else one for one in suites.suite_of(node.body.body)]
            facts.spelled_out[key] = node.with_changes(body=suites.block_of(node.body, body))
            self.unit.stands_for(facts.spelled_out[key], node)
        return facts.spelled_out[key]

    def _plainer_method(self, statement: Statement, cls: str, drawing: set[str]) -> Statement:
        if not isinstance(statement, cst.FunctionDef):
            return statement
        if statement.name.value == "__init__":
            statement = self._with_frozen_as_made(self._with_registering_in_place(statement))
            statement = self._exchanged(statement, arguments_as_dict(statement, cls))
            elements = over_elements(statement, lambda func: self.torch_name(func) == "torch.nn.ModuleList")
            return self._exchanged(statement, elements)
        statement = self._with_precision_inside(statement)
        asked = [one for one in every(statement, cst.Attribute) if nodes.dotted(one.value) == cls]
        asked = [one for one in asked if one.attr.value in drawing]
        made = self._exchanged(statement, {one: one.with_changes(value=nodes.name("self")) for one in asked})
        if statement.name.value not in drawing:
            return made
        rest = [one for one in made.decorators if nodes.dotted(one.decorator) != "staticmethod"]
        params = made.params.with_changes(params=[cst.Param(cst.Name("self")), *made.params.params])
        return made.with_changes(decorators=rest, params=params)

    def _with_attributes_filled(self, statement: Statement, methods: set[str]) -> Statement:
        """A constructor that fills tensors before they are attributes."""
        if not isinstance(statement, cst.FunctionDef) or not _is_init(statement):
            return statement
        body = attributes_filled(statement, methods, self.torch_name, self.unit.source.positions)
        return statement if body is None else statement.with_changes(body=suites.block_of(statement.body, body))

    def _with_registering_in_place(self, init: cst.FunctionDef) -> cst.FunctionDef:
        """A constructor that registers without shorthands."""
        instead: dict[cst.CSTNode, Expr | cst.RemovalSentinel] = {}
        left: list[Statement] = []
        for statement in suites.suite_of(init.body.body):
            found = _shorthand(statement)
            written = None if found is None else _all_written(init, found)
            if written is None:
                left.append(statement)
            else:
                instead |= written
        if len(left) == len(suites.suite_of(init.body.body)):
            return init
        return self._exchanged(init.with_changes(body=suites.block_of(init.body, left)), instead)

    def _with_frozen_as_made(self, init: cst.FunctionDef) -> cst.FunctionDef:
        """A constructor that makes parameters without gradients instead of freezing them."""
        freezing, calls = frozen_parameters(init.body, lambda func: self.torch_name(func) == "torch.nn.Parameter")
        instead: dict[cst.CSTNode, Expr | cst.RemovalSentinel] = {call: without_gradient(call) for call in calls}
        instead |= dict.fromkeys(freezing, cst.RemoveFromParent())
        return self._exchanged(init, instead)

    def _with_precision_inside(self, method: cst.FunctionDef) -> cst.FunctionDef:
        """A method that enters the autocast which it is decorated with."""
        found = [one for one in method.decorators if self._is_autocast(one.decorator)]
        if not found:
            return method
        body = suites.suite_of(method.body.body)
        told = [one for one in body[:1] if suites.is_docstring(one)]
        items = [cst.WithItem(one.decorator) for one in found]
        inside = cst.With(items, suites.block(body[len(told) :]))
        self.unit.stands_for(inside, method)
        left = [one for one in method.decorators if one not in found]
        return method.with_changes(decorators=left, body=suites.block_of(method.body, [*told, inside]))

    def _is_autocast(self, decorator: Expr) -> bool:
        name = self.torch_name(decorator.func) if isinstance(decorator, cst.Call) else None
        return (name or "").endswith("autocast")

    def _exchanged(
        self, node: cst.FunctionDef, instead: Mapping[cst.CSTNode, Expr | cst.RemovalSentinel]
    ) -> cst.FunctionDef:
        """A method with others in the place of some nodes, or without them."""
        return nodes.visited(node, Exchanging(instead, self.unit.source.positions)) if instead else node

    def _asked_of_class(self, node: cst.ClassDef, method: str) -> bool:
        """Whether a static method is called of the class, `VAE.sample(mu)`, by what has no module at hand."""
        asked = f"{node.name.value}.{method}"
        static = [one for one in every(node, cst.FunctionDef) if _is_static(one)]
        inside = {id(one) for one in every(node, cst.Attribute)} - {
            id(one) for s in static for one in every(s, cst.Attribute)
        }
        modules = [unit.source.module for unit in self.unit.others.values()]
        mentions = [one for module in modules for one in every(module, cst.Attribute) if one.attr.value == method]
        return any(id(one) not in inside and (nodes.dotted(one) or "").endswith(asked) for one in mentions)


def _is_init(statement: Statement) -> bool:
    return isinstance(statement, cst.FunctionDef) and statement.name.value == "__init__"


def _is_static(node: cst.FunctionDef) -> bool:
    return any(nodes.dotted(one.decorator) == "staticmethod" for one in node.decorators)


# -- shorthands of constructors ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Shorthand:
    """A name for a call such as `self.register_buffer(name, val)`: its parameters, with their defaults, and the call.
    `rest`: it is called with more arguments, which follow those that are there."""

    name: str
    parameters: Mapping[str, Expr | None]
    call: cst.Call
    rest: bool = False


def _all_written(init: cst.FunctionDef, found: _Shorthand) -> dict[cst.CSTNode, Expr] | None:
    """What each call of a shorthand stands for; None where something else reads it."""
    calls = [call for call in every(init.body, cst.Call) if nodes.dotted(call.func) == found.name]
    once = usage.stores(init.body).count(found.name) == 1
    if not once or len(calls) != usage.loads(init.body).count(found.name):
        return None
    written = [(call, _written(found, call)) for call in calls]
    known: dict[cst.CSTNode, Expr] = {call: made for call, made in written if made is not None}
    return known if len(known) == len(written) else None


def _written(found: _Shorthand, call: cst.Call) -> cst.Call | None:
    """What a call of a shorthand stands for; None where its arguments cannot be followed."""
    if any(arg.star for arg in call.args):
        return None
    if found.rest:
        places = [arg for arg in call.args if arg.keyword is None]
        return found.call.with_changes(args=_in_order([*found.call.args, *places, *call.args[len(places) :]]))
    names = argument_names(call.args, list(found.parameters))
    given = {name: arg.value for name, arg in zip(names, call.args, strict=True) if name}
    values = {name: given.get(name, default) for name, default in found.parameters.items()}
    known = {name: nodes.parenthesized(value) for name, value in values.items() if value is not None}
    if len(given) < len(call.args) or len(known) < len(values):
        return None
    return nodes.substituted(found.call, known)


def _in_order(args: Sequence[cst.Arg]) -> list[cst.Arg]:
    plain = [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in args]
    return sorted(plain, key=lambda arg: arg.keyword is not None)


def _shorthand(statement: Statement) -> _Shorthand | None:
    """The shorthand that a statement makes: a lambda, a function of one line, a partial application."""
    match statement:
        case cst.FunctionDef(name=cst.Name(value=name), params=params, decorators=[], asynchronous=None):
            body = [one for one in suites.suite_of(statement.body.body) if not suites.is_docstring(one)]
            small = body[0].body[0] if len(body) == 1 and isinstance(body[0], cst.SimpleStatementLine) else None
            value = small.value if isinstance(small, cst.Expr | cst.Return) else None
        case cst.SimpleStatementLine(
            body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=cst.Lambda() as made)]
        ):
            params, value = made.params, made.body
        case cst.SimpleStatementLine(
            body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=cst.Call() as made)]
        ) if nodes.dotted(made.func) in ("partial", "functools.partial") and made.args:
            call = cst.Call(made.args[0].value, _in_order(made.args[1:]))
            return _Shorthand(name, {}, call, rest=True) if _registers(call) else None
        case _:
            return None
    own = [*params.params, *params.kwonly_params]
    bare = not params.posonly_params and params.star_kwarg is None and not isinstance(params.star_arg, cst.Param)
    if not isinstance(value, cst.Call) or not _registers(value) or not bare or any(every(value, _INNER)):
        return None
    parameters = {one.name.value: one.default for one in own}
    once = all(usage.loads(value).count(name) <= 1 for name in parameters)
    return _Shorthand(name, parameters, value) if once else None


_INNER = (cst.Lambda, cst.BaseComp)


def _registers(call: cst.Call) -> bool:
    return nodes.dotted(call.func) in {f"self.{method}" for method in NAMING}
