"""The kind of rows of layers that a constructor fills by and by, under names of their own."""

from __future__ import annotations

from dataclasses import dataclass

from migrate.known.constructed import ChoiceNode, ListNode, Node, Passage
from migrate.known.kinds import UNKNOWN, Kind, Module


@dataclass(frozen=True)
class NamedRow(Kind):
    """A dict of layers: what each may be, by its name, with {} for a number in it (`block{}`), or {n} where nothing is
    known of it."""

    entries: tuple[tuple[str, tuple[Node, ...]], ...] = ()

    def covering(self, other: Kind) -> Kind:
        """What either of two branches fills."""
        if not isinstance(other, NamedRow):
            return UNKNOWN
        made = self
        for name, options in other.entries:
            made = made.having(name, options)
        return made

    def having(self, name: str, options: tuple[Node, ...]) -> NamedRow:
        """The same with a layer more."""
        known = dict(self.entries)
        known[name] = tuple(dict.fromkeys((*known.get(name, ()), *options)))
        return NamedRow(tuple(known.items()))

    @property
    def module(self) -> Module:
        """What an nn.Sequential of them is."""
        return self._module("/layers_")

    @property
    def module_dict(self) -> Module:
        """What an nn.ModuleDict of them is."""
        return self._module("_")

    def _module(self, infix: str) -> Module:
        children = tuple(options[0] if len(options) == 1 else ChoiceNode(options) for _, options in self.entries)
        keys = tuple(name for name, _ in self.entries)
        return Module((ListNode(children, infix, dynamic=True, keys=keys, passage=Passage(), named=True),))
