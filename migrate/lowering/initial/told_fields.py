"""Fields of a class that decide initial weights of modules which are made outside of it.

`VGG(make_layers(cfg), init_weights=False)`: `make_layers` has a parameter `init_weights` as well, and is told what the
class is given.
"""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import FunctionFacts
from migrate.known.kinds import Module
from migrate.known.qualified import spelled
from migrate.known.script import classes_in
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.expressions.elements import kinds_in
from migrate.lowering.modules.settings_given import default_of
from migrate.lowering.scope import Scope
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr


class ToldFields(Scope):
    """What stands for such a field where a module is made."""

    def in_terms_told(self, cls: str, asked: Expr) -> Expr:
        """An initialiser that a class asks for, without `self`."""
        fields = usage.attributes_of_self(asked)
        defaults = {field: self.default_of(cls, field) for field in fields}
        meant = {field: self.told_here(cls, field, default) for field, default in defaults.items() if default}
        made = nodes.visited(asked, _Fields(meant))
        if "self" in usage.loads(made):
            raise _undecided(cls, fields[0] if fields else nodes.code(asked))
        return made

    def told_here(self, cls: str, field: str, default: Expr) -> Expr:
        """A field of a class as a parameter of the builder that this is, or as the class is given it."""
        if self.facts is None or self.holder:
            return self.given_as(cls, field, default)
        if field in self.facts.own_names:
            raise _undecided(cls, field)
        self.facts.told[field] = default
        return nodes.name(field)

    def told_to(self, builder: FunctionFacts) -> dict[str, Expr]:
        """What a call of a builder tells it of the fields of the class that this is, or that will hold what it makes.
        A default goes without saying."""
        if self.holder:
            given = {field: self.given_as(self.holder, field, default) for field, default in builder.told.items()}
            return {field: node for field, node in given.items() if not node.deep_equals(builder.told[field])}
        if self.cls:
            own = set(builder.told) & set(self.script.classes[self.cls].fields) - self._told_of_result(builder)
            return {field: nodes.expression(f"self.{field}") for field in builder.told if field in own}
        if self.facts is not None:
            self.facts.told |= builder.told
        return {field: nodes.name(field) for field in builder.told}

    def _told_of_result(self, builder: FunctionFacts) -> set[str]:
        """The fields of the classes of which a builder makes whole modules: it decides them itself."""
        made = [kind for kind in kinds_in(builder.result) if isinstance(kind, Module)]
        classes = {cls for kind in made for option in kind.options for cls in classes_in(option)}
        return {field for cls in classes for field in self.script.classes[cls].fields}

    def given_as(self, cls: str, field: str, default: Expr) -> Expr:
        """What the call that is given a module has for another field."""
        call = self.holding
        if call is None:
            raise _undecided(cls, field)
        facts = self.script.classes[cls]
        names = argument_names(call.args, facts.fields[: facts.positional])
        for arg, name in zip(call.args, names, strict=True):
            if name == field and (nodes.dotted(arg.value) or nodes.literal(arg.value) is not ...):
                return self.node(arg.value)
        starred = [arg for arg in call.args if arg.star]
        if field in names or len(starred) > 1 or any(arg.star == "*" for arg in starred):
            raise _undecided(cls, field)
        if not starred:
            return default
        if not isinstance(starred[0].value, cst.Name):
            raise _undecided(cls, field)
        return nodes.expression(f'{{given}}.get("{field}", {{default}})', given=starred[0].value, default=default)

    def default_of(self, cls: str, field: str) -> Expr | None:
        """The default of a field that is what the constructor is given; None where it has no plain one."""
        facts = self.script.classes[cls]
        default = default_of(facts, field) if field in set(facts.fields) - facts.rebinds else None
        return default if nodes.literal(default) is not ... else None


def _undecided(cls: str, field: str) -> Unsupported:
    return Unsupported("MIG204", f"self.{field} decides initial weights of what is given to {spelled(cls)}")


class _Fields(cst.CSTTransformer):
    """Puts what stands for a field in its place."""

    def __init__(self, meant: Mapping[str, Expr]) -> None:
        super().__init__()
        self.meant = meant

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        own = nodes.dotted(original_node.value) == "self"
        meant = self.meant.get(original_node.attr.value) if own else None
        return updated_node if meant is None else meant.deep_clone()
