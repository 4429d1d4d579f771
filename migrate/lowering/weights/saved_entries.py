"""What a dict holds that a script saves: noted for the manifest, by which `migrate port-weights --as-saved` makes files
that the output goes on from."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrate import saved_files
from migrate.known.kinds import Model, Optimizer, Place, Scaler, Scheduler
from migrate.known.saved import SavedEntry
from migrate.known.weight_kinds import StateDict
from migrate.lowering.scope import HOST_CONTEXTS, Scope
from migrate.lowering.weights.lists_in_files import note_lists
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


def note_saved_dict(scope: Scope, node: cst.Dict | cst.Call) -> None:
    """Notes a dict with the state of a model or an optimizer in it, under names that are written out."""
    if scope.context not in HOST_CONTEXTS:
        return
    found: list[SavedEntry] = []
    items = list(_items(node))
    for key, value in items:
        if not isinstance(key, str):
            return
        found.append(SavedEntry(key, *_held(scope, value)))
    if _note(scope, found):
        note_lists(scope, items)


def _items(node: cst.Dict | cst.Call) -> Iterator[tuple[object, Expr]]:
    """The keys, None where they are not written out, and the values of a dict."""
    if isinstance(node, cst.Call):
        yield from ((arg.keyword.value if arg.keyword else None, arg.value) for arg in node.args)
        return
    for element in node.elements:
        yield nodes.literal(element.key) if isinstance(element, cst.DictElement) else None, element.value


def note_saved_alone(scope: Scope, node: Expr) -> None:
    """Notes `torch.save(model.state_dict(), path)`."""
    _note(scope, [SavedEntry("", *_held(scope, node))])


def _note(scope: Scope, found: list[SavedEntry]) -> bool:
    saves = any(entry.holds in (saved_files.MODEL, saved_files.OPTIMIZER) for entry in found)
    if saves:
        scope.script.saved[tuple(found)] = None
    return saves


def _held(scope: Scope, node: Expr) -> tuple[str, Place | None]:
    """What an entry holds, and whose state that is."""
    if isinstance(node, cst.IfExp):  # `model.module.state_dict() if parallel else model.state_dict()`
        either, other = _held(scope, node.body), _held(scope, node.orelse)
        return either if either == other else (saved_files.VALUE, None)
    match scope.kind_of(node):
        case StateDict(place=place):
            return _of_place(scope, place)
        case Model(place=Place() as place):  # as a whole: its weights
            return saved_files.MODEL, scope.root(place)
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return saved_files.VALUE, None
    if not node.func.attr.value.endswith("state_dict"):
        return saved_files.VALUE, None
    return _state_of(scope, node, node.func)


def _state_of(scope: Scope, node: cst.Call, func: cst.Attribute) -> tuple[str, Place | None]:
    """What `x.state_dict()` is; of accelerate's `accelerator.get_state_dict(x)` likewise."""
    whose = node.args[0].value if node.args and func.attr.value == "get_state_dict" else func.value
    kind = scope.kind_of(whose)
    if isinstance(whose, cst.Attribute) and whose.attr.value == "module" and not isinstance(kind, Model):
        kind = scope.kind_of(whose.value)  # of DataParallel
    match kind:
        case Model(place=Place() as place):
            return saved_files.MODEL, scope.root(place)
        case Optimizer(place=place):
            return saved_files.OPTIMIZER, scope.root(place)
        case Scheduler(own=True):
            return saved_files.VALUE, None
        case Scheduler(plateau=plateau, optimizer=optimizer):
            return saved_files.PLATEAU if plateau else saved_files.STEPS, scope.root(optimizer)
        case Scaler():
            return saved_files.NOTHING, None
    return saved_files.UNKNOWN, None


def _of_place(scope: Scope, place: Place) -> tuple[str, Place | None]:
    root = scope.root(place)
    if root in scope.script.optimizers:
        return saved_files.OPTIMIZER, root
    return (saved_files.MODEL, root) if root in scope.script.places else (saved_files.VALUE, None)
