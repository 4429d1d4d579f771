"""Functions that fill weights as further arguments say: `init_net(net, "xavier", gain=0.02)`.

What a function does to a layer is worked out where it is given to `apply`, or called with a model. So the input is
taken as if it had a function without such arguments for each of the settings that the file calls it with, with one
side of the branches that they decide.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from migrate.lowering.plainer.body_at_call import given_to
from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.plainer.settled_branches import with_sides
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.imported import imported_names
from migrate.syntax.mentions import by_itself
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.reckoning import reckoned
from migrate.syntax.walking import every

_CONSTANTS = {"None": None, "True": True, "False": False}
_FILLING = re.compile(r"\binit\.\w+_\(|\.(normal_|uniform_|zero_|fill_)\(")


def with_initialisers_told(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such functions."""
    return [_told(one) if _FILLING.search(one.source.text) else one for one in inputs]


def _told(one: Input) -> Input:
    module, edits = one.source.module, Edits()
    taken = {name.value for name in every(module, cst.Name)}
    fixed = set(imported_names(module)) | _CONSTANTS.keys()
    for function in suites.suite_of(module.body):
        if not isinstance(function, cst.FunctionDef) or not _is_filling(nodes.code(function.body)):
            continue
        uses = _uses(module, function, fixed)
        if not uses:
            continue
        made: dict[str, cst.FunctionDef] = {}
        for use in uses:
            label = " ".join(f"{name}={nodes.code(value)}" for name, value in sorted(use.settings.items()))
            if label not in made:
                name = function.name.value if not made else usage.unused_name(function.name.value, taken)
                taken.add(name)
                made[label] = _settled(function, use.settings, name)
            edits.parts[use.node] = use.instead(made[label].name.value)
        edits.instead[function] = list(made.values())
    return one.edited(edits) if edits else one


def _is_filling(body: str) -> bool:
    """Whether a function fills weights, and does not train them: `w.grad.zero_()` is no initial weight."""
    return _FILLING.search(body) is not None and ".backward(" not in body


@dataclass(frozen=True)
class _Use:
    """An expression that uses a function with settings, and what of its arguments is left, if it is called there:
    `partial(init, std=0.02)` and `make_init(0.02)` give a function."""

    node: Expr
    settings: dict[str, Expr]
    left: list[cst.Arg] | None

    def instead(self, name: str) -> Expr:
        return nodes.name(name) if self.left is None else cst.Call(nodes.name(name), self.left)


def _uses(module: cst.Module, function: cst.FunctionDef, fixed: set[str]) -> list[_Use]:
    """The uses of a function with settings; none where one of its mentions is anything else."""
    name, params = function.name.value, function.params
    plain = isinstance(params.star_arg, cst.Param) or params.star_kwarg is not None or params.posonly_params
    if plain or function.decorators or len([*params.params, *params.kwonly_params]) < 2 - bool(_returned(function)):
        return []
    found: list[_Use] = []
    named: set[cst.CSTNode] = {function.name}
    for node in every(module, (cst.Lambda, cst.Call)):
        call = node.body if isinstance(node, cst.Lambda) else node
        if not isinstance(call, cst.Call) or call.func in named:
            continue
        if isinstance(call.func, cst.Name) and call.func.value == name:
            use = _call(call, function, fixed)
            if isinstance(node, cst.Lambda) and use is not None:
                use = _Use(node, use.settings, None) if _hands_on(node, use.left) else None
            named.add(call.func)
        elif _applies(call, name):
            use = _as_value(call.args[0].value, [], function, fixed)
            named.add(call.args[0].value)
        elif nodes.code(call.func) in ("partial", "functools.partial") and nodes.code(call.args[0].value) == name:
            use = _as_value(call, call.args[1:], function, fixed)
            named.add(call.args[0].value)
        else:
            continue
        if use is None:
            return []
        found.append(use)
    kept = {tuple(sorted(use.settings)) for use in found}
    bound = set(usage.stores(function.body)) & {one for names in kept for one in names}
    others = [one for one in by_itself(module, name) if one not in named]
    return [] if len(kept) != 1 or kept == {()} or bound or others else found


def _hands_on(node: cst.Lambda, left: Sequence[cst.Arg] | None) -> bool:
    """Whether a lambda gives a call what it is given, `lambda m: init(m, 0.02)`. `left`: the other arguments."""
    params = [one.name.value for one in node.params.params]
    return left is not None and len(params) == 1 and [nodes.code(arg.value) for arg in left] == params


def _call(call: cst.Call, function: cst.FunctionDef, fixed: set[str]) -> _Use | None:
    given = given_to(function, call, method=False)
    if given is None:
        return None
    settings = {name: value for name, value in given.items() if _is_fixed(value, fixed)}
    if _returned(function) is not None:
        return _Use(call, settings, None) if len(settings) == len(given) else None
    return _Use(call, settings, [cst.Arg(value) for name, value in given.items() if name not in settings])


def _as_value(node: Expr, given: Sequence[cst.Arg], function: cst.FunctionDef, fixed: set[str]) -> _Use | None:
    """The function as what is then given the module alone: as it is, or `partial(init, std=0.02)`."""
    params = [*function.params.params, *function.params.kwonly_params]
    settings = {one.name.value: one.default for one in params if one.default is not None}
    settings |= {arg.keyword.value: arg.value for arg in given if arg.keyword is not None}
    whole = all(arg.keyword is not None for arg in given) and len(settings) == len(params) - 1
    return _Use(node, settings, None) if whole and all(_is_fixed(one, fixed) for one in settings.values()) else None


def _applies(call: cst.Call, name: str) -> bool:
    """Whether a call gives a function to `apply` as it is."""
    path = nodes.dotted(call.func) or ""
    return path.endswith(".apply") and len(call.args) == 1 and nodes.dotted(call.args[0].value) == name


def _is_fixed(value: Expr, fixed: set[str]) -> bool:
    """Whether an expression means the same everywhere in the file."""
    return set(usage.loads(value)) <= fixed


def _returned(function: cst.FunctionDef) -> cst.FunctionDef | None:
    """The function inside that a function makes and gives, and does no more; None of other functions."""
    body = suites.below_docstring(function)
    inner, last = (body[0], suites.alone(body[1])) if len(body) == 2 else (None, None)
    if not isinstance(inner, cst.FunctionDef) or not isinstance(last, cst.Return) or last.value is None:
        return None
    return inner if nodes.code(last.value) == inner.name.value else None


def _settled(function: cst.FunctionDef, settings: dict[str, Expr], name: str) -> cst.FunctionDef:
    """A function without some arguments."""
    values = {key: nodes.parenthesized(value) for key, value in settings.items()}
    inner = _returned(function)
    body = nodes.substituted((inner or function).body, values).deep_clone()
    params = (inner or function).params
    left = nodes.separated([cst.Param(one.name) for one in params.params if one.name.value not in settings])
    return function.with_changes(
        name=cst.Name(name),
        params=cst.Parameters([one.deep_clone() for one in left]),
        body=body.with_changes(body=_one_side(suites.suite_of(nodes.visited(body, _Chosen()).body))),
    )


class _Chosen(cst.CSTTransformer):
    """Puts one side of a choice that constants decide in its place."""

    def leave_IfExp(self, original_node: cst.IfExp, updated_node: cst.IfExp) -> Expr:
        told = reckoned(updated_node.test, _CONSTANTS)
        return updated_node if told is ... else updated_node.body if told else updated_node.orelse


def _one_side(body: Sequence[Statement]) -> list[Statement]:
    """Statements without the branches that constants decide."""
    made: list[Statement] = []
    for statement in body:
        told = reckoned(statement.test, _CONSTANTS) if isinstance(statement, cst.If) else ...
        if isinstance(statement, cst.If):
            sides = [_one_side(side) for side in suites.sides(statement)]
            made += with_sides(statement, *sides) if told is ... else sides[0 if told else 1]
        elif isinstance(statement, cst.For | cst.FunctionDef | cst.With):
            body = _one_side(suites.suite_of(statement.body.body))
            made.append(statement.with_changes(body=suites.block_of(statement.body, body)))
        else:
            made.append(statement)
    return made
