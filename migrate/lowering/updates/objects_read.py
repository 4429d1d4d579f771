"""Parameters of functions that are objects, of which the function reads attributes: settings, batches of a class."""

from __future__ import annotations

import libcst as cst

from migrate.known.facts import FunctionFacts
from migrate.known.kinds import UNKNOWN
from migrate.known.script import Script
from migrate.lowering.expressions.elements import OF_TENSORS
from migrate.syntax import nodes, usage
from migrate.syntax.walking import every


def objects_read(facts: FunctionFacts) -> dict[str, list[cst.Attribute]]:
    """The parameters that a function does nothing with but read attributes of them, no tensors by all that is known."""
    found: dict[str, list[cst.Attribute]] = {}
    for name, reads in _attributes_read(facts).items():
        changed = usage.attributes_set(facts.node.body) & {one.attr.value for one in reads}
        mentions = sum(one.value == name for one in every(facts.node.body, cst.Name))
        called = {id(call.func) for call in usage.calls(facts.node.body)}
        if not changed and mentions == len(reads) and not any(id(one) in called for one in reads):
            found[name] = reads
    return found


def handed_to(script: Script, scope: str, name: str) -> str:
    """The function that jit traces, that is given an object by the code of a scope and reads attributes of it; "" where
    there is none."""
    for facts in script.functions.values():
        sites = [site for site in facts.found_calls if site.scope == scope and facts.traced]
        read = _attributes_read(facts) if sites else {}
        if any(nodes.dotted(site.bound[one]) == name for site in sites for one in read.keys() & site.bound.keys()):
            return facts.node.name.value
    return ""


def _attributes_read(facts: FunctionFacts) -> dict[str, list[cst.Attribute]]:
    """By parameters of which nothing is known, the attributes that are read of them, others than tensors have."""
    called = {id(call.func) for call in usage.calls(facts.node.body)}
    found: dict[str, list[cst.Attribute]] = {}
    for parameter in facts.node.params.params[facts.owner_is_class :]:
        name = parameter.name.value
        mentioned = [one for one in every(facts.node.body, cst.Attribute) if nodes.dotted(one.value) == name]
        others = [one for one in mentioned if one.attr.value not in OF_TENSORS and id(one) not in called]
        if others and facts.params.get(name, UNKNOWN) == UNKNOWN:
            found[name] = mentioned
    return found
