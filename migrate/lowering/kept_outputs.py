"""Outputs of models that a script keeps and goes backward through later: log-probabilities of an episode in a list.

torch keeps the graph of each; to a step function what it is given is constant. A loss that reads such values, however
far from the forward passes, would lose a part of its gradient: it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate import nodes, usage
from migrate.diagnostics import Unsupported
from migrate.kinds import Place
from migrate.lowering.gradient_flow import GradientFlow
from migrate.lowering.region import Part
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.nodes import Statement

_FILLING = ("append", "extend", "insert", "appendleft", "add", "setdefault")


def note_filled(scope: GradientFlow, node: cst.Call) -> None:
    """Notes what `saved.append(log_prob)` keeps, if gradients flow through that to models."""
    place = _holder(scope, nodes.dotted(node.func.value)) if isinstance(node.func, cst.Attribute) else None
    if place is None or not isinstance(node.func, cst.Attribute) or node.func.attr.value not in _FILLING:
        return
    if scope.context not in HOST_CONTEXTS or scope.under_jit or scope.detached:
        return
    history = scope.history(scope.blocks[-1].index)
    models = {model for arg in node.args for model in scope.reached(history, arg.value)}
    if models:
        scope.script.kept_outputs.setdefault(place, set()).update(models)


def refuse_kept(scope: GradientFlow, part: Part, before: Sequence[Statement]) -> None:
    """Declines a loss that goes through values which earlier forward passes have left somewhere."""
    if not scope.script.kept_outputs:
        return
    own = [*part.body, part.loss]
    read = [one.statement for one in scope.dependencies(before, set(usage.loads(own)))[0]]
    for path in dict.fromkeys(path for one in [*own, *read] for path in usage.paths(scope.attached(one))):
        place = _holder(scope, path)
        kept = scope.script.kept_outputs.get(place, set()) if place is not None else set[Place]()
        if {scope.root(model) for model in kept} & part.trained:
            told = f"the loss goes through {path}, where earlier forward passes have left their outputs"
            raise Unsupported("MIG401", f"{told}: JAX has their gradient only where the loss computes them")


def _holder(scope: GradientFlow, path: str | None) -> Place | None:
    """Where an object is that holds values: a variable of this scope or of its file, an attribute by its name."""
    if path is None or "." in path:
        return None if path is None else Place("", "." + path.rpartition(".")[2])
    facts = scope.facts
    own = facts is not None and path in {*usage.stores(facts.node.body), *facts.parameter_names}
    return Place(scope.scope if own else scope.unit.scope, path)
