"""Dicts of weights, and of values for weights: under torch's names those of a state dict, under Flax's all others."""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import BY_WEIGHT, Items, Kind, Model, Place, Plain, Tensor
from migrate.known.weight_kinds import WEIGHT_NAME, StateDict, Weight
from migrate.lowering.expressions.elements import DICT, WeightsByName
from migrate.lowering.scope import HOST_CONTEXTS, Scope
from migrate.lowering.weights.selections import names_of_pair
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


def dict_of_weights(scope: Scope, inner: Scope, node: cst.DictComp, value: Kind) -> Kind | None:
    """The kind of `{name: f(weight) for name, weight in ...}`, or `{name: f(weights[name]) for name in weights}`, whose
    variables `inner` knows; None of other dicts."""
    if inner.expr(node.key).kind == WEIGHT_NAME:
        return Items(None, value, BY_WEIGHT)
    if not isinstance(value, Tensor | Weight):
        return None
    model = _model_of_all(scope, node)
    if model is not None:
        return WeightsByName(None, value, DICT, model)
    return Items(None, value, DICT) if _under_torch_names(scope.expr(node.for_in.iter).kind) else None


def _model_of_all(scope: Scope, node: cst.DictComp) -> Place | None:
    """The model of which a dict has all weights under their own names; None of other dicts."""
    names, iterated = names_of_pair(node.for_in.target), node.for_in.iter
    alone = nodes.dotted(node.for_in.target)
    name = names[0] if names is not None else alone
    if name is None or nodes.dotted(node.key) != name or node.for_in.ifs or node.for_in.inner_for_in is not None:
        return None
    if isinstance(iterated, cst.Call) and isinstance(iterated.func, cst.Attribute):
        iterated = iterated.func.value
    elif alone is None:
        return None
    whole = scope.expr(iterated).kind
    return whole.place if isinstance(whole, StateDict | WeightsByName) else None


def _under_torch_names(kind: Kind) -> bool:
    """Whether a value is pairs of torch's names of weights and what they are in a file."""
    pair = kind.joined() if isinstance(kind, Items) else kind
    items = pair.items if isinstance(pair, Items) else None
    return (
        items is not None
        and len(items) == 2
        and items[0] == Plain("str")
        and isinstance(items[1], Weight)
        and items[1].axes
    )


def refuse_key(node: cst.Subscript, owner: Kind, key: Kind) -> None:
    """Declines to look a weight up by the name that it has in torch, where a dict has Flax's."""
    if isinstance(owner, Items) and owner.type == BY_WEIGHT and key != WEIGHT_NAME:
        raise Unsupported("MIG302", f"`{nodes.code(node)}`: the name of a weight, which is Flax's in JAX")


def model_of_state(scope: Scope, node: Expr) -> Model | None:
    """The model whose `state_dict()` an expression is."""
    if scope.context not in HOST_CONTEXTS or not isinstance(node, cst.Call) or node.args:
        return None
    if not isinstance(node.func, cst.Attribute) or node.func.attr.value != "state_dict":
        return None
    kind = scope.kind_of(node.func.value)
    return kind if isinstance(kind, Model) and kind.place is not None else None
