"""Rows and dicts of layers that are filled under names told as the program runs: `layers[f"block{i}"] = Block()`.

Such a row stays a dict in the output. Its layers take their channels first and leave them there.
"""

from __future__ import annotations

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.constructed import ListNode
from migrate.known.kinds import Kind, Module
from migrate.known.row_kinds import NamedRow
from migrate.lowering.expressions.elements import only_option
from migrate.lowering.modules.module_lists import bare_lambda
from migrate.lowering.scope import Scope
from migrate.syntax import names_written, nodes
from migrate.syntax.nodes import Expr, Statement


class NamedRows(Scope):
    """What such rows are filled with."""

    def row_entry(self, target: cst.Subscript, value: Expr) -> list[Statement] | None:
        """`layers[name] = layer`; None where that is no such row."""
        kind = self.kind_of(target.value)
        index = target.slice[0].slice
        if not isinstance(kind, NamedRow) or not isinstance(index, cst.Index):
            return None
        made, name = self.expr(value), names_written.any_of(index.value) or "{n}"
        if not isinstance(made.kind, Module):
            raise Unsupported("MIG201", f"{nodes.code(value)} is not known to be a module")
        moved = self.moving_itself(made)
        assert isinstance(moved.kind, Module)
        if "mixed" in (moved.kind.entry, moved.kind.exit):
            raise Unsupported(
                "MIG201", f"{nodes.code(value)} holds layers that want their channels in different places"
            )
        self.env.kinds[nodes.code(target.value)] = kind.having(name, moved.kind.options)
        key = target.with_changes(slice=[cst.SubscriptElement(cst.Index(self.node(index.value)))])
        return [nodes.statement("{key} = {layer}", key=key, layer=bare_lambda(layouts.first(moved)))]


def refuse_open_dict(target: cst.Subscript, kind: Kind) -> None:
    """Declines to fill an empty dict of modules in a way that is not followed: their weights would not be known."""
    row = only_option(kind)
    if isinstance(row, ListNode) and row.infix == "_" and not row.children and not row.dynamic:
        raise Unsupported("MIG201", f"{nodes.code(target)}: an nn.ModuleDict whose keys are not written out")
