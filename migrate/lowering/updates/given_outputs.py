"""Outputs of models that a function is given and goes backward from: `optimize(loss, optimizer)`, `update(out, y)`.

torch keeps their graph; a step function inside of that function would take them for constants, and their models would
lose a part of their gradient, or all of it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import libcst as cst

from migrate.known.facts import FunctionFacts
from migrate.known.kinds import Host, Instance, Kind, Model, Optimizer, Place, Scheduler
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.lowering.updates.gradient_flow import GradientFlow
from migrate.lowering.updates.kept_outputs import without_gradients
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Statement
from migrate.syntax.none_tests import where_it_is

_NO_OUTPUTS = (Model, Optimizer, Scheduler, Instance, Host)


def note_given_output(
    scope: GradientFlow, facts: FunctionFacts, name: str, given: cst.BaseExpression, kind: Kind
) -> None:
    """Notes the models behind an argument of a function that goes backward itself."""
    if not name or isinstance(kind, _NO_OUTPUTS) or scope.context not in HOST_CONTEXTS or scope.under_jit:
        return
    if not scope.blocks or not _goes_backward(facts) or without_gradients(scope):
        return
    models = scope.reached(scope.history(scope.blocks[-1].index), given)
    if models:
        facts.found_behind.setdefault(name, set()).update(models)


def problem_of_given(
    scope: GradientFlow, own: Sequence[cst.CSTNode], history: Sequence[Statement], trained: Collection[Place]
) -> str:
    """Why a loss is refused that goes through what callers give its function; "" for others. `own`: the statements of
    the loss, and the loss."""
    facts = scope.facts
    if facts is None or not facts.behind:
        return ""
    statements = [one for one in own if isinstance(one, cst.SimpleStatementLine | cst.BaseCompoundStatement)]
    read = set(usage.loads([scope.attached(one) for one in own if one not in statements]))
    flowing = [one for statement in (*history, *statements) for one in where_it_is(statement)]
    needed = scope.dependencies(flowing, read)[1]
    stepped = trained or scope.trained_roots()  # of a backward pass alone: the step is elsewhere, or may not be taken
    for name in sorted(needed & facts.behind.keys()):
        if any(scope.root(model) in stepped for model in facts.behind[name]):
            scope.script.going_on.add(facts.qualname)
            return f"the loss goes through {name}, which callers compute: JAX has its gradient only where the loss does"
    return ""


def _goes_backward(facts: FunctionFacts) -> bool:
    return any(_is_plain(call.func) and _is_backward(call) for call in usage.calls(facts.node.body))


def _is_plain(func: cst.BaseExpression) -> bool:
    """Whether a loss is given by name, `loss.backward`, to a scaler maybe: `scaler.scale(loss).backward`."""
    of = func.value if isinstance(func, cst.Attribute) else func
    scaled = isinstance(of, cst.Call) and isinstance(of.func, cst.Attribute) and of.func.attr.value == "scale"
    return nodes.dotted(of) is not None or scaled


def _is_backward(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward"
