"""Names of a script's own that the output needs for a module: `from random import random`, where what we write says
`random.getstate()`.

The input is taken as if the script called it otherwise, by the name with an underscore behind it. Only the output tells
what it needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import usage
from migrate.syntax.imported import imported_names, module_written
from migrate.syntax.mentions import by_itself, names_of_class
from migrate.syntax.scopes import bound_by_scopes
from migrate.syntax.walking import every


def with_names_of_imports(
    inputs: Sequence[Input], outputs: Mapping[str, str], imports: Mapping[str, str]
) -> list[Input] | None:
    """The files of a project with other names in the place of these; None where there is nothing to do. `outputs`: the
    text by the scope of its file. `imports`: what we import, by name, as the full name that it then stands for."""
    keywords = {one.keyword.value for each in inputs for one in every(each.source.module, cst.Arg) if one.keyword}
    made: list[Input] = []
    for one in inputs:
        found = needed_for_imports(one, outputs.get(one.scope, ""), imports)
        made.append(_renamed(one, found - keywords - _taken_from(one.scope, inputs) if found else found))
    return made if any(new is not old for new, old in zip(made, inputs, strict=True)) else None


def needed_for_imports(file: Input, output: str, imports: Mapping[str, str]) -> set[str]:
    """The names that stand for something else in a file, and that its output uses in more ways than the file does."""
    module = file.source.module
    meant, said = imported_names(module), {one.value for one in every(module, cst.Name)}
    own = {name for name in imports if name in said and _home(meant.get(name, "")) != imports[name]}
    own -= {name for name in own if meant.get(name, "").startswith("torch")}  # it is rewritten, or has its full name
    own &= bound_by_scopes(module.code) if own else set()
    if not own or not output:
        return set()
    more = Counter(usage.paths(cst.parse_module(output))) - Counter(usage.paths(module))
    whole = {name for name in own if "." in imports[name]}  # what is used without a dot behind it
    return {name for name in own if name in whole & more.keys() or any(path.startswith(f"{name}.") for path in more)}


def _home(name: str) -> str:
    """`Sequence` of `typing` is that of `collections.abc`."""
    return name.replace("typing.", "collections.abc.") if name not in ("typing.Any", "typing.NamedTuple") else name


def _taken_from(scope: str, inputs: Sequence[Input]) -> set[str]:
    """The names of a file that other files import."""
    found = set[str]()
    for one in inputs:
        for line in every(one.source.module, cst.ImportFrom):
            if one.links.get(module_written(line)) == scope and not isinstance(line.names, cst.ImportStar):
                found |= {alias.evaluated_name for alias in line.names}
    return found


def _renamed(file: Input, names: set[str]) -> Input:
    module, edits = file.source.module, Edits()
    aliases = list(every(module, cst.ImportAlias))
    modules = [line.module for line in every(module, cst.ImportFrom) if line.module is not None]
    aside: set[cst.CSTNode] = {part for one in (*aliases, *modules) for part in every(one, cst.Name)}
    aside |= {part for cls in every(module, cst.ClassDef) for part in names_of_class(cls)}
    taken = {one.value for one in every(module, cst.Name)} if names else set()
    for name in sorted(names):
        other = usage.unused_name(f"{name}_", taken)
        meant = [one for one in by_itself(module, name) if one not in aside]
        edits.parts |= {one: one.with_changes(value=other) for one in meant}
        binding = [one for one in aliases if (one.evaluated_alias or one.evaluated_name) == name]
        edits.parts |= {one: one.with_changes(asname=cst.AsName(cst.Name(other))) for one in binding}
    return file.edited(edits)
