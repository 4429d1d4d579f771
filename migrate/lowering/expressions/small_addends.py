"""Numbers that keep a logarithm finite: `torch.log(1 - p + 1e-8)`.

XLA adds up the numbers first, 1 + 1e-8, which a float32 has as 1: what jit compiles is `log(1 - p)`, infinite where p
is 1, and torch's is not. A barrier keeps the order. Seen with jax 0.10.2; no option of the compiler turns it off.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import libcst as cst

from migrate.known.kinds import Tensor
from migrate.lowering.scope import Scope
from migrate.rules.rule import Value
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

_SUMS = (cst.Add, cst.Subtract)
_LOST = 0.01  # of the smaller number, as a share, from which on the sum of two is another


def kept_apart(scope: Scope, written: Expr, other: Expr, value: Value) -> Value:
    """An operand of a sum, behind a barrier where it has a number of its own that would swallow the `other` one."""
    small = _number(scope, other) if scope.under_jit and isinstance(value.kind, Tensor) else 0.0
    if not small or not any(_swallows(scope, one, small) for one in _meanings(scope, written)):
        return value
    return Value(nodes.call("jax.lax.optimization_barrier", nodes.bare(value.node)), value.kind, value.layout)


def _meanings(scope: Scope, node: Expr) -> Iterator[Expr]:
    """An expression, what its name stands for, and what the callers of the function at hand give for it."""
    yield node
    if not isinstance(node, cst.Name):
        return
    if node.value in scope.env.definitions:
        yield scope.env.definitions[node.value]
    if scope.facts is not None and node.value in scope.facts.parameter_names:
        yield from (site.bound[node.value] for site in scope.facts.calls if node.value in site.bound)


def _swallows(scope: Scope, node: Expr, small: float) -> bool:
    """Whether an expression is a sum with a number, to which the small one adds next to nothing in float32."""
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, _SUMS):
        return False
    numbers = [_number(scope, side) for side in (node.left, node.right)]
    large = [abs(number) for number in numbers if number]
    if len(large) != 1:
        return False
    added = struct.unpack("f", struct.pack("f", large[0] + abs(small)))[0]
    return abs(added - large[0] - abs(small)) > _LOST * abs(small)


def _number(scope: Scope, node: Expr) -> float:
    """A number that is written out, or that a name of the file has once and for all; 0 of anything else."""
    value = nodes.literal(node)
    if isinstance(node, cst.Name) and node.value in scope.unit.constants:
        sets = [one for one in every(scope.unit.source.module, cst.Assign) if node.value in usage.stores(one)]
        value = nodes.literal(sets[0].value) if len(sets) == 1 else ...
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if abs(value) < 1e30 else 0.0
