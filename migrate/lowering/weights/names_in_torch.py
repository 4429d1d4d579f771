"""Loops over named parameters that ask of a name what is true of it in torch: `if "encoder" in name: print(name)`."""

from __future__ import annotations

import libcst as cst

from migrate.known.kinds import Model, Plain
from migrate.known.states import PARAMS, State
from migrate.known.weight_kinds import SHOWN, Weight
from migrate.lowering.weights.selections import Selections, names_of_pair
from migrate.lowering.weights.state_dicts import StateDicts
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.per_parameter import OF_PARAMETERS
from migrate.syntax.walking import every
from migrate.weights import model_weights


class NamesInTorch(StateDicts, Selections):
    """Parameters by torch's names."""

    def under_torch_names(self, node: cst.For) -> list[Statement] | None:
        """Such a loop, over a dict of torch's names and the parameters in torch's order of axes; None for others."""
        names = names_of_pair(node.target)
        if names is None or len(names) != 2 or not _is_asked(names[0], node.body):
            return None
        models = self.whole_models(self.selection(node.iter))
        if models is None or len(models) != 1:
            return None
        name, parameter = names
        asked = [one for one in every(node.body, cst.Attribute) if nodes.dotted(one.value) == parameter]
        kind = self.kind_of_name(models[0].name)
        if not isinstance(kind, Model) or any(one.attr.value in OF_PARAMETERS for one in asked):
            return None
        if parameter in usage.changes(node.body):  # an array of its own would change
            return None
        if model_weights(self.script, kind.cls).ties:  # torch lists a parameter once
            return None
        params = self.read(State(PARAMS, models[0]))
        self.unit.use_snippet("state_dict")
        tree = nodes.dict_of([(PARAMS, params)]) if self.stats_of(kind) else params
        iterated = nodes.call("state_dict", tree, *self.where_weights_are(kind))
        self.env.kinds |= {name: Plain("str"), parameter: Weight(axes=True, live=True)}
        target: Expr = nodes.name(name)
        if parameter in usage.loads(node.body):
            target, iterated = node.target, nodes.expression("{x}.items()", x=iterated)
        lowered = self.loop_body(node.body, list)
        return [node.with_changes(target=target, iter=iterated, body=suites.block_of(node.body, lowered))]


def _is_asked(name: str, body: cst.CSTNode) -> bool:
    """Whether code compares a name, takes it apart, or asks what it begins with."""
    compared: list[cst.CSTNode] = []
    for one in every(body, cst.Comparison):
        compared += [one.left, *(each.comparator for each in one.comparisons)]
    for one in every(body, (cst.Subscript, cst.Call)):
        owner = one.value if isinstance(one, cst.Subscript) else one.func
        if isinstance(owner, cst.Attribute) and isinstance(one, cst.Call):
            owner = owner.value if owner.attr.value not in SHOWN else owner
        compared.append(owner)
    return name in map(nodes.dotted, compared)
