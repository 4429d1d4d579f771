"""Facts that are found anew in each round of the lowering, and whether a round has found anything new.

A fact that a round goes by while it is being found anew is two fields of its holder: `reads`, as the round before found
it, and `found_reads`, as this round finds it. A fact of one round alone is a field with `metadata=IN_ONE_ROUND`. All
others only grow.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from typing import Any

import libcst as cst

from migrate.syntax import nodes

FOUND = "found_"  # the prefix of what this round finds
# The `metadata` of a field that starts empty in each round, and of one that says nothing of what rounds find: neither
# counts for whether a round has found anything new.
IN_ONE_ROUND, UNTOLD = {"by round": "alone"}, {"by round": "untold"}


@dataclass
class ByRound:
    """What holds facts of rounds."""

    def next_round(self) -> None:
        """What this round found is what the next one goes by."""
        for one in fields(self):
            if one.name.startswith(FOUND):
                setattr(self, one.name.removeprefix(FOUND), getattr(self, one.name))
            if one.name.startswith(FOUND) or one.metadata == IN_ONE_ROUND:
                setattr(self, one.name, _empty(one))


def _empty(one: Field[Any]) -> Any:
    return one.default if one.default_factory is MISSING else one.default_factory()


class Fingerprint:
    """The text of what is known, which changes when that does.

    Of nodes, those of the input (`written`, by their identities) are themselves; others are made anew in each round,
    and are what they read as. Where a value comes from (`origins`) is left out: it follows from the rest.
    """

    def __init__(self, written: Set[int]) -> None:
        self._written = written
        self._texts: dict[int, tuple[cst.CSTNode, str]] = {}  # with the node, whose identity is then nobody else's

    def of(self, value: object) -> str:
        """The text of one value, and of what is in it."""
        match value:
            case cst.CSTNode():
                return self._node(value)
            case bool() | str() | float() | None:
                return repr(value)
            case int():
                return self._number(value)
            case set() | frozenset():
                return f"{{{', '.join(sorted(filter(None, map(self.of, value))))}}}"
            case dict():
                return f"{{{', '.join(sorted(f'{self.of(key)}: {self.of(one)}' for key, one in value.items()))}}}"
            case list() | tuple():
                return f"[{', '.join(map(self.of, value))}]"
            case _ if is_dataclass(value):
                names = {one.name for one in fields(value) if _tells(one)}
                told = [one for one in fields(value) if _tells(one) and FOUND + one.name not in names]
                return f"{type(value).__name__}({', '.join(self.of(getattr(value, one.name)) for one in told)})"
        return repr(value)

    def _node(self, node: cst.CSTNode) -> str:
        if id(node) in self._written:
            return f"#{id(node)}"
        if id(node) not in self._texts:
            self._texts[id(node)] = node, nodes.code(node)
        return self._texts[id(node)][1]

    def _number(self, number: int) -> str:
        """A number, or the identity of a node."""
        return str(number) if number < _IDENTITIES or number in self._written else ""


_IDENTITIES = 1 << 32  # no number that a script has in it is mistaken for the identity of a node: a place in memory


def _tells(one: Field[Any]) -> bool:
    return one.name != "origins" and one.metadata not in (IN_ONE_ROUND, UNTOLD)
