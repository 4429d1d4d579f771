"""Averages that a script keeps in a dict of its own: `ema[name].mul_(decay).add_(value, alpha=1 - decay)`.

The tensors of a dict that is made of clones, `{k: v.clone() for k, v in model.state_dict().items()}`, are seen through
it alone where nothing takes them out. So the input is taken as if it were written with new values in their places:
`ema[name] = ema[name].mul(decay).add(value, alpha=1 - decay)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.plainer.kept_mentions import Mention, mentions
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_IN_PLACE = frozenset({"mul_", "add_", "sub_", "div_", "lerp_", "copy_"})
_TAKES = frozenset({"load_state_dict", "save", "len"})  # functions that leave a dict and what it holds as they are


def with_averages_assigned(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such averages as new values."""
    return [one.edited(Edits(instead=dict(_assigned(one.source.module)))) for one in inputs]


def _assigned(module: cst.Module) -> Iterator[tuple[Statement, list[Statement]]]:
    for path in dict.fromkeys(_made_of_clones(module)):
        found = [(one, each) for each in _paths(module, path) for one in mentions(module, each)]
        if found and all(_leaves(one, each) for one, each in found):
            yield from ((one.line, [made]) for one, _ in found if (made := _new_value(one.line)) is not None)


def _paths(module: cst.Module, path: str) -> list[str]:
    """What may mean a dict in a file: its name, or its attribute of any object; nothing where that has no name."""
    if "." not in path:
        return [path]
    attribute = path.rpartition(".")[2]
    found = [nodes.dotted(one) for one in every(module, cst.Attribute) if one.attr.value == attribute]
    return [] if None in found else [one for one in dict.fromkeys(found) if one is not None]


def _made_of_clones(module: cst.Module) -> Iterator[str]:
    """The names of dicts that are made of copies."""
    for one in every(module, cst.Assign):
        value = one.value.value if isinstance(one.value, cst.DictComp) else None
        copies = isinstance(value, cst.Call) and nodes.code(value.func).endswith((".clone", "copy.deepcopy"))
        path = nodes.dotted(one.targets[0].target)
        if copies and path is not None and len(one.targets) == 1:
            yield path


def _leaves(mention: Mention, path: str) -> bool:
    """Whether a place where such a dict is written takes no tensor out of it that may be changed or seen later."""
    small = suites.alone(mention.line)
    if isinstance(small, cst.Assign) and nodes.dotted(small.targets[0].target) == path:
        return isinstance(small.value, cst.DictComp) and len(mention.around) <= 2
    if _new_value(mention.line) is not None:
        return sum(nodes.dotted(one) == path for one in every(mention.line, (cst.Name, cst.Attribute))) == 1
    call = next((one for one in reversed(mention.around) if isinstance(one, cst.Call)), None)
    if call is None:
        return False
    whole = any(arg.value is mention.node for arg in call.args)
    return whole and nodes.code(call.func).rpartition(".")[2] in _TAKES


def _new_value(line: Statement) -> Statement | None:
    """What stands for `ema[k].mul_(d).add_(v)`, or for `ema[k].copy_(v)`; None for other statements."""
    small = suites.alone(line)
    if not isinstance(line, cst.SimpleStatementLine) or not isinstance(small, cst.Expr):
        return None
    calls: list[cst.Call] = []
    receiver: Expr = small.value
    while isinstance(receiver, cst.Call) and isinstance(receiver.func, cst.Attribute):
        calls.insert(0, receiver)
        receiver = receiver.func.value
    methods = [call.func.attr.value for call in calls if isinstance(call.func, cst.Attribute)]
    if not isinstance(receiver, cst.Subscript) or not calls or not _IN_PLACE.issuperset(methods):
        return None
    if "copy_" in methods:
        if len(calls) > 1 or len(calls[0].args) != 1:
            return None
        value: Expr = nodes.expression("{v}.clone()", v=nodes.parenthesized(calls[0].args[0].value))
    else:
        value = receiver.deep_clone()
        for call, method in zip(calls, methods, strict=True):
            value = call.with_changes(func=cst.Attribute(value, cst.Name(method.removesuffix("_"))))
    return line.with_changes(body=[cst.Assign([nodes.target(receiver)], value)])
