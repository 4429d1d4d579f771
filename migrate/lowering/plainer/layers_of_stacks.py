"""A layer that a script makes and stacks: `layer = nn.TransformerEncoderLayer(8, 2)`, then
`nn.TransformerEncoder(layer, 6)`, which copies it.

Outside of a class such a name would be a model of its own. The input is taken as if the layer were written where it is
copied, and where nothing else mentions the name, as if it had no line of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.imported import full_name, imported_names
from migrate.syntax.mentions import by_itself
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

_STACKS = {"torch.nn.TransformerEncoder": "encoder_layer", "torch.nn.TransformerDecoder": "decoder_layer"}
_LAYERS = {f"{stack}Layer" for stack in _STACKS}
_NAMES = [layer.rpartition(".")[2] for layer in _LAYERS]


def with_layers_in_stacks(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such layers written where they are copied."""
    return [_stacked(one) if any(name in one.source.text for name in _NAMES) else one for one in inputs]


def _stacked(file: Input) -> Input:
    module, edits = file.source.module, Edits()
    imported = imported_names(module)
    times = Counter(usage.stores(module))
    for line in every(module, cst.SimpleStatementLine, closed=cst.ClassDef):
        name, made = suites.name_and_value(line)
        if not isinstance(made, cst.Call) or full_name(made.func, imported) not in _LAYERS:
            continue
        if any(times[one] > 1 for one in (name, *usage.loads(made))):
            continue
        copied = [one for one in _copied(module, imported) if nodes.dotted(one) == name]
        edits.parts |= {one: made.deep_clone() for one in copied}
        if copied and len(copied) + 1 == len(by_itself(module, name)):  # the other one is where it is made
            edits.instead[line] = []
    return file.edited(edits) if edits else file


def _copied(module: cst.Module, imported: Mapping[str, str]) -> Iterator[Expr]:
    """What stacks of layers are given to copy."""
    for call in every(module, cst.Call):
        parameter = _STACKS.get(full_name(call.func, imported))
        for number, arg in enumerate(call.args if parameter else ()):
            if nodes.code(arg.keyword) == parameter if arg.keyword is not None else number == 0:
                yield arg.value
