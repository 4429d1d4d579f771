"""Losses of outputs that were kept while acting: their inputs are kept instead, and the loss computes them again.

torch keeps the graph of each log-probability that an episode puts into a list, and goes backward through all of them in
the end. To JAX what a step is given is constant. So the input is taken as if it were written so: what the list holds
is what the output is made of (the state, the action, the key of the draws), a function computes the output from that,
and the loss calls it for all of them together. That is the same as long as no weight changes in between, which is
proved from where optimizers step and from where the list is emptied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import KeptSite
from migrate.known.kinds import Place
from migrate.known.script import Script, followed
from migrate.lowering.plainer.copied_input import Edits, edited
from migrate.lowering.plainer.kept_mentions import Reading, reading, steps
from migrate.lowering.plainer.kept_writing import Writing
from migrate.lowering.rounds import Input, Lowered
from migrate.lowering.updates.kept_outputs import ONLY_THERE
from migrate.syntax import nodes, usage


def with_inputs_kept(inputs: Sequence[Input], lowered: Sequence[Lowered]) -> list[Input] | None:
    """The files of a project with inputs kept in place of outputs; None where none are, or that cannot be done."""
    script = lowered[0].script
    made = []
    for one in inputs:
        edits = _edits(
            one.source.module, [site for site in script.kept_sites.values() if site.file == one.scope], script
        )
        again = one.computed_again.union(function.name.value for function in edits.functions)
        made.append(replace(one, source=edited(one.source, edits), computed_again=again) if edits.instead else one)
    return made if any(new is not old for new, old in zip(made, inputs, strict=True)) else None


def _edits(module: cst.Module, sites: Sequence[KeptSite], script: Script) -> Edits:
    """What is changed of a file for its lists: all that a loss reads, or none. One that touches a statement that
    another one has changed waits until the file is taken as it then is."""
    read: dict[KeptSite, Reading] = {}
    for site in sites:
        try:
            read[site] = _reading(module, site, sites, script)
            Writing(module, site, read[site], Edits(), script).write()
        except Unsupported as error:
            read.pop(site, None)
            script.kept_problems[site.holder] = error.message
    edits, failed = Edits(), {site.holder for site in sites} - {site.holder for site in read}
    for site, found in read.items():
        if site.earlier is not None:
            Writing(module, site, found, edits, script).fill_earlier(site.earlier)
    if edits.instead:
        return edits
    for site, found in sorted(read.items(), key=lambda item: -len(item[0].inputs)):
        on_the_way = found.suite[: found.backward]
        writing = Writing(module, site, found, edits, script)
        waits = any(one in edits.instead for one in [*on_the_way[found.first :], *site.forward])
        if not waits and not failed & {path for one in on_the_way for path in usage.paths(one)}:
            writing.write()
    return edits


def with_reasons(lowered: Sequence[Lowered]) -> list[Lowered]:
    """The findings about losses of what was kept say why it is not computed again."""
    reasons = [f"{holder}: {reason}" for holder, reason in lowered[0].script.kept_problems.items()] if lowered else []
    told = "; ".join(reasons)
    return [
        replace(
            one,
            diagnostics=tuple(
                replace(found, message=f"{found.message} ({told})") if found.message.endswith(_ABOUT_KEPT) else found
                for found in one.diagnostics
            ),
        )
        if reasons
        else one
        for one in lowered
    ]


_ABOUT_KEPT = (ONLY_THERE, "the loss depends on no model that is trained here")


def _reading(module: cst.Module, site: KeptSite, sites: Sequence[KeptSite], script: Script) -> Reading:
    """How a list is read; raises Unsupported where what it holds must not be computed again."""
    if site.problem:
        raise Unsupported("MIG401", site.problem)
    if [other.holder for other in sites].count(site.holder) > 1:
        raise Unsupported("MIG401", f"{site.holder} is filled at several places")
    if not site.inputs:
        raise Unsupported("MIG401", f"what {site.holder} keeps is made of nothing that changes")
    read = reading(module, site.holder, site.call)
    _refuse_steps(module, site, read, script)
    return read


def _refuse_steps(module: cst.Module, site: KeptSite, read: Reading, script: Script) -> None:
    """Declines where weights may change between an output and its loss."""
    after = cst.Module(list(read.suite[read.backward :]))
    for name, call in steps(module):
        models = _stepped(name, call, script)
        inside = any(call is one for one in usage.calls(after))
        if models & site.models and not inside:
            raise Unsupported("MIG401", f"`{nodes.code(call)}` may change its weights before the loss")


def _stepped(name: str, call: cst.Call, script: Script) -> set[Place]:
    """The models that a call may change."""
    func = cst.ensure_type(call.func, cst.Attribute)
    loads = func.attr.value == "load_state_dict"
    known: dict[Place, Sequence[Place]] = {p: [p] for p in script.places} if loads else dict(script.optimizers)
    aliases = {one: followed(script.parameters_of, one) for one in script.parameters_of}
    roots = {one: one for one in known} | {one: root for one, root in aliases.items() if root in known}
    names = {name, *(nodes.code(arg.value).rpartition(".")[2] for arg in call.args)}  # scaler.step(optimizer)
    found = [root for one, root in roots.items() if one.name.rpartition(".")[2] in names]
    schedulers = {one.name.rpartition(".")[2] for stepped in script.stepped.values() for one in stepped}
    if not found and not call.args and name not in schedulers:
        return {followed(script.parameters_of, place) for place in script.places}  # it may be any optimizer
    return {followed(script.parameters_of, model) for one in found for model in known[one]}
