"""Models that another package makes and a script trains: said once, where they are made.

`model = torchvision.models.resnet18()`: what is done with it is behind the exception there, and becomes one itself.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import takewhile

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import merge
from migrate.known.kinds import Function, HostClass, Model, Optimizer, Plain, Tensor, TorchName, Unreached
from migrate.known.weight_kinds import Parameters
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.models.borrowed_models import borrowed_value
from migrate.lowering.models.object_history import bound_to
from migrate.lowering.scope import HOST_CONTEXTS, Scope
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.chains import unchained
from migrate.syntax.nodes import Expr, Statement


def note_trained(scope: Scope, node: Expr) -> None:
    """Remembers whose parameters an optimizer is given, where that is no model known here."""
    for call in usage.calls(node):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("parameters", "named_parameters"):
            scope.script.foreign_models.add((scope.scope, nodes.dotted(call.func.value) or ""))


def is_trained_foreign(scope: Scope, target: Expr) -> bool:
    """Whether an optimizer is given the parameters of what a name holds, which is no model known here."""
    return (scope.scope, nodes.dotted(target)) in scope.script.foreign_models


def refuse_foreign_model(scope: Scope, targets: Sequence[Expr], value: Expr) -> None:
    """Declines to make a model by another package where it is trained here."""
    if (
        isinstance(value, cst.Call)
        and any(is_trained_foreign(scope, target) for target in targets)
        and not _is_borrowed(scope, unchained(value))
        and _is_made_elsewhere(scope, value)
    ):
        text = f"`{nodes.code(value)}` makes a model of another package, which is trained here"
        raise Unsupported("MIG202", text)


def _is_borrowed(scope: Scope, made: Expr) -> bool:
    """Whether a call is one of what is rewritten along with the script."""
    return isinstance(made, cst.Call) and borrowed_value(scope, made.func) is not None


def refuse_given_to_others(scope: Scope, node: cst.Call, values: Sequence[Value]) -> None:
    """Declines to give another package what it takes as torch's: parameters, traced tensors, models."""
    _refuse_foreign_class(scope, node, values)
    _refuse_foreign_function(scope, node, values)
    _refuse_foreign_use(scope, node, values)


def _refuse_foreign_class(scope: Scope, node: cst.Call, values: Sequence[Value]) -> None:
    """Declines to give parameters to a class of another package, which changes or keeps them as torch's:
    `torch_ema.ExponentialMovingAverage(model.parameters(), 0.99)`."""
    if not any(isinstance(value.kind, Parameters) for value in values):
        return
    package = _package(scope, nodes.dotted(node.func) or "")
    if package and _is_class(node.func) and _is_made_elsewhere(scope, node):
        raise Unsupported("MIG301", f"{nodes.code(node.func)} of {package}, which is given torch's parameters")


def _refuse_foreign_use(scope: Scope, node: cst.Call, values: Sequence[Value]) -> None:
    """Declines to give a model or an optimizer to a function of another package, or to a method of what one has made,
    which take torch's: `thop.profile(model, (x,))`; and to pickle, whose file would be without the weights."""
    given = [value.kind for value in values if isinstance(value.kind, Model | Optimizer)]
    if scope.context not in HOST_CONTEXTS or not given:
        return
    package = _giver(scope, node)
    if package and package not in (*_TRACED, *_WRITING) and not _is_class(node.func):
        what = "a model with its weights" if isinstance(given[0], Model) else "an optimizer"
        raise Unsupported("MIG301", f"{nodes.code(node.func)} takes {what}, as torch's are")


# What takes any object, to write what it looks like.
_WRITING = ("loguru", "rich", "tqdm", "termcolor", "colorama")
_PICKLING = ("pickle", "joblib", "dill", "cloudpickle")


def _refuse_foreign_function(scope: Scope, node: cst.Call, values: Sequence[Value]) -> None:
    """Declines to give tensors, in what jit traces, to a function of another package, or to a method of what one has
    made: it works on torch's, or tells somebody their values, which jit does not know."""
    if not scope.under_jit or not any(isinstance(value.kind, Tensor) for value in values):
        return
    package = _giver(scope, node)
    if package and package not in (*_TRACED, *_PICKLING) and not _is_class(node.func):
        raise Unsupported("MIG301", f"{nodes.code(node.func)} of {package}, which is given tensors where jit traces")


def _giver(scope: Scope, node: cst.Call) -> str:
    """The package of the function that is called, or of what made the object whose method is called; "" of others."""
    path = nodes.dotted(node.func) or ""
    root, _, rest = path.partition(".")
    made = bound_to(scope, root) if rest and root not in scope.unit.imported else []
    paths = [nodes.dotted(one.func) or "" for one in made if isinstance(one, cst.Call)]
    return _package(scope, paths[0] if len(paths) == len(made) == 1 else path)


# What jit traces, or what is looked at elsewhere.
_TRACED = ("numpy", "jax", "flax", "optax", "einops", "opt_einsum", "torch")


def _package(scope: Scope, path: str) -> str:
    """The package from which a dotted name is imported: pickle, or one that is not Python's own; "" of others."""
    package = scope.unit.imported.get(path.partition(".")[0], "").partition(".")[0]
    return "" if package in sys.stdlib_module_names and package not in _PICKLING else package


def _is_class(func: Expr) -> bool:
    """Whether what is called has a name as classes have."""
    return nodes.code(func).rpartition(".")[2][0].isupper()


def _is_made_elsewhere(scope: Scope, node: Expr) -> bool:
    """Whether an expression begins with a name of another package: `timm.create_model(...)`."""
    while isinstance(node, cst.Call | cst.Attribute | cst.Subscript):
        node = node.func if isinstance(node, cst.Call) else node.value
    kind = scope.kind_of(node)
    vision = isinstance(kind, TorchName) and kind.name.startswith("torchvision")
    return vision or kind in (Plain("imported"), Plain("module"))


def unreached(scope: Scope, original: Statement) -> list[Statement] | None:
    """A statement that works on such a model, with all that follows it in its block up to the next definition: as an
    exception, since what makes the model has raised one. None for other statements. Calls of the user's own functions
    are followed all the same."""
    if not scope.script.foreign_models or scope.context not in HOST_CONTEXTS:
        return None
    calls = [call for part in suites.evaluated(original) for call in usage.calls(part)]
    names = [*usage.loads(calls), *(f"self.{name}" for call in calls for name in usage.attributes(call))]
    own = any(isinstance(scope.kind_of(call.func), Function | HostClass) for call in calls)
    if own or not any(isinstance(scope.env.lookup(name), Unreached) for name in names):
        return None
    block = scope.blocks[-1]
    rest = list(takewhile(lambda one: not isinstance(one, _DEFINITIONS), block.statements[block.index + 1 :]))
    after = slice(block.index + 1, block.index + 1 + len(rest))
    del block.statements[after], block.positions[after]
    for call in [call for one in (original, *rest) for call in usage.calls(one)]:
        _pass_on(scope, call)
    scope.unit.refused |= set(usage.stores([original, *rest]))
    for name in usage.stores([original, *rest]):
        scope.env.kinds[name] = Unreached()
        scope.env.definitions.pop(name, None)
    return [suites.refusal("MIG202", "works on a model of another package", [original, *rest])]


def _pass_on(scope: Scope, call: cst.Call) -> None:
    """Tells a function of the user's which of its parameters hold such a model."""
    kind = scope.kind_of(call.func)
    facts = scope.script.functions.get(kind.name) if isinstance(kind, Function) else None
    names = argument_names(call.args, facts.parameter_names) if facts is not None else []
    for arg, name in zip(call.args, names, strict=False):
        if facts is not None and name and isinstance(scope.kind_of(arg.value), Unreached):
            merge(facts.found_params, name, Unreached())


_DEFINITIONS = (cst.FunctionDef, cst.ClassDef)
