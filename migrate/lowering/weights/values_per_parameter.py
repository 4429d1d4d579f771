"""Lists that a script keeps beside the parameters of a model: trees like the parameters.

`velocities = [torch.zeros_like(p) for p in net.parameters()]`, which `for p, v in zip(net.parameters(), velocities):`
changes, is `velocities = jax.tree.map(jnp.zeros_like, params)`.
"""

from __future__ import annotations

import libcst as cst

from migrate.known.kinds import Never
from migrate.known.weight_kinds import WeightTree
from migrate.lowering.expressions.binding import Binding
from migrate.lowering.weights.weight_trees import WeightTrees
from migrate.syntax import suites
from migrate.syntax.nodes import Statement
from migrate.syntax.per_parameter import comprehension_of, is_empty


class ValuesPerParameter(WeightTrees, Binding):
    """Making such lists."""

    def listed_per_parameter(self, line: cst.SimpleStatementLine, small: cst.Assign) -> list[Statement] | None:
        """The tree that stands for such a list; nothing for an empty list, which a loop fills; None for other
        assignments."""
        target = small.targets[0].target
        if len(small.targets) > 1 or not isinstance(target, cst.Name) or target.value not in self.unit.per_parameter:
            return None
        if is_empty(small.value):
            self.bind(target, Never())
            return []
        made = comprehension_of(small.value)
        tree = self.tree_of_gradients(made) or self.tree_comprehension(made) if made is not None else None
        if tree is None or not isinstance(tree.kind, WeightTree) or tree.kind.place is not None:
            return None
        self.bind(target, tree.kind)
        return suites.rebuilt(line, small, small.with_changes(value=tree.node))
