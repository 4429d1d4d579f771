"""Tensors that objects keep and change in place: whether anything else has seen them since the method made them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

import libcst as cst

from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_BLOCKS = cst.If | cst.For | cst.While | cst.With


class _Event(Enum):
    MADE = auto()  # bound to what nothing else has
    CHANGED = auto()
    SHOWN = auto()  # something else may have it from here on


@dataclass(frozen=True)
class _Seen:
    """What a statement does to an attribute. `blocks`: the blocks around it, by identity, the outermost first;
    `loops`: those of them that run more than once."""

    event: _Event
    blocks: tuple[int, ...]
    loops: frozenset[int]


def changes_own(body: Sequence[Statement], path: str, fresh: Callable[[Expr], bool]) -> bool:
    """Whether all in-place changes of `self.x` in a method are of a tensor that the method has made itself and nothing
    else has seen by then. `fresh`: whether a value has just been made."""
    seen = list(_events(body, path, fresh, (id(body),), frozenset()))
    changed = [each for each in seen if each.event is _Event.CHANGED]
    if not changed or seen[0].event is not _Event.MADE:
        return False
    if any(each.blocks[: len(seen[0].blocks)] != seen[0].blocks for each in changed):
        return False  # it may not have been made
    again = frozenset[int]().union(*(each.loops for each in changed))
    last = max(n for n, each in enumerate(seen) if each.event is _Event.CHANGED or each.loops & again)
    return all(each.event is not _Event.SHOWN for each in seen[: last + 1])


def _events(
    body: Sequence[Statement],
    path: str,
    fresh: Callable[[Expr], bool],
    blocks: tuple[int, ...],
    loops: frozenset[int],
) -> Iterator[_Seen]:
    for statement in body:
        if isinstance(statement, cst.SimpleStatementLine):
            yield from (_Seen(e, blocks, loops) for small in statement.body for e in _of_small(small, path, fresh))
            continue
        known = isinstance(statement, _BLOCKS)
        read = suites.evaluated(statement) if known else [statement]
        yield from (_Seen(_Event.SHOWN, blocks, loops) for each in read if _shows(each, path))
        around = loops | {id(statement)} if isinstance(statement, cst.For | cst.While) else loops
        for inside in _suites(statement) if known else ():
            yield from _events(suites.suite_of(inside.body), path, fresh, (*blocks, id(inside)), around)


def _suites(statement: cst.CSTNode) -> Iterator[cst.BaseSuite]:
    branch: cst.CSTNode | None = statement
    while isinstance(branch, _BLOCKS | cst.Else):
        yield branch.body
        branch = getattr(branch, "orelse", None)


def _of_small(small: cst.CSTNode, path: str, fresh: Callable[[Expr], bool]) -> Iterator[_Event]:
    """What a small statement does, in order."""
    match small:
        case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value) if nodes.dotted(target) == path:
            yield _Event.MADE if fresh(value) else _Event.SHOWN
        case (
            cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript(value=base, slice=place))], value=value)
            | cst.AugAssign(target=cst.Subscript(value=base, slice=place), value=value)
        ) if nodes.dotted(base) == path:
            if _shows(value, path, copied=True) or any(_shows(each, path) for each in place):
                yield _Event.SHOWN
            yield _Event.CHANGED
        case _ if _shows(small, path):
            yield _Event.SHOWN


def _shows(node: cst.CSTNode, path: str, copied: bool = False) -> bool:
    """Whether evaluating may show the tensor to something else: it is named, the object is, or one of its methods is
    called. `copied`: what comes out is copied, so that only what is called can keep the tensor."""
    owner = path.partition(".")[0]
    calls = [call for call in usage.calls(node) if not _measures(call, path)]
    if any(isinstance(call.func, cst.Attribute) and nodes.dotted(call.func.value) == owner for call in calls):
        return True
    given = [arg.value for call in calls for arg in call.args] if copied else [node]
    return any(_names(each, owner, path) for each in given)


def _names(node: cst.CSTNode, owner: str, path: str) -> bool:
    """Whether a tensor is named in a node for more than its size, or its object by itself."""
    within = [each for each in every(node, cst.Attribute) if nodes.dotted(each.value) == owner]
    named = sum(nodes.dotted(each) == path for each in within)
    measured = sum(_measures(each, path) for each in every(node, (cst.Call, cst.Attribute)))
    return named > measured or sum(each.value == owner for each in every(node, cst.Name)) > len(within)


def _measures(node: cst.CSTNode, path: str) -> bool:
    """`len(x)`, `x.size(0)`, `x.shape`."""
    match node:
        case cst.Call(func=cst.Name(value="len"), args=[cst.Arg(value=inner)]):
            return nodes.dotted(inner) == path
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value="size" | "dim" | "numel"))):
            return nodes.dotted(inner) == path
        case cst.Attribute(value=inner, attr=cst.Name(value="shape" | "dtype" | "ndim" | "device")):
            return nodes.dotted(inner) == path
        case _:
            return False
