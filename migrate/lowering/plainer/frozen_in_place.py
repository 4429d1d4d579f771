"""Functions and methods that do nothing but freeze weights: `model.freeze_backbone()`, `set_requires_grad(net, False)`.

Which weights are frozen is told where it is known of which model they are: the input is taken as if the body of such a
function stood where it is called, if something in it, or its call, could not be followed, or what is frozen is told as
the script runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import libcst as cst

from migrate.diagnostics import Severity
from migrate.known.facts import FunctionFacts
from migrate.lowering.plainer.body_at_call import Site
from migrate.lowering.plainer.updates_in_place import in_place_of_calls, sites_by_file, sites_by_name
from migrate.lowering.rounds import Input, Lowered
from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Statement
from migrate.syntax.per_parameter import switched
from migrate.syntax.walking import every


def with_freezing_in_place(inputs: Sequence[Input], lowered: Sequence[Lowered]) -> list[Input] | None:
    """The files of a project with the bodies of such functions where they are called, one function at a time; None
    where there are none."""
    script = lowered[0].script
    for _, facts in sorted(script.functions.items()):
        if not _only_freezes(facts.node):
            continue
        if facts.owner in script.classes and not facts.is_static:  # a method of a module, which is told by its class
            facts = replace(facts, owner_is_class=True)
        sites = sites_by_file(inputs, facts) or sites_by_name(inputs, facts, script.passes.keys())
        if script.frozen.switching or _puts_in_list(facts.node) or _is_refused(facts, sites, lowered):
            made = in_place_of_calls(inputs, script, facts, sites)
            if made is not None:
                return made
    return None


def _only_freezes(definition: cst.FunctionDef) -> bool:
    body = [one for one in suites.suite_of(definition.body.body) if not suites.is_docstring(one)]
    return "requires_grad" in nodes.code(definition.body) and all(map(freezes, body))


def freezes(statement: Statement) -> bool:
    """Whether a statement does nothing but switch gradients, or modes."""
    return suites.consists_of(statement, _switches)


def _switches(line: Statement) -> bool:
    if suites.is_pass(line) or switched(line) is not None or _is_put_in_list(line):
        return True
    match suites.alone(line):
        case cst.Expr(value=cst.Call(func=cst.Attribute(attr=cst.Name(value="eval" | "train")))):
            return True
    return False


def _puts_in_list(definition: cst.FunctionDef) -> bool:
    return any(map(_is_put_in_list, every(definition.body, cst.SimpleStatementLine)))


def _is_put_in_list(statement: Statement) -> bool:
    """`nets = [nets]`."""
    name, value = suites.name_and_value(statement)
    return isinstance(value, cst.List) and [nodes.dotted(one.value) for one in value.elements] == [name]


def _is_refused(facts: FunctionFacts, sites: Mapping[str, Sequence[Site]], lowered: Sequence[Lowered]) -> bool:
    """Whether a finding is left for a person in a function, or where it is called."""
    places = [facts.node, *(site.line for found in sites.values() for site in found)]
    for one in lowered:
        lines = {found.line for found in one.diagnostics if found.severity is Severity.ERROR}
        spans = [one.source.positions[node] for node in places if node in one.source.positions]
        if lines and any(span.start.line <= line <= span.end.line for span in spans for line in lines):
            return True
    return False
