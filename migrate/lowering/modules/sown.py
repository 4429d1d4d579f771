"""What a forward pass keeps on its module for others to look at: `self.attention = weights`.

A Flax module is frozen there. What nothing of its class reads before it is set is sown among the intermediates, which
`model.apply(..., mutable=["intermediates"])` returns.
"""

from __future__ import annotations

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.constructed import ClassNode
from migrate.known.facts import ClassFacts
from migrate.known.kinds import VANISHING, Kind, Model, Module
from migrate.known.numbered_parts import part_at
from migrate.known.script import LookedAt, classes_in
from migrate.lowering.scope import Scope
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


class Sown(Scope):
    """Attributes that are set in a forward pass."""

    def sown_assignment(self, line: cst.SimpleStatementLine, small: cst.Assign) -> list[Statement] | None:
        """`self.sow("intermediates", "attention", weights)`; None for other assignments."""
        if self.context != "forward" or self.has_no_module or len(small.targets) > 1:
            return None
        facts, target = self.script.classes[self.cls], small.targets[0].target
        names = usage.attributes_in(target)
        method = self.scope.rpartition(".")[2]
        if not names or facts.bases or self.script.is_base(facts.name):
            return None
        if not all(_only_kept(facts, method, name, small) for name in names):
            return None
        function = self.script.functions[self.scope].node
        if len(self.blocks) != 1 and not (isinstance(target, cst.Attribute) and _never_read(function, names[0])):
            return None
        facts.sown |= set(names)
        self.script.sown |= set(names)
        if nodes.is_literal(small.value, None):
            return []
        taken = {*usage.stores(function), *usage.loads(function), *(p.name.value for p in function.params.params)}
        own = {name: usage.unused_name(name, taken) for name in names}
        read_later = set(usage.attributes_of_self(cst.Module(self.blocks[0].statements[self.blocks[0].index + 1 :])))
        if isinstance(target, cst.Attribute) and not read_later & set(names):
            value = self.expr(small.value)
            if isinstance(value.kind, VANISHING):
                return []
            return suites.rebuilt(line, small, cst.Expr(_sow(names[0], value)))
        local = small.with_changes(targets=[nodes.target(nodes.visited(target, LocalNames(own)))])
        made = self.statement(line.with_changes(body=[local]))
        self.kept_aside |= own
        return [*made, *(cst.SimpleStatementLine([cst.Expr(_sow(n, self.expr(nodes.name(own[n]))))]) for n in names)]


def note_looked_at(scope: Scope, node: cst.Attribute) -> None:
    """Notes that something reads an attribute of a module, which a forward pass may have set."""
    name, whole, path = node.attr.value, node.value, list[str]()
    while isinstance(whole, cst.Attribute) and not isinstance(scope.kind_of(whole), Model):
        whole, path = whole.value, [whole.attr.value, *path]
    kind, part = scope.kind_of(whole), ".".join(path)
    if isinstance(kind, Model) and kind.place is not None:
        module, of = part_at(scope.script, kind.cls, path), kind.place
    elif scope.context == "forward" and path and nodes.dotted(whole) == "self":
        module, of = part_at(scope.script, scope.cls, path), f"self.{part}"
    else:
        return
    if isinstance(module, ClassNode):
        of_model = (kind.cls, part) if isinstance(kind, Model) and path else ("", "")
        scope.script.looked_at[id(name)] = LookedAt(module.cls, of, name, of_model)


def refuse_sown(scope: Scope, node: cst.Attribute, owner: Kind) -> None:
    """Declines to read from outside what a forward pass has kept on its module."""
    name = node.attr.value
    if isinstance(owner, Model | Module):
        classes = [owner.cls] if isinstance(owner, Model) else [c for o in owner.options for c in classes_in(o)]
        sown = any(name in scope.script.classes[cls].sown for cls in classes if cls in scope.script.classes)
    else:
        sown = type(owner) is Kind and name in scope.script.sown
    if sown:
        raise Unsupported("MIG201", f"{nodes.code(node)}: what a forward pass keeps is among Flax's intermediates")


def _sow(name: str, value: Value) -> Expr:
    text = cst.SimpleString(f'"{name}"')
    return nodes.call("self.sow", cst.SimpleString('"intermediates"'), text, layouts.first(value))


def _only_kept(facts: ClassFacts, method: str, name: str, here: cst.Assign) -> bool:
    """Whether an attribute is nothing but what a method keeps: a constant before, and read by no other method, nor by
    this one before it is set."""
    known = {*facts.fields, *facts.parameters, *facts.buffers, *facts.variables, *facts.children}
    if name in known or facts.method(name) is not None or facts.node is None:
        return False
    for function in every(facts.node, cst.FunctionDef):
        mentions = [one for one in every(function.body, cst.Attribute) if nodes.dotted(one) == f"self.{name}"]
        if function.name.value == "__init__":
            set_to = {id(target) for target, value in _set(function) if nodes.literal(value) is not ...}
        elif function.name.value == method:
            body = suites.suite_of(function.body.body)
            first = next((n for n, one in enumerate(body) if here in every(one, cst.Assign)), 0)
            before = every(cst.Module([*body[:first]]), cst.Attribute)
            inside = [one for one in every(here, cst.Attribute) if nodes.dotted(one) == f"self.{name}"]
            if len(inside) > 1 or any(nodes.dotted(one) == f"self.{name}" for one in before):
                return False
            continue
        else:
            set_to = set[int]()
        if any(id(one) not in set_to for one in mentions):
            return False
    return True


def _never_read(function: cst.FunctionDef, name: str) -> bool:
    """Whether a method does nothing with an attribute but set it."""
    sets = [nodes.code(target) for target, _ in _set(function)]
    mentions = [one for one in every(function.body, cst.Attribute) if nodes.dotted(one) == f"self.{name}"]
    return len(mentions) == sets.count(f"self.{name}")


def _set(function: cst.FunctionDef) -> list[tuple[Expr, Expr]]:
    """What a method binds, with the values."""
    plain = [(target.target, one.value) for one in every(function.body, cst.Assign) for target in one.targets]
    typed = [(one.target, one.value) for one in every(function.body, cst.AnnAssign) if one.value is not None]
    return [*plain, *typed]


class LocalNames(cst.CSTTransformer):
    """Names in the place of attributes of `self`."""

    def __init__(self, own: dict[str, str]) -> None:
        super().__init__()
        self.own = own

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        own = self.own.get(original_node.attr.value) if nodes.dotted(original_node.value) == "self" else None
        return updated_node if own is None else nodes.name(own)
