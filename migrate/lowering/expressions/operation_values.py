"""Functions of torch as values: `activation=F.relu`, `partial(torch.clamp, min=0)`, `map(torch.exp, xs)`.

What stands for one is the function of JAX that its rule calls, or a lambda of what the rule makes.
"""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Kind, Never, Operation, Tensor, TorchName, join
from migrate.lowering.expressions.arguments import argument_names, placed
from migrate.lowering.expressions.copied_snippets import with_snippets
from migrate.lowering.modules.layers import Layers
from migrate.rules.catalogue import RULES
from migrate.rules.rule import Call, Rule, Value, result_kind
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

# Arguments that are tensors, with which a function that is a value may be called.
_TENSORS = ("input", "other", "exponent", "target", "tensor", "x", "x1", "x2", "vec2", "mat2", "vec", "weight")


class OperationValues(Layers):
    """Making such values, and calling them."""

    def usable(self, value: Value) -> Value:
        """A value as the output may hold it: a function of torch is one of JAX."""
        kind = value.kind
        rule = RULES.get(kind.name) if isinstance(kind, TorchName) else None
        return value if rule is None or not isinstance(kind, TorchName) else self.operation(kind.name, rule, {})

    def operation(self, name: str, rule: Rule, given: Mapping[str, Value]) -> Value:
        """A function of torch whose other arguments are given already."""
        taken = _taken(rule, given)
        if rule.draws or not taken or not set(taken) <= set(_TENSORS):
            raise Unsupported("MIG304", f"{name} is used as a value")
        names = dict(zip(taken, ("x", "y", "z"), strict=False))
        bound = {each: Value(nodes.name(names[each]), Tensor()) for each in taken} | dict(given)
        snippets: list[str] = []
        defaults = {parameter.name: parameter.default for parameter in rule.parameters}
        made = rule.function(Call(name, bound, (), defaults, None, snippets.append))
        node = with_snippets(self, made.node if isinstance(made, Value) else made, snippets)
        for snippet in snippets:
            self.unit.use_snippet(snippet)
        return Value(_function(node, list(names.values())), Operation((name,)))

    def partial_operation(self, node: cst.Call, kind: Kind) -> Value | None:
        """`partial(F.softmax, dim=-1)`; None where it is a partial of something else."""
        rule = RULES.get(kind.name) if isinstance(kind, TorchName) else None
        if rule is None or not isinstance(kind, TorchName):
            return None
        names = argument_names(node.args[1:], [parameter.name for parameter in rule.parameters])
        if not set(names) <= {parameter.name for parameter in rule.parameters}:
            raise Unsupported("MIG302", f"{nodes.code(node)}: arguments that cannot be followed")
        given = {name: self.expr(arg.value) for name, arg in zip(names, node.args[1:], strict=True)}
        return self.operation(kind.name, rule, given)

    def operation_call(self, node: cst.Call, callee: Value, kind: Operation) -> Value:
        """A call of such a value, with tensors."""
        if any(arg.keyword or arg.star for arg in node.args):
            raise Unsupported("MIG304", f"{nodes.code(node)}: {' or '.join(kind.names)} as a value takes tensors alone")
        values = [self.array(arg.value) for arg in node.args]
        result: Kind = Never()
        for name in kind.names:
            bound = {str(number): value for number, value in enumerate(values)}
            result = join(result, result_kind(RULES[name], bound))
        return Value(node.with_changes(func=nodes.parenthesized(callee.node), args=placed(node.args, values)), result)


def _taken(rule: Rule, given: Mapping[str, Value]) -> list[str]:
    """The arguments that a call must still give."""
    return [each.name for each in rule.parameters if each.default is None and not each.star and each.name not in given]


def _function(node: Expr, names: list[str]) -> Expr:
    """The function that makes `node` of its arguments: the one that it calls, where it does no more than that."""
    if isinstance(node, cst.Call) and not any(arg.keyword or arg.star for arg in node.args):
        called = nodes.dotted(node.func)
        if called and called.split(".")[0] not in names and [nodes.dotted(arg.value) for arg in node.args] == names:
            return node.func
    return nodes.expression(f"lambda {', '.join(names)}: {{made}}", made=node)
