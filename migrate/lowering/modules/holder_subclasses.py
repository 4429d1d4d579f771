"""Classes that inherit from a container of modules and fill it themselves: `class DenseBlock(nn.ModuleDict)`.

Flax has plain lists and dicts in the place of these. The class becomes a module that has one under a name of its own,
which is no part of the names that its weights have in torch; what asks the object for its modules asks that.
"""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

SEQUENTIAL, LIST, DICT = "torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict"
HOLDERS = (LIST, DICT)

_METHODS = {
    SEQUENTIAL: ("append", "extend", "insert", "add_module", "register_module"),
    LIST: ("append", "extend", "insert"),
    DICT: ("items", "keys", "values", "update", "add_module", "register_module"),
}
_GOING_OVER = ("enumerate", "len", "zip", "reversed", "list", "iter", "tuple")


def as_holder(node: cst.ClassDef, kind: str, makes_module: Callable[[Expr], bool]) -> tuple[cst.ClassDef, str]:
    """The class as one that inherits from nn.Module, and the attribute that has its modules. `kind`: the container, by
    torch's name; makes_module: whether an expression makes a module."""
    base = node.bases[0].value
    told = f"{node.name.value} inherits from {nodes.code(base)}"
    body, methods = suites.suite_of(node.body.body), suites.methods_of(node)
    init = methods.get("__init__")
    if not isinstance(base, cst.Attribute) or len(node.bases) > 1 or init is None:
        raise Unsupported("MIG201", told)
    own = [one for one in every(init, cst.Assign) if usage.attributes_in(one.targets[0].target)]
    if any(makes_module(one.value) for one in own):
        raise Unsupported("MIG201", f"{told}, and has modules as attributes beside")
    name = usage.unused_name("layers", set(usage.attributes(node)))
    holding = _Holding(name, set(_METHODS[kind]) - methods.keys())
    made: list[Statement] = []
    for statement in body:
        if statement is init:
            inside = [one for each in suites.suite_of(init.body.body) for one in started(each, base, name)]
            statement = init.with_changes(body=suites.block_of(init.body, inside))
        if isinstance(statement, cst.FunctionDef):
            statement = nodes.visited(statement, holding)
            if used_as_a_whole(statement):
                raise Unsupported("MIG201", f"{told}, and {statement.name.value} uses it as a whole")
        made.append(statement)
    if kind == SEQUENTIAL and "forward" not in methods:
        made.append(suites.function("forward", ["self", "x"], [nodes.statement(f"return self.{name}(x)")]))
    bases = [node.bases[0].with_changes(value=base.with_changes(attr=cst.Name("Module")))]
    return node.with_changes(bases=bases, body=suites.block_of(node.body, made)), name


def started(statement: Statement, base: cst.BaseExpression, name: str) -> list[Statement]:
    """`super().__init__(modules)` as `super().__init__()`, and the container of the modules under its name; other
    statements as they are."""
    call = suites.calls_base(statement)
    if call is None:
        return [statement]
    container = cst.Assign([nodes.target(nodes.expression(f"self.{name}"))], call.with_changes(func=base))
    return [
        nodes.statement("super().__init__()").with_changes(leading_lines=suites.comments(statement)),
        cst.SimpleStatementLine([container]),
    ]


def used_as_a_whole(method: cst.FunctionDef) -> bool:
    """Whether a method uses its object for more than its attributes: `for layer in self`."""
    asked = [one for one in every(method.body, cst.Attribute) if nodes.dotted(one.value) == "self"]
    return usage.loads(method.body).count("self") > len(asked)


class CallingHeld(cst.CSTTransformer):
    """`super().forward(x)` as a call of the container under its name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.held = nodes.expression(f"self.{name}")

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        value = updated_node.value
        if isinstance(value, cst.Call) and nodes.dotted(value.func) == "super" and updated_node.attr.value == "forward":
            return self.held.deep_clone()
        return updated_node


class _Holding(CallingHeld):
    """What asks the object for its modules, `for layer in self`, asks the container under a name."""

    def __init__(self, name: str, methods: set[str]) -> None:
        super().__init__(name)
        self.methods = methods

    def instead(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """The container in the place of the object itself."""
        return self.held.deep_clone() if nodes.dotted(node) == "self" else node

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        if updated_node.attr.value in self.methods:
            return updated_node.with_changes(value=self.instead(updated_node.value))
        return super().leave_Attribute(original_node, updated_node)

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> cst.Subscript:
        return updated_node.with_changes(value=self.instead(updated_node.value))

    def leave_For(self, original_node: cst.For, updated_node: cst.For) -> cst.For:
        return updated_node.with_changes(iter=self.instead(updated_node.iter))

    def leave_CompFor(self, original_node: cst.CompFor, updated_node: cst.CompFor) -> cst.CompFor:
        return updated_node.with_changes(iter=self.instead(updated_node.iter))

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        if nodes.dotted(updated_node.func) not in _GOING_OVER:
            return updated_node
        args = [arg.with_changes(value=self.instead(arg.value)) for arg in updated_node.args]
        return updated_node.with_changes(args=args)
