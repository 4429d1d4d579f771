"""What the results of a method of one's own object are made of, one by one: `V, log_probs = self.evaluate(obs, acts)`.

Where V comes from the critic alone, a step of the actor in between leaves the gradient through V as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from migrate.known.facts import FunctionFacts
from migrate.known.kinds import Function, Leaf, Model, Place
from migrate.known.weight_kinds import Parameters, Selection, Weight
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

if TYPE_CHECKING:
    from migrate.lowering.updates.gradient_flow import GradientFlow

_OF_MODELS = (Model, Leaf, Parameters, Selection, Weight)


def models_through(flow: GradientFlow, statement: Statement, needed: set[str]) -> frozenset[Place] | None:
    """The models that gradients of some names flow to from a statement that binds what such a method returns; None
    where that is not told by the method alone."""
    small = suites.alone(statement)
    if not isinstance(small, cst.Assign) or len(small.targets) != 1 or not isinstance(small.value, cst.Call):
        return None
    path = nodes.dotted(small.value.func) or ""
    kind = flow.kind_of_name(path)
    if not path.startswith("self.") or path.count(".") > 1 or not isinstance(kind, Function):
        return None
    facts = flow.script.functions[kind.name]
    if facts.qualname in flow.followed or any(flow.models_behind(arg.value) for arg in small.value.args):
        return None
    flow.followed.add(facts.qualname)
    try:
        return _within(flow, facts, small.targets[0].target, needed)
    finally:
        flow.followed.discard(facts.qualname)


def _within(flow: GradientFlow, facts: FunctionFacts, target: Expr, needed: set[str]) -> frozenset[Place] | None:
    *body, last = suites.suite_of(facts.node.body.body)
    small = suites.alone(last)
    value = small.value if isinstance(small, cst.Return) else None
    if value is None or len(usage.returns(facts.node.body)) != 1 or not _is_told_apart(flow, facts):
        return None
    wanted = [flow.attached(one) for one in _elements(target, value, needed)]
    names = {name for one in wanted for name in usage.loads(one)}
    found = {place for one in wanted for place in flow.models_behind(one) | flow.weights_taken(one)}
    for dependency in flow.dependencies(body, names)[0]:
        found |= dependency.models
    return frozenset(found)


def _elements(target: Expr, value: Expr, needed: set[str]) -> Sequence[Expr]:
    """What a method returns for the names that are needed."""
    if isinstance(target, cst.Tuple) and nodes.length(value) == nodes.length(target) > 0:
        pairs = zip(nodes.elements(target), nodes.elements(cst.ensure_type(value, cst.Tuple)), strict=True)
        return [one for name, one in pairs if set(usage.target_names(name)) & needed]
    return [value]


def _is_told_apart(flow: GradientFlow, facts: FunctionFacts) -> bool:
    """Whether what a method names means the same where it is called: no local of its own is a model here, or is called
    as one may be."""
    local = {*usage.stores(facts.node.body), *facts.parameter_names} - {"self"}
    called = {nodes.root(call.func) for call in every(facts.node.body, cst.Call)}
    names = {one.value for one in called if isinstance(one, cst.Name)}
    plain = {call.func.value for call in usage.calls(facts.node.body) if isinstance(call.func, cst.Name)}
    known = any(isinstance(flow.kind_of_name(name), _OF_MODELS) for name in local | names - {"self"})
    return not known and not plain & local
