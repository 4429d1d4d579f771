"""What only moves the entries of a batch to a device, maybe those alone that are tensors. JAX places arrays itself, and
the entries stay as they are until something works on them:

for k, v in batch.items():                                         (nothing)
    if torch.is_tensor(v):
        batch[k] = v.to(device)

{k: v.to(device) if torch.is_tensor(v) else v                      dict(batch)
 for k, v in batch.items()}
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.chains import DEVICES, MOVED, devices_given
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

_NAMED = re.compile(r"(cpu|cuda|mps|xpu)(:\d+)?")
_ASKED = re.compile(r"(?i)tensor|hasattr|\.(to|cuda|cpu)\(")  # files without need not be looked at
_ASKING = frozenset({"isinstance", "hasattr", "torch.is_tensor"})


def with_entries_left(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project without such moves."""
    return [one.edited(_edits(one.source.module)) if _ASKED.search(one.source.text) else one for one in inputs]


def _edits(module: cst.Module) -> Edits:
    gone = [loop for loop in every(module, cst.For) if _only_moves(loop) and not _read_behind(module, loop)]
    parts: dict[cst.CSTNode, cst.CSTNode] = {}
    for one in every(module, cst.BaseComp):
        whole = _copied(one)
        if whole is not None:
            parts[one] = whole
    inside = {choice for one in parts for choice in every(one, cst.IfExp)}
    for one in every(module, cst.IfExp):
        left = _unmoved(one)
        if left is not None and one not in inside:
            parts[one] = left
    return Edits({loop: suites.with_comments([], loop) for loop in gone}, parts=parts)


# -- loops ------------------------------------------------------------------------------------------------------------


def _only_moves(loop: cst.For) -> bool:
    """Whether all that a loop does is to put each entry of a dict or a list, moved, in its own place."""
    if loop.orelse is not None or loop.asynchronous is not None:
        return False
    over = _entries(loop)
    body = suites.suite_of(loop.body.body)
    if over is None or len(body) != 1:
        return False
    place, entry = over
    statement = body[0]
    if isinstance(statement, cst.If):
        inner = suites.suite_of(statement.body.body)
        if statement.orelse is not None or not _asks(statement.test, {entry, place}) or len(inner) != 1:
            return False
        statement = inner[0]
    small = suites.alone(statement)
    if not isinstance(small, cst.Assign) or len(small.targets) != 1:
        return False
    moved = nodes.code(_unplaced(small.value)) in (entry, place) and _unplaced(small.value) is not small.value
    return nodes.code(small.targets[0].target) == place and moved


def _entries(loop: cst.For) -> tuple[str, str] | None:
    """The place of each entry that a loop goes through, `batch[k]`, and the name that it has; None of other loops."""
    names = usage.target_names(loop.target)
    source, call = loop.iter, loop.iter if isinstance(loop.iter, cst.Call) else None
    called = nodes.code(call.func) if call is not None else ""
    first = nodes.code(call.args[0].value) if call is not None and len(call.args) == 1 else ""
    if isinstance(loop.target, cst.Tuple) and len(names) == 2:
        if called.endswith(".items") and call is not None and not call.args and nodes.dotted(call.func):
            return f"{called.removesuffix('.items')}[{names[0]}]", names[1]
        if called == "enumerate" and first:
            return f"{first}[{names[0]}]", names[1]
        return None
    if not isinstance(loop.target, cst.Name):
        return None
    place = None
    if called.endswith(".keys") and call is not None and not call.args:
        place = f"{called.removesuffix('.keys')}[{names[0]}]"
    elif called == "range" and first.startswith("len("):
        place = f"{first.removeprefix('len(').removesuffix(')')}[{names[0]}]"
    elif nodes.dotted(source) is not None:
        place = f"{nodes.dotted(source)}[{names[0]}]"
    return None if place is None else (place, place)


def _read_behind(module: cst.Module, loop: cst.For) -> bool:
    """Whether the variables of a loop may be read outside of it and of others that bind them."""
    names = set(usage.target_names(loop.target))
    binding = [one for one in every(module, cst.For) if names & set(usage.target_names(one.target))]
    binding += [one for one in every(module, cst.BaseComp) if names & set(usage.target_names(one.for_in.target))]
    inside = {name for one in binding for name in every(one, cst.Name)}
    outside = {one.value for one in every(module, cst.Name) if one.value in names and one not in inside}
    return bool(outside & set(usage.loads(module)))


# -- expressions ------------------------------------------------------------------------------------------------------


def _copied(node: cst.BaseComp) -> Expr | None:
    """`dict(batch)`, `list(batch)` for a comprehension that moves those entries which are tensors."""
    each = node.for_in
    if each.ifs or each.inner_for_in is not None or each.asynchronous is not None:
        return None
    if isinstance(node, cst.DictComp):
        names = usage.target_names(each.target) if isinstance(each.target, cst.Tuple) else []
        left = _unmoved(node.value)
        source = each.iter.func if isinstance(each.iter, cst.Call) and not each.iter.args else None
        whole = len(names) == 2 and left is not None and [nodes.code(node.key), nodes.code(left)] == names
        if not whole or not isinstance(source, cst.Attribute) or source.attr.value != "items":
            return None
        return nodes.call("dict", source.value)
    if not isinstance(node, cst.ListComp) or not isinstance(each.target, cst.Name):
        return None
    left = _unmoved(node.elt)
    return nodes.call("list", each.iter) if left is not None and nodes.code(left) == each.target.value else None


def _unmoved(node: Expr) -> Expr | None:
    """`v` of `v.to(device) if torch.is_tensor(v) else v`; None of other expressions."""
    if not isinstance(node, cst.IfExp):
        return None
    test, moved, left = node.test, node.body, node.orelse
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        test, moved, left = test.expression, left, moved
    alike = nodes.code(_unplaced(moved)) == nodes.code(left) and not usage.calls(left)
    return left if alike and _asks(test, {nodes.code(left)}) else None


def _asks(test: Expr, entries: set[str]) -> bool:
    """`torch.is_tensor(v)`, `isinstance(v, torch.Tensor)`, `hasattr(v, "to")` of an entry."""
    if not isinstance(test, cst.Call) or nodes.dotted(test.func) not in _ASKING or not test.args:
        return False
    of_types = nodes.code(test.args[1].value) if len(test.args) > 1 else "Tensor"
    return nodes.code(test.args[0].value) in entries and ("Tensor" in of_types or of_types.strip("'\"") == "to")


def _unplaced(node: Expr) -> Expr:
    """What an expression moves to a device, the expression itself where it moves none."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in MOVED:
        given = devices_given(node)
        if given is None or len(given) > 1 or not all(map(_is_device, given)):
            break
        node = node.func.value
    return node


def _is_device(node: Expr) -> bool:
    text = nodes.literal(node)
    if isinstance(text, str):
        return _NAMED.fullmatch(text) is not None
    if isinstance(node, cst.Call):
        return nodes.dotted(node.func) == "torch.device"
    return (nodes.dotted(node) or "").rpartition(".")[2].lower() in DEVICES
