"""Initial values that an output draws alike in several places: by a function with a name, not by a lambda at each."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Sequence

import libcst as cst

from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_GIVEN = "key, shape, dtype"  # what Flax gives an initialiser


def with_named_draws(body: Sequence[Statement]) -> tuple[list[Statement], list[str]]:
    """The statements with such calls in the place of lambdas, and the snippets that they call.

    One lambda of a sort stays, as do all where the output uses the name of the snippet for something else."""
    drawn = [[draw[0] for one in every(each, cst.Lambda) if (draw := _draw(one)) is not None] for each in body]
    repeated = {name for name, count in Counter(itertools.chain(*drawn)).items() if count > 1}
    if not repeated:
        return list(body), []
    named = repeated - {*usage.loads(list(body)), *usage.stores(list(body))}
    naming = _Naming(named)
    made = [nodes.visited(one, naming) if named & {*found} else one for one, found in zip(body, drawn, strict=True)]
    return made, sorted(named)


def _draw(made: cst.Lambda) -> tuple[str, tuple[Expr, Expr]] | None:
    """The snippet that does what a lambda does, and its arguments; None where it is another one."""
    if nodes.code(made.params) != f"{_GIVEN}=jnp.float32":
        return None
    match made.body:
        case cst.Call(func=func, args=[*given, low, high]) if nodes.dotted(func) == "jax.random.uniform":
            name, numbers = "uniform_between", (low.value, high.value)
        case cst.BinaryOperation(
            left=mean,
            operator=cst.Add(),
            right=cst.BinaryOperation(left=stddev, operator=cst.Multiply(), right=cst.Call(func=func, args=given)),
        ) if nodes.dotted(func) == "jax.random.normal":
            name, numbers = "normal_around", (mean, stddev)
        case _:
            return None
    alike = ", ".join(nodes.code(arg.value) for arg in given) == _GIVEN
    return (name, numbers) if alike and not {"key", "shape", "dtype"} & set(usage.loads(list(numbers))) else None


class _Naming(cst.CSTTransformer):
    def __init__(self, named: Collection[str]) -> None:
        super().__init__()
        self.named = named

    def leave_Lambda(self, original_node: cst.Lambda, updated_node: cst.Lambda) -> Expr:
        draw = _draw(updated_node)
        if draw is None or draw[0] not in self.named:
            return updated_node
        made = nodes.call(draw[0], *(number.with_changes(lpar=[], rpar=[]) for number in draw[1]))
        pair = _pair(*draw[1])
        return made if pair is None else made.with_changes(args=[cst.Arg(pair, star="*")])


def _pair(first: Expr, second: Expr) -> Expr | None:
    """What two expressions take the two elements of: `limits(n)` of `limits(n)[0]` and `limits(n)[1]`."""
    if not isinstance(first, cst.Subscript) or not isinstance(second, cst.Subscript):
        return None
    whole = nodes.code(first.value)
    both = (nodes.code(first), nodes.code(second)) == (f"{whole}[0]", f"{whole}[1]")
    return first.value if both and isinstance(first.value, cst.Call) else None
