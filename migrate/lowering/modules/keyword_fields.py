"""Constructors that hand `**kwargs` on to a layer, another module or a method: `nn.Conv2d(width, out, **kwargs)`.

A Flax module has fields in the place of its constructor's parameters. It gets one for each argument that the program
gives by such a name, with the default that the layer has for it.
"""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from migrate.known.facts import ClassFacts
from migrate.known.kinds import ModuleClass
from migrate.known.qualified import inside
from migrate.layers.table import TABLE
from migrate.lowering.modules.constructors import is_extras
from migrate.lowering.modules.inheritance import Inheritance
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr
from migrate.targets import linen

_NONE = cst.SimpleWhitespace("")


class KeywordFields(Inheritance):
    """Module classes with such constructors."""

    def with_keywords(self, facts: ClassFacts, node: cst.ClassDef) -> cst.ClassDef:
        """A class whose constructor has parameters of its own in the place of `**kwargs`; any other as it is."""
        init = next((s for s in node.body.body if isinstance(s, cst.FunctionDef) and s.name.value == "__init__"), None)
        extras = init.params.star_kwarg.name.value if init is not None and init.params.star_kwarg is not None else ""
        star = init.params.star_arg if init is not None else None
        args = star.name.value if isinstance(star, cst.Param) else ""
        if init is None or not (extras or args):
            return node
        read = usage.loads(init.body)
        facts.ignores = {each for each, name in (("**", extras), ("*", args)) if name and name not in read}
        facts.positional = len(init.params.params) - 1 if "*" in facts.ignores else None
        calls = [call for call in usage.calls(init.body) if any(is_extras(arg, extras) for arg in call.args)]
        taken = [self.parameters_of_call(call, node) for call in calls]
        if "**" not in facts.ignores and (len(calls) != read.count(extras) or None in taken):
            return node
        own = [p.name.value for p in [*init.params.params[1:], *init.params.kwonly_params]]
        wanted: dict[str, Expr | None] = {}
        for call, parameters in zip(calls, taken, strict=True):
            given = {arg.keyword.value for arg in call.args if arg.keyword is not None}
            positional = sum(arg.keyword is None and not arg.star for arg in call.args)
            for name, default in list((parameters or {}).items())[positional:]:
                if name not in given and (name in facts.extra_given or default is None):
                    wanted.setdefault(name, default)
        if wanted.keys() & set(own):
            return node
        key = (id(node), *wanted)
        if key not in facts.spelled_out:
            facts.spelled_out[key] = self.spelled_out(node, init, extras, wanted, "*" in facts.ignores)
            facts.written = None
        return facts.spelled_out[key]

    def parameters_of_call(self, call: cst.Call, node: cst.ClassDef) -> dict[str, Expr | None] | None:
        """The parameters of what `**kwargs` are handed on to, with their defaults; None where that is not known."""
        name, kind = self.torch_name(call.func), self.kind_of(call.func)
        if name in TABLE:
            return {parameter.name: parameter.default for parameter in linen.layer_signature(TABLE[name])}
        methods = {f"self.{one.name.value}": one for one in node.body.body if isinstance(one, cst.FunctionDef)}
        method = methods.get(nodes.dotted(call.func) or "")
        if method is not None:
            return None if method.decorators else _named_parameters(method)
        own = self.script.classes[inside(self.unit.scope, node.name.value)]
        base = self.module_base(node) if nodes.code(call.func).startswith("super(") else None
        facts = base or (self.script.classes.get(kind.cls) if isinstance(kind, ModuleClass) else None)
        init = facts.method("__init__") if facts is not None else None
        if facts is not None:
            facts.extra_given |= own.extra_given
        return _named_parameters(init) if init is not None else None

    def spelled_out(
        self, node: cst.ClassDef, init: cst.FunctionDef, extras: str, wanted: Mapping[str, Expr | None], bare: bool
    ) -> cst.ClassDef:
        """The class with the parameters that are wanted. `bare`: without `*args`, which nothing reads."""
        behind = any(p.default is not None for p in init.params.params)
        told = [_parameter(name, default) for name, default in wanted.items() if default is not None]
        required = [_parameter(name, None) for name, default in wanted.items() if default is None]
        params = init.params.with_changes(star_kwarg=None)
        if required and behind:  # only names give them
            params = params.with_changes(kwonly_params=[*params.kwonly_params, *required])
            required = []
        params = params.with_changes(params=[*params.params, *required, *told])
        if bare:
            params = params.with_changes(star_arg=cst.MaybeSentinel.DEFAULT)
        body = nodes.visited(init.body, _Handing(extras, list(wanted)))
        made = init.with_changes(params=params, body=body)
        for one, written in zip(suites.suite_of(made.body.body), suites.suite_of(init.body.body), strict=True):
            if one is not written:
                self.unit.stands_for(one, written)
        statements = [made if one is init else one for one in suites.suite_of(node.body.body)]
        result = node.with_changes(body=suites.block_of(node.body, statements))
        self.unit.stands_for(result, node)
        self.unit.stands_for(made, init)
        return result


def _named_parameters(method: cst.FunctionDef) -> dict[str, Expr | None] | None:
    """The parameters of a method after the object, with their defaults; None where stars take others, or a default is
    more than a literal."""
    if method.params.star_kwarg is not None or isinstance(method.params.star_arg, cst.Param):
        return None
    parameters = [*method.params.params[1:], *method.params.kwonly_params]
    plain = all(p.default is None or nodes.literal(p.default) is not ... for p in parameters)
    return {p.name.value: p.default for p in parameters} if plain else None


def _parameter(name: str, default: Expr | None) -> cst.Param:
    equal = cst.MaybeSentinel.DEFAULT if default is None else cst.AssignEqual(_NONE, _NONE)
    return cst.Param(cst.Name(name), default=default, equal=equal)


class _Handing(cst.CSTTransformer):
    """Hands parameters on by their names in the place of `**kwargs`."""

    def __init__(self, extras: str, names: list[str]) -> None:
        super().__init__()
        self.extras, self.names = extras, names

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        if not any(is_extras(arg, self.extras) for arg in original_node.args):
            return updated_node
        given = [arg for arg in updated_node.args if not is_extras(arg, self.extras)]
        own = {name: nodes.name(name) for name in self.names}
        return updated_node.with_changes(args=nodes.extended(given, own))
