"""Classes that inherit from nn.Sequential, `class ConvBlock(nn.Sequential)`, and give it their layers.

Flax's holds its layers in a field, which a subclass cannot fill. The class becomes a module that has them in a row
under a name of its own, which is no part of the names that its weights have in torch.
"""

from __future__ import annotations

import libcst as cst

from migrate import nodes, suites, usage
from migrate.diagnostics import Unsupported
from migrate.lowering.inheritance import is_super_init
from migrate.nodes import Statement

SEQUENTIAL = "torch.nn.Sequential"


def as_module(node: cst.ClassDef) -> tuple[cst.ClassDef, str]:
    """The class as one that inherits from nn.Module, and the attribute that its layers have there."""
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
            statement = nodes.visited(statement, _Layers(name))
            forward |= statement.name.value == "forward"
            if _takes_apart(statement):
                raise Unsupported("MIG201", f"{told}, and its methods take it apart")
        made.append(statement)
    if given != 1 or not isinstance(base, cst.Attribute) or len(node.bases) > 1:
        raise Unsupported("MIG201", f"{told}: its layers are not given to super().__init__() at once")
    if not forward:
        made.append(suites.function("forward", ["self", "x"], [nodes.statement(f"return self.{name}(x)")]))
    bases = [node.bases[0].with_changes(value=base.with_changes(attr=cst.Name("Module")))]
    return node.with_changes(bases=bases, body=suites.block_of(node.body, made)), name


def _given(statement: Statement, base: cst.BaseExpression, name: str) -> list[Statement]:
    """`super().__init__(a, b)` as `super().__init__()` and the layers under their name; other statements as they
    are."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    call = small.value if isinstance(small, cst.Expr) else None
    if not is_super_init(statement) or not isinstance(call, cst.Call) or not call.args:
        return [statement]
    layers = cst.Assign([nodes.target(nodes.expression(f"self.{name}"))], call.with_changes(func=base))
    return [
        nodes.statement("super().__init__()").with_changes(leading_lines=suites.comments(statement)),
        cst.SimpleStatementLine([layers]),
    ]


def _takes_apart(method: cst.FunctionDef) -> bool:
    """Whether a method uses its object for more than its attributes: `for layer in self`."""
    asked = [one for one in usage.every(method.body, cst.Attribute) if nodes.dotted(one.value) == "self"]
    return usage.loads(method.body).count("self") > len(asked)


class _Layers(cst.CSTTransformer):
    """`super().forward(x)` as a call of the layers."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        value = updated_node.value
        if isinstance(value, cst.Call) and nodes.dotted(value.func) == "super" and updated_node.attr.value == "forward":
            return nodes.expression(f"self.{self.name}")
        return updated_node
