"""Settings that say what makes a part of a module: `config.block(width)`, where `config` is an object of a plain class.

What an object holds is only known where the constructor that is given it says what it is, by an annotation, and where
the classes that it names, and those that inherit from them, each keep one class of modules under that name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import libcst as cst

from migrate.known.kinds import UNKNOWN, Kind, Makers, ModuleClass, Never, join
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.modules.makers import is_partial
from migrate.lowering.scope import Scope
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.none_tests import asked_for_none
from migrate.syntax.walking import every

_Classes = Mapping[str, cst.ClassDef]


def maker_kept(scope: Scope, node: cst.Attribute) -> Kind:
    """The classes of modules that an attribute of such an object may be; UNKNOWN where that is not told."""
    facts = scope.script.classes.get(scope.cls)
    init = facts.method("__init__") if facts is not None else None
    classes = {one.name.value: one for one in scope.unit.source.module.body if isinstance(one, cst.ClassDef)}
    named = [one for one in _annotated(node.value, init) if one in classes] if init is not None else []
    if not named or _is_set(scope, node.attr.value):
        return UNKNOWN
    found: Kind = Never()
    for name in sorted({heir for one in named for heir in _heirs(one, classes)}):
        if _only_inherited(scope, classes[name]):
            continue
        kept = _kept(scope, classes[name], node.attr.value, classes)
        if not isinstance(kept, ModuleClass):
            return UNKNOWN
        found = join(found, kept)
    return found if isinstance(found, ModuleClass | Makers) else UNKNOWN


def _annotated(node: Expr, init: cst.FunctionDef) -> set[str]:
    """The names in the annotation of the parameter out of which an expression comes: an element of it, or a copy."""
    for _ in range(len(usage.stores(init.body)) + 1):
        while isinstance(node, cst.Subscript | cst.Call):
            copies = isinstance(node, cst.Call) and nodes.dotted(node.func) in ("copy", "copy.copy", "copy.deepcopy")
            if isinstance(node, cst.Call) and not (copies and len(node.args) == 1):
                return set()
            node = node.args[0].value if isinstance(node, cst.Call) else node.value
        if not isinstance(node, cst.Name):
            return set()
        sources = list(_bound_to(node.value, init))
        if not sources:
            break
        if len({nodes.code(one) for one in sources}) > 1:
            return set()
        node = sources[0]
    parameter = next((one for one in init.params.params if one.name.value == nodes.dotted(node)), None)
    annotation = parameter.annotation if parameter is not None else None
    return {one.value for one in every(annotation.annotation, cst.Name)} if annotation is not None else set()


def _bound_to(name: str, init: cst.FunctionDef) -> Iterator[Expr]:
    """What a constructor binds to a name, or goes over with it."""
    for one in every(init.body, (cst.Assign, cst.AnnAssign, cst.For, cst.CompFor)):
        if isinstance(one, cst.For | cst.CompFor):
            if name in {each.value for each in every(one.target, cst.Name)}:
                yield one.iter if nodes.dotted(one.target) == name else cst.Ellipsis()
        elif one.value is not None:
            targets = [one.target] if isinstance(one, cst.AnnAssign) else [each.target for each in one.targets]
            if any(nodes.dotted(target) == name for target in targets):
                yield one.value


def _heirs(name: str, classes: _Classes) -> set[str]:
    """A class, and those that inherit from it."""
    found, size = {name}, 0
    while size < len(found):
        size = len(found)
        found |= {one for one, cls in classes.items() if any(nodes.dotted(base.value) in found for base in cls.bases)}
    return found


def _only_inherited(scope: Scope, cls: cst.ClassDef) -> bool:
    """Whether the program makes no object of a class itself."""
    for unit in (scope.unit, *scope.unit.others.values()):
        for call in usage.calls(unit.source.module):
            asked = nodes.dotted(call.func) in ("isinstance", "issubclass")
            if not asked and cls.name.value in map(nodes.dotted, [call.func, *(arg.value for arg in call.args)]):
                return False
    return True


def _kept(scope: Scope, cls: cst.ClassDef, attribute: str, classes: _Classes) -> Kind:
    """What the objects of a class keep under a name."""
    init = suites.methods_of(cls).get("__init__")
    if init is None or len(cls.bases) > 1:
        return UNKNOWN
    values = [
        one.value
        for one in every(init.body, cst.Assign)
        if [nodes.dotted(target.target) for target in one.targets] == [f"self.{attribute}"]
    ]
    for line in suites.suite_of(init.body.body):
        if suites.calls_base(line) is not None:
            values += _given_on(line, cls, attribute, classes)
    if len(values) != 1:
        return UNKNOWN
    name = nodes.dotted(values[0]) or ""
    parameters = [*init.params.params, *init.params.kwonly_params]
    if name not in [one.name.value for one in parameters]:
        return scope.kind_of(values[0])
    default = next(one.default for one in parameters if one.name.value == name)
    instead = _where_none(init, name)
    if instead is None or not nodes.is_literal(default, None) or _is_given(scope, cls, init, name):
        return UNKNOWN
    return scope.kind_of(instead)


def _given_on(line: cst.CSTNode, cls: cst.ClassDef, attribute: str, classes: _Classes) -> list[Expr]:
    """What a constructor gives that of a dataclass for one of its fields."""
    base = classes.get(nodes.dotted(cls.bases[0].value) or "") if cls.bases else None
    if base is None or not any(nodes.code(one.decorator).startswith("dataclass") for one in base.decorators):
        return []
    smalls = [suites.alone(one) for one in suites.suite_of(base.body.body)]
    fields = [one.target.value for one in smalls if isinstance(one, cst.AnnAssign) and isinstance(one.target, cst.Name)]
    call = next(call for call in usage.calls(line) if isinstance(call.func, cst.Attribute))
    names = argument_names(call.args, fields)
    return [arg.value for arg, name in zip(call.args, names, strict=True) if name == attribute]


def _where_none(init: cst.FunctionDef, name: str) -> Expr | None:
    """`Block` of `if block is None: block = Block`, which is all that a constructor binds to a parameter."""
    if usage.stores(init.body).count(name) != 1:
        return None
    for branch in every(init.body, cst.If):
        asked = asked_for_none(branch.test)
        body = suites.suite_of(branch.body.body)
        small = suites.alone(body[0]) if len(body) == 1 else None
        if asked == (name, True) and branch.orelse is None and isinstance(small, cst.Assign):
            return small.value if nodes.dotted(small.targets[0].target) == name else None
    return None


def _is_given(scope: Scope, cls: cst.ClassDef, init: cst.FunctionDef, name: str) -> bool:
    """Whether some call may give a constructor a parameter, itself or by a `partial` of it: any that gives something by
    that name counts as one."""
    own = [one.name.value for one in init.params.params[1:]]
    place = own.index(name) if name in own else len(own)
    for unit in (scope.unit, *scope.unit.others.values()):
        module = unit.source.module
        aside = {suites.calls_base(line) for line in every(module, cst.SimpleStatementLine)}
        made = {cls.name.value: 0} | _partials(module, cls.name.value)
        for call in usage.calls(module):
            maker = (nodes.dotted(call.func) or "").rpartition(".")[2]
            before = made.get(maker)
            given = sum(arg.keyword is None for arg in call.args)
            if before is not None and (before + given > place or any(arg.star for arg in call.args)):
                return True
            if call not in aside and any(arg.keyword is not None and arg.keyword.value == name for arg in call.args):
                return True
    return False


def _partials(module: cst.Module, cls: str) -> dict[str, int]:
    """The names of partials of a class in a file, and how many arguments they give by their places."""
    found: dict[str, int] = {}
    for one in every(module, cst.Assign):
        call, name = one.value, nodes.dotted(one.targets[0].target)
        if not isinstance(call, cst.Call) or not call.args or not is_partial(call.func) or name is None:
            continue
        if nodes.dotted(call.args[0].value) == cls:
            found[name] = sum(arg.keyword is None for arg in call.args) - 1
    return found


def _is_set(scope: Scope, attribute: str) -> bool:
    """Whether anything but an object itself sets an attribute of that name."""
    for unit in (scope.unit, *scope.unit.others.values()):
        targets = [one.target for one in every(unit.source.module, cst.AssignTarget)]
        for one in targets:
            if isinstance(one, cst.Attribute) and one.attr.value == attribute and nodes.dotted(one.value) != "self":
                return True
    return False
