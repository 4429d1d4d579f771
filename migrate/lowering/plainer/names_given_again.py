"""Functions and classes at the top of a file of which the name is given again further down, as where a tutorial or a
notebook writes `fit` or `Net` once more.

What is known of a function is known by its name. The input is taken as if each such definition had a name of its own,
where it is clear which statements mean it: they stand before the next one, outside of functions, which may be called
after that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import libcst as cst
from libcst.metadata import CodeRange

from migrate.lowering.plainer.body_at_call import free_names
from migrate.lowering.plainer.copied_input import Placing
from migrate.lowering.rounds import Input
from migrate.syntax import suites, usage
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every

_Definition = cst.FunctionDef | cst.ClassDef
_Binding = _Definition | cst.SimpleStatementLine


def with_names_apart(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such definitions under names of their own."""
    return [_apart(one) for one in inputs]


def _apart(file: Input) -> Input:
    source = file.source
    body = suites.suite_of(source.module.body)
    taken = {one.value for one in every(source.module, cst.Name)}
    renamed: dict[Statement, dict[str, str]] = {}
    for name, statements in _versions(body):
        other = usage.unused_name(f"{name}_1", taken)
        taken.add(other)
        for one in statements:
            renamed.setdefault(one, {})[name] = other
    if not renamed:
        return file
    made = _Renaming(renamed, dict(source.positions))
    return replace(file, source=source.with_module(source.module.visit(made), made.positions))


def _versions(body: Sequence[Statement]) -> Iterator[tuple[str, list[Statement]]]:
    """The definitions that others take the place of, by their names: with the statements that mean them."""
    stored = [set(usage.stores(one)) for one in body]
    for number, node in enumerate(body):
        if not isinstance(node, _Definition) or node.decorators:
            continue
        name = node.name.value
        later = next((n for n in range(number + 1, len(body)) if name in stored[n]), None)
        if later is None or not isinstance(body[later], _Binding) or name in _evaluated(body[later]):
            continue  # a branch or a loop may not bind it
        before = [one for n, one in enumerate(body[:later]) if n != number]
        if any(name in _in_functions(one) for one in before) or _is_global(name, body):
            continue
        statements = body[number:later]
        if any(name in usage.loads(one) for one in statements[1:]):
            yield name, list(statements)


def _evaluated(statement: Statement) -> set[str]:
    """The names that a statement reads when it runs: of a definition its decorators, defaults and bases."""
    if isinstance(statement, cst.FunctionDef):
        return set(usage.loads([*statement.decorators, statement.params]))
    if isinstance(statement, cst.ClassDef):
        return set(usage.loads([*statement.decorators, *statement.bases]))
    return set(usage.loads(statement))


def _in_functions(statement: Statement) -> set[str]:
    """The names from outside that functions in a statement read, which may be called later."""
    found: set[str] = set()
    for one in every(statement, (cst.FunctionDef, cst.Lambda)):
        if isinstance(one, cst.FunctionDef):
            found |= set(free_names(one))
        else:
            found |= set(usage.loads(one.body)) - {each.name.value for each in every(one.params, cst.Param)}
    return found


def _is_global(name: str, body: Sequence[Statement]) -> bool:
    """Whether a function binds a name of the file."""
    return any(name == item.name.value for line in body for one in every(line, cst.Global) for item in one.names)


class _Renaming(Placing):
    """Gives names in some statements at the top of a file others."""

    def __init__(self, renamed: dict[Statement, dict[str, str]], positions: dict[cst.CSTNode, CodeRange]) -> None:
        super().__init__(positions)
        self.renamed = renamed
        self.names: dict[str, str] = {}
        self.hidden: list[set[str]] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if node in self.renamed:
            self.names = self.renamed[node]  # type: ignore[index]
        if isinstance(node, cst.FunctionDef):
            own = {each.name.value for each in every(node.params, cst.Param)} | set(usage.stores(node.body))
            self.hidden.append(own)
        return super().on_visit(node)

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        if isinstance(original_node, cst.FunctionDef):
            self.hidden.pop()
        made = super().on_leave(original_node, updated_node)
        if original_node in self.renamed:
            self.names = {}
        return made

    def visit_Attribute_attr(self, node: cst.Attribute) -> None:
        self.hidden.append(set(self.names))

    def leave_Attribute_attr(self, node: cst.Attribute) -> None:
        self.hidden.pop()

    def visit_Arg_keyword(self, node: cst.Arg) -> None:
        self.hidden.append(set(self.names))

    def leave_Arg_keyword(self, node: cst.Arg) -> None:
        self.hidden.pop()

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        other = self.names.get(updated_node.value)
        if other is None or any(updated_node.value in own for own in self.hidden):
            return updated_node
        return updated_node.with_changes(value=other)
