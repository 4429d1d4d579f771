"""Parts that a constructor puts into eval mode after it has made them:

self.vgg = vgg16(pretrained=True).features
self.vgg.eval()

In Flax the mode is told where a part is made. The input is taken as if that were written so: `.features.eval()`.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.lowering.weights.freezing import only_switches
from migrate.syntax import nodes, suites, usage
from migrate.syntax.mentions import times_defined
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


def with_eval_where_made(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such parts in eval mode as they are made; not where a class has an `eval` of its own,
    which may return something else than its module."""
    own = times_defined(one.source.module for one in inputs)["eval"]
    return list(inputs) if own else [one.edited(_edits(one.source.module)) for one in inputs]


def _edits(module: cst.Module) -> Edits:
    edits = Edits()
    for node in every(module, cst.ClassDef):
        if not is_named_module(node):
            continue
        for method in suites.suite_of(node.body.body):
            if isinstance(method, cst.FunctionDef) and method.name.value == "__init__":
                _moved(edits, suites.suite_of(method.body.body))
    return edits


def is_named_module(node: cst.ClassDef) -> bool:
    """Whether a class inherits from what is called a module: `nn.Module`, `LightningModule`."""
    return any((nodes.dotted(base.value) or "").endswith("Module") for base in node.bases)


def _moved(edits: Edits, body: Sequence[Statement]) -> None:
    for number, statement in enumerate(body):
        path = _put_into_eval(statement)
        before = [one for one in reversed(body[:number]) if path in usage.paths(one) and not _switches(one)]
        made = before[0] if path and before else None
        value = _made(made, path) if made is not None else None
        if value is None or made in edits.instead:
            continue
        edits.instead[statement] = []
        edits.parts[value] = nodes.call(cst.Attribute(nodes.parenthesized(value), cst.Name("eval")))


def _put_into_eval(statement: Statement) -> str:
    """What a statement puts into eval mode: "self.vgg" of `self.vgg.eval()`; "" of other statements."""
    match suites.alone(statement):
        case cst.Expr(cst.Call(func=cst.Attribute(value=owner, attr=cst.Name("eval")), args=[])):
            return nodes.dotted(owner) or ""
    return ""


def _switches(statement: Statement) -> bool:
    """Whether a statement only says which weights are trained, which is the same in any mode."""
    return isinstance(statement, cst.For) and only_switches(statement)


def _made(statement: Statement, path: str) -> Expr | None:
    """The call, or the part of one, that a statement gives a name or an attribute; None of other statements."""
    match suites.alone(statement):
        case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value):
            made = value
            while isinstance(made, cst.Attribute | cst.Subscript):
                made = made.value
            return value if nodes.dotted(target) == path and isinstance(made, cst.Call) else None
    return None
