"""Bases and decorators of other packages that are no part of what a module computes.

Those that load, save and publish go. Where a constructor registers its arguments in `self.config`, they are the fields
of the module in Flax: `self.width` for `self.config.width`.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import ClassFacts
from migrate.known.kinds import Plain
from migrate.library_modules import MIXIN, REGISTERS, role
from migrate.lowering.modules.inheritance import is_super_init
from migrate.lowering.scope import Scope
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import walk


class RegisteredSettings(Scope):
    """Module classes with such bases and decorators."""

    def note_borrowed(self, facts: ClassFacts, node: cst.ClassDef) -> bool:
        """Notes a base of another package's; returns whether one of them goes."""
        origins = [self.unit.imported.get(nodes.dotted(arg.value) or "", "") for arg in node.bases]
        facts.borrows = next((origin.rpartition(".")[2] for origin in origins if role(origin)), facts.borrows)
        if facts.borrows == "PreTrainedModel" and any(map(role, origins)):
            self.unit.report(Unsupported("MIG517", node.name.value), node)
        return any(self.kind_of(arg.value) == Plain(MIXIN) for arg in node.bases)

    def with_settings(self, facts: ClassFacts, node: cst.ClassDef) -> cst.ClassDef:
        """A class whose constructor registers its arguments, with those that are read in attributes."""
        if facts.written is not None and facts.written[0] is node:
            return facts.written[1]
        init = next(
            (one for one in node.body.body if isinstance(one, cst.FunctionDef) and _registered(self, one)), None
        )
        if init is None:
            return node
        facts.registers = True
        made = _with_settings_in_attributes(node, init)
        self.unit.stands_for(made, node)
        facts.written = (node, made)
        return made


def _registered(scope: Scope, node: cst.FunctionDef) -> bool:
    """Whether a method is decorated with what keeps its arguments in `self.config`."""
    return any(scope.kind_of(decorator.decorator) == Plain(REGISTERS) for decorator in node.decorators)


def only_in_module_classes(name: str, statements: Sequence[Statement]) -> bool:
    """Whether a name is read by nothing but the heads of classes with a forward pass: as a base, or as a decorator."""
    heads: list[cst.CSTNode] = []
    for node in (one for one in statements if isinstance(one, cst.ClassDef)):
        methods = [one for one in suites.suite_of(node.body.body) if isinstance(one, cst.FunctionDef)]
        if any(method.name.value == "forward" for method in methods):
            heads += [*node.bases, *(decorator for method in methods for decorator in method.decorators)]
    return usage.loads(heads).count(name) == usage.loads(statements).count(name)


def _with_settings_in_attributes(node: cst.ClassDef, init: cst.FunctionDef) -> cst.ClassDef:
    """A class whose constructor first sets `self.width` where `self.config.width` is read."""
    names = [p.name.value for p in [*init.params.params[1:], *init.params.kwonly_params]]
    used = _Used()
    walk(node, used)
    other = sorted(used.settings & used.otherwise)
    if other:
        raise Unsupported("MIG201", f"{node.name.value} has self.{other[0]} beside self.config.{other[0]}")
    first = [nodes.statement(f"self.{name} = {name}") for name in names if name in used.settings - used.plainly]
    inside = suites.suite_of(init.body.body)
    place = next((number + 1 for number, one in enumerate(inside) if is_super_init(one)), 0)
    made = init.with_changes(body=suites.block_of(init.body, [*inside[:place], *first, *inside[place:]]), decorators=())
    body = [made if statement is init else statement for statement in suites.suite_of(node.body.body)]
    return node.with_changes(body=suites.block_of(node.body, body))


class _Used(cst.CSTVisitor):
    """The names read as `self.config.x`, and the attributes that are assigned: `self.x = x`, and all others."""

    def __init__(self) -> None:
        super().__init__()
        self.settings: set[str] = set()
        self.plainly: set[str] = set()
        self.otherwise: set[str] = set()

    def visit_Attribute(self, node: cst.Attribute) -> None:
        if nodes.dotted(node.value) == "self.config":
            self.settings.add(node.attr.value)

    def visit_Assign(self, node: cst.Assign) -> None:
        for target in node.targets:
            names = set(usage.attributes_in(target.target))
            plain = names == {nodes.dotted(node.value)}
            (self.plainly if plain else self.otherwise).update(names)
