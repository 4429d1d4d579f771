"""`F.dropout(x, p, training=self.training)` of a module as a layer of it: `self.dropout(x)`, of `nn.Dropout(p)`.

The function would want a key in eval mode as well; a Flax layer asks for one only where it drops.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

import libcst as cst

from migrate.lowering.expressions.arguments import argument_names
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_LAYERS = {
    "dropout": "Dropout",
    "dropout1d": "Dropout1d",
    "dropout2d": "Dropout2d",
    "dropout3d": "Dropout3d",
    "alpha_dropout": "AlphaDropout",
    "feature_alpha_dropout": "FeatureAlphaDropout",
}
_FUNCTIONS = {f"torch.nn.functional.{function}": function for function in _LAYERS}
_PARAMETERS = ("input", "p", "training", "inplace")
_LISTING = frozenset({"children", "named_children", "modules", "named_modules", "_modules"})


@dataclass
class LayersMade:
    """Layers that a constructor makes besides: statements for its end, and what stands for the calls of functions."""

    statements: list[Statement] = field(default_factory=list)
    instead: dict[cst.CSTNode, Expr] = field(default_factory=dict)


def dropout_as_layers(
    node: cst.ClassDef, torch_name: Callable[[Expr], str | None], torch_nn: str, changed: Collection[str]
) -> LayersMade:
    """The layers that stand for the functions in a module class, which inherits from nothing of the script's own.

    torch_nn: what the script calls torch.nn; changed: attributes that it changes from outside."""
    made = LayersMade()
    methods = [one for one in suites.suite_of(node.body.body) if isinstance(one, cst.FunctionDef)]
    init = next((one for one in methods if one.name.value == "__init__"), None)
    if init is None or any(every(init, cst.Return)) or not _LISTING.isdisjoint(usage.attributes_of_self(node)):
        return made
    fixed = _set_once(node, init) - set(changed)
    taken = {*usage.attributes_of_self(node), *usage.stores(node), *_parameters(init)}
    names: dict[str, str] = {}  # of each layer, by its constructor
    for call in (one for method in methods if method is not init for one in every(method, cst.Call)):
        function = _FUNCTIONS.get(torch_name(call.func) or "")
        given = _given(call) if function is not None else None
        if function is None or given is None or not _is_constant(given.get("p"), fixed):
            continue
        rate = [cst.Arg(given["p"])] if "p" in given else []
        layer = cst.Call(nodes.expression(f"{torch_nn}.{_LAYERS[function]}"), rate)
        text = nodes.code(layer)
        if text not in names:
            wanted = (function, function.replace("dropout", "drop"))
            names[text] = usage.unused_name(next((one for one in wanted if one not in taken), function), taken)
            taken.add(names[text])
            made.statements.append(nodes.statement(f"self.{names[text]} = {{layer}}", layer=layer))
        made.instead[call] = cst.Call(nodes.expression(f"self.{names[text]}"), [cst.Arg(given["input"])])
    return made


def _given(call: cst.Call) -> dict[str, Expr] | None:
    """The arguments of such a function that goes by the mode of its module; None for others."""
    if any(arg.star for arg in call.args):
        return None
    names = argument_names(call.args, list(_PARAMETERS))
    given = {name: arg.value for name, arg in zip(names, call.args, strict=True) if name}
    mode = given.get("training")
    whole = len(given) == len(call.args) and "input" in given
    return given if whole and mode is not None and nodes.dotted(mode) == "self.training" else None


def _is_constant(rate: Expr | None, fixed: Collection[str]) -> bool:
    """Whether a rate is the same at each call: a number, or what the constructor has set once."""
    if rate is None or isinstance(nodes.literal(rate), int | float):
        return True
    path = (nodes.dotted(rate) or "").split(".")
    return len(path) == 2 and path[0] == "self" and path[1] in fixed


def _set_once(node: cst.ClassDef, init: cst.FunctionDef) -> set[str]:
    """The attributes that a class sets once, in a statement that its constructor always reaches."""
    always = [one for one in suites.suite_of(init.body.body) if isinstance(one, cst.SimpleStatementLine)]
    found = {name for one in always for name in usage.attributes_set(one)}
    everywhere = usage.attributes_assigned(node)
    return {name for name in found if everywhere.count(name) == 1}


def _parameters(function: cst.FunctionDef) -> Iterator[str]:
    return (one.name.value for one in every(function.params, cst.Param))
