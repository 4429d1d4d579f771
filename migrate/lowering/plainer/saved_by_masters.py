"""`save_on_master(*args, **kwargs)`, which hands what it is given to `torch.save`: it takes an object and a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, usage
from migrate.syntax.walking import every

_TAKEN = ("obj", "f")  # as torch.save calls them


def with_saved_named(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with the arguments of such functions named."""
    made: list[Input] = []
    for one in inputs:
        parts = {node: new for function in every(one.source.module, cst.FunctionDef) for node, new in _named(function)}
        made.append(one.edited(Edits(parts=parts)))
    return made


def _named(function: cst.FunctionDef) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """The parameters of such a function and its call of `torch.save`, with what stands for them."""
    match function.params:
        case cst.Parameters(
            params=[],
            kwonly_params=[],
            posonly_params=[],
            star_arg=cst.Param(name=cst.Name(value=args)),
            star_kwarg=cst.Param(name=cst.Name(value=kwargs)),
        ):
            pass
        case _:
            return
    loads = usage.loads(function.body)
    if loads.count(args) != 1 or loads.count(kwargs) != 1:
        return
    for call in usage.calls(function.body):
        given = [(arg.star, nodes.dotted(arg.value)) for arg in call.args]
        if nodes.dotted(call.func) == "torch.save" and given == [("*", args), ("**", kwargs)]:
            yield function.params, cst.Parameters([cst.Param(cst.Name(name)) for name in _TAKEN])
            yield call, nodes.call(call.func, *(nodes.name(name) for name in _TAKEN))
