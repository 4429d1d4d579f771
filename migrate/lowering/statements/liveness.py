"""Which names what follows reads."""

from __future__ import annotations

from migrate.known.qualified import file_of
from migrate.lowering.scope import Scope
from migrate.lowering.statements.blocks import NextTurn
from migrate.syntax import usage


class Liveness(Scope):
    """Whether a value is still needed."""

    def live(self, name: str) -> bool:
        """Whether the value that a name has now is read by what follows, functions included."""
        access = self.next_access(name)
        if access:
            return access == "load"
        if self.context == "module":
            own = [facts for facts in self.script.functions.values() if file_of(facts.qualname) == self.unit.scope]
            return any(name in usage.loads(facts.node) for facts in own)
        return False

    def next_access(self, name: str) -> str:
        """What happens first to the value that a name has now: "load", "store", or "" where neither surely does."""
        for statements in self.following:
            access = usage.first_access(statements, name)
            if access == "load" or (access and not isinstance(statements, NextTurn)):
                return access
        return ""

    def loaded_later(self, name: str) -> bool:
        """Whether what follows in this block, or in the body of the loop at hand, reads the name."""
        return any(name in usage.loads(statements) for statements in self.following[:2])
