"""Functions that go backward for their callers: `optimize(loss, optimizer)`, `compute_loss(out, y, norm)`.

Where their loss goes on in what the callers compute (`given_outputs.py`), the update is all of that together. So the
input is taken as if the body of such a function, or method, stood where it is called, in whatever file that is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import libcst as cst

from migrate.files.source import SourceFile
from migrate.known.facts import FunctionFacts
from migrate.known.qualified import file_of, inside, spelled
from migrate.known.script import Script
from migrate.lowering.plainer.body_at_call import INNER, Block, Site, at_call, free_names
from migrate.lowering.plainer.copied_input import Edits, edited
from migrate.lowering.plainer.imports_of_bases import imports_of, with_imports
from migrate.lowering.plainer.opened_holders import opened
from migrate.lowering.rounds import Input, Lowered
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every


def with_updates_in_place(inputs: Sequence[Input], lowered: Sequence[Lowered]) -> list[Input] | None:
    """The files of a project with the bodies of such functions where they are called, those of several where they are
    of different files; None where there are none."""
    script = lowered[0].script
    made, changed = list(inputs), set[str]()
    for name in sorted(script.going_on):
        found = in_place_of_calls(made, script, script.functions[name])
        touched = {new.scope for new, old in zip(found or [], made, strict=False) if new is not old}
        if found is not None and not touched & changed:
            made, changed = found, changed | touched
    return made if changed else None


def in_place_of_calls(
    inputs: Sequence[Input], script: Script, facts: FunctionFacts, calls: Mapping[str, list[Site]] | None = None
) -> list[Input] | None:
    """The files of a project with the body of a function in the places of all its `calls`, those that are known; None
    where it would not mean the same there, or something else mentions it."""
    sites = sites_by_file(inputs, facts) if calls is None else calls
    made = {scope: _edits(facts.node, found, facts.owner_is_class) for scope, found in sites.items()}
    edits = {scope: one for scope, one in made.items() if one is not None}
    if not edits or len(edits) < len(made):
        return None
    return with_edits(inputs, script, facts, sites, edits, free_names(facts.node))


def sites_by_file(inputs: Sequence[Input], facts: FunctionFacts) -> dict[str, list[Site]]:
    """The calls of a function by the scopes of their files; none where not all that there are stand in plain
    statements, or something else mentions the function."""
    found = {one.scope: sites for one in inputs if (sites := _sites_in(one.source.module, facts))}
    whole = [site for sites in found.values() for site in sites]
    elsewhere = mentioned_elsewhere(inputs, facts.node, whole, facts.owner_is_class)
    return {} if elsewhere or len(whole) < len(_calls_of(facts)) else found


def sites_by_name(
    inputs: Sequence[Input], facts: FunctionFacts, of_models: Collection[int] = ()
) -> dict[str, list[Site]]:
    """The same of a function, or a method, that no other one of the project has the name of, whether its calls could be
    followed or not. of_models: the calls of methods that are known to be those of models (`usage.site_of`)."""
    name = facts.node.name.value
    named = [each for one in inputs for each in every(one.source.module, INNER) if each.name.value == name]
    if named != [facts.node]:
        return {}
    found: dict[str, list[Site]] = {}
    for one in inputs:
        for site in call_sites(one.source.module):
            func = site.call.func
            method = (
                isinstance(func, cst.Attribute) and func.attr.value == name and usage.site_of(site.call) in of_models
            )
            if method if facts.owner_is_class else nodes.dotted(func) == name:
                found.setdefault(one.scope, []).append(site)
    whole = [site for sites in found.values() for site in sites]
    return {} if mentioned_elsewhere(inputs, facts.node, whole, facts.owner_is_class) else found


def with_edits(
    inputs: Sequence[Input],
    script: Script,
    facts: FunctionFacts,
    sites: Mapping[str, Sequence[Site]],
    edits: Mapping[str, Edits],
    free: Collection[str],
) -> list[Input] | None:
    """The files of a project with something else in the places of all calls of a function, by the scopes of the files,
    and without the function; None where a file cannot have what that reads of the function's (`free`)."""
    files = {one.scope: one for one in inputs}
    home = files[file_of(facts.qualname)]
    definition = definition_at(home.source.module, spelled(facts.qualname))
    if definition is None or definition is not facts.node:
        return None
    try:
        lines = {scope: _imports(files, script, scope, facts, free) for scope in sites if scope != home.scope}
    except LookupError:
        return None
    whole = {scope: one.copy() for scope, one in edits.items()}
    whole.setdefault(home.scope, Edits()).instead[definition] = _left(home.source.module, definition)
    for one in inputs:
        gone = _without_import(one.source.module, definition.name.value)
        if gone:
            whole.setdefault(one.scope, Edits()).instead |= gone
    there = {scope: edited(files[scope].source, made) for scope, made in whole.items()}
    if facts.owner_is_class and sites.keys() == {home.scope}:
        there[home.scope] = opened(there[home.scope], spelled(facts.qualname).rpartition(".")[0])
    changed = {scope: with_imports(files[scope], made, lines.get(scope, []), inputs) for scope, made in there.items()}
    return [changed.get(one.scope, one) for one in inputs]


def _imports(
    files: Mapping[str, Input], script: Script, scope: str, facts: FunctionFacts, free: Collection[str]
) -> list[cst.SimpleStatementLine]:
    """The imports that a file needs for what reads some names of the file of a function. Raises LookupError."""
    known = set(usage.stores(files[file_of(facts.qualname)].source.module))
    if (set(free) - known) & set(usage.stores(files[scope].source.module)):
        raise LookupError
    return imports_of(files, script, inside(scope, "_"), {facts.qualname: [nodes.name(one) for one in sorted(free)]})


def body_in_place(
    source: SourceFile, definition: cst.FunctionDef, sites: Sequence[Site], method: bool
) -> SourceFile | None:
    """A file with the body of a function, or of a `method`, in the places of some calls, which are all that there are;
    None where it would not mean the same there."""
    edits = _edits(definition, sites, method) if sites else None
    if edits is None:
        return None
    edits.instead[definition] = _left(source.module, definition)
    return edited(source, edits)


def _edits(definition: cst.FunctionDef, sites: Sequence[Site], method: bool) -> Edits | None:
    bodies = [at_call(definition, site, method) for site in sites]
    if None in bodies or len({site.line for site in sites}) < len(sites):
        return None
    return Edits({site.line: body or [] for site, body in zip(sites, bodies, strict=True)})


def definition_at(module: cst.Module, path: str) -> cst.FunctionDef | None:
    """A function of a file, or a method of one of its classes."""
    body: Sequence[cst.CSTNode] = module.body
    found: Sequence[cst.CSTNode] = ()
    for part in path.split("."):
        found = [one for one in body if isinstance(one, INNER) and one.name.value == part]
        body = suites.suite_of(found[0].body.body) if len(found) == 1 and isinstance(found[0], cst.ClassDef) else []
    return found[0] if len(found) == 1 and isinstance(found[0], cst.FunctionDef) else None


def _left(module: cst.Module, definition: cst.FunctionDef) -> list[Statement]:
    """What stands for a function that nothing calls any more: nothing, unless it is all that its class has."""
    alone = any(suites.suite_of(one.body.body) == [definition] for one in every(module, cst.ClassDef))
    return [nodes.statement("pass")] if alone else []


def _without_import(module: cst.Module, name: str) -> Mapping[Statement, list[Statement]]:
    """The imports of a file without a name that is gone."""
    made: dict[Statement, list[Statement]] = {}
    for line in every(module, cst.SimpleStatementLine):
        small = suites.alone(line)
        if isinstance(small, cst.ImportFrom) and not isinstance(small.names, cst.ImportStar):
            left = [alias for alias in small.names if alias.evaluated_name != name]
            if len(left) == len(small.names):
                continue
            last = left[-1:] and [left[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)]
            made[line] = [line.with_changes(body=[small.with_changes(names=[*left[:-1], *last])])] if left else []
    return made


def mentioned_elsewhere(
    inputs: Sequence[Input], definition: cst.FunctionDef, sites: Sequence[Site], method: bool
) -> bool:
    """Whether anything else than some calls, and imports, mentions a function by its name."""
    name = definition.name.value
    if name == "__call__":
        return False
    mentions = [one for each in inputs for one in every(each.source.module, cst.Name) if one.value == name]
    aliases = [
        one for each in inputs for one in every(each.source.module, cst.ImportAlias) if one.evaluated_name == name
    ]
    renamed = any(one.asname is not None for one in aliases)
    elsewhere = len(mentions) - len(aliases) > len(sites) + 1
    return elsewhere or renamed or (method and any(nodes.dotted(site.call.func) is None for site in sites))


def call_sites(module: cst.Module) -> Iterator[Site]:
    """All calls in plain statements of a file."""
    arounds: list[Block] = [module, *every(module, cst.FunctionDef)]
    for around in arounds:
        roots = module.body if isinstance(around, cst.Module) else [around.body]
        for root in roots:
            if isinstance(root, INNER):
                continue
            for line in every(root, cst.SimpleStatementLine, closed=INNER):
                yield from (Site(line, call, around) for call in usage.calls(line))


def all_sites(module: cst.Module, facts: FunctionFacts) -> list[Site]:
    """The calls of a function where all that there are stand in plain statements of a file; none otherwise."""
    sites = _sites_in(module, facts)
    return sites if len(sites) == len(_calls_of(facts)) else []


def _sites_in(module: cst.Module, facts: FunctionFacts) -> list[Site]:
    calls = _calls_of(facts)
    return [site for site in call_sites(module) if usage.site_of(site.call) in calls]


def _calls_of(facts: FunctionFacts) -> set[int]:
    return {usage.site_of(site.node) for site in facts.calls if site.node is not None}
