"""Initial weights that functions make by a weight's size, and methods that fill weights by what they are given:

self.fc.weight.data = fanin_init(self.fc.weight.data.size())      v = 1.0 / np.sqrt(self.fc.weight.data.size()[0])
                                                                  self.fc.weight.data.uniform_(-v, v)

self.init_weights(3e-3)                                           self.fc.weight.data.uniform_(-3e-3, 3e-3)

The input is taken as if their bodies stood in the constructor.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.lowering.plainer.body_at_call import Site, at_call
from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.mentions import attributes_named
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_MADE = ("torch.Tensor", "torch.empty", "torch.FloatTensor")  # that functions fill, of a size


def with_filled_in_place(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such weights filled where they are."""
    inputs = [one.edited(_methods_in_place(one.source.module, inputs)) for one in inputs]
    return [one.edited(_functions_in_place(one.source.module)) for one in inputs]


# -- methods ----------------------------------------------------------------------------------------------------------


def _methods_in_place(module: cst.Module, inputs: Sequence[Input]) -> Edits:
    edits = Edits()
    for cls in every(module, cst.ClassDef):
        methods = {one.name.value: one for one in suites.suite_of(cls.body.body) if isinstance(one, cst.FunctionDef)}
        constructor = methods.get("__init__")
        for line in suites.suite_of(constructor.body.body) if constructor is not None else ():
            call = suites.call_alone(line)
            path = (nodes.dotted(call.func) or "") if call is not None else ""
            method = methods.get(path.removeprefix("self."))
            if call is None or method is None or not path.startswith("self.") or constructor is None:
                continue
            if len(method.params.params) < 2 or not _only_fills(method) or not _is_own(method, cls, inputs):
                continue
            site = Site(cst.ensure_type(line, cst.SimpleStatementLine), call, constructor)
            body = at_call(method, site, method=True)
            if body is not None:
                edits.instead |= {line: body, method: []}
    return edits


def _is_own(method: cst.FunctionDef, cls: cst.ClassDef, inputs: Sequence[Input]) -> bool:
    """Whether a class asks once for a method, and nobody else does: other classes may have one of the same name."""
    name = method.name.value
    asked = sum(len(attributes_named(one.source.module, name)) for one in inputs)
    classes = [each for one in inputs for each in every(one.source.module, cst.ClassDef)]
    having = [one for one in classes if any(part.name.value == name for part in every(one, cst.FunctionDef))]
    return len(attributes_named(cls, name)) == 1 and asked == sum(len(attributes_named(one, name)) for one in having)


def _only_fills(method: cst.FunctionDef) -> bool:
    """Whether all that a method does is to fill weights of its own layers."""
    return all(_fills(one) for one in suites.below_docstring(method))


def _fills(statement: Statement) -> bool:
    call = suites.call_alone(statement)
    if call is not None:
        return isinstance(call.func, cst.Attribute) and usage.is_in_place(call.func.attr.value)
    return _given(statement) is not None


def _given(statement: cst.CSTNode) -> tuple[Expr, cst.Call] | None:
    """The weight, and the call, of `self.fc.weight.data = fanin_init(self.fc.weight.data.size())`."""
    small = suites.alone(statement)
    if not isinstance(small, cst.Assign) or len(small.targets) != 1 or not isinstance(small.value, cst.Call):
        return None
    target = small.targets[0].target
    path = nodes.dotted(target) or ""
    own = path.startswith("self.") and path.endswith((".weight.data", ".bias.data"))
    return (target, small.value) if own and isinstance(target, cst.Attribute) else None


# -- functions --------------------------------------------------------------------------------------------------------


def _functions_in_place(module: cst.Module) -> Edits:
    edits = Edits()
    functions = {one.name.value: one for one in module.body if isinstance(one, cst.FunctionDef)}
    for around in every(module, cst.FunctionDef):
        for line in suites.suite_of(around.body.body):
            given = _given(line)
            function = functions.get(nodes.dotted(given[1].func) or "") if given is not None else None
            if given is None or function is None or not _asks_size(given[1], nodes.code(given[0])):
                continue
            filled = _filled(function)
            site = Site(cst.ensure_type(line, cst.SimpleStatementLine), given[1], around)
            body = at_call(function, site, method=False) if filled is not None else None
            if body is not None:
                edits.instead[line] = [*body[:-1], _in_place(body[-1], given[0])]
    return edits


def _asks_size(call: cst.Call, weight: str) -> bool:
    """Whether a call is given the size of the same weight."""
    plain = [weight, weight.removesuffix(".data")]
    asked = [text for one in plain for text in (f"{one}.size()", f"{one}.shape")]
    return bool(call.args) and nodes.code(call.args[0].value) in asked


def _filled(function: cst.FunctionDef) -> cst.Call | None:
    """What a function returns, `torch.Tensor(size).uniform_(-v, v)`, of its first parameter."""
    last = suites.alone(suites.suite_of(function.body.body)[-1])
    call = last.value if isinstance(last, cst.Return) else None
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute) or not function.params.params:
        return None
    made = call.func.value
    of_size = isinstance(made, cst.Call) and nodes.dotted(made.func) in _MADE and len(made.args) == 1
    first = function.params.params[0].name.value
    own = of_size and isinstance(made, cst.Call) and nodes.dotted(made.args[0].value) == first
    return call if own and usage.is_in_place(call.func.attr.value) else None


def _in_place(line: Statement, weight: Expr) -> Statement:
    """`weight.uniform_(-v, v)` for `weight = torch.Tensor(size).uniform_(-v, v)`."""
    small = cst.ensure_type(cst.ensure_type(line, cst.SimpleStatementLine).body[0], cst.Assign)
    call = cst.ensure_type(small.value, cst.Call)
    func = cst.ensure_type(call.func, cst.Attribute).with_changes(value=weight.deep_clone())
    return cst.ensure_type(line, cst.SimpleStatementLine).with_changes(body=[cst.Expr(call.with_changes(func=func))])
