"""Constructors that freeze weights as their arguments say: `if freeze: self.backbone.requires_grad_(False)`.

Which weights of a model are frozen is told where it is made. The input is taken as if what freezes stood there, if the
class is only made as a statement of its own, with arguments that may be written twice:

model = Net(args.freeze)      model = Net(args.freeze)
                              if args.freeze:
                                  model.backbone.requires_grad_(False)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import libcst as cst

from migrate.lowering.plainer.copied_input import Anew, Edits
from migrate.lowering.plainer.frozen_in_place import freezes
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.chains import unchained
from migrate.syntax.mentions import mentions, only_called, times_defined
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

# methods that give all that a module has by then
_WHOLE = ("parameters", "named_parameters", "modules", "named_modules", "children", "named_children", "requires_grad_")


def with_freezing_where_made(inputs: Sequence[Input]) -> list[Input] | None:
    """The files of a project with such statements where the models are made, of one class at a time; None where there
    are none."""
    defined = times_defined(one.source.module for one in inputs)
    for file in inputs:
        for node in suites.suite_of(file.source.module.body):
            if isinstance(node, cst.ClassDef) and defined[node.name.value] == 1:
                made = _moved(inputs, file, node)
                if made is not None:
                    return made
    return None


def _moved(inputs: Sequence[Input], file: Input, node: cst.ClassDef) -> list[Input] | None:
    methods = {one.name.value: one for one in node.body.body if isinstance(one, cst.FunctionDef)}
    init = methods.get("__init__")
    if init is None or init.params.star_kwarg or isinstance(init.params.star_arg, cst.Param):
        return None
    body = suites.suite_of(init.body.body)
    names = [one.name.value for one in (*init.params.params[1:], *init.params.kwonly_params)]
    plainer = _Plainer(methods, _kept(node, body, names))
    read = {one: cast(Statement, one.visit(plainer)) for one in body}
    steady = set(names) - set(usage.stores(body))
    told = {one: new for one, new in read.items() if _freezes_as(new, steady) and _of_self(new, names)}
    if not told:
        return None
    later = body[body.index(next(iter(told))) :]
    if any("requires_grad" in nodes.code(read[one]) and one not in told for one in later):
        return None
    if any(_changes_later(new, body[body.index(one) + 1 :]) for one, new in told.items()):
        return None
    if not all(only_called(one.source.module, node.name.value, classes=True) for one in inputs):
        return None
    edits = {one.scope: Edits() for one in inputs}
    for one in inputs:
        for line, call in _makings(one.source.module, node.name.value):
            target = None if line is None else suites.alone(line)
            given = _given(init, names, call)
            if line is None or given is None or not isinstance(target, cst.Assign):
                return None
            owner = target.targets[0].target
            edits[one.scope].behind[line] = [new for each in told.values() for new in _written(each, owner, given)]
    if not any(edits.values()):
        return None
    edits[file.scope].instead |= {one: [] for one in told}
    called = {name for one in told for name in plainer.called if f".{name}(" in nodes.code(one)}
    alone = {name for name in called if all(_only_here(one.source.module, name, told) for one in inputs)}
    edits[file.scope].instead |= {methods[name]: [] for name in alone}
    return [one.edited(edits[one.scope]) for one in inputs]


def _freezes_as(statement: Statement, names: set[str]) -> bool:
    """Whether a statement does nothing but freeze weights, as parameters say."""
    return freezes(statement) and "requires_grad" in nodes.code(statement) and bool({*usage.loads(statement)} & names)


def _changes_later(statement: Statement, later: Sequence[Statement]) -> bool:
    """Whether a constructor goes on to set what a statement freezes, which freezes more where it stands behind all."""
    set_there = {nodes.dotted(one.target) for two in later for one in every(two, cst.AssignTarget)}
    parts = {path.partition(".")[2].partition(".")[0] for path in set_there if path and path.startswith("self.")}
    read = {path.partition(".")[2].partition(".")[0] for path in usage.paths(statement) if path.startswith("self.")}
    return bool(parts) and bool(read & {*parts, *_WHOLE})


def _kept(node: cst.ClassDef, body: Sequence[Statement], names: Sequence[str]) -> dict[str, str]:
    """The attributes of `self` that a constructor sets to a parameter, and nothing else of the class sets."""
    found: dict[str, str] = {}
    for statement in body:
        small = suites.alone(statement)
        if isinstance(small, cst.Assign) and nodes.dotted(small.value) in names and len(small.targets) == 1:
            found[nodes.dotted(small.targets[0].target) or ""] = nodes.dotted(small.value) or ""
    assigned = [nodes.dotted(one.target) for one in every(node, (cst.AssignTarget, cst.AugAssign, cst.AnnAssign))]
    return {path: name for path, name in found.items() if path.startswith("self.") and assigned.count(path) == 1}


def _only_here(module: cst.Module, name: str, told: Mapping[Statement, Statement]) -> bool:
    """Whether a file names a method to define it, and in some statements, and nowhere else."""
    here = {one for statement in told for one in every(statement, cst.Name)}
    defined = {one.name for one in every(module, cst.FunctionDef)}
    return not mentions(module, name, here | defined)


def _of_self(statement: Statement, parameters: Sequence[str]) -> bool:
    """Whether a statement reads nothing but `self`, parameters, and what it binds."""
    own = {"self", "name", *parameters, *usage.stores(statement)}
    return set(usage.loads(statement)) <= own | {"True", "False", "None", "len", "range", "enumerate"}


def _makings(module: cst.Module, name: str) -> list[tuple[cst.SimpleStatementLine | None, cst.Call]]:
    """The calls of a class, each with the line that assigns what it makes to a name or to an attribute; None for the
    line of other calls."""
    lines: dict[cst.CSTNode, cst.SimpleStatementLine] = {}
    for line in every(module, cst.SimpleStatementLine):
        small = suites.alone(line)
        if isinstance(small, cst.Assign) and len(small.targets) == 1 and nodes.dotted(small.targets[0].target):
            lines[unchained(small.value)] = line
    calls = [one for one in usage.calls(module) if (nodes.dotted(one.func) or "").rpartition(".")[2] == name]
    return [(lines.get(call), call) for call in calls]


def _given(init: cst.FunctionDef, names: Sequence[str], call: cst.Call) -> dict[str, Expr] | None:
    """What the parameters of a constructor are in a call; None where one may not be written twice."""
    defaults = {one.name.value: one.default for one in (*init.params.params, *init.params.kwonly_params)}
    given: dict[str, Expr] = {name: value for name in names if (value := defaults[name]) is not None}
    if any(arg.star for arg in call.args) or len(call.args) > len(names):
        return None
    for name, arg in zip(names, call.args, strict=False):
        given[name if arg.keyword is None else arg.keyword.value] = arg.value
    plain = all(nodes.dotted(one) is not None or nodes.literal(one) is not ... for one in given.values())
    return given if plain and set(given) <= set(names) else None


def _written(statement: Statement, owner: Expr, given: Mapping[str, Expr]) -> list[Statement]:
    """A statement with what is given for the parameters; none, or those of one side, where that tells a branch."""
    made = cast(Statement, cast(Statement, statement.visit(Anew({}))).visit(_Given({**given, "self": owner})))
    flag = _flag(made.test) if isinstance(made, cst.If) else None
    return [made] if flag is None or not isinstance(made, cst.If) else list(suites.sides(made)[0 if flag else 1])


class _Plainer(cst.CSTTransformer):
    """Statements with the bodies of methods that freeze alone in the place of their calls, and with parameters in the
    place of the attributes that keep them."""

    def __init__(self, methods: Mapping[str, cst.FunctionDef], kept: Mapping[str, str]) -> None:
        self.methods, self.kept = methods, kept
        self.called: set[str] = set()

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        name = self.kept.get(nodes.dotted(original_node) or "")
        return updated_node if name is None else cst.Name(name)

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> Any:
        small = suites.alone(original_node)
        call = small.value if isinstance(small, cst.Expr) else None
        name = (nodes.dotted(call.func) or "") if isinstance(call, cst.Call) and not call.args else ""
        method = self.methods.get(name.removeprefix("self.")) if name.startswith("self.") else None
        body = suites.below_docstring(method) if method is not None else []
        if method is None or method.decorators or not body or not all(map(freezes, body)):
            return updated_node
        self.called.add(method.name.value)
        return cst.FlattenSentinel(body)


def _flag(test: Expr) -> bool | None:
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        inner = _flag(test.expression)
        return None if inner is None else not inner
    found = nodes.literal(test)
    return None if found is ... else bool(found)


class _Given(cst.CSTTransformer):
    """Puts what is given in the place of names."""

    def __init__(self, given: Mapping[str, Expr]) -> None:
        self.given = given

    def visit_Attribute_attr(self, node: cst.Attribute) -> None:
        pass

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> Any:
        value = self.given.get(original_node.value)
        return updated_node if value is None else value.deep_clone()

    def leave_UnaryOperation(self, original_node: cst.UnaryOperation, updated_node: cst.UnaryOperation) -> Expr:
        flag = _flag(updated_node)
        return updated_node if flag is None else cst.Name(str(flag))
