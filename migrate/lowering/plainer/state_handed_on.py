"""What a module keeps from one call to the next, `self.hidden`, which its forward pass reads and sets.

torch keeps it on the object; a Flax module has nothing that changes. So the input is taken as if the forward pass took
it as an argument and returned it beside its output, and whoever calls the model kept it:

model.hidden = model.init_hidden()      hidden = model.init_hidden()
scores = model(sentence)                scores, hidden = model(sentence, hidden)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import libcst as cst

from migrate.diagnostics import Diagnostic
from migrate.lowering.plainer.body_at_call import given_to
from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.plainer.object_sites import sites_of
from migrate.lowering.plainer.state_in_calls import StateInCalls, places
from migrate.lowering.plainer.state_kept import KeptState, bare_names, kept_state
from migrate.lowering.rounds import Input, Lowered
from migrate.syntax import nodes, usage
from migrate.syntax.chains import CHAINED
from migrate.syntax.mentions import by_itself, called, in_supers, mentions, times_defined

CODE = "MIG519"


def with_state_handed_on(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such state as an argument and a result, where the text tells who keeps it."""
    defined = times_defined(one.source.module for one in inputs)
    made = list(inputs)
    for number, file in enumerate(inputs):
        for node in file.source.module.body:
            if not isinstance(node, cst.ClassDef) or defined[node.name.value] != 1:
                continue
            kept = kept_state(node)
            if kept is None or made[number] is not file:
                continue  # one class of a file: the others keep what they have
            if any(mentions(one.source.module, node.name.value) for one in inputs if one is not file):
                continue
            edits = _edits(file, kept) if _only_made(file.source.module, node) else None
            if edits is not None:
                told = {**file.handed_on, node.name.value: ", ".join(kept.states)}
                made[number] = replace(file.edited(edits), handed_on=told)
    return made


def told_of_state(inputs: Sequence[Input], lowered: Sequence[Lowered]) -> list[Lowered]:
    """The files with a note on each class whose forward pass takes what it has kept."""
    taken = {one.scope: one for one in inputs}
    return [replace(one, diagnostics=(*one.diagnostics, *_notes(taken[one.scope]))) for one in lowered]


def _notes(one: Input) -> Iterator[Diagnostic]:
    for node in one.source.module.body:
        if isinstance(node, cst.ClassDef) and node.name.value in one.handed_on:
            line, column = one.source.place(node)
            said = f"{node.name.value}.forward takes and returns {one.handed_on[node.name.value]}"
            yield Diagnostic(one.source.path, line, column, CODE, said, one.source.line(line))


def _only_made(module: cst.Module, node: cst.ClassDef) -> bool:
    """Whether a file names a class to make objects of it, and in its own `super(Net, self)`."""
    aside = called(module) | {node.name} | in_supers(node)
    return all(one in aside for one in by_itself(module, node.name.value))


def _edits(file: Input, kept: KeptState) -> Edits | None:
    """What is changed of a file where states are arguments and results; None where it is not told who keeps them."""
    module, name = file.source.module, kept.node.name.value
    sites = [one for one in sites_of(file, name, CHAINED) if isinstance(one.call.func, cst.Name)]
    made = sum(nodes.dotted(call.func) == name for call in usage.calls(module))
    given = given_to(kept.init, sites[0].call, method=True) if len(sites) == made == 1 else None
    if given is None or "." in sites[0].target:
        return None
    site, taken = sites[0], bare_names(module)
    names: dict[str, str] = {}
    for state in kept.states:
        names[state] = usage.unused_name(state.strip("_"), taken)
        taken.add(names[state])
    outside = [one for one in places(module.body) if kept.node not in one.scope]
    calls = StateInCalls(kept, module, outside, names, taken)
    always_set = calls.follow(site.target, tuple(site.scope))
    if always_set is None or not (always_set or kept.starts.keys() == set(kept.states)):
        return None
    edits = calls.edits
    edits.instead[kept.forward] = [kept.with_arguments(names)]
    edits.instead |= {line: [] for line, _ in kept.starts.values()}
    edits.instead |= {one: [] for one in kept.resets.values()}
    if not always_set:
        values = {**given, "self": nodes.name(site.target)}
        first = {state: nodes.substituted(value, values).deep_clone() for state, (_, value) in kept.starts.items()}
        lines = [nodes.statement(f"{names[state]} = {{v}}", v=value) for state, value in first.items()]
        edits.behind.setdefault(site.line, []).extend(lines)
    return edits
