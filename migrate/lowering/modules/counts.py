"""Names of numbers, told by the layers that they are given to: of `nn.Conv2d(channels, 64, 7)`, channels is one.

What else they are given to takes a number or one for each axis: `nn.ReflectionPad2d(channels)`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from migrate.known.kinds import UNKNOWN, Number
from migrate.rules.rule import Call
from migrate.syntax import nodes, usage
from migrate.syntax.remembering import remembered

_COUNTING = re.compile(r"(?:torch\.)?nn\.(?:Linear|(?:Conv|ConvTranspose|BatchNorm|InstanceNorm)[123]d)")


def with_counts(call: Call, statements: Sequence[cst.CSTNode]) -> Call:
    """A layer's arguments, with the kind of those that other layers of the same statements have as a number."""
    unknown = {p: nodes.dotted(v.node) or "" for p, v in call.bound.items() if v.kind == UNKNOWN}
    told = {name: Number() for name in unknown.values() if name.rpartition(".")[2] in _counts_of(statements)}
    known = {p: replace(call.bound[p], kind=told[name]) for p, name in unknown.items() if name in told}
    return replace(call, bound={**call.bound, **known}) if known else call


def _counts_of(statements: Sequence[cst.CSTNode]) -> set[str]:
    return {name for statement in statements for name in _counts(statement)}


@remembered
def _counts(node: cst.CSTNode) -> frozenset[str]:
    """The plain names that are given to layers for numbers of channels."""
    made = [call for call in usage.calls(node) if _COUNTING.fullmatch(nodes.dotted(call.func) or "")]
    given = [arg.value for call in made for arg in call.args[:2] if not arg.star and arg.keyword is None]
    return frozenset(one.value for one in given if isinstance(one, cst.Name))
