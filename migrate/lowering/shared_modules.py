"""Modules that are part of a module in several places: `self.first = self.second = core`, `Wrap(core), Wrap(core)`.

Flax makes the weights of such a module once, under the name that it is given first; torch lists them under every name.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrate import nodes
from migrate.facts import ClassFacts
from migrate.kinds import Module, ModuleClass
from migrate.lowering.arguments import argument_names
from migrate.lowering.scope import Scope
from migrate.nodes import Expr


class SharedModules(Scope):
    """What a constructor puts in several places."""

    def note_places(self, facts: ClassFacts, attribute: str, value: Expr) -> None:
        """Remembers where an assignment to an attribute puts modules that have a name already."""
        for source, path in self.module_places(value, attribute):
            attribute_of_self = source.startswith("self.")
            first = source.removeprefix("self.") if attribute_of_self else self.put_first.setdefault(source, path)
            if first != path:
                facts.shared[path] = facts.shared.get(first, first)

    def module_places(self, value: Expr, path: str) -> Iterator[tuple[str, str]]:
        """The modules with a name in a value that is kept at a path, and their own paths there."""
        name = nodes.dotted(value)
        facts = self.script.classes[self.cls]
        if name is not None:
            own = name.startswith("self.")
            kind = facts.seen.get(name.removeprefix("self.")) if own else self.kind_of(value)
            if isinstance(kind, Module) and name not in facts.fields:
                yield name, path
        elif isinstance(value, cst.Call) and self.torch_name(value.func) == "torch.nn.Sequential":
            for number, arg in enumerate(value.args):
                yield from self.module_places(arg.value, f"{path}.{number}")
        elif isinstance(value, cst.Call):
            kind = self.kind_of(value.func)
            made = self.script.classes[kind.cls] if isinstance(kind, ModuleClass) else None
            names = argument_names(value.args, made.fields) if made is not None else []
            for field, arg in zip(names, value.args, strict=False):
                if made is not None and field in made.kept_as:
                    yield from self.module_places(arg.value, f"{path}.{made.kept_as[field]}")
