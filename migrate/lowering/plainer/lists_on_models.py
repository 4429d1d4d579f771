"""Lists that a script keeps on a model: `policy.rewards`. A Flax module holds nothing, so they are variables beside it.

The constructor makes such a list, and its class does nothing else with it: it is the script's own. The input is taken
as if it were written with a variable of the file where the model is made.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.known.kinds import Place
from migrate.known.qualified import file_of, spelled
from migrate.known.script import Script
from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.plainer.kept_mentions import Mention, mentions
from migrate.lowering.rounds import Input, Lowered
from migrate.syntax import nodes, suites, usage
from migrate.syntax.mentions import attributes_named
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every


def with_lists_apart(inputs: Sequence[Input], lowered: Sequence[Lowered]) -> list[Input] | None:
    """The files of a project with such lists as variables; None where there are none."""
    made: list[Input] = []
    for one in inputs:
        edits = Edits()
        for place, cls in lowered[0].script.places.items():
            if place.scope == one.scope and file_of(cls) == one.scope:
                _take_out(edits, one.source.module, place, spelled(cls), lowered[0].script, inputs)
        made.append(one.edited(edits) if edits.names else one)
    return made if any(new is not old for new, old in zip(made, inputs, strict=True)) else None


def _take_out(
    edits: Edits, module: cst.Module, place: Place, cls: str, script: Script, inputs: Sequence[Input]
) -> None:
    """Notes the lists of one model."""
    classes = [one for one in module.body if isinstance(one, cst.ClassDef) and one.name.value == cls]
    makers = [one for one in module.body if _binds(one, place.name)]
    if len(classes) != 1 or len(makers) != 1 or script.times_made(script.places[place]) != 1:
        return
    body = suites.suite_of(classes[0].body.body)
    inits = [one for one in body if isinstance(one, cst.FunctionDef) and one.name.value == "__init__"]
    taken = {name.value for one in inputs for name in every(one.source.module, cst.Name)}
    taken -= {name.attr.value for one in inputs for name in every(one.source.module, cst.Attribute)}
    for line in suites.suite_of(inits[0].body.body) if len(inits) == 1 else ():
        attribute = _list_of(line)
        path = f"{place.name}.{attribute}"
        found = mentions(module, path) if attribute else []
        named = [one for i in inputs for one in attributes_named(i.source.module, attribute)]
        if not found or len(named) != len(found) + 1 or not all(map(_is_movable, found)):
            continue
        aliases = _aliases(module, found, attribute)
        free = aliases or attribute not in _names(module)
        name = attribute if free else usage.unused_name(f"{place.name}_{attribute}", taken)
        edits.instead |= {one: [] for one in aliases}
        new = nodes.statement(f"{name} = []")
        edits.instead[line] = []
        edits.behind[makers[0]] = [*edits.behind.get(makers[0], []), new]
        edits.names[path] = name


def _aliases(module: cst.Module, found: Sequence[Mention], name: str) -> list[Statement]:
    """The statements `rewards = model.rewards` where that is all that a name means in the file; else none."""
    aliases = [one for one in found if nodes.code(one.line).strip() == f"{name} = {nodes.code(one.node)}"]
    inside = [one.function for one in aliases if one.function is not None]
    if len(inside) != len(aliases) or any(usage.stores(one.body).count(name) != 1 for one in inside):
        return []
    reads = sum(usage.loads(one.body).count(name) for one in inside)
    bound = {p.name.value for one in every(module, cst.FunctionDef) for p in one.params.params}
    elsewhere = [one for one in every(module, cst.Name) if one.value == name]
    attributes = [one for one in every(module, cst.Attribute) if one.attr.value == name]
    alone = len(elsewhere) == reads + len(aliases) + len(attributes) and name not in bound
    return [one.line for one in aliases] if alone else []


def _names(module: cst.Module) -> set[str]:
    """All names that a file reads or binds, those of attributes left out."""
    bound = {p.name.value for one in every(module, cst.FunctionDef) for p in one.params.params}
    inside = [one for function in every(module, cst.FunctionDef) for one in usage.stores(function.body)]
    return {*bound, *inside, *usage.stores(module), *usage.loads(module)}


def _binds(statement: Statement, name: str) -> bool:
    """Whether a statement is `model = Policy()`."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    made = isinstance(small, cst.Assign) and nodes.code(small.targets[0].target) == name
    return made and name in usage.stores(statement)


def _list_of(line: Statement) -> str:
    """The attribute of `self.rewards = []`; "" for other statements."""
    small = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
    if not isinstance(small, cst.Assign) or len(small.targets) != 1 or nodes.code(small.value) != "[]":
        return ""
    target = nodes.dotted(small.targets[0].target) or ""
    return target.removeprefix("self.") if target.startswith("self.") and target.count(".") == 1 else ""


def _is_movable(mention: Mention) -> bool:
    """Whether a place reads the list or changes it, and does not put another one there."""
    small = mention.line.body[0] if isinstance(mention.line, cst.SimpleStatementLine) else None
    targets = [one.target for one in small.targets] if isinstance(small, cst.Assign) else []
    return mention.node not in targets and not isinstance(small, cst.AugAssign)
