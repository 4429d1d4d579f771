"""Loops over parameters that freeze some of them, and do something beside:

for name, p in model.named_parameters():     for name, p in model.named_parameters():
    if "head" not in name:                       if "head" not in name:
        p.requires_grad_(False)                      p.requires_grad_(False)
    else:                                    for name, p in model.named_parameters():
        print("training", name)                  if not "head" not in name:
                                                     print("training", name)

Freezing shows nothing, so that one loop for each does the same. The first is one that only freezes, which optimizers
tell; the second never asks what is frozen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.flags import negation
from migrate.syntax.nodes import Statement
from migrate.syntax.per_parameter import OF_PARAMETERS, switched
from migrate.syntax.walking import every

_PURE = frozenset({"any", "all", "len", "isinstance", "str"})


def with_freezing_apart(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with two loops for each such one."""
    return [one.edited(_edits(one.source.module)) for one in inputs]


def _edits(module: cst.Module) -> Edits:
    edits = Edits()
    for loop in every(module, cst.For):
        names, body = usage.target_names(loop.target), suites.suite_of(loop.body.body)
        listed = isinstance(loop.iter, cst.Call) and nodes.code(loop.iter.func).endswith(".named_parameters")
        if not listed or len(names) != 2 or loop.orelse is not None or not _can_be_parted(body, names):
            continue
        freezing, rest = _only(body, _freezes), _only(body, lambda line: not _freezes(line))
        if freezing and rest:
            second = loop.with_changes(body=suites.block_of(loop.body, rest), leading_lines=[])
            first = loop.with_changes(body=suites.block_of(loop.body, freezing))
            edits.instead[loop] = [first, second.deep_clone()]
    return edits


def _can_be_parted(statements: Sequence[Statement], names: list[str]) -> bool:
    """Whether tests are of names alone, and nothing but what freezes asks or changes a parameter, or ends the loop."""
    for one in statements:
        if isinstance(one, cst.If):
            tested = {*usage.loads(one.test)} - _PURE
            methods = {nodes.dotted(call.func) for call in usage.calls(one.test)} - _PURE
            of_name = all((method or "").partition(".")[0] == names[0] for method in methods)
            if names[1] in tested or not of_name or not all(_can_be_parted(side, names) for side in suites.sides(one)):
                return False
        elif not _freezes(one):
            asked = any(part.attr.value in OF_PARAMETERS for part in every(one, cst.Attribute))
            shown = isinstance(one, cst.SimpleStatementLine) and isinstance(suites.alone(one), cst.Expr)
            if asked or not (shown or suites.is_pass(one)):
                return False
    return True


def _freezes(line: Statement) -> bool:
    return switched(line) is not None


def _only(statements: Sequence[Statement], kept: Callable[[Statement], bool]) -> list[Statement]:
    """Some of the statements of a turn, in the branches that they are in."""
    made: list[Statement] = []
    for one in statements:
        if not isinstance(one, cst.If):
            made += [] if suites.is_pass(one) or not kept(one) else [one]
            continue
        held, otherwise = (_only(side, kept) for side in suites.sides(one))
        if held:
            made.append(one.with_changes(body=suites.block_of(one.body, held), orelse=_else(otherwise)))
        elif otherwise:
            made.append(
                one.with_changes(test=negation(one.test), body=suites.block_of(one.body, otherwise), orelse=None)
            )
    return made


def _else(statements: Sequence[Statement]) -> cst.Else | cst.If | None:
    if len(statements) == 1 and isinstance(statements[0], cst.If):
        return statements[0]
    return cst.Else(suites.block(list(statements))) if statements else None
