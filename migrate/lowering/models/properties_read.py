"""Properties of a model that a script reads: `model.width`.

One that reads the fields of the module alone is there before the weights are. Parts and weights are there in a module
that is bound to its variables.
"""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import FunctionFacts
from migrate.known.kinds import Model
from migrate.known.qualified import is_chosen
from migrate.known.states import PARAMS, State
from migrate.lowering.expressions.elements import computed
from migrate.lowering.modules.fields_alone import reads_fields
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.lowering.statements.state import StateAccess
from migrate.rules.rule import Value
from migrate.syntax import nodes


def property_of_model(scope: StateAccess, node: cst.Attribute, base: Value, model: Model) -> Value | None:
    """What such a property gives; None of other attributes. Raises Unsupported."""
    method = None if is_chosen(model.cls) else _property(scope, model.cls, node.attr.value)
    if method is None or scope.context not in HOST_CONTEXTS:
        return None
    facts = scope.script.classes[model.cls]
    read = node.with_changes(value=base.node)
    if reads_fields(method.node, set(facts.fields) - facts.renamed.keys() - facts.changed):
        return Value(read, method.result)
    if model.place is None or scope.script.has_stats(model.cls) or method.draws:
        raise Unsupported("MIG301", f"{nodes.code(node)}: a property that reads more than the fields of its module")
    params = scope.read(State(PARAMS, model.place))
    owner = nodes.expression('{m}.bind({"params": {p}})', m=base.node, p=params)
    return Value(read.with_changes(value=owner), computed(method.result))


def _property(scope: StateAccess, cls: str, name: str) -> FunctionFacts | None:
    """The property of a class that has a name, its own or one that it inherits."""
    facts = scope.script.classes.get(cls)
    own = scope.script.functions.get(f"{cls}.{name}")
    if own is not None:
        return own if "property" in own.decorators else None
    inherited = (_property(scope, base, name) for base in (facts.bases if facts is not None else ()))
    return next((found for found in inherited if found is not None), None)
