"""Dicts of parameters by name: `ours = dict(model.named_parameters())`, and loops that look one up in another.

A loop over the parameters of one model that looks up those of another by their names is a loop over both, parameter by
parameter: it is written as one, and read as such loops are.
"""

from __future__ import annotations

import libcst as cst

from migrate import nodes, usage
from migrate.kinds import Model
from migrate.lowering.binding import Binding
from migrate.lowering.selections import names_of_pair
from migrate.nodes import Expr

DICTS = ("dict", "OrderedDict", "collections.OrderedDict")


class NamedParameters(Binding):
    """Parameters under their names."""

    def model_of_dict(self, node: Expr | None) -> Expr | None:
        """The model of `dict(model.named_parameters())`; None for anything else."""
        if self.unit.functional or not isinstance(node, cst.Call) or len(node.args) != 1:
            return None
        if nodes.dotted(node.func) not in DICTS:
            return None
        return self.model_of_pairs(node.args[0].value)

    def model_of_pairs(self, node: Expr) -> Expr | None:
        """The model of `model.named_parameters()`, and of the items of such a dict that has a name."""
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or node.args:
            return None
        if node.func.attr.value == "items" and isinstance(node.func.value, cst.Name):
            return self.model_of_dict(self.env.definitions.get(node.func.value.value))
        model = node.func.value
        named = node.func.attr.value == "named_parameters" and isinstance(self.kind_of(model), Model)
        return model if named else None

    def in_parallel(self, node: cst.For) -> cst.For:
        """`for p, other in zip(model.parameters(), ema.parameters())` for a loop that looks up `others[name]`; other
        loops as they are."""
        names, model = names_of_pair(node.target), self.model_of_pairs(node.iter)
        if names is None or len(names) != 2 or model is None:
            return node
        looked_up = _LookedUp(names[0])
        body = nodes.visited(node.body, looked_up)
        others = [self.model_of_dict(self.env.definitions.get(found)) for found in looked_up.found]
        if names[0] in usage.loads(body) or not others or None in others:
            return node
        models = [model, *(other for other in others if other is not None)]
        parameters = [nodes.call(cst.Attribute(each, cst.Name("parameters"))) for each in models]
        targets = [nodes.name(name) for name in [names[1], *looked_up.found.values()]]
        iterated = nodes.call("zip", *parameters)
        return node.with_changes(target=nodes.tuple_of(targets, parentheses=False), iter=iterated, body=body)


class _LookedUp(cst.CSTTransformer):
    """`ema_params[name]` is `ema_param`."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.found: dict[str, str] = {}

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> Expr:
        owner, index = original_node.value, original_node.slice[0].slice
        by_name = isinstance(index, cst.Index) and nodes.dotted(index.value) == self.name
        if not isinstance(owner, cst.Name) or not by_name or len(original_node.slice) != 1:
            return updated_node
        one = owner.value.removesuffix("s")
        self.found[owner.value] = one if one != owner.value else f"{one}_parameter"
        return cst.Name(self.found[owner.value])
