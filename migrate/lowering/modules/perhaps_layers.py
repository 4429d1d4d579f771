"""Values that constructors call without it being known what they make, though some of them make layers.

`norm = norm or nn.BatchNorm2d`, where nothing tells what else `norm` is: a layer that came of it would have no weights
in the manifest, and no mode.
"""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Makers, ModuleClass
from migrate.known.qualified import spelled
from migrate.layers.layer import Layer
from migrate.layers.table import TABLE
from migrate.lowering.scope import Scope
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every


def refuse_perhaps_layer(scope: Scope, func: Expr) -> None:
    """Declines a call in a constructor of a name that is a layer by some way, and what is not known by others."""
    facts = scope.script.classes.get(scope.cls) if scope.context == "setup" else None
    init = facts.method("__init__") if facts is not None else None
    if facts is None or init is None or not isinstance(func, cst.Name):
        return
    parameters = [*init.params.params, *init.params.kwonly_params]
    ways = [one.default for one in parameters if one.name.value == func.value and one.default is not None]
    for assign in every(init.body, cst.Assign):
        if any(func.value in usage.target_names(target.target) for target in assign.targets):
            ways.append(assign.value)
    plain = not scope.script.is_base(scope.cls) and _given_plain_layers(scope, init, func.value)
    if not plain and (func.value in facts.given_makers or any(_names_layer(scope, way) for way in ways)):
        told = f"{nodes.code(func)} makes a layer by some way, and by others what is not known"
        raise Unsupported("MIG201", told)


def _given_plain_layers(scope: Scope, init: cst.FunctionDef, parameter: str) -> bool:
    """Whether a constructor's calls give a parameter classes of torch's layers, and lambdas that make some which have
    neither weights nor modes: these are functions in Flax, whoever makes them."""
    name = spelled(scope.cls).rpartition(".")[2]
    names = [one.name.value for one in init.params.params]
    if parameter not in {*names, *(one.name.value for one in init.params.kwonly_params)}:
        return False
    place = names.index(parameter) - 1 if parameter in names else -1  # calls do not give `self`
    lambdas = 0
    for unit in scope.unit.others.values() or [scope.unit]:
        module = unit.source.module
        for call in every(module, cst.Call):
            if (nodes.dotted(call.func) or "").rpartition(".")[2] != name:
                continue
            given = [arg.value for n, arg in enumerate(call.args) if _is_for(arg, n, parameter, place)]
            for value in given:
                if _layer(value) is None and not all(map(_makes_plain_layer, _bound_to(module, value))):
                    return False
                lambdas += _layer(value) is None
    return lambdas > 0


def _is_for(arg: cst.Arg, number: int, parameter: str, place: int) -> bool:
    return arg.keyword.value == parameter if arg.keyword is not None else number == place or bool(arg.star)


def _bound_to(module: cst.Module, value: Expr) -> list[Expr]:
    """What the name of a value is bound to in a file; the value itself where it has none."""
    if not isinstance(value, cst.Name):
        return [value]
    targets = ((target.target, assign.value) for assign in every(module, cst.Assign) for target in assign.targets)
    return [made for target, made in targets if nodes.dotted(target) == value.value] or [value]


def _makes_plain_layer(value: Expr) -> bool:
    layer = _layer(value.body.func) if isinstance(value, cst.Lambda) and isinstance(value.body, cst.Call) else None
    return layer is not None and not layer.weights and not layer.trains


def _layer(value: Expr) -> Layer | None:
    """The layer of torch's that an expression names in the usual way."""
    path = nodes.dotted(value) or ""
    return TABLE.get(f"torch.{path.removeprefix('torch.')}") if path.startswith(("nn.", "torch.nn.")) else None


def _names_layer(scope: Scope, value: Expr) -> bool:
    """Whether an expression names a class of modules without calling it."""
    called = {id(call.func) for call in every(value, cst.Call)}
    named = [one for one in every(value, (cst.Name, cst.Attribute)) if id(one) not in called]
    return any(
        (scope.torch_name(one) or "") in TABLE or isinstance(scope.kind_of(one), ModuleClass | Makers) for one in named
    )
