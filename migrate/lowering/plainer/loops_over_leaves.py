"""Functions of the script's own that step tensors without a model: `sgd([w, b], lr, batch_size)`.

A tensor that is trained is its name, and so is its gradient: a function cannot be given a list of them to change. So
the input is taken as if the body of such a function stood where it is called.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import libcst as cst

from migrate.known.kinds import Items, Leaf, Place
from migrate.known.qualified import inside
from migrate.known.script import Script
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.plainer.copied_input import Edits, edited
from migrate.lowering.rounds import Input, Lowered
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_Calls = list[tuple[cst.SimpleStatementLine, cst.Call, cst.FunctionDef | None]]  # and the function around each


def with_steps_in_place(inputs: Sequence[Input], lowered: Sequence[Lowered]) -> list[Input] | None:
    """The files of a project with the bodies of such functions where they are called; None where there are none."""
    script = lowered[0].script
    made: list[Input] = []
    for one in inputs:
        edits = Edits()
        for function in (each for each in one.source.module.body if isinstance(each, cst.FunctionDef)):
            taken = (one.scope, function.name.value) in script.taken_from.values()
            calls = [] if taken or not _steps(function) else _calls(one.source.module, function)
            if not any(_is_of_leaves(one, each, script) for each in calls):
                continue
            bodies = [_in_place(one.source.module, function, call, around) for _, call, around in calls]
            if None not in bodies:
                edits.instead[function] = []
                for (line, _, _), body in zip(calls, bodies, strict=True):
                    edits.instead[line] = suites.with_comments(body or [], line)
        made.append(replace(one, source=edited(one.source, edits)) if edits.instead else one)
    return made if any(new is not old for new, old in zip(made, inputs, strict=True)) else None


def _steps(function: cst.FunctionDef) -> bool:
    """Whether a function only works on gradients that it finds: it gives nothing back."""
    params = function.params
    stars = isinstance(params.star_arg, cst.Param) or params.star_kwarg is not None or params.kwonly_params
    leaves = next(every(function.body, (cst.Return, cst.Yield, cst.Global, cst.Nonlocal, cst.FunctionDef)), None)
    return "grad" in usage.attributes(function.body) and not stars and leaves is None and len(function.decorators) <= 1


def _calls(module: cst.Module, function: cst.FunctionDef) -> _Calls:
    """The calls of a function, each a statement of its own; none where it is used otherwise."""
    name = function.name.value
    around = [None, *(each for each in module.body if isinstance(each, cst.FunctionDef))]
    found: _Calls = []
    for outer in around:
        closed = (cst.FunctionDef, cst.ClassDef)
        roots = [outer.body] if outer is not None else [each for each in module.body if not isinstance(each, closed)]
        for line in (each for root in roots for each in every(root, cst.SimpleStatementLine, closed)):
            small = line.body[0]
            if len(line.body) == 1 and isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
                found += [(line, small.value, outer)] if nodes.dotted(small.value.func) == name else []
    mentions = sum(each.value == name for each in every(module, cst.Name))
    return found if mentions == len(found) + 1 else []


def _is_of_leaves(one: Input, call: tuple[object, cst.Call, cst.FunctionDef | None], script: Script) -> bool:
    """Whether a call is given tensors that are trained without a model."""
    _, node, around = call
    scope = one.scope if around is None else inside(one.scope, around.name.value)
    kinds = script.finals.get(scope, {})
    for arg in node.args:
        parts = nodes.elements(arg.value) if isinstance(arg.value, cst.List | cst.Tuple) else [arg.value]
        names = [nodes.dotted(part) or "" for part in parts]
        held = [kinds.get(name) for name in names]
        inner = [part for kind in held if isinstance(kind, Items) for part in kind.items or ()]
        if any(Place(scope, name) in script.leaves for name in names) or any(isinstance(each, Leaf) for each in inner):
            return True
    return False


def _in_place(
    module: cst.Module, function: cst.FunctionDef, call: cst.Call, around: cst.FunctionDef | None
) -> list[Statement] | None:
    """The body of a function for one call; None where the names in it would not mean the same there."""
    names = [each.name.value for each in function.params.params]
    given = {each.name.value: each.default for each in function.params.params if each.default is not None}
    given |= dict(zip(argument_names(call.args, names), (arg.value for arg in call.args), strict=True))
    body = [each for each in suites.suite_of(function.body.body) if not suites.is_docstring(each)]
    own = set(usage.stores(body))
    free = set(usage.loads(body)) - own - set(names)
    bound = set() if around is None else {*usage.stores(around.body), *(p.name.value for p in around.params.params)}
    if given.keys() != set(names) or own & set(names) or free & bound or not all(map(_is_plain, given.values())):
        return None
    outside = {each.value for root in module.body if root is not function for each in every(root, cst.Name)}
    renamed = {name: nodes.name(usage.unused_name(name, outside)) for name in own}
    made = [nodes.substituted(each, {**given, **renamed}) for each in body]
    return list(_under(function, made))


def _under(function: cst.FunctionDef, body: Sequence[Statement]) -> Iterator[Statement]:
    """Statements in the context that the function is decorated with."""
    if not function.decorators:
        yield from body
        return
    yield cst.With([cst.WithItem(function.decorators[0].decorator)], suites.block(body))


def _is_plain(node: Expr) -> bool:
    """Whether an expression may be evaluated more than once."""
    return all(nodes.dotted(call.func) == "len" for call in usage.calls(node))
