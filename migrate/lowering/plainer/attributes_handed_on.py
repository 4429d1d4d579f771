"""Objects that a loss hands to a function, which reads attributes of them: `penalty(net(x), args)`, with `args.weight`.

jit takes arrays and numbers, no settings. So the input is taken as if the function were given what it reads,
`penalty(net(x), args.weight)`: the step takes that as an input, or knows it where it makes another program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from migrate.known.facts import FunctionFacts
from migrate.known.qualified import file_of
from migrate.lowering.plainer.body_at_call import INNER, given_to
from migrate.lowering.plainer.copied_input import Edits, edited
from migrate.lowering.plainer.told_by_callers import mentioned
from migrate.lowering.plainer.updates_in_place import all_sites
from migrate.lowering.rounds import Input, Lowered
from migrate.lowering.updates.objects_read import objects_read
from migrate.syntax import nodes, usage
from migrate.syntax.walking import every


def with_attributes_handed_on(inputs: Sequence[Input], lowered: Sequence[Lowered]) -> list[Input] | None:
    """The files of a project with functions that are given what they read of objects; None where there are none."""
    script = lowered[0].script
    for number, one in enumerate(inputs):
        written = set(every(one.source.module, cst.FunctionDef))
        for name, facts in script.functions.items():
            if file_of(name) != one.scope or not facts.traced or facts.node.decorators or facts.node not in written:
                continue
            for parameter, attributes in objects_read(facts).items():
                edits = _handed_on(inputs, one, facts, parameter, attributes)
                if edits is not None:
                    made = list(inputs)
                    made[number] = replace(one, source=edited(one.source, edits))
                    return made
    return None


def _handed_on(
    inputs: Sequence[Input], file: Input, facts: FunctionFacts, parameter: str, reads: Sequence[cst.Attribute]
) -> Edits | None:
    """The edits for one parameter; None where a call gives something that has no name."""
    params = facts.node.params
    inner = next(every(facts.node.body, (*INNER, cst.Lambda, cst.Global, cst.Nonlocal)), None)
    simple = not (params.kwonly_params or params.posonly_params or params.star_kwarg)
    sites = all_sites(file.source.module, facts)
    if inner is not None or not simple or isinstance(params.star_arg, cst.Param) or not sites:
        return None
    given = [given_to(facts.node, site.call, facts.owner_is_class) for site in sites]
    own = next(one for one in params.params if one.name.value == parameter)
    at = list(params.params).index(own)
    if own.default is not None or mentioned(inputs, facts, sites):
        return None
    taken = {one.value for one in every(facts.node, cst.Name)} - set(usage.attributes(facts.node.body))
    names: dict[str, str] = {}
    for attribute in dict.fromkeys(one.attr.value for one in reads):
        names[attribute] = usage.unused_name(attribute, {*taken, *names.values()})
    edits = Edits(parts={one: nodes.name(names[one.attr.value]) for one in reads})
    added = [own.with_changes(name=cst.Name(name), annotation=None) for name in names.values()]
    edits.parts[params] = params.with_changes(
        params=nodes.separated([*params.params[:at], *added, *params.params[at + 1 :]])
    )
    for site, values in zip(sites, given, strict=True):
        value = values[parameter] if values is not None else None
        arg = next((one for one in site.call.args if one.value is value), None)
        if value is None or arg is None or nodes.dotted(value) is None or site.call in edits.parts:
            return None
        position = list(site.call.args).index(arg)
        more = [
            arg.with_changes(
                value=cst.Attribute(value.deep_clone(), cst.Name(attribute)),
                keyword=None if arg.keyword is None else cst.Name(name),
            )
            for attribute, name in names.items()
        ]
        args = [*site.call.args[:position], *more, *site.call.args[position + 1 :]]
        edits.parts[site.call] = site.call.with_changes(args=nodes.separated(args))
    if any(inner is not one and inner in edits.parts for one in edits.parts for inner in every(one, cst.CSTNode)):
        return None
    return edits
