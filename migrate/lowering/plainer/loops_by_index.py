"""Loops of constructors over the indices of a list of layers, `for i in range(depth): ... self.layers[i].bias ...`."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every


def over_elements(init: cst.FunctionDef, is_list: Callable[[Expr], bool]) -> dict[cst.CSTNode, Expr]:
    """What such loops have in place of the index, and of the elements, once they go over the list itself. `is_list`:
    whether a function expression is `nn.ModuleList`."""
    instead: dict[cst.CSTNode, Expr] = {}
    lengths: dict[str, str] = {}  # list -> what the comprehension that makes it goes over
    fixed = set(usage.loads(init.body)) - set(usage.stores(init.body))
    for statement in suites.suite_of(init.body.body):
        match statement:
            case cst.SimpleStatementLine(
                body=[
                    cst.Assign(
                        targets=[cst.AssignTarget(target=cst.Attribute() as target)],
                        value=cst.Call(
                            func=func,
                            args=[
                                cst.Arg(
                                    value=cst.ListComp() | cst.GeneratorExp() as made,
                                    keyword=None,
                                    star="",
                                )
                            ],
                        ),
                    )
                ]
            ) if is_list(func) and not made.for_in.ifs and made.for_in.inner_for_in is None:
                over = made.for_in.iter
                known = nodes.code(over) if set(usage.loads(over)) <= fixed else ""
                lengths[nodes.dotted(target) or ""] = known if known.startswith("range(") else ""
            case cst.For(target=cst.Name(value=index), iter=over):
                elements = _elements(statement, index)
                row = next(iter(elements.values()), "")
                asked = nodes.code(over) in (lengths.get(row) or None, f"range(len({row}))")
                if elements and asked and row in lengths and set(elements.values()) == {row}:
                    taken = {*usage.loads(init.body), *usage.stores(init.body)}
                    element = nodes.name(usage.unused_name(row.rpartition(".")[2].removesuffix("s"), taken))
                    instead |= {statement.target: element, over: nodes.expression(row)}
                    instead |= dict.fromkeys(elements, element)
    return instead


def _elements(loop: cst.For, index: str) -> dict[cst.CSTNode, str]:
    """The expressions `self.layers[i]` in a loop, each with its list; none where the index is used otherwise."""
    found: dict[cst.CSTNode, str] = {}
    for each in every(loop.body, cst.Subscript):
        row = nodes.dotted(each.value) or ""
        if row.startswith("self.") and nodes.code(each) == f"{row}[{index}]":
            found[each] = row
    plain = len(found) == usage.loads(loop.body).count(index) and index not in usage.stores(loop.body)
    return found if plain and loop.orelse is None else {}
