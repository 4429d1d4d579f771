"""Lists that a script keeps beside the parameters of a model: trees like the parameters.

`velocities = [torch.zeros_like(p) for p in net.parameters()]`, which `for p, v in zip(net.parameters(), velocities):`
changes, is `velocities = jax.tree.map(jnp.zeros_like, params)`.
"""

from __future__ import annotations

import libcst as cst

from migrate.known.kinds import Never
from migrate.known.weight_kinds import WeightTree
from migrate.lowering.expressions.binding import Binding
from migrate.lowering.weights.made_without_gradient import frozen_somewhere
from migrate.lowering.weights.weight_trees import WeightTrees
from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Statement
from migrate.syntax.per_parameter import asks_for_trained, comprehension_of, is_empty, path_of_list


class ValuesPerParameter(WeightTrees, Binding):
    """Making such lists."""

    def listed_per_parameter(self, line: cst.SimpleStatementLine, small: cst.Assign) -> list[Statement] | None:
        """The tree that stands for such a list; nothing for an empty list, which a statement of the same block fills;
        None for other assignments."""
        target = small.targets[0].target
        path = path_of_list(target)
        if len(small.targets) > 1 or path not in self.unit.per_parameter or self.context == "setup":
            return None
        if is_empty(small.value):
            later = [suites.alone(one) for one in (self.following[0] if self.following else ())]
            filled = [one.targets[0].target for one in later if isinstance(one, cst.Assign)]
            if path not in map(nodes.dotted, filled):
                return None
            self.bind(target, Never())
            return []
        made = comprehension_of(small.value)
        if made is not None and asks_for_trained(made.for_in) and not frozen_somewhere(self.script):
            made = made.with_changes(for_in=made.for_in.with_changes(ifs=[]))
        tree = self.tree_of_gradients(made) or self.tree_comprehension(made) if made is not None else None
        if tree is None or not isinstance(tree.kind, WeightTree) or tree.kind.place is not None:
            return None
        self.bind(target, tree.kind)
        return suites.rebuilt(line, small, small.with_changes(value=tree.node))
