"""Loops over a dict that a function returns, `for name, value in schedules(n).items()`, whose keys it writes out."""

from __future__ import annotations

import libcst as cst

from migrate.known.kinds import Function
from migrate.lowering.scope import Scope
from migrate.syntax import names_written, nodes
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


class ReturnedEntries(Scope):
    """Dicts that functions of the script's own return."""

    def returned_entries(self, node: Expr) -> tuple[list[Expr], list[Statement]]:
        """What `f(n).items()` gives in each turn, and the statement before the loop that keeps the dict; nothing of
        anything else."""
        method = node.func if isinstance(node, cst.Call) and not node.args else None
        made = method.value if isinstance(method, cst.Attribute) and method.attr.value == "items" else None
        kind = self.kind_of(made.func) if isinstance(made, cst.Call) else None
        facts = self.script.functions.get(kind.name) if isinstance(kind, Function) else None
        keys = None if facts is None else _keys(facts.node)
        if made is None or not keys:
            return [], []
        name = self.unit.own("entries")
        values = [nodes.expression(f"{name}[{key!r}]".replace("'", '"')) for key in keys]
        each: list[Expr] = [
            nodes.tuple_of([nodes.expression(f'"{key}"'), v]) for key, v in zip(keys, values, strict=True)
        ]
        return each, [nodes.statement(f"{name} = {{made}}", made=made)]


def _keys(function: cst.FunctionDef) -> list[str] | None:
    """The keys of the dict that a function returns, where it always returns one that is written out."""
    returned = [one.value for one in every(function.body, cst.Return)]
    whole = returned[0] if len(returned) == 1 and not any(every(function.body, cst.Yield)) else None
    if not isinstance(whole, cst.Dict):
        return None
    keys = [names_written.text(e.key) if isinstance(e, cst.DictElement) else None for e in whole.elements]
    known = [key for key in keys if key is not None and key.isidentifier()]
    return known if len(known) == len(set(known)) == len(keys) else None
