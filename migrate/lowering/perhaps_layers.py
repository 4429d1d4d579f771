"""Values that constructors call without it being known what they make, though some of them make layers.

`norm = norm or nn.BatchNorm2d`, where nothing tells what else `norm` is: a layer that came of it would have no weights
in the manifest, and no mode.
"""

from __future__ import annotations

import libcst as cst

from migrate import nodes, usage
from migrate.diagnostics import Unsupported
from migrate.kinds import Makers, ModuleClass
from migrate.layers.table import TABLE
from migrate.lowering.scope import Scope
from migrate.nodes import Expr
from migrate.walking import every


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
    if func.value in facts.given_makers or any(_names_layer(scope, way) for way in ways):
        told = f"{nodes.code(func)} makes a layer by some way, and by others what is not known"
        raise Unsupported("MIG201", told)


def _names_layer(scope: Scope, value: Expr) -> bool:
    """Whether an expression names a class of modules without calling it."""
    called = {id(call.func) for call in every(value, cst.Call)}
    named = [one for one in every(value, (cst.Name, cst.Attribute)) if id(one) not in called]
    return any(
        (scope.torch_name(one) or "") in TABLE or isinstance(scope.kind_of(one), ModuleClass | Makers) for one in named
    )
