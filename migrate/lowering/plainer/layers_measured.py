"""Functions that are given a layer to ask how long an axis of its weight is:

def hidden_init(layer):                                   def hidden_init(fan_in):
    fan_in = layer.weight.data.size()[0]                      lim = 1.0 / np.sqrt(fan_in)
    lim = 1.0 / np.sqrt(fan_in)                               return -lim, lim
    return -lim, lim

hidden_init(self.fc1)                                     hidden_init(self.fc1.weight.data.size()[0])

A layer has no weights in Flax where it is made. The input is taken as if the callers asked, who know what made it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.mentions import by_itself, mentions
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

_MEASURE = re.compile(r"\.weight(\.data)?(\.size\(\)\[\d\]|\.size\(\d\)|\.shape\[\d\])")


def with_layers_measured(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such functions taking a number."""
    if not any(_MEASURE.search(one.source.text) for one in inputs):
        return list(inputs)
    edits = [Edits() for _ in inputs]
    for one, own in zip(inputs, edits, strict=True):
        for function in (line for line in one.source.module.body if isinstance(line, cst.FunctionDef)):
            for number, parameter in enumerate(function.params.params):
                _measure_outside(function, number, parameter, own, inputs, edits)
    return [one.edited(edit) for one, edit in zip(inputs, edits, strict=True)]


def _measure_outside(
    function: cst.FunctionDef,
    number: int,
    parameter: cst.Param,
    own: Edits,
    inputs: Sequence[Input],
    edits: Sequence[Edits],
) -> None:
    """Notes that the callers of a function measure what they give one of its parameters, where they all can."""
    name = parameter.name.value
    asked = [one for one in every(function.body, (cst.Subscript, cst.Call)) if _asks(one, name)]
    if not asked or len(asked) != len(by_itself(function.body, name)) or len(set(map(nodes.code, asked))) > 1:
        return
    calls = [_calls_of(function.name.value, one.source.module) for one in inputs]
    given = [[_layer(call, number) for call in each or ()] for each in calls]
    if None in calls or any(None in each for each in given):
        return
    line = next((one for one in suites.suite_of(function.body.body) if suites.name_and_value(one)[1] in asked), None)
    kept = suites.name_and_value(line)[0] if line is not None else ""
    alone = line is not None and len(asked) == 1 and usage.stores(function.body).count(kept) == 1
    if line is not None and alone:
        own.instead[line] = []
    taken = {*usage.loads(function.body), *usage.stores(function.body), *(p.name.value for p in function.params.params)}
    new = kept if alone else usage.unused_name("size", taken)
    own.parts[parameter.name] = cst.Name(new)
    own.parts |= {one: cst.Name(new) for one in asked if not alone}
    for each, edit in zip(given, edits, strict=True):
        edit.parts |= {layer: nodes.substituted(asked[0], {name: layer}) for layer in each if layer is not None}


def _asks(node: Expr, name: str) -> bool:
    """Whether an expression is the length of an axis of the weight of what has a name."""
    text = nodes.code(node)
    return text.startswith(f"{name}.") and _MEASURE.fullmatch(text[len(name) :]) is not None


def _calls_of(name: str, module: cst.Module) -> list[cst.Call] | None:
    """The calls of a function in a file; None where that says its name to something else."""
    calls = [call for call in usage.calls(module) if (nodes.dotted(call.func) or "").rpartition(".")[2] == name]
    named = [one for one in mentions(module, name) if not _is_definition(one, module)]
    return calls if len(named) == len(calls) else None


def _is_definition(name: cst.Name, module: cst.Module) -> bool:
    return any(isinstance(line, cst.FunctionDef) and line.name is name for line in module.body)


def _layer(call: cst.Call, number: int) -> Expr | None:
    """The layer that a call gives as an argument by its position; None where it gives something else."""
    plain = len(call.args) > number and not any(arg.star or arg.keyword for arg in call.args[: number + 1])
    path = nodes.dotted(call.args[number].value) if plain else None
    return call.args[number].value if path and path.startswith("self.") else None
