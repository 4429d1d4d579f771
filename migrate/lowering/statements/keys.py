"""Where the random keys of files and functions are made."""

from __future__ import annotations

from collections.abc import Sequence, Set

import libcst as cst

from migrate.known.facts import FunctionFacts
from migrate.known.qualified import is_module
from migrate.known.script import Script
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Statement

Body = list[tuple[int, tuple[Statement, ...]]]


def drawing(script: Script, scope: str) -> set[str]:
    """The functions of a file that draw with its key: they are used as values, and nobody gives them one."""
    found = (facts for facts in script.functions.values() if facts.draws_globally and facts.owner == scope)
    return {facts.node.name.value for facts in found}


def insert(name: str, made: Body, seeded: bool, drawing: Set[str]) -> None:
    """Makes the key right before the first statement that uses it, unless a seed has made it by then; where functions
    alone use it, before the first of them. `seeded`: a seed makes it for sure, there or later."""
    key = nodes.statement(f"{name} = jax.random.key(0)")
    for position, (index, statements) in enumerate(made):
        for number, statement in enumerate(statements):
            if isinstance(statement, cst.FunctionDef | cst.ClassDef):
                continue
            if seeded and usage.first_access([statement], name) == "store":
                return
            if name in usage.loads(statement):
                made[position] = (index, _before(statements, number, key))
                return
    for position, (index, statements) in enumerate(made):
        for number, statement in enumerate(statements):
            if isinstance(statement, cst.FunctionDef) and statement.name.value in drawing:
                made[position] = (index, _before(statements, number, key))
                return


def _before(statements: Sequence[Statement], number: int, made: cst.SimpleStatementLine) -> tuple[Statement, ...]:
    """Statements with one more before one of them: in its paragraph, but of a function in one of its own."""
    first = statements[number]
    if isinstance(first, cst.FunctionDef):
        made = made.with_changes(leading_lines=[line for line in first.leading_lines if line.comment is None])
    else:
        made, first = made.with_changes(leading_lines=first.leading_lines), first.with_changes(leading_lines=[])
    return (*statements[:number], made, first, *statements[number + 1 :])


def assign(script: Script) -> None:
    """A function that seeds torch, or that the module alone calls, and once, as `main()` is, makes its key itself;
    others are given one."""
    seeding = {
        caller for name, facts in script.functions.items() if facts.seeds for caller in script.callers.get(name, ())
    }
    for facts in script.functions.values():
        facts.local_key = facts.needs_key and (_seeds(facts, seeding) or _runs_once(facts, script))


def _seeds(facts: FunctionFacts, seeding: Set[str]) -> bool:
    """Whether a function seeds torch itself, or calls what does."""
    return facts.qualname in seeding or (not facts.seeds and "manual_seed" in nodes.code(facts.node))


def _runs_once(facts: FunctionFacts, script: Script) -> bool:
    """Whether one place calls a function, once, at the top level of a file that seeds nothing there."""
    if facts.qualname in script.by_value:
        return False
    callers = script.callers.get(facts.qualname, [])
    alone = bool(callers) and all(is_module(c) and c not in script.module_seeds for c in callers)
    return alone and len({id(site.node) for site in facts.calls}) == 1 and not facts.calls[0].repeated
