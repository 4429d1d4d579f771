"""The scan over micro batches inside a step function, and what the loop that fetches them does with each."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Expr, Statement

# The names that the output gives to what is gathered: a script that uses one keeps its loop as it is.
MICRO_BATCHES, ACCUMULATE, _MICRO_BATCH, _CARRY = "micro_batches", "accumulate", "micro_batch", "carry"
NAMES = frozenset({MICRO_BATCHES, ACCUMULATE, _MICRO_BATCH, _CARRY})


def gathered(elements: Sequence[Expr]) -> Statement:
    """`micro_batches.append((x, y, subkey))`"""
    value = nodes.tuple_of(elements) if len(elements) > 1 else elements[0]
    return nodes.statement(f"{MICRO_BATCHES}.append({{value}})", value=value)


def scanned(turn: Sequence[Statement], carried: Sequence[str], left: Sequence[Expr], told: Expr) -> list[Statement]:
    """The statements for one micro batch as the body of a scan. carried: what goes from one to the next; left: what it
    is after one of them; told: its metrics."""
    state = nodes.bare_tuple([nodes.name(name) for name in carried])
    one = len(carried) == 1
    result = nodes.tuple_of([left[0] if one else nodes.tuple_of(left), told], parentheses=False)
    unpacked = [] if one else [nodes.statement(f"{{state}} = {_CARRY}", state=state)]
    body = [*unpacked, *turn, nodes.statement("return {result}", result=result)]
    start = nodes.name(carried[0]) if one else nodes.tuple_of([nodes.name(name) for name in carried])
    return [
        suites.function(ACCUMULATE, [carried[0] if one else _CARRY, _MICRO_BATCH], body),
        nodes.statement(
            f"{MICRO_BATCHES} = jax.tree.map(lambda *arrays: jnp.stack(arrays), *{MICRO_BATCHES})"
        ).with_changes(leading_lines=[suites.BLANK]),
        nodes.statement(
            f"{{state}}, metrics = jax.lax.scan({ACCUMULATE}, {{start}}, {MICRO_BATCHES})", state=start, start=start
        ),
    ]


def with_elements(body: Sequence[Statement], names: Sequence[str]) -> list[Statement]:
    """The same step once it is known what a micro batch consists of."""
    made: list[Statement] = []
    for statement in body:
        if isinstance(statement, cst.FunctionDef) and statement.name.value == ACCUMULATE:
            inside = suites.suite_of(statement.body.body)
            first = statement.params.params[0].name.value
            if len(names) > 1:
                inside = [nodes.statement(f"{', '.join(names)} = {_MICRO_BATCH}"), *inside]
            statement = suites.function(ACCUMULATE, [first, _MICRO_BATCH if len(names) > 1 else names[0]], inside)
        made.append(statement)
    return made
