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

from migrate.lowering.plainer.body_at_call import given_to, is_plain
from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.plainer.frozen_in_place import freezes
from migrate.lowering.plainer.object_sites import Site, made_by, sites_of
from migrate.lowering.plainer.settled_branches import settled
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.chains import CHAINED
from migrate.syntax.mentions import mentions, only_called, times_defined
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

# methods that give all that a module has by then
_WHOLE = ("parameters", "named_parameters", "modules", "named_modules", "children", "named_children", "requires_grad_")


def with_freezing_where_made(inputs: Sequence[Input]) -> list[Input] | None:
    """The files of a project with such statements where the models are made, of one class at a time; None where there
    are none."""
    if not any("requires_grad" in one.source.text for one in inputs):
        return None
    defined = times_defined(one.source.module for one in inputs)
    for file in (one for one in inputs if "requires_grad" in one.source.text):
        for node in suites.suite_of(file.source.module.body):
            if isinstance(node, cst.ClassDef) and defined[node.name.value] == 1:
                made = _moved(inputs, file, node)
                if made is not None:
                    return made
    return None


def _moved(inputs: Sequence[Input], file: Input, node: cst.ClassDef) -> list[Input] | None:
    methods = suites.methods_of(node)
    init = methods.get("__init__")
    if init is None:
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
        sites = list(sites_of(one, node.name.value, CHAINED))
        if len(sites) < sum(made_by(call) == node.name.value for call in usage.calls(one.source.module)):
            return None
        for site in sites:
            given = given_to(init, site.call, method=True)
            if given is None or not all(map(is_plain, given.values())):
                return None
            edits[one.scope].behind.setdefault(site.line, []).extend(_written(list(told.values()), site, given))
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
    set_there = {name for one in later for name in usage.attributes_set(one)}
    return bool(set_there) and bool({*set_there, *_WHOLE} & {*usage.attributes_of_self(statement)})


def _kept(node: cst.ClassDef, body: Sequence[Statement], names: Sequence[str]) -> dict[str, str]:
    """The attributes of `self` that a constructor sets to a parameter, and nothing else of the class sets."""
    assigned = usage.attributes_assigned(node)
    pairs = [(nodes.dotted(one), nodes.dotted(value)) for line in body for one, value in usage.bindings(line)]
    kept = {path: name for path, name in pairs if path and name in names and name}
    return {path: name for path, name in kept.items() if assigned.count(path.removeprefix("self.")) == 1}


def _only_here(module: cst.Module, name: str, told: Mapping[Statement, Statement]) -> bool:
    """Whether a file names a method to define it, and in some statements, and nowhere else."""
    here = {one for statement in told for one in every(statement, cst.Name)}
    defined = {one.name for one in every(module, cst.FunctionDef)}
    return not mentions(module, name, here | defined)


def _of_self(statement: Statement, parameters: Sequence[str]) -> bool:
    """Whether a statement reads nothing but `self`, parameters, and what it binds."""
    own = {"self", "name", *parameters, *usage.stores(statement)}
    return set(usage.loads(statement)) <= own | {"True", "False", "None", "len", "range", "enumerate"}


def _written(body: Sequence[Statement], site: Site, given: Mapping[str, Expr]) -> list[Statement]:
    """Statements of a constructor where it is called: those of one side of a branch where the call tells it."""
    values = {**given, "self": nodes.expression(site.target)}
    return [nodes.substituted(one, values).deep_clone() for one in settled(body, given)]


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
