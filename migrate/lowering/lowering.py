"""All parts of the lowering of a scope together."""

from __future__ import annotations

from migrate.lowering.expressions.containers import Containers
from migrate.lowering.expressions.operators import Operators
from migrate.lowering.statements.statements import Statements


class Lowering(Statements, Containers, Operators):
    """The lowering of one scope: the module, a function, a method, or the loss function of an update region."""
