"""What the methods of an object use and change of it."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from migrate.known.facts import FunctionFacts
from migrate.known.kinds import Instance, Kind
from migrate.known.qualified import spelled
from migrate.lowering.models.objects_at_hand import asks_object
from migrate.lowering.scope import Scope
from migrate.syntax import nodes, usage
from migrate.syntax.changing import changed_in_place, changed_of_self, used_of_self
from migrate.syntax.nodes import Expr
from migrate.syntax.remembering import remembered
from migrate.syntax.walking import every


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


def class_of_object(scope: Scope, path: str) -> str | None:
    """The bare name of the class of the script's own of which a name or an attribute of self surely holds an object;
    None where that is not known."""
    made = makers(scope, path)
    (cls,) = made if len(made) == 1 else ("",)
    return cls if cls in scope.script.own_classes else None


def makers(scope: Scope, path: str) -> set[str]:
    """The bare names of what is called to make the object that a name or an attribute of self holds: "" where that is
    no call; none where nothing is known."""
    kind = scope.kind_of_name(path) if path else None
    if isinstance(kind, Instance):
        return {spelled(kind.cls)}
    if type(kind) is not Kind:
        return set()
    owner, _, attribute = path.rpartition(".")
    if owner == "self":
        return scope.script.own_classes.holds(spelled(scope.scope.rpartition(".")[0]), attribute)
    return {_maker(value) for value in bound_to(scope, path)}


def moves(scope: Scope, path: str) -> bool:
    """Whether an attribute of an object is bound again, or changed in place, while the script trains."""
    owner, _, attribute = path.rpartition(".")
    kind = scope.kind_of_name(owner) if owner and owner != "self" else None
    if not (isinstance(kind, Instance) or type(kind) is Kind):
        return False
    if path in scope.unit.changing:
        return True
    cls = class_of_object(scope, owner)
    return cls is not None and attribute in scope.script.own_classes.changed(cls)


def changed_around(scope: Scope, path: str) -> bool | None:
    """Whether a function around this one binds a name again, or changes in place what it holds, once this one is
    defined; None where no such function has the name."""
    name = path.partition(".")[0]
    around = _function_around(scope, name)
    if around is None or scope.facts is None:
        return None
    if around.traced or around.qualname.rpartition(".")[0] in scope.script.classes:
        return False  # jit traces both at once
    body, own = around.node.body, scope.facts.node
    loops = [one for one in every(body, (cst.For, cst.While)) if name in usage.stores(one)]
    anew = any(all(inner is not own for inner in every(one, cst.FunctionDef)) for one in loops)
    return anew or usage.stores(body).count(name) > 1 or bool({name, path} & changed_in_place(body))


def _function_around(scope: Scope, name: str) -> FunctionFacts | None:
    """The function around this one that has a name, if this one has not."""
    facts = scope.facts
    owner = facts.qualname.rpartition(".")[0] if facts is not None else ""
    if facts is None or owner not in scope.script.functions or name in facts.own_names:
        return None
    while owner in scope.script.functions and name not in scope.script.functions[owner].own_names:
        owner = owner.rpartition(".")[0]
    return scope.script.functions.get(owner)


def given_in_calls(facts: FunctionFacts, name: str) -> list[Expr]:
    """What the calls of a function give a parameter, those that do, by what names stand for there."""
    given = [(site, site.bound[name]) for site in facts.calls if name in site.bound]
    return [site.definitions.get(nodes.dotted(node) or "", node) for site, node in given]


def bound_to(scope: Scope, name: str) -> list[Expr]:
    """What a scope, its callers or the top level of its file bind to a name."""
    env = scope.env
    while name not in env.kinds and env.outer is not None:
        env = env.outer
    if name in env.definitions:
        return [env.definitions[name]]
    if env is scope.env and scope.facts is not None and name in scope.facts.parameter_names:
        return given_in_calls(scope.facts, name)
    around = _function_around(scope, name)
    if around is not None:
        return _assigned(around.node.body).get(name, [])
    return _assigned(scope.unit.source.module).get(name, []) if env.outer is None else []


def _maker(value: Expr) -> str:
    """The bare name of what is called for a value, "" where it is no call."""
    path = nodes.dotted(value.func) if isinstance(value, cst.Call) else None
    return (path or "").rpartition(".")[2]


@remembered
def _assigned(body: cst.CSTNode) -> dict[str, list[Expr]]:
    """What a file's top level or a function assigns to its names."""
    found: dict[str, list[Expr]] = {}
    for statement in every(body, cst.Assign, closed=(cst.FunctionDef, cst.ClassDef)):
        for target in statement.targets:
            if isinstance(target.target, cst.Name):
                found.setdefault(target.target.value, []).append(statement.value)
    return found


def used_of_object(cls: str, methods: Mapping[str, FunctionFacts], start: str) -> set[str]:
    """The attributes of self that a method uses, and those that it calls."""
    reached = [methods[name] for name in methods_reached(cls, methods, start)]
    return set().union(*(used_of_self(one.node) | changed_of_object(one) for one in reached))


def methods_reached(cls: str, methods: Mapping[str, FunctionFacts], start: str) -> list[str]:
    """A method, and those of the same object that it may call."""
    reached, waiting = list[str](), [start]
    while waiting:
        name = waiting.pop()
        if name in methods and name not in reached:
            reached.append(name)
            waiting += sorted(f"{cls}.{attribute}" for attribute in used_of_self(methods[name].node))
    return reached


def changed_of_object(method: FunctionFacts) -> set[str]:
    """The attributes of self that a method binds, or changes in place."""
    return changed_of_self(method.node)
