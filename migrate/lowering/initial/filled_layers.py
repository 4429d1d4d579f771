"""Functions that give a layer its initial weights and return it: `layer_init(nn.Linear(4, 64), std=0.01)`."""

from __future__ import annotations

import libcst as cst

from migrate.known.kinds import Function
from migrate.known.qualified import file_of
from migrate.layers.table import TABLE
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.initial.initializers import Initializers
from migrate.lowering.initial.initializing_functions import initializers_of
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every


class FilledLayers(Initializers):
    """Layers that go through such a function in a constructor."""

    def filled_layer(self, node: cst.Call, function: Function) -> Value | None:
        """The layer, with the initialisers that the function gives it; None of other calls."""
        facts = self.script.functions.get(function.name)
        if facts is None or self.context != "setup" or file_of(function.name) != self.unit.scope:
            return None
        given = _given(node, facts.node) if self.only_fills_layer(facts.node) else None
        layer = given.pop(_parameters(facts.node)[0], None) if given is not None else None
        name = self._layer(layer)
        if given is None or layer is None or not name:
            return None
        self.filling = initializers_of(self, facts.node, name, given)
        made = self.expr(layer)
        self.filling = {}
        return made

    def only_fills_layer(self, node: cst.FunctionDef) -> bool:
        """Whether a function fills the weights of its first argument, and returns that."""
        body = suites.below_docstring(node)
        names = _parameters(node)
        last = body[-1].body[0] if body and isinstance(body[-1], cst.SimpleStatementLine) else None
        returned = nodes.dotted(last.value) if isinstance(last, cst.Return) and last.value is not None else None
        return bool(names) and returned == names[0] and len(body) > 1 and self.only_fills(body[:-1])

    def fills_layers_alone(self, node: cst.FunctionDef) -> bool:
        """Whether constructors alone call such a function, each with a layer: what it does is in the layers."""
        name = node.name.value
        module = self.unit.source.module
        if name in self.script.wanted_of.get(self.unit.scope, ()) or not self.only_fills_layer(node):
            return False
        makers = [
            method
            for each in every(module, cst.ClassDef)
            for method in suites.suite_of(each.body.body)
            if isinstance(method, cst.FunctionDef) and method.name.value == "__init__"
        ]
        calls = [call for method in makers for call in every(method, cst.Call) if nodes.dotted(call.func) == name]
        layers = [(_given(call, node) or {}).get(_parameters(node)[0]) for call in calls]
        return len(calls) == usage.loads(module).count(name) > 0 and all(map(self._layer, layers))

    def _layer(self, made: Expr | None) -> str:
        """The torch layer that an expression makes, "" where it makes none."""
        name = self.torch_name(made.func) if isinstance(made, cst.Call) else None
        return name if name in TABLE else ""


def _parameters(node: cst.FunctionDef) -> list[str]:
    return [parameter.name.value for parameter in node.params.params]


def _given(call: cst.Call, function: cst.FunctionDef) -> dict[str, Expr] | None:
    """What a call gives each parameter of a function, defaults included; None where the call does not tell."""
    names, params = _parameters(function), function.params
    plain = not params.kwonly_params and params.star_kwarg is None and not isinstance(params.star_arg, cst.Param)
    if not plain or any(arg.star for arg in call.args) or len(call.args) > len(names):
        return None
    found = {each.name.value: each.default for each in params.params if each.default is not None}
    found |= dict(zip(argument_names(call.args, names), (arg.value for arg in call.args), strict=True))
    return found if found.keys() == set(names) else None
