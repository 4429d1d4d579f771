"""Loops over the names of the weights that a recurrent network keeps, a list for each layer and direction.

`for names in self.rnn._all_weights: for name in filter(lambda n: "bias" in n, names): bias = getattr(self.rnn, name)`
is `for name, bias in self.rnn.named_parameters(): if "bias" in name:`.
"""

from __future__ import annotations

import libcst as cst

from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement


def by_names_of_rows(node: cst.For) -> cst.For | None:
    """Such a loop as one over named parameters; None of others."""
    owner, rows = (nodes.dotted(node.iter) or "").rpartition(".")[::2]
    body = suites.suite_of(node.body.body)
    inner = body[0] if len(body) == 1 else None
    if rows != "_all_weights" or not isinstance(inner, cst.For) or not isinstance(inner.target, cst.Name):
        return None
    name, over = inner.target, inner.iter
    test: Expr | None = None
    if isinstance(over, cst.Call) and nodes.dotted(over.func) == "filter" and len(over.args) == 2:
        chosen, over = over.args[0].value, over.args[1].value
        params = chosen.params.params if isinstance(chosen, cst.Lambda) else ()
        if not isinstance(chosen, cst.Lambda) or len(params) != 1:
            return None
        test = nodes.substituted(chosen.body, {params[0].name.value: name})
    first, *rest = suites.suite_of(inner.body.body)
    got = usage.bindings(first)
    taken = [nodes.code(value) for _, value in got] == [f"getattr({owner}, {name.value})"]
    if nodes.code(over) != nodes.code(node.target) or not taken or not isinstance(got[0][0], cst.Name) or not rest:
        return None
    filled: list[Statement] = rest if test is None else [cst.If(test, suites.block(rest))]
    pair = cst.Tuple([cst.Element(name), cst.Element(got[0][0])], lpar=[], rpar=[])
    listed = nodes.call(nodes.expression(f"{owner}.named_parameters"))
    return node.with_changes(target=pair, iter=listed, body=suites.block(filled), leading_lines=node.leading_lines)
