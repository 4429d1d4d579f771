"""A file that reads its own names through the module that it is: `d2l = sys.modules[__name__]`, `d2l.Module`.

What a notebook writes with the name of a library is then code of that library as it stands, and the names are the
file's own.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
from libcst.metadata import GlobalScope, MetadataWrapper, ScopeProvider

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites
from migrate.syntax.walking import every

_ITSELF = "sys.modules[__name__]"


def with_own_names(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with plain names in the place of such attributes, wherever that is what they are."""
    return [one.edited(_plain(one.source.module)) if _ITSELF in one.source.text else one for one in inputs]


def _plain(module: cst.Module) -> Edits:
    own = {line: name for line in module.body if (name := _named(line))}
    edits = Edits()
    if not own:
        return edits
    scopes = MetadataWrapper(module, unsafe_skip_copy=True).resolve(ScopeProvider)
    everywhere = scopes[module]
    assert isinstance(everywhere, GlobalScope)
    for line, name in own.items():
        bindings = list(everywhere.assignments[name])
        if len(bindings) != 1:
            continue
        asked = {id(access.node) for access in bindings[0].references}
        for node in every(module, cst.Attribute):
            if id(node.value) not in asked:
                continue
            scope = scopes[node.value]
            bound = scope[node.attr.value] if scope is not None and node.attr.value in everywhere.assignments else ()
            if bound and all(one.scope is everywhere for one in bound):
                edits.parts[node] = nodes.name(node.attr.value)
                asked.remove(id(node.value))
        if not asked:
            edits.instead[line] = []
    return edits


def _named(line: cst.CSTNode) -> str:
    """The name in `name = sys.modules[__name__]`."""
    small = suites.alone(line)
    if not isinstance(small, cst.Assign) or nodes.code(small.value) != _ITSELF or len(small.targets) != 1:
        return ""
    return nodes.dotted(small.targets[0].target) or ""
