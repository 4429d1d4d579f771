"""Rows of layers that are taken apart: `for layer in self.blocks`, `len(self.blocks)`, `self.blocks[0]`."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import LayerNode, ListNode
from migrate.known.kinds import Model, Module
from migrate.lowering.scope import Scope
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


def taken_apart(scope: Scope, value: Value) -> Value:
    """What a forward pass takes apart, indexes or counts: of an nn.Sequential the list of its layers."""
    if isinstance(value.kind, Model):
        return value if _says_itself(scope, value.kind) else scope.layers_of(value)
    context = scope.context
    options = value.kind.options if isinstance(value.kind, Module) else ()
    lists = [one for one in options if isinstance(one, ListNode) and one.infix.startswith("/")]
    if context not in ("forward", "setup") or not lists or len(lists) < len(options):
        return value
    if context == "setup" and not isinstance(value.node, cst.Name):
        return value  # an attribute, whose initial weights are given
    if context == "setup":
        raise Unsupported("MIG201", f"{nodes.code(value.node)} is taken apart in a constructor")
    children = [child for one in lists for child in one.children]
    if not children or any(isinstance(child, LayerNode) and not child.torch for child in children):
        moved = "has moves of channels between its layers in Flax" if children else "has no layers"
        raise Unsupported("MIG201", f"{nodes.code(value.node)} is taken apart, and {moved}")
    layers: Expr = cst.Attribute(nodes.parenthesized(value.node), cst.Name("layers"))
    named = [one.named for one in lists]
    if any(named) and not all(named):
        raise Unsupported("MIG201", f"{nodes.code(value.node)} is taken apart, and may be one row of layers or another")
    if any(named):
        layers = nodes.expression("tuple({layers}.values())", layers=layers)
    return Value(layers, Module(tuple(replace(one, infix="_", keys=(), named=False) for one in lists)))


def _says_itself(scope: Scope, model: Model) -> bool:
    """Whether the class of a model says what it is to be gone through, counted or indexed."""
    own = scope.script.methods(model.cls)
    return any(f"{model.cls}.{name}" in own for name in ("__iter__", "__len__", "__getitem__"))
