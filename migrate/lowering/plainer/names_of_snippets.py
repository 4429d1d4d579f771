"""Names of a script's own that the output needs for a function of ours: `one_hot = F.one_hot(labels, 10)`, or a
`cross_entropy` that a tutorial writes by hand.

The input is taken as if the script called it otherwise, by the name with an underscore behind it, where no other file
and no keyword argument says the name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import libcst as cst
from libcst.metadata import CodeRange

from migrate.known.script import Script
from migrate.lowering.plainer.copied_input import Placing
from migrate.lowering.rounds import Input
from migrate.syntax import usage
from migrate.syntax.walking import every


def with_names_left(inputs: Sequence[Input], script: Script) -> list[Input] | None:
    """The files of a project with other names in the place of these; None where there is nothing to do."""
    made = [_renamed(one, script.clashing.get(one.scope, set()), inputs) for one in inputs]
    return made if any(new is not old for new, old in zip(made, inputs, strict=True)) else None


def _renamed(file: Input, names: set[str], inputs: Sequence[Input]) -> Input:
    module = file.source.module
    taken = {one.value for one in every(module, cst.Name)}
    others = {one: usage.unused_name(f"{one}_", taken) for one in sorted(names) if _is_own(one, file, inputs)}
    if not others:
        return file
    made = _Renaming(others, dict(file.source.positions))
    changed = module.visit(made)
    same = changed.deep_equals(module)  # where the name is that of a method as well, nothing else is left to be changed
    return file if same else replace(file, source=file.source.with_module(changed, made.positions))


def _is_own(name: str, file: Input, inputs: Sequence[Input]) -> bool:
    """Whether a file binds a name as its own, which nothing outside can mean."""
    module = file.source.module
    keywords = {one.keyword.value for one in every(module, cst.Arg) if one.keyword is not None}
    imported = {
        part.value
        for one in inputs
        for alias in every(one.source.module, cst.ImportAlias)
        for part in every(alias, cst.Name)
    }
    return name not in keywords | imported and any(one.value == name for one in every(module, cst.Name))


class _Renaming(Placing):
    """Gives names others, but for those of attributes, of keyword arguments, and of what a class has."""

    def __init__(self, others: Mapping[str, str], positions: dict[cst.CSTNode, CodeRange]) -> None:
        super().__init__(positions)
        self.others = others
        self.aside: set[cst.CSTNode] = set()

    def visit_Attribute(self, node: cst.Attribute) -> None:
        self.aside.add(node.attr)

    def visit_Arg(self, node: cst.Arg) -> None:
        self.aside.add(node.keyword or node)

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        for one in node.body.body:
            if isinstance(one, cst.FunctionDef):
                self.aside.add(one.name)
            elif isinstance(one, cst.SimpleStatementLine):
                targets = [target for small in one.body for target in _targets(small)]
                self.aside.update(name for target in targets for name in every(target, cst.Name))

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        if original_node in self.aside or original_node.value not in self.others:
            return updated_node
        return updated_node.with_changes(value=self.others[original_node.value])


def _targets(small: cst.BaseSmallStatement) -> list[Any]:
    if isinstance(small, cst.Assign):
        return [one.target for one in small.targets]
    return [small.target] if isinstance(small, cst.AnnAssign) else []
