"""Buffers that a module changes as it runs: Flax variables in the collection of what is no parameter.

torch changes them in place, in train and eval mode alike where no test of the mode stands around. Flax runs a module
once to make its weights; that must not change them.
"""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import BoundWeight
from migrate.known.facts import ClassFacts
from migrate.lowering.updates.detached import Detached
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

COLLECTION = "batch_stats"


class ChangedBuffers(Detached):
    """Variables: how they are made, and how they change."""

    def variable(self, facts: ClassFacts, name: str, value: Value, saved: bool) -> list[Statement]:
        """A buffer that some method changes."""
        if not saved:
            raise Unsupported("MIG201", f"the buffer {name} changes and is not saved, so that no checkpoint has it")
        if name in facts.fields:
            facts.renamed[name] = f"{name}_value"
        leaf = facts.renamed.get(name, name)
        facts.variables.add(name)
        facts.own_stats = True
        facts.attributes[name] = value.kind
        facts.parameters[name] = BoundWeight(name, COLLECTION, leaf, (), None)
        initial = cst.Lambda(cst.Parameters(), nodes.bare(value.node))
        collection, text = (cst.SimpleString(f'"{part}"') for part in (COLLECTION, leaf))
        return [nodes.statement(f"self.{leaf} = {{made}}", made=nodes.call("self.variable", collection, text, initial))]

    def variable_of(self, target: cst.CSTNode) -> str | None:
        """The variable that an assignment or a method in place changes: `self.x`, `self.x.data`, `self.x[i]`,
        `self.x.mul_(2)`; None where it is something else."""
        if self.context != "forward" or self.has_no_module:
            return None
        name = _root(target)
        return name if name is not None and name in self.script.classes[self.cls].variables else None

    def set_variable(self, line: cst.SimpleStatementLine, name: str, value: Expr | cst.AugAssign) -> list[Statement]:
        """`self.x.value = value`, or an operator in place on it, but not while the weights are made, which happens in
        eval mode."""
        facts = self.script.classes[self.cls]
        target = nodes.expression(f"self.{facts.renamed.get(name, name)}.value")
        made: list[Statement] = (
            suites.assigned(line, target, value)
            if isinstance(value, cst.BaseExpression)
            else [line.with_changes(body=[value.with_changes(target=target)])]
        )
        if any(nodes.code(test) == "self.training" for test in self.conditions):
            facts.own_trains = True
            if not facts.opened:
                return made
        else:
            facts.own_always = True
        guarded = nodes.statements("if not self.is_initializing():\n    pass\n")[0]
        assert isinstance(guarded, cst.If)
        bare = [statement.with_changes(leading_lines=[]) for statement in made]
        return [guarded.with_changes(body=suites.block(bare), leading_lines=line.leading_lines)]

    def changed_variable(self, node: Expr) -> Value:
        """What `self.x.mul_(a).add_(b)` makes of x."""
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            return self.expr(node)
        func, base = node.func, self.changed_variable(node.func.value)
        if func.attr.value == "copy_":
            source = self.array(node.args[0].value)
            return Value(nodes.call("jnp.full_like", base.node, source.node), base.kind)
        return self.in_place_value(node, func.attr.value, base)


def changed_attributes(methods: Mapping[str, cst.FunctionDef]) -> set[str]:
    """Attributes of `self` that methods besides the constructor assign or change in place."""

    bodies = [method.body for name, method in methods.items() if name != "__init__"]
    changes = [one for body in bodies for one in every(body, (cst.AssignTarget, cst.AugAssign, cst.Expr))]
    roots = [_root(one.value if isinstance(one, cst.Expr) else one.target) for one in changes]
    return {root for root in roots if root is not None}


def _root(node: cst.CSTNode) -> str | None:
    """The attribute of `self` that an expression is or changes."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and usage.is_in_place(node.func.attr.value):
        return _root(node.func.value)
    if isinstance(node, cst.Subscript) or (isinstance(node, cst.Attribute) and node.attr.value == "data"):
        return _root(node.value)
    if isinstance(node, cst.Attribute) and nodes.dotted(node.value) == "self":
        return node.attr.value
    return None
