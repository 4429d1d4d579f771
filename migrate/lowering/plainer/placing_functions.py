"""Functions that only move what they are given to a device: `to_device(data, device)`, of models, batches and lists.

JAX places arrays itself. The input is taken as if what they are given stood where they are called:

model = to_device(Net(), device)      model = Net()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import libcst as cst

from migrate.lowering.plainer.copied_input import Exchanging
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites
from migrate.syntax.chains import DEVICES, MOVED, devices_given
from migrate.syntax.mentions import mentions, times_defined
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_SEQUENCES = frozenset({"list", "tuple"})


def with_nothing_placed(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project without such functions."""
    top = [one for file in inputs for one in suites.suite_of(file.source.module.body)]
    found = {one.name.value: one for one in top if isinstance(one, cst.FunctionDef) and _only_places(one)}
    if not found:
        return list(inputs)
    defined = times_defined(file.source.module for file in inputs)
    gone = {
        name: one
        for name, one in found.items()
        if defined[name] == 1 and all(_only_called(name, one, file) for file in inputs)
    }
    return [_without(file, gone) for file in inputs] if gone else list(inputs)


# -- what such a function is ------------------------------------------------------------------------------------------


def _only_places(node: cst.FunctionDef) -> bool:
    if node.decorators or node.asynchronous is not None:
        return False
    names = [one.name.value for one in node.params.params]
    others = isinstance(node.params.star_arg, cst.Param) or node.params.star_kwarg or node.params.kwonly_params
    if not 1 <= len(names) <= 2 or others or (len(names) == 2 and names[1] not in DEVICES):
        return False
    body = suites.below_docstring(node)
    moves = any(isinstance(one.func, cst.Attribute) and one.func.attr.value in MOVED for one in every(node, cst.Call))
    return moves and _places(body, node.name.value, names[0])


def _places(body: Sequence[Statement], function: str, name: str) -> bool:
    """Whether statements return what a name stands for, on a device, whichever way they go."""
    for number, statement in enumerate(body):
        small = suites.alone(statement)
        if isinstance(small, cst.Return):
            return small.value is not None and _is_placed(small.value, function, name)
        if not isinstance(statement, cst.If) or not _asks_type(statement.test, name):
            return False
        side, other = suites.sides(statement)
        left = body[number + 1 :]
        return _places([*side, *left], function, name) and _places([*other, *left], function, name)
    return False


def _asks_type(test: Expr, name: str) -> bool:
    """`isinstance(data, (list, tuple))`, `hasattr(data, "to")`, `torch.is_tensor(data)`, `device is None`."""
    if isinstance(test, cst.Comparison):
        return nodes.dotted(test.left) in DEVICES
    if not isinstance(test, cst.Call) or nodes.dotted(test.func) not in ("isinstance", "hasattr", "torch.is_tensor"):
        return False
    return nodes.dotted(test.args[0].value) == name


def _is_placed(value: Expr, function: str, name: str) -> bool:
    """Whether an expression is what a name stands for, or a list, a tuple or a dict of all that this has, placed."""
    if nodes.dotted(value) == name:
        return True
    if isinstance(value, cst.ListComp | cst.GeneratorExp):
        own = value.for_in.target
        whole = _is_whole(value.for_in) and nodes.dotted(value.for_in.iter) == name
        return whole and isinstance(own, cst.Name) and _is_placed(value.elt, function, own.value)
    if isinstance(value, cst.DictComp):
        pair, items = value.for_in.target, value.for_in.iter
        names = [nodes.dotted(one) for one in nodes.elements(pair)] if isinstance(pair, cst.Tuple) else []
        whole = _is_whole(value.for_in) and nodes.code(items) == f"{name}.items()" and len(names) == 2
        return whole and nodes.dotted(value.key) == names[0] and _is_placed(value.value, function, names[1] or "")
    if not isinstance(value, cst.Call) or (not value.args and nodes.dotted(value.func) is None):
        return False
    if isinstance(value.func, cst.Attribute) and value.func.attr.value in MOVED:
        return _places_only(value) and _is_placed(value.func.value, function, name)
    called = nodes.dotted(value.func)
    if called in (function, *_SEQUENCES) or nodes.code(value.func) == f"type({name})":
        rest = all(nodes.dotted(arg.value) in DEVICES for arg in value.args[1:])
        return bool(value.args) and not value.args[0].star and rest and _is_placed(value.args[0].value, function, name)
    return False


def _is_whole(loop: cst.CompFor) -> bool:
    return not loop.ifs and loop.inner_for_in is None


def _places_only(call: cst.Call) -> bool:
    """Whether `.to(...)` is given a device alone."""
    given = devices_given(call)
    return given is not None and all((nodes.dotted(one) or "") in DEVICES for one in given)


# -- where it is called -----------------------------------------------------------------------------------------------


def _only_called(name: str, function: cst.FunctionDef, file: Input) -> bool:
    """Whether a file does nothing with a function but call it, and import it."""
    module = file.source.module
    calls = [one for one in every(module, cst.Call) if nodes.dotted(one.func) == name]
    aliases = [one for one in every(module, cst.ImportAlias) if nodes.code(one.name) == name]
    plain = all(_given(one) is not None for one in calls) and not any(one.asname for one in aliases)
    return plain and not mentions(module, name, {*every(function, cst.Name), *(one.func for one in calls)})


def _given(call: cst.Call) -> Expr | None:
    """What a call has placed; None where that is not its first argument."""
    first = call.args[0] if call.args else None
    return None if first is None or first.star or first.keyword is not None else first.value


def _without(file: Input, gone: dict[str, cst.FunctionDef]) -> Input:
    """A file without some functions, and with what it gives them where it calls them."""
    return file.visited(_Plain(gone, dict(file.source.positions)))


class _Plain(Exchanging):
    def __init__(self, gone: dict[str, cst.FunctionDef], positions: dict[cst.CSTNode, Any]) -> None:
        super().__init__({one: cst.RemoveFromParent() for one in gone.values()}, positions)
        self.gone = gone

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return node not in self.instead

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        if nodes.dotted(original_node.func) not in self.gone:
            return updated_node
        return nodes.parenthesized(updated_node.args[0].value)

    def leave_SimpleStatementLine(self, original_node: cst.SimpleStatementLine, updated_node: Any) -> Any:
        small = suites.alone(original_node)
        call = small.value if isinstance(small, cst.Expr) else None
        if isinstance(call, cst.Call) and nodes.dotted(call.func) in self.gone:
            return cst.RemoveFromParent()  # `to_device(model, device)`, alone
        if isinstance(small, cst.ImportFrom) and not isinstance(small.names, cst.ImportStar):
            left = [one for one in small.names if nodes.code(one.name) not in self.gone]
            if not left:
                return cst.RemoveFromParent()
            if len(left) < len(small.names):
                left[-1] = left[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
                return updated_node.with_changes(body=[small.with_changes(names=left)])
        return updated_node
