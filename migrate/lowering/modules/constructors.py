"""What a constructor does, told from its text: the methods it runs, the attributes it surely or repeatedly sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import libcst as cst

from migrate.syntax import nodes, suites, usage
from migrate.syntax.walking import every


def built_methods(methods: Mapping[str, cst.FunctionDef]) -> set[str]:
    """The methods of a class that its `__init__` runs, directly or through others: they make modules, too."""
    found: set[str] = set()
    pending = [methods[name] for name in ("__init__",) if name in methods]
    while pending:
        for call in usage.calls(pending.pop()):
            name = (nodes.dotted(call.func) or "").removeprefix("self.")
            if f"self.{name}" == nodes.dotted(call.func) and name in methods and name not in found | {"forward"}:
                found.add(name)
                pending.append(methods[name])
    return found


def methods_for_base(theirs: Mapping[str, cst.FunctionDef], own: Mapping[str, cst.FunctionDef]) -> set[str]:
    """The methods of a class that the constructor of its base runs, `self.build()`; none where the base has none of its
    own. `theirs`, `own`: the methods of the two."""
    init = theirs.get("__init__")
    return set() if init is None else built_methods({**theirs, **own, "__init__": init}) & own.keys()


def certain(body: Sequence[cst.CSTNode]) -> set[str]:
    """The attributes of self that a block sets whatever its conditions say."""
    return {name for statement in body if isinstance(statement, cst.SimpleStatementLine) for name in _set_by(statement)}


def present(body: Sequence[cst.CSTNode]) -> set[str]:
    """Those of them that are not None in the end, as `self.aux` after `self.aux = None; if aux: self.aux = Head()` may
    be."""
    found: set[str] = set()
    for statement in body:
        found |= certain([statement])
        found -= {name for one in every(statement, (cst.Assign, cst.AnnAssign)) for name in _set_to_none(one)}
    return found


def _set_to_none(small: cst.Assign | cst.AnnAssign) -> list[str]:
    if small.value is None or not nodes.is_literal(small.value, None):
        return []
    return _set_by(cst.SimpleStatementLine([small]))


def repeated(body: Sequence[cst.CSTNode]) -> set[str]:
    """The attributes of self that one run of a block may set more than once."""
    return {name for name, times in _times(body).items() if times > 1}


def set_before(body: Sequence[cst.CSTNode], name: str) -> set[str]:
    """The attributes of self that a block has surely set, once and for all, where it sets `name`; none where it may
    not set that."""
    for number, statement in enumerate(body):
        if name in certain([statement]):
            return certain(body[:number]) - repeated(body)
    return set()


# Methods that a parameter of a constructor has if it is a module or a logger: its settings stay as they are.
_OF_OTHERS = frozenset(
    {"train", "eval", "to", "cuda", "cpu", "half", "float", "double", "apply", "compile", "requires_grad_", "zero_grad"}
    | {"load_state_dict", "register_buffer", "register_parameter", "register_forward_hook", "add_module"}
    | {"debug", "info", "warning", "error", "exception", "log", "write"}
)


def changed_after_given(body: Sequence[cst.CSTNode], name: str) -> bool:
    """Whether a block may change an object after it has given it to a call, such as that of a module's class."""
    given = False
    for event in _events(body, name):
        if given and event == "changed":
            return True
        given = event == "given" or (given and event != "bound")
    return False


COPYING = frozenset({"copy.copy", "copy.deepcopy", "deepcopy"})
# What is given an object and keeps nothing of it.
_LOOKING = COPYING | {"len", "print", "isinstance", "getattr", "hasattr", "str"}


def _events(body: Sequence[cst.CSTNode], name: str) -> list[str]:
    """What a block does with the object under a name, in order; a loop counts as two turns."""
    found: list[str] = []
    for statement in body:
        if isinstance(statement, cst.If):
            other = [statement.orelse] if isinstance(statement.orelse, cst.If) else []
            if isinstance(statement.orelse, cst.Else):
                other = suites.suite_of(statement.orelse.body.body)
            found += [*_events(suites.suite_of(statement.body.body), name), *_events(other, name)]
        elif isinstance(statement, cst.For | cst.While):
            found += [
                *(["bound"] if isinstance(statement, cst.For) and name in usage.stores(statement.target) else []),
                *_events(suites.suite_of(statement.body.body), name),
            ] * 2
        elif isinstance(statement, cst.With | cst.Try):
            found += _events(suites.suite_of(statement.body.body), name)
        else:
            calls = [call for call in usage.calls(statement) if nodes.code(call.func) not in _LOOKING]
            calls = [call for call in calls if not nodes.code(call.func).startswith("super(")]
            found += ["given" for call in calls for arg in call.args if nodes.dotted(arg.value) == name]
            found += ["changed"] * (name in {changed for changed, _ in changed_objects(statement)})
            found += ["bound"] * (name in usage.stores(statement))
    return found


def changed_objects(body: cst.CSTNode) -> list[tuple[str, cst.BaseExpression | None]]:
    """Names whose objects a block changes: `config.size = 3`, with the value, `config.update(...)`, with None."""
    changed: list[tuple[cst.BaseExpression, cst.BaseExpression | None]] = []
    for one in every(body, (cst.Assign, cst.AugAssign, cst.Expr)):
        if isinstance(one, cst.Assign):
            changed += [(target, one.value) for given in one.targets for target in each_target(given.target)]
        elif isinstance(one, cst.AugAssign):
            changed.append((one.target, one.value))
        elif isinstance(one.value, cst.Call) and isinstance(one.value.func, cst.Attribute):
            changed += [(one.value.func, None)] if one.value.func.attr.value not in _OF_OTHERS else []
    roots = [(nodes.root(target), value) for target, value in changed if not isinstance(target, cst.Name)]
    return [(root.value, value) for root, value in roots if isinstance(root, cst.Name)]


def each_target(target: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The single targets of an assignment."""
    if isinstance(target, cst.Tuple | cst.List):
        return [single for element in target.elements for single in each_target(element.value)]
    return [target]


def _times(body: Sequence[cst.CSTNode]) -> Counter[str]:
    """How often, at most, one run of a block sets each attribute of self; a loop counts as two turns."""
    found: Counter[str] = Counter()
    for statement in body:
        if isinstance(statement, cst.SimpleStatementLine):
            found.update(_set_by(statement))
        elif isinstance(statement, cst.If):
            taken = _times(suites.suite_of(statement.body.body))
            other: Counter[str] = Counter()
            if isinstance(statement.orelse, cst.If):
                other = _times([statement.orelse])
            elif statement.orelse is not None:
                other = _times(suites.suite_of(statement.orelse.body.body))
            found.update(taken | other)
        elif isinstance(statement, cst.For | cst.While):
            inner = _times(suites.suite_of(statement.body.body))
            found.update(inner + inner)
        elif isinstance(statement, cst.With | cst.Try):
            found.update(_times(suites.suite_of(statement.body.body)))
    return found


def _set_by(line: cst.SimpleStatementLine) -> list[str]:
    found: list[str] = []
    for small in line.body:
        if isinstance(small, cst.Assign):
            for target in small.targets:
                found += usage.attributes_in(target.target)
        elif isinstance(small, cst.AnnAssign) and small.value is not None:
            found += usage.attributes_in(small.target)
    return found


def given_once(init: cst.FunctionDef, path: str) -> cst.BaseExpression | None:
    """The one value that a constructor gives an attribute, `self.conv`; None where there is not exactly one."""
    found = [
        value
        for statement in suites.suite_of(init.body.body)
        for small in (statement.body if isinstance(statement, cst.SimpleStatementLine) else [])
        if isinstance(small, cst.Assign)
        for target, value in usage.pairs(small.targets[0].target, small.value)
        if nodes.dotted(target) == path
    ]
    return found[0] if len(found) == 1 else None


_READING = ("items", "keys", "values", "index", "count", "get", "copy")


def constant(cls: cst.ClassDef, init: cst.FunctionDef, path: str) -> cst.BaseExpression | None:
    """The one value that a name or an attribute has wherever a class reads it; None where it may have another."""
    code = cls if path.startswith("self.") else init
    set_to = [nodes.dotted(_whole(one.target)) for one in every(code, (cst.AssignTarget, cst.AugAssign, cst.AnnAssign))]
    methods = [one[len(path) + 1 :].partition(".")[0] for one in usage.paths(code) if one.startswith(f"{path}.")]
    looped = path in usage.stores(code) and usage.stores(init.body).count(path) > 1
    kept = set_to.count(path) == 1 and not looped and set(methods) <= set(_READING)
    made = given_once(init, path) if kept else None
    return None if made is None or path in usage.paths(made) else made  # `n = f(n)` is of what it was before


def _whole(target: cst.CSTNode) -> cst.CSTNode:
    """What is changed where an item of it is set."""
    while isinstance(target, cst.Subscript):
        target = target.value
    return target


def extras_handed_on(init: cst.FunctionDef) -> str:
    """The name of `**kwargs` where a constructor does no more than hand them on; "" where it has none, or uses them."""
    name = init.params.star_kwarg.name.value if init.params.star_kwarg is not None else ""
    calls = [call for call in usage.calls(init.body) if not nodes.code(call.func).startswith("super(")]
    handed_on = [arg for call in calls for arg in call.args if is_extras(arg, name)]
    return name if name and len(handed_on) == usage.loads(init.body).count(name) else ""


def is_extras(arg: cst.Arg, name: str) -> bool:
    """Whether an argument is `**name`."""
    return arg.star == "**" and nodes.dotted(arg.value) == name
