"""Functions of torch's that a project has a copy of, from the time before torch had them: `trunc_normal_`."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every

_NAME, _HELPER = "trunc_normal_", "_no_grad_trunc_normal_"
_SIGNATURE = [("tensor", ...), ("mean", 0), ("std", 1), ("a", -2), ("b", 2)]
# What the copies do to the tensor: by the inverse of the distribution function, uniform numbers are made normal ones.
_STEPS = [
    "tensor.uniform_(2 * l - 1, 2 * u - 1)",
    "tensor.erfinv_()",
    "tensor.mul_(std * math.sqrt(2.))",
    "tensor.add_(mean)",
    "tensor.clamp_(min=a, max=b)",
]


def with_functions_of_torch(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with torch's own function in the place of such copies."""
    made: list[Input] = []
    for one in inputs:
        instead = _instead(one.source.module) if _HELPER in one.source.text else {}
        made.append(one.edited(Edits(instead)))
    return made


def _instead(module: cst.Module) -> dict[Statement, list[Statement]]:
    found = {one.name.value: one for one in module.body if isinstance(one, cst.FunctionDef)}
    public, helper = found.get(_NAME), found.get(_HELPER)
    if public is None or helper is None or not (_is_public(public) and _is_helper(helper)):
        return {}
    mentions = [one for one in every(module, cst.Name) if one.value == _HELPER]
    if len(mentions) != 2 or usage.stores(module).count(_NAME) != 1:
        return {}
    return {public: [nodes.statement(f"from torch.nn.init import {_NAME}")], helper: []}


def _is_public(function: cst.FunctionDef) -> bool:
    given = [
        (one.name.value, ... if one.default is None else nodes.literal(one.default)) for one in function.params.params
    ]
    body = [one for one in suites.suite_of(function.body.body) if not suites.is_docstring(one)]
    last = suites.alone(body[0]) if len(body) == 1 else None
    call = nodes.code(last.value) if isinstance(last, cst.Return) and last.value is not None else ""
    return given == _SIGNATURE and call == f"{_HELPER}(tensor, mean, std, a, b)"


def _is_helper(function: cst.FunctionDef) -> bool:
    names = [one.name.value for one in function.params.params]
    lines = [nodes.code(one).strip() for one in every(function.body, cst.Expr)]
    steps = [line for line in lines if line.startswith("tensor.")]
    return names == [name for name, _ in _SIGNATURE] and steps == _STEPS
