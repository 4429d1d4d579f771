"""Modules that are part of a module in several places: `self.first = self.second = core`, `Wrap(core), Wrap(core)`.

Flax makes the weights of such a module once, under the name that it is given first; torch lists them under every name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from migrate.known.facts import ClassFacts
from migrate.known.kinds import Items, Module, ModuleClass
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.expressions.elements import repeated_unknown
from migrate.lowering.plainer.loops_written_out import LoopsWrittenOut
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr


class SharedModules(LoopsWrittenOut):
    """What a constructor puts in several places."""

    def note_places(self, facts: ClassFacts, attribute: str, value: Expr) -> None:
        """Remembers where an assignment to an attribute puts modules that have a name already."""
        for source, path in self.module_places(value, attribute):
            attribute_of_self = source.startswith("self.")
            first = source.removeprefix("self.") if attribute_of_self else self.put_first.setdefault(source, path)
            if first != path:
                facts.shared[path] = facts.shared.get(first, first)

    def note_listed(self, values: Sequence[Expr]) -> None:
        """Declines to put a module into a list a second time: how often it is there is told while it runs."""
        written = [nodes.elements(value) if isinstance(value, cst.List | cst.Tuple) else [value] for value in values]
        for value in [each for some in written for each in some]:
            name = value.value if isinstance(value, cst.Name) else ""
            if not isinstance(self.env.kinds.get(name), Module):
                continue
            again = self.loops > 0 and not any(name in usage.stores(block.statements) for block in self.blocks[1:])
            if again or name in self.put_first:
                raise repeated_unknown(value)
            if not self.conditions:  # of two branches one is taken
                self.put_first[name] = ""

    def repeated_parts(self, value: Expr) -> list[tuple[int, Expr]]:
        """The parts of a list that has the same ones several times, each with the number of the one that it is:
        `[layer] * 3`, `[layer for _ in range(3)]`."""
        if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add):
            named = [nodes.dotted(one) for one in _summands(value) if nodes.dotted(one) is not None]
            if len(named) > len(set(named)):
                raise repeated_unknown(value)
        if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Multiply):
            times, parts = nodes.literal(self.known_number(value.right)), self.known_items(value.left)
            kind = self.kind_of(value.left)
            if isinstance(kind, Items) and isinstance(kind.joined(), Module) and not (parts and isinstance(times, int)):
                raise repeated_unknown(value)
            return list(enumerate(parts or [])) * times if isinstance(times, int) else []
        if isinstance(value, cst.ListComp | cst.GeneratorExp) and isinstance(value.elt, cst.Name):
            bound = value.elt.value in usage.target_names(value.for_in.target)
            return [] if bound else [(0, value.elt)] * len(self.known_items(value.for_in.iter) or [])
        return []

    def module_places(self, value: Expr, path: str) -> Iterator[tuple[str, str]]:
        """The modules with a name in a value that is kept at a path, and their own paths there."""
        name = nodes.dotted(value)
        facts = self.script.classes[self.cls]
        if name is not None:
            own = name.startswith("self.")
            attribute = name.removeprefix("self.")
            kind = facts.seen.get(attribute) if own else self.kind_of(value)
            if own and "." in attribute:
                kind = self.asked(value).kind
            if isinstance(kind, Module) and name not in facts.fields:
                yield name, path
        elif isinstance(value, cst.Call) and self.torch_name(value.func) == "torch.nn.Sequential":
            for number, arg in enumerate(value.args):
                yield from self.module_places(arg.value, path if arg.star else f"{path}.{number}")
        elif isinstance(value, cst.Call) and self.torch_name(value.func) == "torch.nn.ModuleList" and value.args:
            yield from self.module_places(value.args[0].value, path)
        elif isinstance(value, cst.Call) and self.torch_name(value.func) == "torch.nn.ModuleDict" and value.args:
            entries = value.args[0].value.elements if isinstance(value.args[0].value, cst.Dict) else ()
            for entry in entries:
                if isinstance(entry, cst.DictElement):
                    yield from self.module_places(entry.value, f"{path}.{nodes.literal(entry.key)}")
        elif isinstance(value, cst.List):
            for number, part in enumerate(nodes.elements(value)):
                yield from self.module_places(part, f"{path}.{number}")
        elif repeated := self.repeated_parts(value):
            for number, (part, each) in enumerate(repeated):
                yield nodes.dotted(each) or f"{path}[{part}]", f"{path}.{number}"
        elif isinstance(value, cst.Call):
            kind = self.kind_of(value.func)
            made = self.script.classes[kind.cls] if isinstance(kind, ModuleClass) else None
            names = argument_names(value.args, made.fields) if made is not None else []
            for field, arg in zip(names, value.args, strict=False):
                if made is not None and field in made.kept_as:
                    yield from self.module_places(arg.value, f"{path}.{made.kept_as[field]}")


def _summands(value: Expr) -> list[Expr]:
    """What a sum adds up."""
    if not isinstance(value, cst.BinaryOperation) or not isinstance(value.operator, cst.Add):
        return [value]
    return [*_summands(value.left), *_summands(value.right)]
