"""Outputs of models that a script keeps and goes backward through later: log-probabilities of an episode in a list.

torch keeps the graph of each; to a step function what it is given is constant. A loss that reads such values, however
far from the forward passes, would lose a part of its gradient: it is refused.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

import libcst as cst

from migrate.known.kinds import Place
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.lowering.updates.gradient_flow import GradientFlow
from migrate.lowering.updates.kept_sites import kept_site
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Statement

ONLY_THERE = "JAX has their gradient only where the loss computes them"
_FILLING = ("append", "extend", "insert", "appendleft", "add", "setdefault")


def note_filled(scope: GradientFlow, node: cst.Call) -> None:
    """Notes what `saved.append(log_prob)` keeps, if gradients flow through that to models."""
    place = _holder(scope, nodes.dotted(node.func.value)) if isinstance(node.func, cst.Attribute) else None
    if place is None or not isinstance(node.func, cst.Attribute) or node.func.attr.value not in _FILLING:
        return
    if scope.context not in HOST_CONTEXTS or scope.under_jit or without_gradients(scope):
        return
    history, values = scope.history(scope.blocks[-1].index), [arg.value for arg in node.args]
    direct = {model for value in values for model in scope.reached(history, value)}
    models = direct.union(*_kept_behind(scope, values, history).values())
    if models:
        scope.script.kept_outputs.setdefault(place, set()).update(models)
    if direct:
        scope.script.kept_sites[id(node)] = kept_site(scope, node, history, direct)


def without_gradients(scope: GradientFlow) -> bool:
    """Whether a context around, or a decorator of the function, records no gradients."""
    around = [block.statements[block.index] for block in scope.blocks]
    contexts = [item.item for one in around if isinstance(one, cst.With) for item in one.items]
    decorators = scope.facts.node.decorators if scope.facts is not None else ()
    return any(map(scope.stops_gradients, [*contexts, *(each.decorator for each in decorators)]))


def problem_of_kept(
    scope: GradientFlow, own: Sequence[cst.CSTNode], history: Sequence[Statement], trained: Container[Place]
) -> str:
    """Why a loss is refused that goes through values which earlier forward passes have left somewhere; "" for others.
    `own`: the statements of the loss, and the loss."""
    if not scope.script.kept_outputs:
        return ""
    for path, models in _kept_behind(scope, own, history).items():
        if any(scope.root(model) in trained for model in models):
            told = f"the loss goes through {path}, where earlier forward passes have left their outputs"
            return f"{told}: {ONLY_THERE}"
    return ""


def _kept_behind(
    scope: GradientFlow, own: Sequence[cst.CSTNode], history: Sequence[Statement]
) -> dict[str, set[Place]]:
    """What holds values that some code depends on, with the models that gradients flow to: read there, in what was run
    before, or by a loop around."""
    around = [block.statements[block.index] for block in scope.blocks]
    names = set(usage.loads(own))
    loops = [one.iter for one in around if isinstance(one, cst.For) and names & set(usage.target_names(one.target))]
    read = [one.statement for one in scope.dependencies(history, names | set(usage.loads(loops)))[0]]
    paths = dict.fromkeys(path for one in [*own, *loops, *read] for path in usage.paths(scope.attached(one)))
    places = {path: place for path in paths if (place := _holder(scope, path)) is not None}
    kept = scope.script.kept_outputs
    return {path: kept[place] for path, place in places.items() if place in kept}


def _holder(scope: GradientFlow, path: str | None) -> Place | None:
    """Where an object is that holds values: a variable of this scope or of its file, an attribute by its name."""
    if path is None or "." in path:
        return None if path is None else Place("", "." + path.rpartition(".")[2])
    facts = scope.facts
    own = facts is not None and path in {*usage.stores(facts.node.body), *facts.parameter_names}
    return Place(scope.scope if own else scope.unit.scope, path)
