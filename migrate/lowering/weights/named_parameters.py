"""Dicts of parameters by name: `ours = dict(model.named_parameters())`, and loops that look one up in another.

A loop over the parameters of one model that looks up those of another by their names is a loop over both, parameter by
parameter: it is written as one, and read as such loops are.
"""

from __future__ import annotations

import libcst as cst

from migrate.known.kinds import Model
from migrate.lowering.expressions.binding import Binding
from migrate.lowering.weights.selections import names_of_pair
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr

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

    def model_of_keys(self, node: Expr) -> Expr | None:
        """The model of the names in such a dict: `ours`, `ours.keys()`."""
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and not node.args:
            node = node.func.value if node.func.attr.value == "keys" else node
        return self.model_of_dict(self.env.definitions.get(node.value)) if isinstance(node, cst.Name) else None

    def in_parallel(self, node: cst.For) -> cst.For:
        """`for p, other in zip(model.parameters(), ema.parameters())` for a loop that looks up `others[name]`, over the
        names alone as well, and for one over both with their names; other loops as they are."""
        node = _without_names(node)
        names, model = names_of_pair(node.target), self.model_of_pairs(node.iter)
        keys = names is not None and len(names) == 1 and self.model_of_keys(node.iter) is not None
        if names is None or (not keys and (len(names) != 2 or model is None)):
            return node
        looked_up = _LookedUp(names[0])
        body = nodes.visited(node.body, looked_up)
        others = [self.model_of_dict(self.env.definitions.get(found)) for found in looked_up.found]
        if names[0] in usage.loads(body) or not others or None in others:
            return node
        models = [each for each in (None if keys else model, *others) if each is not None]
        parameters = [nodes.call(cst.Attribute(each, cst.Name("parameters"))) for each in models]
        targets = [nodes.name(name) for name in [*names[1:], *looked_up.found.values()]]
        iterated = nodes.call("zip", *parameters)
        return node.with_changes(target=nodes.tuple_of(targets, parentheses=False), iter=iterated, body=body)


def _without_names(node: cst.For) -> cst.For:
    """`for (_, p), (_, q) in zip(model.named_parameters(), ema.named_parameters())` as a loop over the parameters."""
    calls = [arg.value for arg in node.iter.args] if isinstance(node.iter, cst.Call) else []
    pairs = _pairs(node.target)
    if not isinstance(node.iter, cst.Call) or nodes.dotted(node.iter.func) != "zip" or len(pairs) != len(calls):
        return node
    parameters: list[Expr] = []
    for (name, _), call in zip(pairs, calls, strict=True):
        func = call.func if isinstance(call, cst.Call) and not call.args else None
        read = set(usage.target_names(name)) & set(usage.loads(node.body))
        if not isinstance(func, cst.Attribute) or func.attr.value != "named_parameters" or read:
            return node
        parameters.append(nodes.call(func.with_changes(attr=cst.Name("parameters"))))
    target = nodes.tuple_of([parameter for _, parameter in pairs], parentheses=False)
    return node.with_changes(target=target, iter=nodes.call("zip", *parameters))


def _pairs(target: cst.CSTNode) -> list[tuple[Expr, Expr]]:
    """The pairs in `(a, b), (c, d)`; none of other targets."""
    parts = nodes.elements(target) if isinstance(target, cst.Tuple) else []
    pairs = [nodes.elements(one) for one in parts if isinstance(one, cst.Tuple)]
    alike = len(pairs) == len(parts) and all(len(pair) == 2 for pair in pairs)
    return [(pair[0], pair[1]) for pair in pairs] if alike else []


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
