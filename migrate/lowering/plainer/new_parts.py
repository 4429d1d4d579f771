"""Constructors of modules that may be given a part in the place of one that they make.

`self.fc = nn.Linear(8, 2)` becomes `self.fc = nn.Linear(8, 2) if new_fc is None else new_fc`, with a parameter for it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import libcst as cst
from libcst.metadata import CodeRange

from migrate.lowering.plainer.copied_input import Exchanging
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every


@dataclass(frozen=True)
class NewPart:
    """A part that a model has in the place of another: its path in Flax, and the collections of its weights."""

    path: tuple[str, ...]
    collections: frozenset[str]


def field_of(path: Sequence[str]) -> str:
    """The field for a part in the place of that at a path."""
    return "_".join(("new", *path))


def written_path(node: cst.BaseExpression) -> str:
    """A part as the path of it: "self.body.classifier.6" for `self.body.classifier[6]`."""
    return nodes.code(node).replace("[", ".").replace("]", "")


def with_new_parts(
    node: cst.ClassDef, paths: Collection[tuple[str, ...]], positions: dict[cst.CSTNode, CodeRange]
) -> cst.ClassDef:
    """A class whose constructor may be given the parts at some paths; itself where it cannot be told how."""
    for path in sorted(paths, key=lambda path: (-len(path), path)):  # a part inside another one first
        made = _with_part(node, path, positions)
        if made is None:
            return node
        node = made
    return node


def _with_part(
    node: cst.ClassDef, path: tuple[str, ...], positions: dict[cst.CSTNode, CodeRange]
) -> cst.ClassDef | None:
    functions = [one for one in suites.suite_of(node.body.body) if isinstance(one, cst.FunctionDef)]
    init = next((one for one in functions if one.name.value == "__init__"), None)
    usual = usual_parts(init, path) if init is not None else []
    if init is None or not usual:
        return None
    text = f"{{made}} if {field_of(path)} is None else {field_of(path)}"
    instead: dict[cst.CSTNode, Expr | cst.RemovalSentinel] = {}
    for value in usual:
        loose = isinstance(value, cst.IfExp | cst.Lambda)
        instead[value] = nodes.expression(text, made=nodes.parenthesized(value) if loose else value)
    params, given = init.params, cst.Param(cst.Name(field_of(path)), default=cst.Name("None"))
    if isinstance(params.star_arg, cst.MaybeSentinel) and not params.kwonly_params:
        params = params.with_changes(params=[*params.params, given])
    else:
        params = params.with_changes(kwonly_params=[*params.kwonly_params, given])
    made = nodes.visited(init, Exchanging(instead, positions))
    return node.with_deep_changes(init, params=params, body=made.body)


def with_other_parts(body: Sequence[cst.CSTNode]) -> set[str]:
    """The attributes of self that a block puts parts into: `self.backbone.fc = nn.Linear(512, 2)`,
    `self.backbone.classifier[6] = nn.Linear(512, 2)`."""
    found: set[str] = set()
    for small in (one for statement in body for one in every(statement, cst.Assign)):
        target = small.targets[0].target
        if isinstance(small.value, cst.Call) and (nodes.dotted(small.value.func) or "").split(".")[-1][:1].isupper():
            paths = usage.paths(target.value) if isinstance(target, cst.Attribute | cst.Subscript) else ()
            found |= {path.split(".")[1] for path in paths if path.startswith("self.")}
    return found


def usual_parts(init: cst.FunctionDef, path: Sequence[str]) -> list[Expr]:
    """The expressions in a constructor that make the part at a path where it is not given; none where some are not
    known."""
    found: list[Expr] = []
    for small in every(init.body, cst.Assign):
        if f"self.{path[0]}" not in [nodes.dotted(one.target) for one in small.targets]:
            continue
        if len(small.targets) > 1:
            return []
        if nodes.is_literal(small.value, None):
            continue
        if len(path) == 1:
            found.append(_usual(small.value, path))
            continue
        row = _usual(small.value, path[:1])
        if len(path) > 2 or not isinstance(row, cst.Call) or not (nodes.dotted(row.func) or "").endswith("Sequential"):
            return []
        number = int(path[1]) if path[1].isdecimal() else len(row.args)
        if any(arg.star or arg.keyword for arg in row.args) or number >= len(row.args):
            return []
        found.append(_usual(row.args[number].value, path))
    return found


def _usual(value: Expr, path: Sequence[str]) -> Expr:
    """What is made where such a constructor is given nothing."""
    given = isinstance(value, cst.IfExp) and nodes.dotted(value.orelse) == field_of(path)
    return value.body if isinstance(value, cst.IfExp) and given else value
