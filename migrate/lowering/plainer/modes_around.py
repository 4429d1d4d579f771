"""What decorators and contexts of the script's own do with the modes of models, written out around what they enclose:
which mode a forward pass is in shows where it stands only once their statements stand around it."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.known.states import MODES
from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.plainer.mode_contexts import contexts_of, opened
from migrate.lowering.plainer.mode_decorators import unwrapped, wrappers_of
from migrate.lowering.rounds import Input
from migrate.syntax import suites, usage
from migrate.syntax.imported import imported_names
from migrate.syntax.modes import definitions
from migrate.syntax.walking import every


def with_modes_written_out(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with the statements of those decorators and contexts in the place of their use."""
    return [_written_out(one) if _may_switch(one.source.text) else one for one in inputs]


def _may_switch(text: str) -> bool:
    return any(f".{mode}(" in text for mode in MODES) and any(word in text for word in ("yield", "__enter__", "@"))


def _written_out(one: Input) -> Input:
    """Contexts first, then the decorators of functions: each edit is of a tree of its own."""
    module = one.source.module
    imported = imported_names(module)
    contexts = dict(contexts_of(module, imported))
    edits = Edits()
    for block in every(module, cst.With) if contexts else ():
        if not any(inner in edits.instead for inner in every(block, cst.With)) and (made := opened(block, contexts)):
            edits.instead[block] = made
    if edits:
        return _written_out(one.edited(edits))
    wrappers = dict(wrappers_of(module, imported))
    for function in every(module, cst.FunctionDef) if wrappers else ():
        if whole := unwrapped(function, wrappers, imported):
            edits.instead[function] = [whole]
    return _without_unread(one.edited(edits), {*contexts, *wrappers})


def _without_unread(one: Input, names: set[str]) -> Input:
    """A file without those definitions of some names that nothing reads any more."""
    body = suites.suite_of(one.source.module.body)
    gone = Edits()
    for line in definitions(one.source.module) if names else ():
        name = line.name.value
        if name in names and not any(name in usage.loads(other) for other in body if other is not line):
            gone.instead[line] = []
    return one.edited(gone)
