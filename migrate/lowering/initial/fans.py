"""`fan_in, fan_out = nn.init._calculate_fan_in_and_fan_out(weight)`: the lengths that both come from."""

from __future__ import annotations

import libcst as cst

from migrate.lowering.scope import Scope
from migrate.syntax import nodes
from migrate.syntax.nodes import Statement

_FANS = "torch.nn.init._calculate_fan_in_and_fan_out"


class Fans(Scope):
    """Such statements of constructors, in plain terms."""

    def fans(self, statement: Statement) -> list[Statement] | None:
        """An assignment for each of the two that has a name; None for other statements."""
        small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        if not isinstance(small, cst.Assign) or not isinstance(small.value, cst.Call):
            return None
        target, call = small.targets[0].target, small.value
        if self.torch_name(call.func) != _FANS or not isinstance(target, cst.Tuple) or len(call.args) != 1:
            return None
        weight, names = nodes.dotted(call.args[0].value) or "", list(map(nodes.dotted, nodes.elements(target)))
        facts = self.script.classes.get(self.cls)
        axes = len(facts.torch_lengths.get(weight, ())) if facts is not None else 0
        if axes < 2 or len(names) != 2 or None in names:
            return None
        if (statement, weight) not in self.unit.whole:
            rest = "".join(f" * {weight}.size({axis})" for axis in range(2, axes))
            both = zip(names, (1, 0), strict=True)
            made = [nodes.statement(f"{name} = {weight}.size({axis}){rest}") for name, axis in both if name != "_"]
            for one in made:
                self.unit.stands_for(one, statement)
            self.unit.whole[statement, weight] = list(made)
        return self.unit.whole[statement, weight]
