"""Layers of a model that have a name of their own, under which their weights are read:

linear = model[0]
print(linear.weight, linear.bias)

In Flax the weights are the model's. The input is taken as if they were read of it: `model[0].weight`.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input, Lowered
from migrate.syntax import nodes, suites, usage
from migrate.syntax.mentions import mentions
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

_WEIGHTS = ("weight", "bias")


def with_weights_read_of_models(inputs: Sequence[Input], lowered: Sequence[Lowered]) -> list[Input] | None:
    """The files of a project without such names; None where there are none."""
    named = lowered[0].script.layers_named
    made = [
        one.edited(_edits(one.source.module, {name for scope, name in named if scope == one.scope})) for one in inputs
    ]
    return made if any(new is not old for new, old in zip(made, inputs, strict=True)) else None


def _edits(module: cst.Module, names: set[str]) -> Edits:
    edits = Edits()
    bound = usage.stores(suites.bodies(module)) if names else []
    for line in every(module, cst.SimpleStatementLine) if names else ():
        name, value = suites.name_and_value(line)
        if name not in names or value is None or bound.count(name) != 1 or edits:
            continue
        root = nodes.dotted(nodes.root(value))
        read = _reads(module, name)
        if root is not None and bound.count(root) == 1 and read is not None and not _is_replaced(module, value):
            edits.instead[line] = [cst.SimpleStatementLine([cst.Pass()])] if _is_alone(module, line) else []
            edits.parts |= {one: value.deep_clone() for one in read}
    return edits


def _reads(module: cst.Module, name: str) -> list[Expr] | None:
    """Where a name is mentioned, if that is to read weights of what it stands for, but for where it is bound."""
    targets = {target.target for target in every(module, (cst.AssignTarget, cst.AugAssign, cst.AnnAssign))}
    weights = [one for one in every(module, cst.Attribute) if one.attr.value in _WEIGHTS and one not in targets]
    owners = {one.value for one in weights}
    found = [one for one in mentions(module, name) if one not in targets]
    return list(found) if found and all(one in owners for one in found) else None


def _is_replaced(module: cst.Module, part: Expr) -> bool:
    """Whether a file puts another part in the place of this one, or of one that it is in."""
    targets = {nodes.code(one.target) for one in every(module, cst.AssignTarget)}
    ways = [node for node in every(part, (cst.Attribute, cst.Subscript)) if nodes.root(node) is nodes.root(part)]
    return any(nodes.code(one) in targets for one in ways)


def _is_alone(module: cst.Module, line: cst.SimpleStatementLine) -> bool:
    """Whether a statement is all that a block has."""
    return any(list(block.body) == [line] for block in every(module, cst.IndentedBlock))
