"""Classes that inherit from nn.Sequential, `class ConvBlock(nn.Sequential)`, and give it their layers.

Flax's holds its layers in a field, which a subclass cannot fill. The class becomes a module that has them in a row
under a name of its own, which is no part of the names that its weights have in torch. Where it makes attributes of
them, or adds them by name, its forward pass calls one after another.
"""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.lowering.modules.holder_subclasses import CallingHeld, started, used_as_a_whole
from migrate.lowering.modules.inheritance import is_super_init
from migrate.syntax import names_written, nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement


def as_module(node: cst.ClassDef, makes_module: Callable[[Expr], bool]) -> tuple[cst.ClassDef, str] | None:
    """The class as one that inherits from nn.Module, and the attribute that its layers have there; "" where they have
    attributes of their own; None where it fills itself. makes_module: whether an expression makes a module."""
    base = node.bases[0].value
    name = usage.unused_name("layers", set(usage.attributes(node)))
    told = f"{node.name.value} inherits from {nodes.code(base)}"
    made: list[Statement] = []
    given, forward = 0, False
    for statement in suites.suite_of(node.body.body):
        if isinstance(statement, cst.FunctionDef) and statement.name.value == "__init__":
            body = [one for each in suites.suite_of(statement.body.body) for one in _given(each, base, name)]
            given += len(body) - len(suites.suite_of(statement.body.body))
            statement = statement.with_changes(body=suites.block_of(statement.body, body))
        elif isinstance(statement, cst.FunctionDef):
            statement = nodes.visited(statement, CallingHeld(name))
            forward |= statement.name.value == "forward"
            if used_as_a_whole(statement):
                raise Unsupported("MIG201", f"{told}, and its methods take it apart")
        made.append(statement)
    if not given and isinstance(base, cst.Attribute) and len(node.bases) == 1:
        own = _one_after_another(node, makes_module)
        if own is not None:
            bases = [node.bases[0].with_changes(value=base.with_changes(attr=cst.Name("Module")))]
            return own.with_changes(bases=bases), ""
    if not given:
        return None
    if given != 1 or not isinstance(base, cst.Attribute) or len(node.bases) > 1:
        raise Unsupported("MIG201", f"{told}: its layers are not given to super().__init__() at once")
    if not forward:
        made.append(suites.function("forward", ["self", "x"], [nodes.statement(f"return self.{name}(x)")]))
    bases = [node.bases[0].with_changes(value=base.with_changes(attr=cst.Name("Module")))]
    return node.with_changes(bases=bases, body=suites.block_of(node.body, made)), name


def _given(statement: Statement, base: cst.BaseExpression, name: str) -> list[Statement]:
    """`super().__init__(a, b)` as `super().__init__()` and the layers under their name; other statements as they
    are."""
    call = suites.calls_base(statement)
    return started(statement, base, name) if call is not None and call.args else [statement]


def _one_after_another(node: cst.ClassDef, makes_module: Callable[[Expr], bool]) -> cst.ClassDef | None:
    """A class that adds its layers by name, with a method that calls them in that order; None where the order is told
    while it runs."""
    body = suites.suite_of(node.body.body)
    init = next((one for one in body if isinstance(one, cst.FunctionDef) and one.name.value == "__init__"), None)
    if init is None:
        return None
    calls: list[Statement] = []
    fields: set[str] = set()
    for statement in suites.suite_of(init.body.body):
        looped = statement if isinstance(statement, cst.For) else None
        inner = suites.suite_of(looped.body.body) if looped is not None else [statement]
        found = [_added(one, makes_module) for one in inner]
        added = [one for one in found if one is not None]
        if looped is not None and added:
            fields |= set(usage.loads(looped.iter)) - {"range", "enumerate", "len", "zip"}
            own = {name: nodes.expression(f"self.{name}") for name in fields}
            steps = [nodes.statement("x = {layer}(x)", layer=one) for one in added]
            head = looped.with_changes(iter=nodes.substituted(looped.iter, own), leading_lines=[])
            calls.append(head.with_changes(body=suites.block(steps), orelse=None))
        elif not added and any(
            _added(one, makes_module) or "self.add_module" in usage.paths(one)
            for one in usage.every(statement, cst.SimpleStatementLine)
        ):
            return None  # in a branch, or by a name that is not known
        else:
            calls += [nodes.statement("x = {layer}(x)", layer=one) for one in added]
    parameters = {p.name.value for p in [*init.params.params, *init.params.kwonly_params]}
    if not calls or not fields <= parameters - set(usage.stores(init.body)):
        return None
    known = set(usage.attributes_set(init))
    kept = [nodes.statement(f"self.{name} = {name}") for name in sorted(fields - known)]
    forward = any(isinstance(one, cst.FunctionDef) and one.name.value == "forward" for one in body)
    name = "in_a_row" if forward else "forward"
    run = suites.function(name, ["self", "x"], [*calls, nodes.statement("return x")])
    made: list[Statement] = []
    for one in body:
        if one is init:
            inside = suites.suite_of(init.body.body)
            place = next((n + 1 for n, each in enumerate(inside) if is_super_init(each)), 0)
            one = init.with_changes(body=suites.block_of(init.body, [*inside[:place], *kept, *inside[place:]]))
        elif isinstance(one, cst.FunctionDef):
            one = nodes.visited(one, CallingHeld(name))
            if used_as_a_whole(one):
                return None
        made.append(one)
    return node.with_changes(body=suites.block_of(node.body, [*made, run]))


def _added(statement: Statement, makes_module: Callable[[Expr], bool]) -> Expr | None:
    """How a layer is reached that a statement adds: `self.fc` after `self.add_module("fc", layer)`; None for other
    statements."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    if isinstance(small, cst.Assign) and len(small.targets) == 1 and usage.attributes_in(small.targets[0].target):
        return small.targets[0].target if makes_module(small.value) else None
    call = small.value if isinstance(small, cst.Expr) else None
    if not isinstance(call, cst.Call) or nodes.dotted(call.func) != "self.add_module" or len(call.args) != 2:
        return None
    name = call.args[0].value
    literal = nodes.literal(name)
    if isinstance(literal, str) and literal.isidentifier():
        return nodes.expression(f"self.{literal}")
    return None if names_written.pattern(name) is None else nodes.call("getattr", nodes.name("self"), name)
