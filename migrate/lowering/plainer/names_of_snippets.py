"""Names of a script's own that the output needs for a function of ours, one of torch's losses mostly: a `cross_entropy`
that a tutorial writes by hand.

The input is taken as if the script called it otherwise, by the name with an underscore behind it, where no other file
and no keyword argument says the name.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.known.script import Script
from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import usage
from migrate.syntax.mentions import by_itself, names_of_class
from migrate.syntax.walking import every


def with_names_left(inputs: Sequence[Input], script: Script) -> list[Input] | None:
    """The files of a project with other names in the place of these; None where there is nothing to do."""
    made = [_renamed(one, script.clashing.get(one.scope, set()), inputs) for one in inputs]
    return made if any(new is not old for new, old in zip(made, inputs, strict=True)) else None


def _renamed(file: Input, names: set[str], inputs: Sequence[Input]) -> Input:
    module = file.source.module
    taken = {one.value for one in every(module, cst.Name)} if names else set()
    of_classes = {part for cls in every(module, cst.ClassDef) for part in names_of_class(cls)} if names else set()
    edits = Edits()
    for name in sorted(name for name in names if _is_own(name, module, inputs)):
        other = usage.unused_name(f"{name}_", taken)
        meant = [one for one in by_itself(module, name) if one not in of_classes]
        edits.parts |= {one: one.with_changes(value=other) for one in meant}
    return file.edited(edits)


def _is_own(name: str, module: cst.Module, inputs: Sequence[Input]) -> bool:
    """Whether nothing outside of a file, and no keyword argument, can mean a name of it."""
    keywords = {one.keyword.value for one in every(module, cst.Arg) if one.keyword is not None}
    aliases = [alias for one in inputs for alias in every(one.source.module, cst.ImportAlias)]
    return name not in keywords and all(part.value != name for alias in aliases for part in every(alias, cst.Name))
