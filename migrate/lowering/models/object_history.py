"""What the methods of an object use and change of it."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from migrate.known.facts import FunctionFacts
from migrate.known.qualified import spelled
from migrate.lowering.models.objects_at_hand import asks_object
from migrate.lowering.scope import Scope
from migrate.syntax import nodes, usage
from migrate.syntax.changing import changed_in_place


def changes_with_use(scope: Scope, call: cst.Call) -> bool:
    """Whether what `buffer.sample(16)` gives depends on what other methods of its class have yet to change."""
    owner = call.func.value if isinstance(call.func, cst.Attribute) else None
    if not asks_object(scope, call) or not isinstance(call.func, cst.Attribute):
        return False
    if isinstance(owner, cst.Name) and not used_by_now(scope, owner.value):
        owner = scope.env.definitions.get(owner.value, owner)
    made = owner.func if isinstance(owner, cst.Call) else None
    name = (nodes.dotted(made) or "").rpartition(".")[2] if made is not None else ""
    method = f"{name}.{call.func.attr.value}"
    found = [facts for facts in scope.script.functions.values() if spelled(facts.qualname) == method]
    if len(found) != 1:
        return False
    cls = found[0].qualname.rpartition(".")[0]
    methods = scope.script.methods(cls)
    own = {found[0].qualname, f"{cls}.__init__"}
    changed = set[str]().union(*(changed_of_object(one) for name, one in methods.items() if name not in own))
    return bool(changed & used_of_object(cls, methods, found[0].qualname))


def used_by_now(scope: Scope, name: str) -> bool:
    """Whether what has run in a scope may have changed the object that a name of it stands for since it was made."""
    ran = [one for block in scope.blocks[:-1] for one in block.statements[: block.index]]
    ran += [one for block in scope.blocks[-1:] for one in block.statements[: block.index + 1]]
    return any(name in usage.loads(one) for one in ran)


def used_of_object(cls: str, methods: Mapping[str, FunctionFacts], start: str) -> set[str]:
    """The attributes of self that a method uses, and those that it calls."""
    reached, waiting, used = set[str](), [start], set[str]()
    while waiting:
        name = waiting.pop()
        if name in methods and name not in reached:
            reached.add(name)
            paths = usage.paths(methods[name].node.body)
            own = {path.split(".")[1] for path in paths if path.startswith("self.")}
            used |= own | changed_of_object(methods[name])
            waiting += [f"{cls}.{attribute}" for attribute in own]
    return used


def changed_of_object(method: FunctionFacts) -> set[str]:
    """The attributes of self that a method binds, or changes in place."""
    paths = [path.split(".") for path in changed_in_place(method.node.body)]
    return usage.attributes_set(method.node.body) | {path[1] for path in paths if path[0] == "self" and len(path) > 1}
