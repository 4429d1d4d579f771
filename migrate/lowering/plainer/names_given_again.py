"""Functions and classes at the top of a file of which the name is given again further down, as where a tutorial or a
notebook writes `fit` or `Net` once more; and models whose name is given to one of another class, or to one of several
things that a call returns.

What is known of a function, and with what a model is called first, is known by its name. The input is taken as if each
such definition had a name of its own, where it is clear which statements mean it: they stand before the next one,
outside of functions, which may be called after that.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

import libcst as cst

from migrate.lowering.plainer.body_at_call import free_names
from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.chains import unchained
from migrate.syntax.mentions import by_itself
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every

_Definition = cst.FunctionDef | cst.ClassDef
_Binding = _Definition | cst.SimpleStatementLine


def with_names_apart(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such definitions under names of their own."""
    return [_apart(one) for one in inputs]


def _apart(file: Input) -> Input:
    module = file.source.module
    taken = {one.value for one in every(module, cst.Name)}
    edits = Edits()
    for name, statements in _versions(suites.suite_of(module.body)):
        other = usage.unused_name(f"{name}_1", taken)
        taken.add(other)
        meant = [one for statement in statements for one in _meant(statement, name)]
        edits.parts |= {one: one.with_changes(value=usage.text_of_its_own(other)) for one in meant}
    return file.edited(edits)


def _meant(statement: Statement, name: str) -> list[cst.Name]:
    """Where a statement means a name of the file: not in functions that have one of that name themselves."""
    own = [one for one in every(statement, cst.FunctionDef) if name in _own_names(one)]
    hidden = {part for one in own for part in (*every(one.params, cst.Name), *every(one.body, cst.Name))}
    return [one for one in by_itself(statement, name) if one not in hidden]


def _own_names(function: cst.FunctionDef) -> set[str]:
    return {one.name.value for one in every(function.params, cst.Param)} | set(usage.stores(function.body))


def _versions(body: Sequence[Statement]) -> Iterator[tuple[str, list[Statement]]]:
    """The definitions that others take the place of, by their names: with the statements that mean them."""
    stored = [set(usage.stores(one)) for one in body]
    classes = {one.name.value for one in body if isinstance(one, cst.ClassDef)}
    for number, node in enumerate(body):
        name, made = (node.name.value, "") if isinstance(node, _Definition) else _made_of(node, classes)
        if not name or getattr(node, "decorators", ()):
            continue
        later = next((n for n in range(number + 1, len(body)) if name in stored[n]), None)
        if later is None or not isinstance(body[later], _Binding) or name in _evaluated(body[later]):
            continue  # a branch or a loop may not bind it
        if made and _made_of(body[later], classes)[1] in ("", made) and not _unpacks(body[later], name):
            continue
        before = [one for n, one in enumerate(body[:later]) if n != number]
        if any(name in _in_functions(one) for one in before) or _is_global(name, body):
            continue
        statements = body[number:later]
        if any(name in usage.loads(one) for one in statements[1:]):
            yield name, list(statements)


def _made_of(statement: Statement, classes: Container[str]) -> tuple[str, str]:
    """The name that a statement binds to an object of a class of the file, and that class; "" where it does not."""
    small = suites.alone(statement) if isinstance(statement, cst.SimpleStatementLine) else None
    if not isinstance(small, cst.Assign) or len(small.targets) != 1:
        return "", ""
    target, value = small.targets[0].target, unchained(small.value)
    made = nodes.dotted(value.func) if isinstance(value, cst.Call) else None
    return (target.value, made) if isinstance(target, cst.Name) and made is not None and made in classes else ("", "")


def _unpacks(statement: Statement, name: str) -> bool:
    """Whether a statement gives a name to one of several things: `words, attention = translate(model, sentence)`."""
    small = suites.alone(statement) if isinstance(statement, cst.SimpleStatementLine) else None
    targets = [one.target for one in small.targets] if isinstance(small, cst.Assign) else []
    parts = [part for one in targets if isinstance(one, cst.Tuple | cst.List) for part in nodes.elements(one)]
    return name in map(nodes.dotted, parts)


def _evaluated(statement: Statement) -> set[str]:
    """The names that a statement reads when it runs: of a definition its decorators, defaults and bases."""
    if isinstance(statement, cst.FunctionDef):
        return set(usage.loads([*statement.decorators, statement.params]))
    if isinstance(statement, cst.ClassDef):
        return set(usage.loads([*statement.decorators, *statement.bases]))
    return set(usage.loads(statement))


def _in_functions(statement: Statement) -> set[str]:
    """The names from outside that functions in a statement read, which may be called later."""
    return {name for one in every(statement, (cst.FunctionDef, cst.Lambda)) for name in free_names(one)}


def _is_global(name: str, body: Sequence[Statement]) -> bool:
    """Whether a function binds a name of the file."""
    return any(name == item.name.value for line in body for one in every(line, cst.Global) for item in one.names)
