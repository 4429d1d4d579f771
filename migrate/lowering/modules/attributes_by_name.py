"""Attributes of a module that are set by a name: `self.add_module("fc", m)`, `setattr(self, f"conv{i}", m)`.

A name that is written out makes an assignment like any other. One with a number in it, as in a loop, stands for as many
attributes as there are turns.
"""

from __future__ import annotations

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.constructed import ChoiceNode
from migrate.known.kinds import Module, SelfModule
from migrate.lowering.modules.module_lists import bare_lambda
from migrate.lowering.scope import Scope
from migrate.rules.rule import Value
from migrate.syntax import names_written, nodes
from migrate.syntax.nodes import Statement

_REGISTERING = ("self.add_module", "self.register_module", "self.register_parameter")


class AttributesByName(Scope):
    """`setattr` and `getattr` of a module, and what torch has for the same."""

    def set_by_name(self, node: cst.Call) -> list[Statement] | None:
        """A statement of a constructor that sets an attribute by its name; None for other calls."""
        path = nodes.dotted(node.func)
        args = [arg.value for arg in node.args]
        if path == "setattr" and len(args) == 3 and isinstance(self.kind_of(args[0]), SelfModule):
            args = args[1:]
        elif path not in _REGISTERING:
            return None
        if len(args) != 2 or any(arg.star for arg in node.args):
            raise Unsupported("MIG201", f"{nodes.code(node)}: arguments that cannot be followed")
        name, value = args
        literal = nodes.literal(name)
        if isinstance(literal, str):
            own = cst.Attribute(nodes.name("self"), cst.Name(literal))
            return self.statement(cst.SimpleStatementLine([cst.Assign([nodes.target(own)], value)]))
        lowered = self.expr(value)
        if not isinstance(lowered.kind, Module):
            return None
        pattern = names_written.pattern(name)
        if pattern is None:
            raise Unsupported("MIG201", f"{nodes.code(name)}: the name of a submodule that is made at run time")
        facts = self.script.classes[self.cls]
        before = facts.children.get(pattern)
        known = () if before is None else before.children if isinstance(before, ChoiceNode) else (before,)
        options = tuple(dict.fromkeys((*known, *lowered.kind.options)))
        facts.children[pattern] = options[0] if len(options) == 1 else ChoiceNode(options)
        own = nodes.call("setattr", nodes.name("self"), self.node(name), bare_lambda(layouts.first(lowered)))
        return [cst.SimpleStatementLine([cst.Expr(own)])]

    def got_by_name(self, node: cst.Call) -> Value | None:
        """`getattr(self, f"conv{i}")` of a module; None for other calls."""
        if len(node.args) != 2 or not isinstance(self.kind_of(node.args[0].value), SelfModule) or not self.cls:
            return None
        name, facts = node.args[1].value, self.script.classes[self.cls]
        literal = nodes.literal(name)
        if isinstance(literal, str):
            return self.expr(cst.Attribute(node.args[0].value, cst.Name(literal)))
        found = facts.children.get(names_written.pattern(name) or "")
        if found is None and facts.children:
            raise Unsupported("MIG201", f"{nodes.code(node)}, which may be any of several modules")
        if found is None:
            return None
        options = found.children if isinstance(found, ChoiceNode) else (found,)
        made = nodes.call("getattr", nodes.name("self"), self.node(name))
        return Value(made, Module(options))
