"""Parts of modules that are given weights where they are made:

resnet = ResNet(...)
resnet.load_state_dict(load_url(...))
self.resnet = resnet

A part has no weights before `init` has made those of the whole. What it takes is told to it: `starting_from` gives the
module whose `init` takes these.
"""

from __future__ import annotations

import libcst as cst

from migrate.known.constructed import ClassNode
from migrate.known.kinds import Model, Module
from migrate.lowering.expressions.copied_snippets import with_snippets
from migrate.lowering.weights.checkpoints import Checkpoints
from migrate.lowering.weights.weights_not_asked_for import never_reached
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every

_SNIPPET = "starting_from"


def started_part(scope: Checkpoints, node: cst.Call, kind: Module) -> list[Statement] | None:
    """`part.load_state_dict(weights)` under torch's names, of a part that this function has made under a name and done
    nothing else with; None of others."""
    func = cst.ensure_type(node.func, cst.Attribute)
    one = kind.options[0]
    if not isinstance(func.value, cst.Name) or len(kind.options) > 1 or not isinstance(one, ClassNode):
        return None
    if not _only_made(scope, func.value.value, node) or not node.args:
        return None
    given = node.args[0].value
    source = scope.expr(given)
    if scope.is_saved(given) or not (isinstance(given, cst.Call) or scope.is_of_torch(given, source.kind)):
        return None
    model = Model(one.cls, None)
    weights = scope.from_state_dict(model, node, source.node)
    if not scope.stats_of(model):
        weights = nodes.dict_of([("params", weights)])
    scope.script.found_started |= set() if never_reached(scope) else {one.cls}
    held = cst.Parameters([cst.Param(cst.Name("held"), default=weights)]) if scope.loops else cst.Parameters()
    read = cst.Lambda(held, nodes.name("held") if scope.loops else weights)  # when the weights are made, not each time
    made = with_snippets(scope, nodes.call(_SNIPPET, func.value, read), [_SNIPPET])
    return [nodes.statement("{name} = {made}", name=func.value, made=made)]


def _only_made(scope: Checkpoints, name: str, load: cst.Call) -> bool:
    """Whether the function at hand has only made what it calls so before a call: nothing else has it yet."""
    if scope.context == "setup":
        function = scope.script.classes[scope.cls].method("__init__")
    else:
        function = scope.facts.node if scope.facts is not None and scope.building else None
    if function is None:
        return False
    if name in {parameter.name.value for parameter in every(function.params, cst.Param)}:
        return False
    bound = [one for one in every(function.body, cst.Assign) if name in usage.target_names(one.targets[0].target)]
    if len(bound) != 1 or not isinstance(bound[0].value, cst.Call):
        return False
    before: list[cst.CSTNode] = []
    for part in every(function.body, (cst.Name, cst.Call)):
        if part is load:
            break
        before.append(part)
    reads = [one for one in before if isinstance(one, cst.Name) and one.value == name]
    return len(reads) == 1  # where it is bound
