"""Constructors that do no more than hand their arguments on: `super().__init__(size, width, padding_idx=0)`."""

from __future__ import annotations

import libcst as cst

from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.modules.inheritance import is_super_init
from migrate.syntax import nodes, suites, usage


def handed_on(init: cst.FunctionDef) -> cst.Call | None:
    """The call of a constructor that does no more than `super().__init__(...)` with its own arguments, written out."""
    body = suites.below_docstring(init)
    small = body[0].body[0] if len(body) == 1 and isinstance(body[0], cst.SimpleStatementLine) else None
    call = small.value if isinstance(small, cst.Expr) else None
    if not isinstance(call, cst.Call) or not is_super_init(body[0]) or any(arg.star for arg in call.args):
        return None
    params = init.params
    plain = not (params.kwonly_params or params.posonly_params or params.star_kwarg)
    if not plain or isinstance(params.star_arg, cst.Param) or nodes.dotted(call.func) is not None:
        return None
    names = {parameter.name.value for parameter in params.params[1:]}
    read = {name for arg in call.args for name in usage.loads(arg.value)}
    read |= {name for p in params.params if p.default is not None for name in usage.loads(p.default)}
    return call if read <= names | {"None", "True", "False"} else None


def as_of_layer(node: cst.Call, init: cst.FunctionDef) -> cst.Call | None:
    """A call of such a class as a call of the layer that it inherits from; None where its arguments are not told."""
    call = handed_on(init)
    parameters = init.params.params[1:]
    names = [parameter.name.value for parameter in parameters]
    defaults = {p.name.value: p.default for p in parameters if p.default is not None}
    given = zip(argument_names(node.args, names), node.args, strict=True)
    values = defaults | {name: arg.value for name, arg in given}
    if call is None or any(arg.star for arg in node.args) or values.keys() != set(names):
        return None
    written = nodes.substituted(call, {name: nodes.parenthesized(value) for name, value in values.items()})
    return node.with_changes(args=written.args)
